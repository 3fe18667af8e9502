// Hands a ledger over to a successor.
//
// Clients and objects are written in the order of their serial numbers. A parent is older than its
// children and the owner of a block than its other holders, so adding them again in that order
// makes the same tree and the same rings of holders. Sums, counts and links back follow from the
// rows and are not written.
#include "base/state.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "ledger/helpers.h"
#include "ledger/ledger.h"

namespace cgpu::ledger {
namespace {

// Fields of each record, in their order. A GPU that may be none is its number plus 1; a block that
// may be none is its id.
enum Tag : StateTag {
  kSerial = 1,      // the next serial number
  kGpu = 2,         // of each GPU in turn: limit, peak, denials
  kBlock = 3,       // in the order of ids: id, bytes, GPU, kind, bytes of a page
  kClient = 4,      // among the objects: serial, handle, file, owner
  kObject = 5,      // in the order of serials: serial, client, handle, parent, class, GPU, block
  kDependency = 6,  // client, the object that goes, the object that it goes with
  kMapping = 7,     // client, object, address, bytes, GPU
  kExport = 8,      // file, index, class, GPU, block
  kExtra = 9,       // GPU, owner, what, bytes
  kKeeper = 10,     // client, the object that uses, what it uses
  kStrays = 11,     // their number; each version that knows doubts writes it
  kDoubt = 12,      // client, the object that is doubtful; earlier versions take it as certain
};

// More serial numbers than can ever be given.
constexpr std::uint64_t kMostSerials = std::uint64_t{1} << 62;
constexpr std::uint32_t kMostStrays = 1U << 30U;

std::uint64_t IdOf(const internal::Block* block) {
  return block != nullptr ? block->id : 0;
}

bool Fits(std::uint64_t bytes, std::uint64_t sum) {
  return bytes <= std::numeric_limits<std::uint64_t>::max() - sum;
}

}  // namespace

// --- Writing

void Ledger::Save(StateWriter& writer) const {
  writer.Row(kSerial, next_serial_);
  for (const GpuState& gpu : gpus_) {
    writer.Row(kGpu, gpu.limit, gpu.peak, gpu.denied);
  }
  for (const auto& [id, block] : blocks_) {
    if (block.objects != 0 || block.exports != 0) {  // a call that died pins the others
      writer.Row(kBlock, id, block.bytes, block.gpu, block.kind, block.page_bytes, block.engine);
    }
  }
  SaveObjects(writer);
  writer.Row(kStrays, strays_);
  for (const auto& [handle, client] : clients_) {
    for (const auto& [on, dependant] : client.dependants) {
      writer.Row(kDependency, handle, dependant, on);
    }
    for (const auto& [keeper, kept] : client.kept) {
      writer.Row(kKeeper, handle, keeper, kept);
    }
    for (const auto& [name, object] : client.objects) {
      if (object.doubtful) {
        writer.Row(kDoubt, handle, name);
      }
    }
    for (const auto& [object, view] : client.mappings) {
      writer.Row(kMapping, handle, object, view.address, view.bytes, view.gpu);
    }
  }
  for (const auto& [place, what] : exports_) {
    writer.Row(kExport, place.first, place.second, what.cls, what.gpu + 1, IdOf(what.block));
  }
  for (const auto& [where, bytes] : extras_) {
    writer.Row(kExtra, where.first, where.second.owner, where.second.what, bytes);
  }
}

void Ledger::SaveObjects(StateWriter& writer) const {
  std::vector<std::pair<const Object*, Handle>> objects;
  objects.reserve(counts_.handles + counts_.clients);
  for (const auto& [handle, client] : clients_) {
    for (const auto& [name, object] : client.objects) {
      objects.emplace_back(&object, handle);
    }
  }
  std::ranges::sort(objects, [](const auto& left, const auto& right) {
    return left.first->serial < right.first->serial;
  });
  for (const auto& [object, handle] : objects) {
    if (object->parent == nullptr) {
      const Client& client = clients_.at(handle);
      writer.Row(kClient, client.serial, handle, client.file, client.owner);
    } else {
      writer.Row(kObject, object->serial, handle, object->handle, object->parent->handle,
                 object->cls, object->gpu + 1, IdOf(object->block));
    }
  }
}

// --- Reading

// Adds the written rows one by one, in ways that keep the ledger consistent whatever the rows are.
class Ledger::Loader {
 public:
  Loader(Ledger& ledger, StateReader& reader) : ledger_(ledger), reader_(reader) {}

