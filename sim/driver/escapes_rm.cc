// RM_CONTROL.
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

// Category and index of a command, in which 0 means "nothing" for every class.
bool IsNullCommand(rm::NvU32 cmd) {
  return (cmd & 0xFFFFU) == 0;
}

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

// control.c _rmapiRmControl(), then rs_server.c serverControl(), in their order of checks.
NvStatus Escapes::RunControl(const rm::NVOS54_PARAMETERS& api) {
  if (IsNullCommand(api.cmd)) {
    return rm::NV_OK;
  }
  if ((api.flags & (kFlagIrqlRaised | kFlagLockBypass)) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  Client* client = nullptr;
  DriverModel& model = driver_.model_;
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
  const rm::ControlRow* row = rm::FindControl(api.cmd);
  const ControlEntry* entry = row != nullptr && !row->Known(driver_.abi_.branch)
                                  ? nullptr  // of another branch
                                  : FindControlEntry(api.cmd);
  if (entry == nullptr && IsCommandOf(api.cmd, object->kind)) {
    if (IsKernelControl(api.cmd) || (IsRootControl(api.cmd) && !caller_.IsAdmin())) {
      return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
    }
    if (IsRootControl(api.cmd)) {
      return rm::NV_OK;  // what it would do is not simulated
    }
  }
  if (entry == nullptr || entry->target != object->kind) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if ((entry->privilege == Privilege::kAdmin && !caller_.IsAdmin()) ||
      (entry->privilege == Privilege::kNice && !caller_.IsNice())) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  ControlCall control{model,
                      driver_.version_,
                      call_.file,
                      *client,
                      *object,
                      caller_,
                      api.cmd,
                      call_.params.bytes,
                      call_.embedded.bytes,
                      call_.embedded.address,
                      call_.wait};
  return entry->handler(control);
}

}  // namespace cgpu::sim
