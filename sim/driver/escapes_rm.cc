// RM_CONTROL.
#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/driver/control.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h:
constexpr rm::NvU32 kFlagIrqlRaised = 1;  // NVOS54_FLAGS_IRQL_RAISED
constexpr rm::NvU32 kFlagLockBypass = 2;  // NVOS54_FLAGS_LOCK_BYPASS

// Is it a command of the class that makes objects of this kind? Asked for the three that have
// privileged commands.
bool IsCommandOf(rm::NvU32 cmd, ObjectKind kind) {
  switch (cmd >> 16) {
    case 0:
      return kind == ObjectKind::kClient;
    case rm::NV01_DEVICE_0:
      return kind == ObjectKind::kDevice;
    case rm::NV20_SUBDEVICE_0:
      return kind == ObjectKind::kSubdevice;
    default:
      return false;
  }
}

}  // namespace

int Escapes::Control() {
  const auto api = Load<rm::NVOS54_PARAMETERS>(call_.bytes);
  const NvStatus status = RunControl(api);
  call_.params.write_back = status == rm::NV_OK;
  call_.embedded.write_back = status == rm::NV_OK;
  PutStatus(call_, status);
  return 0;
}

// rmapi_gss_legacy_control.c RmGssLegacyRpcCmd(), before control.c is asked: neither the flags nor
// the file that the client belongs to are looked at. No rule below bounds the size either.
std::optional<NvStatus> Escapes::RunPastTheTables(const rm::NVOS54_PARAMETERS& api) {
  Client* client = model_.FindClient(api.hClient);
  Object* object = client == nullptr ? nullptr : DriverModel::FindObject(*client, api.hObject);
  const rm::ControlRoute route = rm::RouteOf(api.cmd, object == nullptr ? 0 : object->cls);
  if (route == rm::ControlRoute::kNothing) {
    return rm::NV_OK;
  }
  const bool privileged = route == rm::ControlRoute::kFirmwarePrivileged;
  if (object == nullptr || object->gpu < 0 ||
      (route != rm::ControlRoute::kFirmware && !privileged)) {
    return std::nullopt;
  }
  if (privileged && !caller_.IsAdmin()) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (call_.copy_in != rm::NV_OK) {
    return call_.copy_in;
  }
  ControlCall control = MakeControl(*client, *object, api.cmd);
  return RunByFirmware(control);
}

ControlCall Escapes::MakeControl(Client& client, Object& object, rm::NvU32 cmd) {
  return ControlCall{model_,
                     version_,
                     call_.file,
                     client,
                     object,
                     caller_,
                     cmd,
                     call_.params.bytes,
                     call_.embedded.bytes,
                     call_.embedded.address,
                     call_.wait};
}

// rs_server.c serverControl(), when client and object are found.
NvStatus Escapes::RunOnObject(ControlCall& control) {
  const rm::NvU32 cmd = control.cmd;
  const ObjectKind kind = control.object.kind;
  if (model_.IsLost(control.object.gpu)) {
    return rm::NV_ERR_GPU_IS_LOST;  // control.c serverControl_ValidateCookie()
  }
  if (rm::RouteOf(cmd, control.object.cls) == rm::ControlRoute::kFirmwareByObject) {
    // binary_api.c
    return control.object.cls == rm::NV2082_BINAPI_PRIVILEGED && !caller_.IsAdmin()
               ? rm::NV_ERR_INSUFFICIENT_PERMISSIONS
               : RunByFirmwareOfObject(control);
  }
  const rm::ControlRow* row = rm::FindControl(cmd);
  const ControlEntry* entry = row != nullptr && !row->Known(model_.DriverAbi().branch)
                                  ? nullptr  // of another branch
                                  : FindControlEntry(cmd);
  if (entry == nullptr && IsCommandOf(cmd, kind)) {
    if (IsKernelControl(cmd) || (IsRootControl(cmd) && !caller_.IsAdmin())) {
      return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
    }
    if (IsRootControl(cmd)) {
      return rm::NV_OK;  // what it would do is not simulated
    }
  }
  if (entry == nullptr || entry->target != kind) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if ((entry->privilege == Privilege::kAdmin && !caller_.IsAdmin()) ||
      (entry->privilege == Privilege::kNice && !caller_.IsNice())) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  return entry->handler(control);
}

// control.c _rmapiRmControl(), then rs_server.c serverControl(), in their order of checks.
NvStatus Escapes::RunControl(const rm::NVOS54_PARAMETERS& api) {
  if (const auto status = RunPastTheTables(api)) {
    return *status;
  }
  if ((api.flags & (kFlagIrqlRaised | kFlagLockBypass)) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  Client* client = nullptr;
  DriverModel& model = model_;
  if (model.FindClient(api.hClient) == nullptr) {
    return rm::NV_ERR_INVALID_CLIENT;
  }
  if (call_.copy_in != rm::NV_OK) {
    return call_.copy_in;
  }
  const NvStatus status =
      model.UseClient(call_.file, api.hClient, rm::NV_ERR_INVALID_CLIENT, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* object = DriverModel::FindObject(*client, api.hObject);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  ControlCall control = MakeControl(*client, *object, api.cmd);
  return RunOnObject(control);
}

}  // namespace cgpu::sim
