// State that a shim's successor is handed: any bytes, as they are or as records of numbers.
//
// For every input: the ledger, the boundary and the log of answered calls take it or refuse it.
// They hand over again, unchanged, what they have taken. Each GPU's sum is what its processes pay
// and what only files hold, and when everything is given back nothing is left of it.
#include "base/state.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "ledger/ledger.h"
#include "rm/abi.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "shim/replay.h"
#include "tests/fuzz/input.h"

using namespace cgpu;  // NOLINT(google-build-using-namespace): a program of one file
using fuzz::Input;
using fuzz::Require;

namespace {

constexpr StateTag kLedger = 1;
constexpr StateTag kBoundary = 2;
constexpr StateTag kReplay = 3;
constexpr ledger::Gpu kGpus = 2;

class Successor {
 public:
  bool Load(std::string_view bytes) {
    StateReader reader(bytes);
    return LoadOne(reader, kLedger, ledger) && LoadOne(reader, kBoundary, boundary) &&
           LoadOne(reader, kReplay, replay) && reader.Finish().ok();
  }
  [[nodiscard]] std::string Save() const {
    StateWriter writer;
    SaveOne(writer, kLedger, ledger);
    SaveOne(writer, kBoundary, boundary);
    SaveOne(writer, kReplay, replay);
    return writer.Take();
  }

  ledger::Ledger ledger{{1, 1}, boundary::kContainerQuotas};
  boundary::Boundary boundary{rm::GetAbi(rm::Branch::k550), std::vector<boundary::GpuIds>(kGpus),
                              ledger};
  shim::ReplayLog replay;

 private:
  template <class Part>
  static bool LoadOne(StateReader& reader, StateTag tag, Part& part) {
    if (reader.Enter() != tag) {
      return false;
    }
    const bool loaded = part.Load(reader).ok();
    reader.Leave();
    return loaded;
  }
  template <class Part>
  static void SaveOne(StateWriter& writer, StateTag tag, const Part& part) {
    writer.Begin(tag);
    part.Save(writer);
    writer.End();
  }
};

// Writes records that the input chooses. Some it need not choose well: what every state has, and
// serial numbers in their order.
class Builder {
 public:
  explicit Builder(Input& input) : input_(input) {}

  std::string Build() {
    for (const StateTag part : {kLedger, kBoundary, kReplay}) {
      writer_.Begin(part);
      if (part == kLedger) {
        Row(1, {std::uint64_t{1} << 20});  // the next serial number
      }
      for (ledger::Gpu gpu = 0; gpu < kGpus && part != kReplay; ++gpu) {
        Row(2, {1, 2, 3});
      }
      while (!input_.empty() && Step()) {
      }
      while (depth_ > 0) {
        Close();
      }
      writer_.End();
    }
    return writer_.Take();
  }

 private:
  void Open(StateTag tag) {
    writer_.Begin(tag);
    ++depth_;
  }
  void Close() {
    if (depth_ > 0) {
      writer_.End();
      --depth_;
    }
  }
  void Row(StateTag tag, const std::vector<std::uint64_t>& numbers) {
    writer_.Begin(tag);
    for (const std::uint64_t number : numbers) {
      writer_.Number(number);
    }
    writer_.End();
  }

  // False: the part is over.
  bool Step() {
    const auto what = input_.Take<std::uint8_t>();
    switch (what % 8) {
      case 0:
        return what / 8 % 4 != 0;
      case 1:
        Open(input_.Take<std::uint8_t>() % 48);
        return true;
      case 2:
        Close();
        return true;
      case 3:
        Open(3);  // an address space
        Row(10, {boundary::Boundary::kFirstSpace + what / 8 % 4});
        Open(11);
        return true;
      default: {
        // Longer than any: what is too much is passed over.
        std::vector<std::uint64_t> numbers(what / 8 % 8 == 0 ? what / 64 : 8);
        const StateTag tag = input_.Take<std::uint8_t>() % 48;
        for (std::uint64_t& number : numbers) {
          number = Number();
        }
        Row(tag, numbers);
        return true;
      }
    }
  }

  // Mostly small ones, so that rows name each other.
  std::uint64_t Number() {
    const auto byte = input_.Take<std::uint8_t>();
    switch (byte) {
      case 255:
        return input_.Take<std::uint64_t>();
      case 254:
        return std::uint64_t{input_.Take<std::uint8_t>()} << 20;
      case 253:
        return ++serial_;
      default:
        return byte < 128 ? byte % 16 : byte - 128;
    }
  }

  Input& input_;
  StateWriter writer_;
  unsigned depth_ = 0;
  std::uint64_t serial_ = 16;
};

// All numbers that follow one another in a record: whatever the state names is among them.
using Names = std::set<std::pair<std::uint64_t, std::uint64_t>>;

void Collect(StateReader reader, int depth, Names& names) {
  constexpr int kMostFields = 8;
  while (reader.Enter()) {
    StateReader fields = reader;
    std::uint64_t last = 0;
    for (int i = 0; i < kMostFields; ++i) {
      const std::uint64_t number = fields.Number();
      names.emplace(std::exchange(last, number), number);
    }
    if (depth > 0) {
      Collect(reader, depth - 1, names);
    }
    reader.Leave();
  }
}

std::uint64_t Paid(const ledger::Ledger& ledger, ledger::Gpu gpu) {
  std::uint64_t paid = 0;
  for (const auto& [process, usage] : ledger.UsageByProcess(gpu)) {
    paid += usage.Paid();
  }
  return paid;
}

void CheckSums(const ledger::Ledger& ledger, const Names& names) {
  for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
    std::uint64_t extra = 0;
    for (const auto& [owner, what] : names) {
      extra += ledger.Extra({owner, what}, gpu);
    }
    std::uint64_t by_client = 0;
    for (const ledger::ClientInfo& client : ledger.Clients()) {
      by_client += ledger.UsageOfClient(client.ref, gpu).Paid();
    }
    Require(by_client + extra == Paid(ledger, gpu), "processes pay what clients and extras do");
    Require(Paid(ledger, gpu) <= ledger.Used(gpu), "nobody pays for more than there is");
    Require(ledger.Peak(gpu) >= ledger.Used(gpu), "no sum is above its peak");
    Require(ledger.Reserved(gpu) == 0, "no call is in flight");
  }
}