  void Load() {
    ledger_.came_without_doubts_ = true;
    while (const auto tag = reader_.Enter()) {
      Record(*tag);
      reader_.Leave();
    }
    Check(gpus_ == ledger_.gpus_.size(), "there are more GPUs, or fewer");
    Check(serial_ >= std::max(last_block_, last_object_) + 1 && serial_ < kMostSerials,
          "the next serial number");
    for (const auto& [id, block] : ledger_.blocks_) {
      Check(block.objects != 0 || block.exports != 0, "nothing holds a block");
    }
    for (GpuState& gpu : ledger_.gpus_) {
      gpu.peak = std::max(gpu.peak, gpu.used);
    }
    ledger_.next_serial_ = serial_;
  }

 private:
  bool Check(bool holds, std::string_view what) {
    if (!holds) {
      reader_.Fail(what);
    }
    return holds && !reader_.failed();
  }

  void Record(StateTag tag) {
    switch (tag) {
      case kSerial:
        serial_ = reader_.Number();
        break;
      case kGpu:
        return OneGpu();
      case kBlock:
        return OneBlock();
      case kClient:
        return OneClient();
      case kObject:
        return OneObject();
      case kDependency:
        return OneEdge(&Ledger::AddDependency, "a dependency");
      case kKeeper:
        return OneEdge(&Ledger::AddKeeper, "a keeper");
      case kStrays:
        return Strays();
      case kDoubt:
        return OneDoubt();
      case kMapping:
        return OneMapping();
      case kExport:
        return OneExport();
      case kExtra:
        return OneExtra();
      default:
        reader_.Unknown(tag);
        break;
    }
  }

  // Reads a GPU's number in the grant, which the ledger has.
  Gpu GpuNumber() {
    const auto gpu = reader_.As<Gpu>();
    return Check(gpu < ledger_.gpus_.size(), "a GPU that is not granted") ? gpu : 0;
  }
  std::int16_t GpuOrNone() {
    const auto gpu = reader_.As<std::uint16_t>();
    Check(gpu <= ledger_.gpus_.size(), "a GPU that is not granted");
    return static_cast<std::int16_t>(gpu - 1);
  }
  Block* BlockOrNone() {
    const std::uint64_t id = reader_.Number();
    const auto found = ledger_.blocks_.find(id);
    Check(id == 0 || found != ledger_.blocks_.end(), "a block that is not there");
    return found == ledger_.blocks_.end() ? nullptr : &found->second;
  }
  // Returns null if reading failed.
  Client* TheClient() {
    const auto found = ledger_.clients_.find(reader_.As<Handle>());
    return Check(found != ledger_.clients_.end(), "a client that is not there") ? &found->second
                                                                                : nullptr;
  }

  void OneGpu() {
    if (!Check(gpus_ < ledger_.gpus_.size(), "there are more GPUs, or fewer")) {
      return;
    }
    GpuState& gpu = ledger_.gpus_[gpus_++];
    gpu.limit = reader_.Number();
    gpu.peak = reader_.Number();
    gpu.denied = reader_.Number();
  }

  void OneBlock() {
    const std::uint64_t id = reader_.Number();
    const std::uint64_t bytes = reader_.Number();
    const Gpu gpu = GpuNumber();
    const auto kind = reader_.As<std::uint8_t>();
    const std::uint64_t page_bytes = reader_.Number();
    const auto engine = reader_.As<std::uint32_t>();
    if (Check(id > last_block_ && id < kMostSerials, "the order of blocks") &&
        Check(kind <= static_cast<std::uint8_t>(Kind::kDebugger), "a kind of block") &&
        Check(Fits(bytes, ledger_.gpus_[gpu].used), "the sum of a GPU")) {
      ledger_.next_serial_ = last_block_ = id;
      Block& block = ledger_.NewBlock(KindOf(kind), gpu, bytes);
      block.page_bytes = page_bytes;
      block.engine = engine;
    }
  }

  // Gives the next client or object its former serial number.
  bool NextSerial() {
    const std::uint64_t serial = reader_.Number();
    if (!Check(serial > last_object_ && serial < kMostSerials, "the order of objects")) {
      return false;
    }
    ledger_.next_serial_ = last_object_ = serial;
    return true;
  }

