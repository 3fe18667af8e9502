// Attacks by any call, one word of whose parameters is another one for a later reader: the shim may
// have decided on the one, and the driver gets the other. A draw says which call, which word, what
// else it is, and when it changes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "common.h"
#include "flip_calls.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/vidmem.h"
#include "stage.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kUseBase = std::uint64_t{1} << 43;
constexpr std::array kClasses = {rm::NV01_MEMORY_LOCAL_USER, rm::NV01_MEMORY_SYSTEM,
                                 rm::NV01_MEMORY_VIRTUAL,    rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                                 rm::NV01_DEVICE_0,          rm::NV01_MEMORY_LOCAL_PRIVILEGED,
                                 rm::NV01_ROOT_CLIENT,       rm::NV01_MEMORY_LOCAL_PHYSICAL,
                                 rm::KEPLER_CHANNEL_GROUP_A, rm::VOLTA_CHANNEL_GPFIFO_A,
                                 rm::FERMI_VASPACE_A,        rm::NV01_CONTEXT_DMA,
                                 rm::NV50_MEMORY_VIRTUAL,    rm::RM_USER_SHARED_DATA};

std::uint32_t WordAt(const Block& block, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, block.bytes.data() + at, sizeof(word));
  return word;
}

template <class List>
auto AnyOf(const List& list, Draws& draws) {
  return list[Draw(draws, list.size())];
}

// Returns what may stand in a word's place: of its kind where it has one that is known.
std::uint32_t OfItsKind(World& world, const Ready& ready, std::uint32_t word, Draws& draws) {
  for (const std::optional<std::size_t> at : {ready.made, ready.made_inside}) {
    const std::size_t block = at == ready.made_inside ? ready.blocks.size() - 1 : 0;
    if (at && *at + sizeof(word) <= ready.blocks[block].bytes.size() &&
        word == WordAt(ready.blocks[block], *at)) {
      return word ^ 1U;  // as new as this one
    }
  }
  for (const auto& kind : world.handles) {
    if (kind.size() > 1 && std::ranges::find(kind, word) != kind.end()) {
      std::uint32_t other = word;
      while (other == word) {
        other = AnyOf(kind, draws);
      }
      return other;
    }
  }
  if (std::ranges::find(kClasses, word) != kClasses.end()) {
    return AnyOf(kClasses, draws);
  }
  if (std::ranges::find(world.files, static_cast<std::int32_t>(word)) != world.files.end()) {
    return static_cast<std::uint32_t>(AnyOf(world.files, draws));
  }
  return word ^ 1U << Draw(draws, 32);
}

std::uint32_t OtherWord(World& world, const Ready& ready, std::uint32_t word, Draws& draws) {
  switch (Draw(draws, 12)) {
    case 0:
      return AnyOf(AnyOf(world.handles, draws), draws);
    case 1:
      return AnyOf(kClasses, draws);
    case 2:
      return static_cast<std::uint32_t>(AnyOf(world.files, draws));
    case 3: {
      const std::array sizes{0U, 1U, ~0U, word + 4096, word * 2, 1U << 31U, 1U << 30U, 0x10000U};
      return AnyOf(sizes, draws);
    }
    default:
      return OfItsKind(world, ready, word, draws);
  }
}

// One call with one change.
struct Turn {
  const char* name = "";
  Ready ready;
  Flip flip;
  bool wrapped = false;
  std::uint32_t made = 0;  // the handle that it names for a new object
};

// Chooses a word: one that says something, or any.
void DrawWord(const std::vector<Block>& blocks, Draws& draws, Flip& flip) {
  flip.block = Draw(draws, blocks.size());
  const Block& block = blocks[flip.block];
  std::vector<std::size_t> said;
  const std::size_t words = block.bytes.size() / sizeof(std::uint32_t);
  for (std::size_t i = 0; i < words; ++i) {
    if (WordAt(block, i * sizeof(std::uint32_t)) != 0) {
      said.push_back(i);
    }
  }
  if (words != 0) {
    const bool any = said.empty() || Draw(draws, 4) == 0;
    flip.at = sizeof(std::uint32_t) * (any ? Draw(draws, words) : AnyOf(said, draws));
  }
}

// Chooses what else the word is, and when.
void DrawChange(World& world, Stage& stage, const Ready& ready, Draws& draws, Flip& flip) {
  constexpr std::array<unsigned, 8> kReadings = {1, 1, 1, 1, 2, 3, 0, 0};
  const Block& block = ready.blocks[flip.block];
  flip.readings = AnyOf(kReadings, draws);
  // The blocks are read in their order: this many readings are over when this one is read.
  flip.readings += flip.readings == 0 ? 0 : static_cast<unsigned>(flip.block);
  if (flip.at + sizeof(std::uint32_t) > block.bytes.size()) {
    return;  // it has no word
  }
  flip.first = WordAt(block, flip.at);
  flip.later = OtherWord(world, ready, flip.first, draws);
  for (const Block& inner : ready.blocks) {
    if (inner.holder == static_cast<int>(flip.block) && inner.at == flip.at) {
      ByteString other = ready.other;
      if (other.empty()) {
        other = inner.bytes;
        other[Draw(draws, other.size())] ^= std::byte{1};
      }
      flip.later = stage.PutOther(other);
    }
  }
  if (Draw(draws, 4) == 0) {
    std::swap(flip.first, flip.later);
  }
}

