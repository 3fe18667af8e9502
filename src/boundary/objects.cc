#include "boundary/objects.h"

#include <algorithm>
#include <utility>

#include "boundary/page_tables.h"
#include "boundary/policy.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {
namespace {

struct IntervalTables {
  std::uint64_t bytes = 0;
  RangeTables of_mappings = RangeTables::kOfMappings;
};

// Returns the tables of a VA range (NV50_MEMORY_VIRTUAL). The driver makes it with tables for all
// pages that may be mapped in it (gpu_vaspace.c gvaspaceAlloc() and
// gvaspaceApplyDefaultAlignment()): of small and of big pages unless it says which. Also for pages
// of 2 MiB it takes memory as for small ones (gvaspaceReserveMempool()). A sparse one has tables at
// its ends, whatever else it is; a lazy one has none, and one that others manage neither.
IntervalTables TablesOfInterval(std::uint64_t size, std::uint32_t flags, std::uint32_t attr) {
  if (size == 0) {
    return {};
  }
  if ((flags & rm::NVOS32_ALLOC_FLAGS_SPARSE) != 0) {
    return {2 * PageTables::MostBytes(1), RangeTables::kKept};
  }
  if ((flags & (rm::NVOS32_ALLOC_FLAGS_LAZY | rm::NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED)) != 0) {
    return {};
  }
  const bool both = rm::NVOS32_ATTR_PAGE_SIZE.Get(attr) == rm::NVOS32_ATTR_PAGE_SIZE_DEFAULT;
  // A page of the GPU holds several tables of big pages (gmmu_walk.c).
  return {PageTables::MostBytes(size) + (both ? PageTables::kTableBytes : 0),
          both ? RangeTables::kCovered : RangeTables::kOfMappings};
}

}  // namespace

bool IsOwnHostMemory(const Container& container, ledger::ClientRef client, std::uint32_t handle) {
  const auto memory = container.ledger.Find(client, handle);
  return memory && memory->holders == 0 && !IsSharedMemory(memory->cls);
}

bool NamesSharedMemory(const Container& container, ledger::ClientRef client, std::uint32_t handle) {
  const auto memory = container.ledger.Find(client, handle);
  return memory && IsSharedMemory(memory->cls);
}

bool IsSpaceOfOtherGpu(const Container& container, ledger::ClientRef client, std::uint32_t handle,
                       std::optional<ledger::Gpu> gpu) {
  const auto object = container.ledger.Find(client, handle);
  return object && object->gpu && gpu && *object->gpu != *gpu &&
         (object->cls == rm::FERMI_VASPACE_A || object->cls == rm::FERMI_CONTEXT_SHARE_A ||
          IsRangeClass(object->cls));
}

Decision Reserve(Container& container, Call& call, Decision decision, ledger::Kind kind,
                 std::uint64_t bytes) {
  decision.gpu = container.ledger.GpuOf(decision.client, call.object);
  if (bytes > 0 && !decision.gpu) {
    return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_PARENT, Reason::kInvalid,
                            "card memory below no card");
  }
  const ledger::Gpu gpu = decision.gpu.value_or(0);
  auto reservation = container.ledger.Reserve(kind, gpu, bytes);
  if (!reservation.ok()) {
    const bool memory = reservation.full() == ledger::Full::kLimit;
    Decision refusal =
        container.Answer(call, memory ? rm::NV_ERR_NO_MEMORY : rm::NV_ERR_INSUFFICIENT_RESOURCES,
                         memory ? Reason::kMemoryLimit : Reason::kQuota,
                         memory ? "memory over the limit" : "objects over a quota");
    refusal.over_limit = memory;
    refusal.gpu = gpu;
    return refusal;
  }
  decision.reservation = std::move(*reservation);
  decision.bytes = bytes;
  return decision;
}

Decision ReserveInterval(Container& container, Call& call, Decision decision, std::uint64_t size,
                         std::uint32_t flags, std::uint32_t attr) {
  const IntervalTables tables = TablesOfInterval(size, flags, attr);
  decision.tables = tables.of_mappings;
  return Reserve(container, call, std::move(decision),
                 tables.bytes > 0 ? ledger::Kind::kMemory : ledger::Kind::kOther, tables.bytes);
}

