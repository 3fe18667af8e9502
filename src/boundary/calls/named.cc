// Controls whose parameters name a GPU, a client or memory: only the container's.
#include <algorithm>
#include <cstddef>

#include "boundary/calls/control_handler.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

// Returns the handle or id that the rule checks.
std::uint32_t ArgumentOf(const Call& call, const ControlRule& rule) {
  return Load<std::uint32_t>(call.nested[0].bytes, rule.argument);
}

// Returns true if both GPUs whose relation is asked about are granted (ctrl0000system.h).
bool OwnPeers(const Container& container, std::uint32_t command, const Bytes& params) {
  const auto own = [&](std::size_t ids, std::size_t count_at, std::uint32_t room) {
    const std::uint32_t count = std::min(Load<std::uint32_t>(params, count_at), room);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!container.GpuWithId(Load<std::uint32_t>(params, ids + i * sizeof(std::uint32_t)))) {
        return false;
      }
    }
    return true;
  };
  if (command == rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX) {
    // {grpACount, grpBCount, gpuIdGrpA[8], gpuIdGrpB[8], ...}
    constexpr std::uint32_t kRoom = 8;  // NV0000_CTRL_SYSTEM_MAX_P2P_GROUP_GPUS
    return own(8, 0, kRoom) && own(40, 4, kRoom);
  }
  // {gpuIds[32], gpuCount, ...}
  constexpr std::uint32_t kRoom = 32;  // NV0000_CTRL_SYSTEM_MAX_ATTACHED_GPUS
  return own(0, kRoom * sizeof(std::uint32_t), kRoom);
}

}  // namespace

Decision DecideGpuId(Container& container, Call& call, Decision decision, const ControlRule& rule) {
  if (!container.GpuWithId(ArgumentOf(call, rule))) {
    return container.Answer(call, rule.no_such, Reason::kGpuNotGranted,
                            ControlName(call.command) + " of another card");
  }
  return decision;
}

// Decides a list of GPU ids that ends at the first invalid one. A list that means the whole host
// becomes the granted GPUs.
Decision DecideGpuIdList(Container& container, Call& call, Decision decision,
                         const ControlRule& rule) {
  Bytes& params = call.nested[0].bytes;
  const auto id = [&](std::size_t i) {
    return Load<std::uint32_t>(params, rule.argument + i * sizeof(std::uint32_t));
  };
  constexpr std::size_t kSlots = rm::NV0000_CTRL_GPU_MAX_ATTACHED_GPUS;
  if (id(0) == rm::NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::uint32_t value =
          i < container.gpus.size() ? container.gpus[i].gpu_id : rm::NV0000_CTRL_GPU_INVALID_ID;
      Store(params, value, rule.argument + i * sizeof(std::uint32_t));
    }
    return decision;
  }
  for (std::size_t i = 0; i < kSlots && id(i) != rm::NV0000_CTRL_GPU_INVALID_ID; ++i) {
    if (!container.GpuWithId(id(i))) {
      return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kGpuNotGranted,
                              ControlName(call.command) + " of another card");
    }
  }
  return decision;
}

Decision DecidePeerCaps(Container& container, Call& call, Decision decision,
                        const ControlRule& /*rule*/) {
  if (!OwnPeers(container, call.command, call.nested[0].bytes)) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kGpuNotGranted,
                            ControlName(call.command) + " of another card");
  }
  return decision;
}

Decision DecideNamedClient(Container& container, Call& call, Decision decision,
                           const ControlRule& rule) {
  if (!container.ledger.Owns(ArgumentOf(call, rule))) {
    return container.Answer(call, rm::NV_ERR_INVALID_CLIENT, Reason::kInvalid,
                            ControlName(call.command) + " of a foreign client");
  }
  return decision;
}

Decision DecideMemory(Container& container, Call& call, Decision decision,
                      const ControlRule& rule) {
  if (!container.ledger.Find(decision.client, ArgumentOf(call, rule))) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            ControlName(call.command) + " of unknown memory");
  }
  if (NamesSharedMemory(container, decision.client, ArgumentOf(call, rule))) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            ControlName(call.command) + " of memory that all tenants share");
  }
  return decision;
}

Decision DecideOwnMemory(Container& container, Call& call, Decision decision,
                         const ControlRule& rule) {
  const std::uint32_t argument = ArgumentOf(call, rule);
  if (argument != 0 && !IsOwnHostMemory(container, decision.client, argument)) {
    return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kNotAllowed,
                            ControlName(call.command) + " with other memory than the host's");
  }
  return decision;
}

}  // namespace cgpu::boundary