Turn DrawTurn(World& world, Stage& stage, std::uint64_t seed, std::uint64_t number) {
  Draws draws(seed * 1'000'003 + number);
  const auto makers = FlipMakers();
  const Maker& maker = makers[number % makers.size()];
  Turn turn;
  turn.name = maker.name;
  turn.ready = maker.make(world, draws);
  if (turn.ready.made) {
    turn.made = WordAt(turn.ready.blocks[0], *turn.ready.made);
  } else if (turn.ready.made_inside) {
    turn.made = WordAt(turn.ready.blocks[1], *turn.ready.made_inside);
  }
  turn.wrapped =
      turn.ready.nr != 0 && turn.ready.blocks.size() < Stage::kMostBlocks && Draw(draws, 6) == 0;
  if (turn.wrapped) {
    Wrap(turn.ready);
  }
  Stage::Point(turn.ready.blocks);
  DrawWord(turn.ready.blocks, draws, turn.flip);
  DrawChange(world, stage, turn.ready, draws, turn.flip);
  return turn;
}

// --- The use of what a call may have made

struct Suspect {
  std::uint32_t client = 0;
  std::uint32_t handle = 0;
};

// Page tables, copies, memory and exports that depend on it.
void Depend(World& world, const Suspect& what, Draws& draws) {
  constexpr int kMappings = 64;
  Client& client = world.client();
  (void)client.Dup(what.client, what.handle, world.Fresh());
  if (what.client != client.root) {
    (void)world.twin.Dup(what.client, what.handle, world.twin.next++);
    return;
  }
  const bool range = Draw(draws, 4) == 0;
  const std::uint32_t memory = range ? world.handles[World::kMemory][0] : what.handle;
  for (int i = 0; i < kMappings; ++i) {
    if (MapAt(client, range ? what.handle : world.range, memory,
              kUseBase + world.mapped++ * rm::kPageHuge) != rm::NV_OK) {
      break;
    }
  }
  std::uint32_t status = 0;
  (void)Group(client, what.handle, &status);
  auto params = MemoryParams(2 * kMiB);
  (void)client.Alloc(what.handle, world.Fresh(), rm::NV01_MEMORY_LOCAL_USER, &params,
                     sizeof(params));
  (void)client.Export(what.handle, world.empty);
}

void Use(World& world, const Turn& turn, Draws& draws) {
  const bool writes = Draw(draws, 3) == 0;
  std::vector<Suspect> suspects;
  for (const std::uint32_t handle : {turn.made, turn.made ^ 1U}) {
    suspects.push_back({world.client().root, handle});
    suspects.push_back({world.twin.root, handle});
  }
  for (const Suspect& what : suspects) {
    if (!writes) {
      Depend(world, what, draws);
    } else if (what.client == world.client().root) {
      (void)WriteToFreed(world.client(), what.handle, world.Fresh());
    }
  }
}

// --- Turns

struct Player {
  std::uint64_t seed = 1;
  Stage stage;
  World world;
  std::uint32_t worlds = 0;
  std::vector<std::uint32_t> seen;  // objects that a first reader alone has seen
  std::uint64_t pins = 0;           // calls that the tenant may have executed itself
  std::uint64_t readings = 0;       // of pages, by anybody
  std::uint64_t well = 0;           // calls that went well
};

std::uint32_t StatusOf(const Turn& turn) {
  // The last word of a block does not come back.
  const Block& image = turn.ready.blocks[turn.wrapped ? 1 : 0];
  const auto at = turn.ready.status;
  return at && *at + 2 * sizeof(std::uint32_t) <= image.bytes.size() ? WordAt(image, *at)
                                                                     : rm::NV_OK;
}

// Makes the call; where there is an `other` file, on a number that leads to that one meanwhile.
int Make(Player& player, Turn& turn, int other) {
  const int number = other >= 0 ? fcntl(turn.ready.file, F_DUPFD_CLOEXEC, 200) : -1;
  if (number >= 0) {
    turn.flip.readings = 0;
    turn.flip.other = [&](bool later) { (void)!dup2(later ? other : turn.ready.file, number); };
  }
  const int error = player.stage.Call(number >= 0 ? number : turn.ready.file, turn.ready.request,
                                      turn.ready.blocks, turn.flip);
  if (number >= 0) {
    close(number);
  }
  if (turn.ready.closes) {
    close(turn.ready.file);
  }
  return error;
}

// Maps managed memory of a number that may lead to another file meanwhile.
void PlayMapping(World& world) {
  const int number = fcntl(world.null, F_DUPFD_CLOEXEC, 200);
  While([&](bool later) { (void)!dup2(later ? world.uvm.uvm : world.null, number); },
        [&] { (void)MapManaged(number, world.managed, kWorldSize); });
  world.managed += kWorldSize;
  close(number);
}

