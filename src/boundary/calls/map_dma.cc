// RM's own GPU mappings: RM_MAP_MEMORY_DMA and its kin. Their page tables are charged.

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "boundary/quotas.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

struct MapRequest {
  std::uint32_t device = 0;
  std::uint32_t range = 0;
  std::uint32_t memory = 0;
  std::uint64_t length = 0;
  std::uint32_t flags = 0;
  std::uint64_t address = 0;
};

template <class Params>
MapRequest ReadAs(const Call& call) {
  const auto params = Load<Params>(call.image);
  return {params.hDevice, params.hDma,  params.hMemory,
          params.length,  params.flags, params.dmaOffset};
}

MapRequest Read(const Call& call) {
  return call.image.size() == sizeof(rm::NVOS46_PARAMETERS_V535)
             ? ReadAs<rm::NVOS46_PARAMETERS_V535>(call)
             : ReadAs<rm::NVOS46_PARAMETERS_V580>(call);
}

DmaMapping MappingOf(const MapRequest& request, const ledger::ObjectInfo& memory) {
  DmaMapping mapping;
  mapping.start = request.address;
  mapping.end = request.address + request.length;
  mapping.both = rm::NVOS46_FLAGS_PAGE_SIZE.Get(request.flags) == rm::NVOS46_FLAGS_PAGE_SIZE_BOTH;
  mapping.device = request.device;
  mapping.memory = memory.ref.serial;
  mapping.handle = memory.ref.handle;
  return mapping;
}

}  // namespace

void DecodeMapDma(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  call.client = Load<std::uint32_t>(call.image);
  call.object = Load<rm::NVOS46_PARAMETERS_V535>(call.image).hDevice;
}

Decision DecideMapDma(Container& container, Call& call, Decision decision) {
  const MapRequest request = Read(call);
  const auto range = container.ledger.Find(decision.client, request.range);
  const auto memory = container.ledger.Find(decision.client, request.memory);
  const auto device = container.ledger.Find(decision.client, request.device);
  if (request.length == 0) {
    return container.Answer(call, rm::NV_ERR_INVALID_LIMIT, Reason::kInvalid,
                            "MAP_MEMORY_DMA of nothing");
  }
  if (!range || !memory || !device) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "MAP_MEMORY_DMA of an unknown object");
  }
  if (IsSharedMemory(memory->cls)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            "MAP_MEMORY_DMA of registers, or of the driver's page");
  }
  DmaTracker* const tracker = FindDmaTracker(container, decision.client);
  if (tracker == nullptr || !range->gpu || device->gpu != range->gpu || !IsRangeClass(range->cls)) {
    return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kInvalid,
                            "MAP_MEMORY_DMA into another object");
  }
  std::size_t mappings = 0;
  for (const auto& [client, other] : container.dma) {
    mappings += other.mappings();
  }
  if (mappings >= kMaxDmaMappings) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            "mappings over the quota");
  }
  const bool placed = rm::NVOS46_FLAGS_DMA_OFFSET_FIXED.Get(request.flags) != 0;
  if (request.length > ~(placed ? request.address : 0)) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            "MAP_MEMORY_DMA beyond all addresses");
  }
  MapRequest counted = request;
  counted.address = placed ? request.address : 0;
  const std::uint64_t bytes = tracker->Bytes(*range->gpu) +
                              tracker->Need(range->ref.serial, MappingOf(counted, *memory), placed);
  if (!container.ledger.SetExtra(KeyOf(*tracker), *range->gpu, bytes).ok()) {
    return container.NoMemory(call, *range->gpu);
  }
  decision.object = range->ref;
  return decision;
}

// Adds the mapping, or gives back what was charged for it.
void SettleMapDma(Container& container, Call& call, const Decision& decision,
                  const Outcome& outcome) {
  DmaTracker* const tracker = FindDmaTracker(container, decision.client);
  if (tracker == nullptr) {
    return;
  }
  const MapRequest request = Read(call);
  const auto memory = container.ledger.Find(decision.client, request.memory);
  if (outcome.done && memory) {
    tracker->Add(decision.object.serial, MappingOf(request, *memory));
  }
  SettleDma(container, *tracker);
}

std::optional<Undo> AccountUnmapDma(Container& container, Call& call, Decision& decision) {
  DmaTracker* const tracker = FindDmaTracker(container, decision.client);
  const auto params = Load<rm::NVOS47_PARAMETERS_V550>(call.image);
  const auto range = container.ledger.Find(decision.client, params.hDma);
  if (tracker != nullptr && range) {
    const bool sized = call.image.size() == sizeof(rm::NVOS47_PARAMETERS_V550);
    tracker->Remove(range->ref.serial, params.hDevice, params.dmaOffset, sized ? params.size : 0);
    SettleDma(container, *tracker);
  }
  return std::nullopt;
}

}  // namespace cgpu::boundary
