// Controls that tell of errors of the hardware, or have them told. There are those errors that an
// operator of the node asked for (`cgpu sim fault`).
#include <algorithm>

#include "rm/nv_controls.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

// ctrl2080gpu.h NV2080_CTRL_GPU_QUERY_ECC_UNIT_STATUS.
struct EccUnit {
  rm::NvBool enabled;
  rm::NvBool scrubComplete;
  rm::NvBool supported;
  rm::NvU8 padding[5];  // no byte of the server's own memory goes out
  rm::NvU64 dbe;
  rm::NvU64 dbeNonResettable;
  rm::NvU64 sbe;
  rm::NvU64 sbeNonResettable;
};
static_assert(sizeof(EccUnit) == 40);

// NV2080_CTRL_GPU_QUERY_ECC_STATUS_PARAMS: units, as many as the branch knows, and a tail that says
// that nothing is fatal. The GPUs have ECC by their data sheets. The public headers do not tell
// which unit is which; here all errors are those of the first one.
NvStatus EccStatus(ControlCall& call) {
  std::fill(call.params.begin(), call.params.end(), std::byte{0});
  const EccErrors& errors = call.model.Ecc(call.object.gpu);
  call.Put(EccUnit{
      1, 1, 1, {}, errors.uncorrected, errors.uncorrected, errors.corrected, errors.corrected});
  return rm::NV_OK;
}

// NV2080_CTRL_GPU_QUERY_ECC_CONFIGURATION_PARAMS: enabled, as from the factory.
NvStatus EccConfiguration(ControlCall& call) {
  constexpr rm::NvU32 kEnabled = 1;  // NV2080_CTRL_GPU_ECC_CONFIGURATION_ENABLED
  Store(call.params, kEnabled);
  Store(call.params.subspan(sizeof(kEnabled)), kEnabled);
  return rm::NV_OK;
}

NvStatus SetNotification(ControlCall& call) {
  struct NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {  // ctrl2080/ctrl2080event.h
    rm::NvU32 event;
    rm::NvU32 action;
  };
  const auto params = call.Get<NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS>();
  return call.model.SetNotification(call.client, call.object, params.event, params.action);
}

constexpr ControlEntry kErrorEntries[] = {
    {rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, ObjectKind::kSubdevice, EccStatus},
    {rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_CONFIGURATION, ObjectKind::kSubdevice, EccConfiguration},
    {rm::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION, ObjectKind::kSubdevice, SetNotification},
};

}  // namespace

std::span<const ControlEntry> ErrorControls() {
  return kErrorEntries;
}

}  // namespace cgpu::sim