  void OneClient() {
    const bool ordered = NextSerial();
    const auto handle = reader_.As<Handle>();
    const std::uint64_t file = reader_.Number();
    const std::uint64_t owner = reader_.Number();
    if (ordered && Check(!ledger_.clients_.contains(handle), "a client that is there already")) {
      ledger_.NewClient(handle, file, owner);
    }
  }

  void OneObject() {
    const bool ordered = NextSerial();
    const auto client = reader_.As<Handle>();
    const auto handle = reader_.As<Handle>();
    const auto parent = reader_.As<Handle>();
    const auto cls = reader_.As<std::uint32_t>();
    const std::int16_t gpu = GpuOrNone();
    Block* const block = BlockOrNone();
    Result<Place> place = ledger_.FindPlace({client, 0}, {parent, 0}, handle);
    if (!ordered || !Check(place.ok(), "the place of an object")) {
      return;
    }
    place->gpu = gpu;
    Object& object = ledger_.Insert(*place, handle, cls, block != nullptr ? block->kind : 0);
    if (block != nullptr) {
      ledger_.JoinBlock(object, *block);
    }
  }

  void OneEdge(Result<> (Ledger::*add)(ClientRef, Handle, Handle), const char* what) {
    const auto client = reader_.As<Handle>();
    const auto from = reader_.As<Handle>();
    const auto to = reader_.As<Handle>();
    if (!reader_.failed()) {
      Check((ledger_.*add)({client, 0}, from, to).ok(), what);
    }
  }

  void Strays() {
    const auto strays = reader_.As<std::uint32_t>();
    if (Check(strays == 0 || !ledger_.clients_.empty(), "strays of no client") &&
        Check(strays <= kMostStrays && ledger_.strays_ == 0, "the number of strays")) {
      ledger_.came_without_doubts_ = false;
      ledger_.CountStrays(strays);
    }
  }

  void OneDoubt() {
    Client* const client = TheClient();
    const auto handle = reader_.As<Handle>();
    Object* const object = client != nullptr ? Get(*client, {handle, 0}) : nullptr;
    if (Check(object != nullptr && object->parent != nullptr && !object->doubtful,
              "a doubt of nothing")) {
      object->doubtful = true;
      ++ledger_.doubts_;
    }
  }

  void OneMapping() {
    Client* const client = TheClient();
    const auto object = reader_.As<Handle>();
    const std::uint64_t address = reader_.Number();
    const std::uint64_t bytes = reader_.Number();
    const Gpu gpu = GpuNumber();
    if (client == nullptr ||
        !Check(client->objects.contains(object), "a view of an object that is not there") ||
        !Check(Fits(bytes, ledger_.gpus_[gpu].bar1), "the sum of a window")) {
      return;
    }
    ledger_.gpus_[gpu].bar1 += bytes;
    ++ledger_.counts_.mappings;
    client->mappings.emplace(object,
                             internal::Mapping{address, bytes, static_cast<std::uint16_t>(gpu)});
  }

  void OneExport() {
    const std::uint64_t file = reader_.Number();
    const auto index = reader_.As<std::uint32_t>();
    const auto cls = reader_.As<std::uint32_t>();
    const std::int16_t gpu = GpuOrNone();
    Block* const block = BlockOrNone();
    const std::uint8_t kind = block != nullptr ? block->kind : 0;
    if (reader_.failed() ||
        !Check(ledger_.exports_.try_emplace({file, index}, Shared{block, cls, gpu, kind}).second,
               "a place in a file that is taken")) {
      return;
    }
    ++ledger_.counts_.handles;
    if (block != nullptr) {
      ++block->exports;
    }
  }

  void OneExtra() {
    const Gpu gpu = GpuNumber();
    const std::uint64_t owner = reader_.Number();
    const ExtraKey key{owner, reader_.Number()};
    const std::uint64_t bytes = reader_.Number();
    if (!reader_.failed() && Check(ledger_.Extra(key, gpu) == 0, "a sum that is there already") &&
        Check(Fits(bytes, ledger_.gpus_[gpu].used), "the sum of a GPU")) {
      ledger_.ForceExtra(key, gpu, bytes);
    }
  }

  Ledger& ledger_;
  StateReader& reader_;
  std::size_t gpus_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t last_block_ = 0;
  std::uint64_t last_object_ = 0;
};

Result<> Ledger::Load(StateReader& reader) {
  Loader(*this, reader).Load();
  return reader.Finish();
}

}  // namespace cgpu::ledger
