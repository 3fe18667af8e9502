// RM_VID_HEAP_CONTROL: an older way to take and give back memory, and to ask how much there is.
#include <algorithm>
#include <utility>

#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {

void DecodeVidHeap(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  const auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  call.client = head.hRoot;
  call.object = head.hObjectParent;
  call.command = head.function;
}

bool VidHeapReleases(const Call& call) {
  return call.command == rm::NVOS32_FUNCTION_FREE;
}

std::optional<Decision> DecideVidHeapEarly(Container& container, Call& call) {
  if (!IsListedHeapFunction(call.command)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            Hex("VID_HEAP_CONTROL function", call.command));
  }
  return std::nullopt;
}

Decision DecideVidHeap(Container& container, Call& call, Decision decision) {
  const auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  const auto parent = container.ledger.Find(decision.client, head.hObjectParent);
  // The driver frees without checking the parent (rmapi_deprecated_vidheapctrl.c).
  if (!parent && head.function != rm::NVOS32_FUNCTION_FREE) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "VID_HEAP_CONTROL on an unknown object");
  }
  if (parent) {
    decision.object = parent->ref;
    decision.gpu = parent->gpu;
  }
  switch (head.function) {
    case rm::NVOS32_FUNCTION_ALLOC_SIZE: {
      const auto& alloc = head.data.AllocSize;
      const std::uint32_t cls = VidHeapClass(alloc.flags, alloc.attr, alloc.attr2);
      if (FindClassRule(cls) == nullptr) {
        return container.Answer(call, rm::NV_ERR_INVALID_CLASS, Reason::kNotAllowed,
                                "VID_HEAP_CONTROL of " + ClassName(cls));
      }
      if (cls == rm::NV50_MEMORY_VIRTUAL) {
        if (IsSpaceOfOtherGpu(container, decision.client, head.hVASpace, decision.gpu)) {
          return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kInvalid,
                                  "a VA range in an address space of another card");
        }
        return ReserveInterval(container, call, std::move(decision), alloc.size, alloc.flags,
                               alloc.attr);
      }
      const bool vidmem = cls == rm::NV01_MEMORY_LOCAL_USER;
      return Reserve(container, call, std::move(decision),
                     vidmem ? ledger::Kind::kMemory : ledger::Kind::kOther,
                     vidmem ? rm::RoundVidmem({alloc.size, alloc.attr, alloc.attr2, alloc.flags,
                                               alloc.alignment})
                            : 0);
    }
    case rm::NVOS32_FUNCTION_FREE: {
      return DecideFreeing(container, call, std::move(decision), head.data.Free.hMemory);
    }
    default:
      decision.effects.shows_memory = true;
      return decision;
  }
}

std::optional<Undo> AccountVidHeap(Container& container, Call& call, Decision& decision) {
  auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  switch (head.function) {
    case rm::NVOS32_FUNCTION_ALLOC_SIZE: {
      const auto& alloc = head.data.AllocSize;
      const std::uint32_t cls = VidHeapClass(alloc.flags, alloc.attr, alloc.attr2);
      const bool vidmem = cls == rm::NV01_MEMORY_LOCAL_USER;
      const auto undo = AddMade(
          container, call, decision,
          {.handle = alloc.hMemory,
           .cls = cls,
           .bytes = vidmem ? alloc.size : 0,
           .page_bytes = vidmem ? rm::VidmemPageSize(alloc.size, alloc.attr, alloc.attr2) : 0});
      if (undo) {
        return undo;
      }
      if (IsRangeClass(cls)) {
        AddRange(container, decision.client, alloc.hMemory, head.hVASpace, decision.tables);
      }
      break;
    }
    case rm::NVOS32_FUNCTION_FREE:
      FreeObject(container, decision.client, decision.object);
      break;
    default:
      break;
  }
  // The heap's size, its free bytes, and where on the GPU that lies, which shows what neighbours
  // hold. The other functions show nothing of it.
  if (head.function == rm::NVOS32_FUNCTION_INFO && decision.gpu) {
    head = Load<rm::NVOS32_PARAMETERS>(call.image);
    const std::uint64_t limit = container.ledger.Limit(*decision.gpu);
    head.total = limit;
    head.free = limit - std::min(limit, container.ledger.Used(*decision.gpu));
    head.data.Info.size = std::min(head.data.Info.size, head.free);
    head.data.Info.offset = 0;
    head.data.Info.base = 0;
    Store(call.image, head);
  }
  return std::nullopt;
}

}  // namespace cgpu::boundary