void Play(Player& player, std::uint64_t number, bool tell) {
  constexpr std::uint64_t kMappingEach = 397;  // cgpu looks each second whether it is there
  World& world = player.world;
  if (number % kMappingEach == 0) {
    PlayMapping(world);
  }
  Draws draws(player.seed + number * 7'919);
  Turn turn = DrawTurn(world, player.stage, player.seed, number);
  const int other = Draw(draws, 16) == 0 ? AnyOf(world.files, draws) : -1;
  const int error = Make(player, turn, other);
  player.readings += turn.flip.readings == 0 ? 0 : player.stage.Readings();
  if (turn.flip.first >= kFirstFresh && turn.flip.first < world.client().next) {
    player.seen.push_back(turn.flip.first);
  }
  player.pins += turn.ready.nr == rm::NV_ESC_RM_ALLOC_MEMORY ? 1 : 0;
  player.well += error == 0 && StatusOf(turn) == rm::NV_OK ? 1 : 0;
  if (tell) {
    Say("turn %llu %s%s block %zu byte %zu 0x%x 0x%x after %u%s: errno %d status 0x%x",
        static_cast<unsigned long long>(number), turn.name, turn.wrapped ? " in an XFER" : "",
        turn.flip.block, turn.flip.at, turn.flip.first, turn.flip.later, turn.flip.readings,
        turn.flip.other != nullptr ? " on another file" : "", error, StatusOf(turn));
  }
  if (turn.made != 0) {
    Use(world, turn, draws);
  }
}

// Makes each call as it is.
void PlayPlainly(Player& player) {
  for (const Maker& maker : FlipMakers()) {
    Draws draws(player.seed);
    Turn turn;
    turn.ready = maker.make(player.world, draws);
    Stage::Point(turn.ready.blocks);
    turn.flip.readings = 1;
    const int error = Make(player, turn, -1);
    if (maker.always_ok && (error != 0 || StatusOf(turn) != rm::NV_OK)) {
      Say("refused %s errno %d status 0x%x", maker.name, error, StatusOf(turn));
    }
  }
}

// Says so if cgpu's ledger does not know an object: it refuses to share one that it does not know.
void TellIfUnknown(const Player& player, std::uint32_t client, std::uint32_t object) {
  rm::NVOS57_PARAMETERS share{};
  share.hClient = client;
  share.hObject = object;
  share.sharePolicy.type = rm::RS_SHARE_TYPE_ALL;
  share.sharePolicy.action = rm::RS_SHARE_ACTION_FLAG_REVOKE;
  if (Plainly(player.world.uvm.client.ctl, rm::NV_ESC_RM_SHARE, &share, sizeof(share)) != 0 ||
      share.status == rm::NV_ERR_OBJECT_NOT_FOUND) {
    Say("unknown %u %u", client, object);
  }
}

// Frees the objects that a first reader alone has seen: what depends on others stays.
void FreeSeen(Player& player) {
  for (const std::uint32_t object : player.seen) {
    (void)player.world.client().Free(object);
  }
  player.seen.clear();
}

// Frees the second devices, and most others.
void FreeMost(World& world) {
  (void)world.client().Free(world.decoy);
  (void)world.twin.Free(world.decoy);
  for (const std::uint32_t memory : world.handles[World::kMemory]) {
    (void)world.client().Free(memory);
  }
  (void)world.client().Free(world.group);
}

// flips SEED: does what its stdin says.
//   plain               each call as it is; says which of them are refused
//   turns FIRST COUNT   as many, in a new world
//   tell FIRST COUNT    likewise, and says what each is
//   known CLIENT OBJECT; asked
//   free-seen           objects that a first reader alone has seen
//   free, close         most objects; all of them
int Flips(const std::vector<std::string>& args) {
  Player player;
  player.seed = Number(args, 0, 1);
  Say("ready");
  std::string line;
  while (Line(&line)) {
    std::istringstream words(line);
    std::string verb;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    words >> verb >> first >> second;
    if (verb == "known") {
      TellIfUnknown(player, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second));
    } else if (verb == "asked") {
      Say("asked");
    } else if (verb == "free-seen") {
      FreeSeen(player);
      Say("freed");
    } else if (verb == "free") {
      FreeMost(player.world);
      Say("freed");
    } else if (verb == "close") {
      CloseWorld(player.world);
      Say("closed");
    } else {
      player.world = MakeWorld(player.worlds++ % 256);
      player.pins = 0;
      for (std::uint64_t i = first; verb != "plain" && i < first + second; ++i) {
        Play(player, i, verb == "tell");
      }
      if (verb == "plain") {
        PlayPlainly(player);
      }
      Say("used %u %u pins %llu readings %llu well %llu", player.world.client().root,
          player.world.twin.root, static_cast<unsigned long long>(player.pins),
          static_cast<unsigned long long>(player.readings),
          static_cast<unsigned long long>(player.well));
    }
  }
  return 0;
}

}  // namespace

std::vector<Entry> FlipAttacks() {
  return {{"flips", Flips, "SEED: calls with a word that is another one for a later reader"}};
}

}  // namespace cgpu::adversary
