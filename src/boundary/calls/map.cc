// Views of memory: RM_MAP_MEMORY and its kin. GPU memory is seen through BAR1, which all users of
// the GPU share. Every view takes memory of the kernel's.
#include <cstddef>
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/quotas.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

void DecodeMapMemory(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  call.client = Load<std::uint32_t>(call.image);
  call.object = Load<rm::NVOS33_PARAMETERS>(call.image).hDevice;
  TakeFdArgument(call, offsetof(rm::nv_ioctl_nvos33_parameters_with_fd, fd));
}

Decision DecideMapMemory(Container& container, Call& call, Decision decision) {
  if (!call.fd || !call.fd->file || !call.fd->file->granted) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            "MAP_MEMORY onto a foreign file");
  }
  const auto map = Load<rm::NVOS33_PARAMETERS>(call.image);
  const auto memory = container.ledger.Find(decision.client, map.hMemory);
  if (!memory) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "MAP_MEMORY of an unknown object");
  }
  if (memory->cls == rm::NV01_MEMORY_LOCAL_PRIVILEGED) {
    return container.Answer(call, rm::NV_ERR_PROTECTION_FAULT, Reason::kNotAllowed,
                            "MAP_MEMORY of registers");
  }
  // The driver keeps the page read-only as well (osapi.c, bReadOnlyMem).
  if (memory->cls == rm::RM_USER_SHARED_DATA &&
      rm::NVOS33_FLAGS_ACCESS.Get(map.flags) != rm::NVOS33_FLAGS_ACCESS_READ_ONLY) {
    return container.Answer(call, rm::NV_ERR_PROTECTION_FAULT, Reason::kNotAllowed,
                            "MAP_MEMORY of the driver's page to write to it");
  }
  const std::uint64_t bytes =
      memory->page_bytes == 0 ? 0 : Bar1Bytes(map.offset, map.length, memory->page_bytes);
  auto reservation = container.ledger.ReserveMapping(decision.client, memory->ref, bytes);
  if (!reservation.ok()) {
    return container.Answer(call, rm::NV_ERR_NO_MEMORY, Reason::kQuota,
                            "views of memory over a quota");
  }
  decision.object = memory->ref;
  decision.reservation = std::move(*reservation);
  return decision;
}

std::optional<Undo> AccountMapMemory(Container& container, Call& call, Decision& decision) {
  const auto map = Load<rm::NVOS33_PARAMETERS>(call.image);
  // Fails only if the object is gone, and then so is the view.
  if (!container.ledger
           .AddMapping(decision.reservation, decision.client, decision.object, map.pLinearAddress)
           .ok()) {
    container.ledger.Cancel(decision.reservation);
  }
  return std::nullopt;
}

std::optional<Undo> AccountUnmapMemory(Container& container, Call& call, Decision& decision) {
  const auto unmap = Load<rm::NVOS34_PARAMETERS>(call.image);
  container.ledger.RemoveMapping(decision.client, {unmap.hMemory, 0}, unmap.pLinearAddress);
  return std::nullopt;
}

std::optional<Undo> AccountMovedMapping(Container& container, Call& call, Decision& decision) {
  const auto update = Load<rm::NVOS56_PARAMETERS>(call.image);
  container.ledger.MoveMapping(decision.client, {update.hMemory, 0}, update.pOldCpuAddress,
                               update.pNewCpuAddress);
  return std::nullopt;
}

}  // namespace cgpu::boundary
