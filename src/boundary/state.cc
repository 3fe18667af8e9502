// Hands a boundary over to a successor: the content of each of its trackers.
//
// Page tables follow from the mappings, and holds from their users, so neither is written.
#include "base/state.h"

#include <string>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/dma_tracker.h"
#include "boundary/managed_tracker.h"
#include "boundary/objects.h"
#include "boundary/spaces.h"
#include "boundary/uvm_tracker.h"
#include "rm/nv_classes.h"

namespace cgpu::boundary {
namespace {

// Fields or records of each record, in their order.
enum Tag : StateTag {
  kRefused = 1,   // what was refused, how often
  kSizes = 2,     // of each GPU in turn: a channel group's bytes, an address space's, BAR1's
  kSpace = 3,     // kSpaceKey, kSpaceTracker
  kManaged = 4,   // kClock, kManagedSpace, kCounted, kSeen, kContested, kDoubted, kNow, kOver
  kDma = 5,       // kDmaClient to kDmaKept
  kEncoders = 6,  // client, its serial number, GPU, how many it has taken
  kEntries = 7,   // client, its serial number, how many entries the driver keeps for it
  kOsEvent = 8,   // client, its serial number, the event's number

  kSpaceKey = 10,      // the ledger's key
  kSpaceTracker = 11,  // kSpaceHead to kSpacePool

  kSpaceHead = 20,     // owner, last hold, range groups
  kSpaceRange = 21,    // base, length
  kSpaceGpu = 22,      // GPU; it is registered; it has an address space
  kSpacePiece = 23,    // by start: GPU, start, end, hold
  kSpaceChannel = 24,  // client, channel, GPU, start, end, hold
  kSpaceWindow = 25,   // GPU, start, end
  kSpacePool = 26,     // base of a range

  kClock = 30,    // looks begun
  kProcess = 31,  // process; instead of kManagedSpace in versions that knew processes alone
  kShown = 32,    // of a process: process, start, end; the same
  kNow = 33,      // process, start, end, watched, thread, witness
  kOver = 34,     // process, start, end, watched, over at, witness
  // Records that those versions would forget.
  kManagedSpace = 35 | kRequired,  // witness, process
  kCounted = 36 | kRequired,       // of an address space: witness, start, end
  kSeen = 37 | kRequired,          // the same
  // 38: whether there was a UVM space, in earlier versions
  kContested = 50 | kRequired,  // of an address space: witness, start, end
  kDoubted = 51 | kRequired,    // the same, several times where it is charged so

