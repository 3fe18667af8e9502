// Controls that every program with NVIDIA's libraries asks when it starts (tests/gpu/records). What
// the simulation has no figure for is answered with zeros.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "sim/driver/control.h"
#include "sim/driver/more_controls.h"
#include "sim/model/more_classes.h"

namespace cgpu::sim {
namespace {

using enum ObjectKind;

constexpr rm::NvU64 kRegistersMiB = 16;

// kern_bus_ctrl.c getBusInfos(): of the counters of errors one is kept, which anybody resets.
rm::NvU32 BusInfo(const ControlCall& call, rm::NvU32 index) {
  rm::NvU32& errors = call.model.BusErrors(call.object.gpu);
  switch (index) {
    case rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS:
      return errors;
    case rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_AER:  // which of them there were
      return std::exchange(errors, 0U) != 0 ? 1 : 0;
    case rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS_CLEAR:
      errors = 0;
      return 0;
    default:
      return 0;
  }
}

// subdevice_ctrl_gpu_kernel.c getGpuInfos(): whether the GPU is divided.
rm::NvU32 GpuInfo(const ControlCall& call, rm::NvU32 index) {
  constexpr rm::NvU32 kSmcMode = 0x2A;  // NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE, ctrl2080gpu.h
  constexpr rm::NvU32 kUnsupported = 0;
  constexpr rm::NvU32 kDisabled = 2;
  const bool divisible = call.GetGpu().model->chip->Divisible();
  return index == kSmcMode && divisible ? kDisabled : kUnsupported;
}

// Answers nothing for most indices: a count, then as many pairs of an index and its value.
// subdeviceCtrlCmdGpuGetInfoV2_IMPL(), subdeviceCtrlCmdBusGetInfoV2_IMPL().
NvStatus NothingOfMostIndices(ControlCall& call) {
  constexpr std::size_t kPair = 2 * sizeof(rm::NvU32);
  const auto count = Load<rm::NvU32>(call.params);
  if (count > (call.params.size() - sizeof(count)) / kPair) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (std::size_t i = 1; i <= count; ++i) {
    const auto index = Load<rm::NvU32>(call.params.subspan(i * kPair - sizeof(rm::NvU32)));
    Store(call.params.subspan(i * kPair), call.cmd == rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2
                                              ? BusInfo(call, index)
                                              : GpuInfo(call, index));
  }
  return rm::NV_OK;
}

// cliresCtrlCmdSystemGetBuildVersion_IMPL(): the strings are left alone here.
NvStatus BuildVersion(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS>();
  params.changelistNumber = 0;
  params.officialChangelistNumber = 0;
  call.Put(params);
  return rm::NV_OK;
}

// cliresCtrlCmdClientSetInheritedSharePolicy_IMPL(): what the client itself is shared by.
NvStatus SetInheritedSharePolicy(ControlCall& call) {
  const rm::NvHandle client = call.client.handle;
  return call.model.Share(call.file, client, client, call.Get<rm::RS_SHARE_POLICY>(),
                          /*by_escape=*/false);
}

// cliresCtrlCmdClientGetAddrSpaceType_IMPL().
NvStatus AddrSpaceType(ControlCall& call) {
  struct NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS {  // ctrl0000/ctrl0000client.h
    rm::NvHandle hObject;
    rm::NvU32 mapFlags;
    rm::NvU32 addrSpaceType;
  };
  enum : rm::NvU32 { kSystemMemory = 1, kVideoMemory = 2, kRegisters = 3 };
  auto params = call.Get<NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS>();
  const Object* object = DriverModel::FindObject(call.client, params.hObject);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (object->kind == kUserMode || (object->block != nullptr && object->block->registers)) {
    params.addrSpaceType = kRegisters;
  } else if (object->block != nullptr) {
    params.addrSpaceType = object->block->gpu < 0 ? kSystemMemory : kVideoMemory;
  } else {
    return rm::NV_ERR_INVALID_OBJECT;
  }
  call.Put(params);
  return rm::NV_OK;
}

// fabric_vaspace and gpu_fabric_probe: no fabric.
NvStatus NoFabric(ControlCall& call) {
  call.Put(rm::NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP);
  return rm::NV_OK;
}

// subdeviceCtrlCmdGspGetFeatures_IMPL(): a system processor, with firmware of this version.
NvStatus GspFeatures(ControlCall& call) {
  struct NV2080_CTRL_GSP_GET_FEATURES_PARAMS {  // ctrl2080/ctrl2080gsp.h
    rm::NvU32 gspFeatures;
    rm::NvU8 bValid;
    rm::NvU8 bDefaultGspRmGpu;
    char firmwareVersion[64];
  };
  NV2080_CTRL_GSP_GET_FEATURES_PARAMS params{1, 1, 1, {}};
  const std::string version = rm::ToString(call.version);
  std::copy_n(version.begin(), std::min(version.size(), sizeof(params.firmwareVersion) - 1),
              params.firmwareVersion);
  call.Put(params);
  return rm::NV_OK;
}

// subdeviceCtrlCmdBusGetPciBarInfo_IMPL(): registers and the window to the memory.
NvStatus PciBars(ControlCall& call) {
  struct Bar {  // ctrl2080/ctrl2080bus.h
    rm::NvU32 flags;
    rm::NvU32 barSize;  // in MiB
    rm::NvU64 barSizeBytes;
    rm::NvU64 barOffset;
  };
  struct {
    rm::NvU32 pciBarCount;
    Bar pciBarInfo[8];
  } params{};
  const auto window = static_cast<rm::NvU64>(call.GetGpu().model->bar1_mib);
  params.pciBarCount = 2;
  params.pciBarInfo[0] = {0, static_cast<rm::NvU32>(kRegistersMiB), kRegistersMiB * kMiB, 0};
  params.pciBarInfo[1] = {0, static_cast<rm::NvU32>(window), window * kMiB, 0};
  call.Put(params);
  return rm::NV_OK;
}

// kernel_channel.c kchannelCtrlCmdGetClassEngineid(): of an object of the channel's.
NvStatus ClassEngineId(ControlCall& call) {
  struct NV906F_CTRL_GET_CLASS_ENGINEID_PARAMS {  // ctrl906f.h
    rm::NvHandle hObject;
    rm::NvU32 classEngineID;
    rm::NvU32 classID;
    rm::NvU32 engineID;
  };
  auto params = call.Get<NV906F_CTRL_GET_CLASS_ENGINEID_PARAMS>();
  const Object* object = DriverModel::FindObject(call.client, params.hObject);
  if (object == nullptr || object->kind != kEngine) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  params.classID = object->cls;
  params.classEngineID = object->cls;
  params.engineID = 0;
  call.Put(params);
  return rm::NV_OK;
}

// A GPU with this is on record with 5 (tests/gpu/records/580/cudart.txt).
NvStatus WatchdogInfo(ControlCall& call) {
  call.Put(rm::NvU32{5});
  return rm::NV_OK;
}

constexpr ControlEntry kStartEntries[] = {
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, kClient, BuildVersion},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS, kClient, NoFabric},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, kClient, AnswerZeros},
    {rm::NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, kClient, AnswerZeros},
    {rm::NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, kClient, AnswerZeros},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE, kClient, AddrSpaceType},
    {rm::NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, kClient, SetInheritedSharePolicy},
    {rm::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES, kOther, AnswerZeros},
    {rm::NV0080_CTRL_CMD_HOST_GET_CAPS_V2, kDevice, AnswerZeros},
    {rm::NV0080_CTRL_CMD_FB_GET_CAPS_V2, kDevice, AnswerZeros},
    {rm::NV0080_CTRL_CMD_MSENC_GET_CAPS_V2, kDevice, AnswerZeros},
    {rm::NV0080_CTRL_CMD_BSP_GET_CAPS_V2, kDevice, AnswerZeros},
    {rm::NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, kDevice, AnswerZeros},
    {rm::NV0080_CTRL_CMD_GPU_GET_VGX_CAPS, kDevice, AnswerZeros},    // not for virtual GPUs
    {rm::NV0080_CTRL_CMD_GPU_GET_BRAND_CAPS, kDevice, AnswerZeros},  // of no brand with a bit
    // NV0080_CTRL_GPU_SW_STATE_PERSISTENCE_ENABLED is 0: a GPU stays started here.
    {rm::NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE, kDevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_GPU_GET_INFO_V2, kSubdevice, NothingOfMostIndices},
    {rm::NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_GPU_RELEASE_COMPUTE_MODE_RESERVATION, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2, kSubdevice, NothingOfMostIndices},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO, kSubdevice, PciBars},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_BUS_GET_PEX_COUNTERS, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_BUS_GET_C2C_INFO, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_CE_GET_ALL_CAPS, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_GR_GET_CAPS_V2, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_GSP_GET_FEATURES, kSubdevice, GspFeatures},
    {rm::NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, kSubdevice, AnswerZeros},
    {rm::NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO, kSubdevice, WatchdogInfo},
    {rm::NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_TIMER_GET_TIME, kSubdevice, AnswerZeros},
    {rm::NV906F_CTRL_GET_CLASS_ENGINEID, kChannel, ClassEngineId},
    {rm::NVC36F_CTRL_GET_CLASS_ENGINEID, kChannel, ClassEngineId},
};

}  // namespace

NvStatus Accept(ControlCall& /*call*/) {
  return rm::NV_OK;
}

NvStatus AnswerZeros(ControlCall& call) {
  std::fill(call.params.begin(), call.params.end(), std::byte{0});
  return rm::NV_OK;
}

std::span<const ControlEntry> StartControls() {
  return kStartEntries;
}

}  // namespace cgpu::sim
