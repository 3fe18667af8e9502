// Escapes about the host's GPUs and the files of the driver. They act for no client.
#include <cerrno>
#include <cstddef>
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

void DecodeRegisterFd(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  TakeFdArgument(call, 0);
}

// Accepts one size of WAIT_OPEN_COMPLETE: 550 would write its answer beyond a smaller buffer.
bool AcceptsWaitOpen(const Call& call) {
  return call.image.size() == sizeof(rm::nv_ioctl_wait_open_complete_t);
}

// Decides a call that names a GPU by its place, of which the driver makes its id (gpu.c
// gpuGenerate32BitId()). The driver answers the same error where there is no GPU.
Decision DecideStatusCode(Container& container, Call& call, Decision decision) {
  const auto params = Load<rm::nv_ioctl_status_code_t>(call.image);
  if (!container.GpuWithId((params.domain & 0xffff) << 16 | std::uint32_t{params.bus} << 8 |
                           params.slot)) {
    return container.Fail(EINVAL, Reason::kGpuNotGranted, "STATUS_CODE of another card");
  }
  return decision;
}

Decision DecideAttachFd(Container& container, Call& call, Decision decision) {
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= call.image.size();
       at += sizeof(std::uint32_t)) {
    const auto gpu_id = Load<std::uint32_t>(call.image, at);
    if (gpu_id != 0 && !container.GpuWithId(gpu_id)) {
      return container.Fail(EINVAL, Reason::kGpuNotGranted, "ATTACH_GPUS_TO_FD of another card");
    }
  }
  return decision;
}

// Allows it only for a GPU's file, as the vendor's libraries use it. The clients on a control file
// that was registered to another would be used through either, and its tag could not be told from
// the other's.
Decision DecideRegisterFd(Container& container, Call& call, Decision decision) {
  if (!call.fd->file || call.fd->file->kind != FileKind::kControl ||
      call.file.kind != FileKind::kGpu) {
    return container.Fail(EINVAL, Reason::kInvalid, "REGISTER_FD of a foreign file");
  }
  return decision;
}

// Lists the granted GPUs alone.
std::optional<Undo> AccountCardInfo(Container& container, Call& call, Decision& /*decision*/) {
  constexpr std::size_t kEntry = sizeof(rm::nv_ioctl_card_info_t);
  Bytes kept;
  for (std::size_t at = 0; at + kEntry <= call.image.size(); at += kEntry) {
    const auto gpu = Load<rm::nv_ioctl_card_info_t>(call.image, at);
    if (gpu.valid != 0 && container.GpuWithId(gpu.gpu_id)) {
      kept.insert(kept.end(), call.image.begin() + static_cast<std::ptrdiff_t>(at),
                  call.image.begin() + static_cast<std::ptrdiff_t>(at + kEntry));
    }
  }
  kept.resize(call.image.size());
  call.image = std::move(kept);
  return std::nullopt;
}

}  // namespace cgpu::boundary