  kDmaClient = 40,   // client, its serial number, owner
  kDmaRange = 41,    // serial number, handle, space, GPU, covered
  kDmaKept = 43,     // serial number of a range that keeps tables; start, end, or 0 and 0
  kDmaMapping = 42,  // range's serial number, start, end, both, device, serial number, handle
};

bool Check(StateReader& reader, bool holds, std::string_view what) {
  if (!holds) {
    reader.Fail(what);
  }
  return holds && !reader.failed();
}

ledger::Gpu LoadGpu(StateReader& reader, ledger::Gpu gpus) {
  const auto gpu = reader.As<ledger::Gpu>();
  (void)Check(reader, gpu < gpus, "a GPU that is not granted");
  return gpu;
}

AddressRange LoadAddresses(StateReader& reader) {
  // Limit of a process's addresses.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  AddressRange range;
  range.start = reader.Number();
  range.end = reader.Number();
  (void)Check(reader, range.start <= range.end && range.end <= kMost, "a range of addresses");
  return range;
}

void WriteRanges(StateWriter& writer, StateTag tag, std::uint64_t witness,
                 const AddressRanges& ranges) {
  for (const AddressRange& range : ranges) {
    writer.Row(tag, witness, range.start, range.end);
  }
}

}  // namespace

// --- UVM's address spaces

void UvmSpace::Save(StateWriter& writer) const {
  writer.Row(kSpaceHead, owner_, last_hold_, groups_);
  for (const auto& [base, length] : ranges_) {
    writer.Row(kSpaceRange, base, length);
  }
  for (const std::uint64_t base : pools_) {
    writer.Row(kSpacePool, base);
  }
  std::set<ledger::Gpu> gpus = gpus_;
  gpus.insert(va_spaces_.begin(), va_spaces_.end());
  for (const ledger::Gpu gpu : gpus) {
    writer.Row(kSpaceGpu, gpu, gpus_.contains(gpu), va_spaces_.contains(gpu));
  }
  for (const auto& [gpu, pieces] : pieces_) {
    for (const auto& [start, piece] : pieces) {
      writer.Row(kSpacePiece, gpu, start, piece.end, piece.hold);
    }
  }
  for (const auto& [name, channel] : channels_) {
    writer.Row(kSpaceChannel, name.first, name.second, channel.gpu, channel.start, channel.end,
               channel.hold);
  }
  for (const auto& [gpu, windows] : windows_) {
    for (const AddressRange& window : windows) {
      writer.Row(kSpaceWindow, gpu, window.start, window.end);
    }
  }
}

void UvmSpace::Load(StateReader& reader, ledger::Gpu gpus) {
  reader.ForEach([&](StateTag tag) {
    switch (tag) {
      case kSpaceHead:
        owner_ = reader.Number();
        last_hold_ = reader.As<Hold>();
        groups_ = reader.As<std::uint32_t>();
        return true;
      case kSpaceRange: {
        const std::uint64_t base = reader.Number();
        const std::uint64_t length = reader.Number();
        if (Check(reader, length <= ~base, "a range of a space")) {
          AddRange(base, length);
        }
        return true;
      }
      case kSpaceGpu: {
        const ledger::Gpu gpu = LoadGpu(reader, gpus);
        if (reader.Flag()) {
          AddGpu(gpu);
        }
        if (reader.Flag()) {
          AddVaSpace(gpu);
        }
        return true;
      }
      case kSpacePiece:
        LoadPiece(reader, gpus);
        return true;
      case kSpaceChannel:
        LoadChannel(reader, gpus);
        return true;
      case kSpaceWindow:
        LoadWindow(reader, gpus);
        return true;
      case kSpacePool:
        LoadPool(reader, gpus);
        return true;
      default:
        return false;
    }
  });
}

void UvmSpace::LoadPool(StateReader& reader, ledger::Gpu gpus) {
  const std::uint64_t base = reader.Number();
  const auto range = ranges_.find(base);
  if (!Check(reader, range != ranges_.end() && range->second != 0, "a pool without a range") ||
      !Check(reader, pools_.insert(base).second, "a pool twice")) {
    return;
  }
  for (ledger::Gpu gpu = 0; gpu < gpus; ++gpu) {
    tables_[gpu].Map(base, base + range->second);
  }
}

void UvmSpace::LoadWindow(StateReader& reader, ledger::Gpu gpus) {
  const ledger::Gpu gpu = LoadGpu(reader, gpus);
  const std::uint64_t start = reader.Number();
  const std::uint64_t end = reader.Number();
  if (Check(reader, start < end, "a window of nothing")) {
    AddWindow(gpu, start, end);
  }
}

void UvmSpace::LoadPiece(StateReader& reader, ledger::Gpu gpus) {
  const ledger::Gpu gpu = LoadGpu(reader, gpus);
  const std::uint64_t start = reader.Number();
  const std::uint64_t end = reader.Number();
  const auto hold = reader.As<Hold>();
  auto& pieces = pieces_[gpu];
  if (Check(reader, start < end, "a piece of nothing") &&
      Check(reader, pieces.empty() || pieces.rbegin()->second.end <= start, "a piece twice")) {
    Use(hold);
    pieces[start] = {end, hold};
    tables_[gpu].Map(start, end);
  }
}

void UvmSpace::LoadChannel(StateReader& reader, ledger::Gpu gpus) {
  const auto client = reader.As<std::uint32_t>();
  const std::pair name(client, reader.As<std::uint32_t>());
  const ledger::Gpu gpu = LoadGpu(reader, gpus);
  const std::uint64_t start = reader.Number();
  const std::uint64_t end = reader.Number();
  const auto hold = reader.As<Hold>();
  if (!Check(reader, start <= end, "a channel's range") ||
      !Check(reader, !channels_.contains(name), "a channel twice")) {
    return;
  }
  if (start < end) {
    tables_[gpu].Map(start, end);
    AddWindow(gpu, start, end);  // not in states of earlier versions
  }
  AddChannel(name, gpu, start, end, hold);
}

// --- Managed memory

void ManagedTracker::Save(StateWriter& writer) const {
  writer.Row(kClock, clock_);
  for (const auto& [witness, space] : spaces_) {
    writer.Row(kManagedSpace, witness, space.process);
    WriteRanges(writer, kCounted, witness, space.counted);
    WriteRanges(writer, kSeen, witness, space.seen);
    WriteRanges(writer, kContested, witness, space.contested);
    for (const AddressRanges& ranges : space.doubted) {
      WriteRanges(writer, kDoubted, witness, ranges);
    }
  }
  const auto write = [&](StateTag tag, const Mapping& mapping, std::uint64_t last) {
    const Claim& claim = mapping.claim;
    writer.Row(tag, claim.process, claim.range.start, claim.range.end, mapping.watched, last,
               claim.witness);
  };
  for (const auto& [thread, mapping] : now_) {
    write(kNow, mapping, static_cast<std::uint64_t>(thread));
  }
  for (const Mapping& mapping : over_) {
    write(kOver, mapping, mapping.over_at);
  }
}

// A version that knew only processes had no witnesses: each process stands for one.
ManagedTracker::Mapping ManagedTracker::LoadMapping(StateReader& reader, bool over,
                                                    Thread* thread) const {
  Mapping mapping;
  Claim& claim = mapping.claim;
  claim.process = reader.Number();
  claim.range = LoadAddresses(reader);
  mapping.watched = reader.Flag();
  mapping.over = over;
  if (over) {
    mapping.over_at = reader.Number();
  } else {
    *thread = reader.As<Thread>();
  }
  claim.witness = reader.Number();
  claim.witness = claim.witness == 0 ? claim.process : claim.witness;
  (void)Check(reader, claim.witness != 0, "a mapping without a witness");
  return mapping;
}

void ManagedTracker::LoadSpace(StateReader& reader, bool of_process) {
  const Witness witness = reader.Number();
  Space space;
  space.process = of_process ? witness : reader.Number();
  if (Check(reader, witness != 0, "an address space without a witness")) {
    (void)Check(reader, spaces_.try_emplace(witness, std::move(space)).second,
                "an address space twice");
  }
}

void ManagedTracker::LoadRange(StateReader& reader, std::uint64_t tag) {
  const auto found = spaces_.find(reader.Number());
  const AddressRange range = LoadAddresses(reader);
  if (!Check(reader, found != spaces_.end(), "a mapping in an unknown address space")) {
    return;
  }
  Space& space = found->second;
  if (tag == kShown || tag == kCounted) {
    space.counted.push_back(range);
  }
  if (tag == kShown || tag == kSeen) {
    space.seen.push_back(range);
  }
  if (tag == kContested) {
    space.contested.push_back(range);
  }
  if (tag == kDoubted) {
    // Each element is a part of the one before, so the first range of one follows a later one.
    if (space.doubted.empty() || range.start < space.doubted.back().back().end) {
      space.doubted.emplace_back();
    }
    space.doubted.back().push_back(range);
  }
}

void ManagedTracker::Load(StateReader& reader) {
  reader.ForEach([&](StateTag tag) {
    switch (tag) {
      case kClock:
        clock_ = reader.Number();
        return true;
      case kProcess:
      case kManagedSpace:
        LoadSpace(reader, tag == kProcess);
        return true;
      case kShown:
      case kCounted:
      case kSeen:
      case kContested:
      case kDoubted:
        LoadRange(reader, tag);
        return true;
      case kNow: {
        Thread thread = 0;
        const Mapping mapping = LoadMapping(reader, false, &thread);
        (void)Check(reader, now_.try_emplace(thread, mapping).second, "a thread twice");
        return true;
      }
      case kOver:
        over_.push_back(LoadMapping(reader, true, nullptr));
        return true;
      default:
        return false;
    }
  });
  for (auto& [witness, space] : spaces_) {
    space.counted = Ordered(std::move(space.counted));
    space.seen = Ordered(std::move(space.seen));
    space.contested = Intersection(Ordered(std::move(space.contested)), space.counted);
  }
}

// --- RM's own mappings

void DmaTracker::Save(StateWriter& writer) const {
  writer.Row(kDmaClient, client_.handle, client_.serial, owner_);
  for (const auto& [serial, range] : ranges_) {
    writer.Row(kDmaRange, serial, range.handle, range.space, range.gpu,
               range.tables == RangeTables::kCovered);
    if (range.tables == RangeTables::kKept) {
      writer.Row(kDmaKept, serial, 0U, 0U);
    }
    for (const auto& [start, end] : range.kept) {
      writer.Row(kDmaKept, serial, start, end);
    }
    for (const auto& [start, mapping] : range.mappings) {
      writer.Row(kDmaMapping, serial, mapping.start, mapping.end, mapping.both, mapping.device,
                 mapping.memory, mapping.handle);
    }
  }
}

void DmaTracker::Load(StateReader& reader, ledger::Gpu gpus) {
  reader.ForEach([&](StateTag tag) {
    switch (tag) {
      case kDmaClient:
        client_.handle = reader.As<ledger::Handle>();
        client_.serial = reader.Number();
        owner_ = reader.Number();
        return true;
      case kDmaRange:
        LoadRange(reader, gpus);
        return true;
      case kDmaMapping:
        LoadMapping(reader);
        return true;
      case kDmaKept:
        LoadKept(reader);
        return true;
      default:
        return false;
    }
  });
}

void DmaTracker::LoadRange(StateReader& reader, ledger::Gpu gpus) {
  const std::uint64_t serial = reader.Number();
  const auto handle = reader.As<ledger::Handle>();
  const std::uint64_t space = reader.Number();
  const ledger::Gpu gpu = LoadGpu(reader, gpus);
  const bool covered = reader.Flag();
  if (Check(reader, !ranges_.contains(serial), "a range twice")) {
    AddRange({handle, serial}, space, gpu,
             covered ? RangeTables::kCovered : RangeTables::kOfMappings);
  }
}

void DmaTracker::LoadKept(StateReader& reader) {
  const auto range = ranges_.find(reader.Number());
  DmaMapping part;
  part.start = reader.Number();
  part.end = reader.Number();
  if (!Check(reader, range != ranges_.end(), "tables in a range that is not there") ||
      !Check(reader, range->second.mappings.empty(), "tables behind mappings")) {
    return;
  }
  range->second.tables = RangeTables::kKept;
  if (part.end == 0) {
    return;
  }
  const AddressRanges unkept =
      part.start < part.end ? Unkept(range->second, part) : AddressRanges();
  if (Check(reader, unkept == AddressRanges{{part.start, part.end}}, "tables twice")) {
    Keep(range->second, unkept[0]);
  }
}

void DmaTracker::LoadMapping(StateReader& reader) {
  const std::uint64_t range = reader.Number();
  DmaMapping mapping;
  mapping.start = reader.Number();
  mapping.end = reader.Number();
  mapping.both = reader.Flag();
  mapping.device = reader.As<ledger::Handle>();
  mapping.memory = reader.Number();
  mapping.handle = reader.As<ledger::Handle>();
  if (Check(reader, ranges_.contains(range), "a mapping in a range that is not there") &&
      Check(reader, mapping.start < mapping.end, "a mapping of nothing")) {
    Add(range, mapping);
  }
}

// --- The boundary

namespace {

void LoadSizes(Container& container, StateReader& reader, ledger::Gpu gpu) {
  if (Check(reader, gpu < container.gpus.size(), "there are more GPUs, or fewer")) {
    GpuSizes& sizes = container.gpus[gpu].sizes;
    sizes.context_bytes = reader.Number();
    sizes.space_bytes = reader.Number();
    sizes.bar1_bytes = reader.Number();
  }
}

void LoadSpace(Container& container, StateReader& reader) {
  ledger::FileKey key = 0;
  UvmSpace space(0);
  reader.ForEach([&](StateTag tag) {
    switch (tag) {
      case kSpaceKey:
        key = reader.Number();
        return true;
      case kSpaceTracker:
        space.Load(reader, static_cast<ledger::Gpu>(container.gpus.size()));
        return true;
      default:
        return false;
    }
  });
  if (Check(reader, key >= Boundary::kFirstSpace && key < kDmaExtra, "the key of a space")) {
    (void)Check(reader, container.spaces.try_emplace(key, std::move(space)).second,
                "a space twice");
  }
}

void LoadDmaTracker(Container& container, StateReader& reader) {
  DmaTracker tracker({}, 0);
  tracker.Load(reader, static_cast<ledger::Gpu>(container.gpus.size()));
  const std::uint32_t client = tracker.client().handle;
  (void)Check(reader, container.dma.try_emplace(client, std::move(tracker)).second,
              "a client's tracker twice");
}

void LoadEncoders(Container& container, StateReader& reader) {
  Encoders encoders;
  encoders.client.handle = reader.As<ledger::Handle>();
  encoders.client.serial = reader.Number();
  encoders.gpu = LoadGpu(reader, static_cast<ledger::Gpu>(container.gpus.size()));
  encoders.taken = reader.As<std::uint32_t>();
  container.encoders.push_back(encoders);
}

void SaveEntries(const Container& container, StateWriter& writer) {
  for (const auto& [client, entries] : container.entries) {
    writer.Row(kEntries, client, entries.serial, entries.count);
  }
  for (const auto& [event, serial] : container.os_events) {
    writer.Row(kOsEvent, event.first, serial, event.second);
  }
}

void LoadEntries(Container& container, StateReader& reader) {
  const auto client = reader.As<ledger::Handle>();
  const std::uint64_t serial = reader.Number();
  container.entries[client] = {serial, reader.As<std::uint32_t>()};
}

void LoadOsEvent(Container& container, StateReader& reader) {
  const auto client = reader.As<ledger::Handle>();
  const std::uint64_t serial = reader.Number();
  container.os_events[{client, reader.As<std::uint32_t>()}] = serial;
}

}  // namespace

void Boundary::Save(StateWriter& writer) const {
  for (const auto& [what, times] : container_.refusals.counts()) {
    writer.Begin(kRefused);
    writer.Text(what);
    writer.Number(times);
    writer.End();
  }
  for (const GpuIds& gpu : container_.gpus) {
    writer.Row(kSizes, gpu.sizes.context_bytes, gpu.sizes.space_bytes, gpu.sizes.bar1_bytes);
  }
  for (const auto& [key, space] : container_.spaces) {
    writer.Begin(kSpace);
    writer.Row(kSpaceKey, key);
    writer.Begin(kSpaceTracker);
    space.Save(writer);
    writer.End();
    writer.End();
  }
  writer.Begin(kManaged);
  container_.managed.Save(writer);
  writer.End();
  for (const auto& [client, tracker] : container_.dma) {
    writer.Begin(kDma);
    tracker.Save(writer);
    writer.End();
  }
  for (const Encoders& one : container_.encoders) {
    writer.Row(kEncoders, one.client.handle, one.client.serial, one.gpu, one.taken);
  }
  SaveEntries(container_, writer);
}

Result<> Boundary::Load(StateReader& reader) {
  ledger::Gpu sizes = 0;
  reader.ForEach([&](StateTag tag) {
    switch (tag) {
      case kRefused: {
        const std::string what = reader.Text();
        container_.refusals.Set(what, reader.Number());
        return true;
      }
      case kSizes:
        LoadSizes(container_, reader, sizes++);
        return true;
      case kSpace:
        LoadSpace(container_, reader);
        return true;
      case kManaged:
        container_.managed.Load(reader);
        return true;
      case kDma:
        LoadDmaTracker(container_, reader);
        return true;
      case kEncoders:
        LoadEncoders(container_, reader);
        return true;
      case kEntries:
        LoadEntries(container_, reader);
        return true;
      case kOsEvent:
        LoadOsEvent(container_, reader);
        return true;
      default:
        return false;
    }
  });
  if (Check(reader, sizes == container_.gpus.size(), "there are more GPUs, or fewer")) {
    Resume();
  }
  return reader.Finish();
}

// The ledger already agrees with the trackers, unless this version counts differently from the one
// that wrote them.
//
// Earlier versions took as certain what a tenant's own call made.
void Boundary::Resume() {
  DropGoneClients();
  if (container_.ledger.CameWithoutDoubts()) {
    for (const ledger::ClientInfo& client : container_.ledger.Clients()) {
      for (const ledger::ObjectInfo& object : container_.ledger.Objects(client.ref)) {
        if (object.cls == rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
          container_.ledger.MakeDoubtful(client.ref, object.ref);
        }
      }
    }
  }
  for (auto& [key, space] : container_.spaces) {
    SettleSpace(container_, key, space);
  }
  for (const auto& [client, tracker] : container_.dma) {
    SettleDma(container_, tracker);
  }
  container_.managed.Resume();
  SetQuotas();
}

}  // namespace cgpu::boundary