std::optional<Undo> AddMade(Container& container, Call& call, Decision& decision,
                            const Made& made) {
  ledger::NewObject object;
  object.page_bytes = made.page_bytes;
  object.parent = decision.object;
  object.handle = made.handle;
  object.cls = made.cls;
  // The driver takes what was reserved; the size that it reports can be smaller, never larger.
  object.actual_bytes = std::max(made.bytes, decision.bytes);
  if (const ClassRule* rule = FindClassRule(made.cls);
      rule != nullptr && rule->effect == ClassEffect::kDevice) {
    object.gpu = decision.gpu;
  }
  object.engine = made.engine;
  auto added = container.ledger.AddObject(decision.reservation, decision.client, object);
  if (!added.ok() && added.error().code == Code::kConflict) {
    // The driver has just accepted this handle, so the ledger's object under it is gone.
    FreeObject(container, decision.client, {made.handle, 0});
    added = container.ledger.AddObject(decision.reservation, decision.client, object);
  }
  if (added.ok()) {
    return std::nullopt;
  }
  // If a client or parent is gone the object is gone too; freeing it then fails harmlessly.
  SetStatus(call, rm::NV_ERR_NO_MEMORY);
  return Undo{decision.client.handle, made.handle};
}

std::optional<Undo> AddCopy(Container& container, const Decision& decision,
                            ledger::Reservation& reservation, std::uint32_t handle) {
  auto added = container.ledger.AddCopy(reservation, decision.client, decision.object, handle);
  if (!added.ok() && added.error().code == Code::kConflict) {
    FreeObject(container, decision.client, {handle, 0});
    added = container.ledger.AddCopy(reservation, decision.client, decision.object, handle);
  }
  if (!added.ok()) {
    return Undo{decision.client.handle, handle};
  }
  if (const auto copy = container.ledger.Find(decision.client, handle);
      copy && IsRangeClass(copy->cls)) {
    // Its source may be sparse.
    AddRange(container, decision.client, handle, std::nullopt, RangeTables::kKept);
  }
  return std::nullopt;
}

void FreeObject(Container& container, ledger::ClientRef client, ledger::ObjectRef object) {
  DmaTracker* const tracker = FindDmaTracker(container, client);
  const bool others = tracker != nullptr && container.ledger.FreesOthers(client, object.handle);
  // If the ledger does not know it, or it went with its parent meanwhile, there is nothing to give
  // back.
  if (!container.ledger.Free(client, object).ok() || tracker == nullptr) {
    return;
  }
  if (!container.ledger.Owns(client.handle)) {
    DropDmaTracker(container, client.handle);
    return;
  }
  tracker->Forget(object.serial);
  if (others) {
    tracker->Sweep([&](ledger::ObjectRef at) {
      const auto there = container.ledger.Find(client, at.handle);
      return there && there->ref == at;
    });
  }
  SettleDma(container, *tracker);
}

ledger::ExtraKey KeyOf(const DmaTracker& tracker) {
  return {tracker.owner(), kDmaExtra | tracker.client().serial};
}

DmaTracker* FindDmaTracker(Container& container, ledger::ClientRef client) {
  const auto found = container.dma.find(client.handle);
  return found != container.dma.end() && found->second.client() == client ? &found->second
                                                                          : nullptr;
}

void AddRange(Container& container, ledger::ClientRef client, std::uint32_t handle,
              std::optional<std::uint32_t> space, RangeTables tables) {
  const auto owner = container.ledger.FindClient(client.handle);
  const auto range = container.ledger.Find(client, handle);
  if (!owner || !range || !range->gpu) {
    return;
  }
  if (FindDmaTracker(container, client) == nullptr) {
    DropDmaTracker(container, client.handle);
    container.dma.emplace(client.handle, DmaTracker(owner->ref, owner->owner));
  }
  std::uint64_t serial = range->ref.serial;
  if (space) {
    const auto named = container.ledger.Find(client, *space != 0 ? *space : range->parent);
    serial = named ? named->ref.serial : serial;
  }
  container.dma.at(client.handle).AddRange(range->ref, serial, *range->gpu, tables);
  if (space && range->cls == rm::NV50_MEMORY_VIRTUAL) {
    // virtual_mem.c refAddDependant(). If it names no space, or one that is gone by now, it depends
    // on none.
    (void)container.ledger.AddDependency(client, handle, *space).ok();
  }
}

void SettleDma(Container& container, const DmaTracker& tracker) {
  for (ledger::Gpu gpu = 0; gpu < container.gpus.size(); ++gpu) {
    container.ledger.ForceExtra(KeyOf(tracker), gpu, tracker.Bytes(gpu));
  }
}

void DropDmaTracker(Container& container, std::uint32_t client) {
  const auto found = container.dma.find(client);
  if (found == container.dma.end()) {
    return;
  }
  for (ledger::Gpu gpu = 0; gpu < container.gpus.size(); ++gpu) {
    container.ledger.ForceExtra(KeyOf(found->second), gpu, 0);
  }
  container.dma.erase(found);
}

}  // namespace cgpu::boundary