void CloseSpace(boundary::Boundary& boundary, ledger::FileKey key) {
  const boundary::UvmSpace* const found = boundary.FindSpace(key);
  if (found == nullptr) {
    return;
  }
  boundary::UvmSpace space = *found;
  for (const auto& [base, length] : space.Ranges()) {
    space.RemoveRange(base);
  }
  for (const auto& channel : space.Channels()) {
    space.RemoveChannel(channel);
  }
  for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
    space.RemoveGpu(gpu);
    Require(space.Bytes(gpu) == 0, "a space that has nothing takes nothing");
  }
  boundary.RemoveSpace(key);
}

class OneBlock final : public boundary::TenantMemory {
 public:
  explicit OneBlock(const rm::NVOS00_PARAMETERS& params) : params_(params) {}
  bool Read(std::uint64_t /*address*/, void* into, std::size_t size) override {
    Require(size == sizeof(params_), "it is read once");
    std::memcpy(into, &params_, size);
    return true;
  }

 private:
  const rm::NVOS00_PARAMETERS& params_;
};

// As the tenant would, so that what is mapped of it goes too.
void Free(boundary::Boundary& boundary, std::uint32_t client, std::uint32_t object) {
  const rm::NVOS00_PARAMETERS params{client, 0, object, 0};
  OneBlock memory(params);
  boundary::Call call;
  Require(
      boundary::Decode(rm::GetAbi(rm::Branch::k550),
                       rm::EscapeRequest(rm::NV_ESC_RM_FREE, sizeof(params)), 1, memory, call) == 0,
      "it can be copied in");
  boundary::Decision decision = boundary.Decide(call);
  if (decision.action == boundary::Decision::Action::kExecute) {
    boundary::SetStatus(call, rm::NV_OK);
    Require(!boundary.Account(call, decision, 0), "a free takes nothing");
  }
}

// Gives everything back, in pieces and as a whole.
void GiveBack(Successor& successor, const Names& names) {
  ledger::Ledger& ledger = successor.ledger;
  for (const auto& [file, index] : names) {
    ledger.Unexport(file, static_cast<std::uint32_t>(index));
  }
  for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
    Require(Paid(ledger, gpu) == ledger.Used(gpu), "what no file holds is paid for");
  }
  boundary::ManagedTracker& managed = successor.boundary.managed();
  for (const boundary::ManagedTracker::Thread thread : managed.Unfinished()) {
    managed.Over(thread);
  }
  using Seen = boundary::ManagedTracker::Seen;
  const auto look = managed.BeginLook();
  std::map<boundary::ManagedTracker::Witness, Seen> gone;
  for (const auto witness : managed.Spaces()) {
    gone[witness].state = Seen::State::kGone;
  }
  (void)managed.Settle(look, gone);
  for (const auto witness : managed.Unplaced(look)) {
    (void)managed.Place(look, witness, Seen{Seen::State::kGone, {}});
  }
  for (const auto& [number, next] : names) {
    CloseSpace(successor.boundary, number);
    successor.replay.DropProcess(number);
  }
  bool one = false;
  for (const ledger::ClientInfo& client : ledger.Clients()) {
    for (const ledger::ObjectInfo& object : ledger.Objects(client.ref)) {
      one = !one;
      if (one && object.ref.handle != client.ref.handle) {
        Free(successor.boundary, client.ref.handle, object.ref.handle);
      }
    }
    Require(ledger.RemoveClient(client.ref), "a client is there until it is freed");
  }
  successor.boundary.DropGoneClients();
  for (const auto& [owner, what] : names) {
    for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
      ledger.ForceExtra({owner, what}, gpu, 0);
    }
  }
  Require(ledger.Count() == ledger::Counts{}, "nothing is left");
  for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
    Require(ledger.Used(gpu) == 0 && ledger.Bar1Used(gpu) == 0, "no byte is left");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, std::min<std::size_t>(size, 1024));
  const bool as_it_is = input.Take<std::uint8_t>() % 2 == 0;
  const std::string bytes = as_it_is ? input.TakeRest() : Builder(input).Build();
  Successor first;
  if (!first.Load(bytes)) {
    return 0;
  }
  const std::string once = first.Save();
  Successor second;
  Require(second.Load(once), "what was taken can be handed over");
  Require(second.Save() == once, "it is handed over unchanged");
  Names names;
  Collect(StateReader(once), 3, names);
  for (Successor* successor : {&first, &second}) {
    CheckSums(successor->ledger, names);
    GiveBack(*successor, names);
  }
  return 0;
}
