// Controls that show a GPU's memory: kern_mem_sys_ctrl.c and mem_mgr_ctrl.c of the driver.
#include <cstddef>

#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

rm::NvU32 ToKiB(rm::NvU64 bytes) {
  return static_cast<rm::NvU32>(bytes / kKiB);
}

// _kmemsysGetFbInfos(). An index it does not know is answered with 0.
rm::NvU32 FbInfo(const ControlCall& call, rm::NvU32 index) {
  const GpuMemory& memory = call.model.Memory(call.object.gpu);
  const GpuMemory& bar1 = call.model.Bar1(call.object.gpu);
  const GpuModel& model = *call.GetGpu().model;
  switch (index) {
    case rm::NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
      return ToKiB(memory.Total());
    case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
      return ToKiB(memory.Free());
    case rm::NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_BASE_KB:
      return ToKiB(memory.Used());
    case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE:
      return ToKiB(bar1.Total());
    case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE:
    case rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_MAX_CONTIGUOUS_AVAIL_SIZE:
      return ToKiB(bar1.Free());
    case 0x0B:  // BUS_WIDTH
      return model.bus_width;
    case 0x0D:  // RAM_TYPE
      return model.ram_type;
    case 0x1B:  // L2CACHE_SIZE
      return model.l2_bytes;
    case rm::NV2080_CTRL_FB_INFO_INDEX_BANK_COUNT:
      return 1;
    default:
      return 0;
  }
}

// rmapi_deprecated_control.c V2_CONVERTER of FB_GET_INFO: the list is elsewhere in memory.
NvStatus FbGetInfo(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_FB_GET_INFO_PARAMS>();
  if (params.fbInfoListSize == 0 || call.embedded.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < params.fbInfoListSize; ++i) {
    const auto place = call.embedded.subspan(i * sizeof(rm::NV2080_CTRL_FB_INFO));
    auto info = Load<rm::NV2080_CTRL_FB_INFO>(place);
    info.data = FbInfo(call, info.index);
    Store(place, info);
  }
  return rm::NV_OK;
}

// subdeviceCtrlCmdFbGetInfoV2_IMPL().
NvStatus FbGetInfoV2(ControlCall& call) {
  const auto count = Load<rm::NvU32>(call.params);
  if (count == 0 || count > call.model.DriverAbi().fb_info_v2_count) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  constexpr std::size_t kList = offsetof(rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550, fbInfoList);
  for (rm::NvU32 i = 0; i < count; ++i) {
    const auto place = call.params.subspan(kList + i * sizeof(rm::NV2080_CTRL_FB_INFO));
    auto info = Load<rm::NV2080_CTRL_FB_INFO>(place);
    info.data = FbInfo(call, info.index);
    Store(place, info);
  }
  return rm::NV_OK;
}

// subdeviceCtrlCmdFbGetFBRegionInfo_IMPL(): one region, the whole GPU.
template <class T>
NvStatus OneRegion(ControlCall& call) {
  T params{};
  params.numFBRegions = 1;
  params.fbRegion[0].base = 0;
  params.fbRegion[0].limit = call.model.Memory(call.object.gpu).Total() - 1;
  params.fbRegion[0].performance = 100;
  params.fbRegion[0].supportCompressed = 1;
  params.fbRegion[0].supportISO = 1;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus FbGetRegionInfo(ControlCall& call) {
  return call.model.DriverAbi().branch < rm::Branch::k580
             ? OneRegion<rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V535>(call)
             : OneRegion<rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V580>(call);
}

constexpr EmbeddedPointer kFbInfoList{offsetof(rm::NV2080_CTRL_FB_GET_INFO_PARAMS, fbInfoList),
                                      offsetof(rm::NV2080_CTRL_FB_GET_INFO_PARAMS, fbInfoListSize),
                                      sizeof(rm::NV2080_CTRL_FB_INFO), 128};
using enum ObjectKind;
constexpr ControlEntry kMemoryEntries[] = {
    {rm::NV2080_CTRL_CMD_FB_GET_INFO, kSubdevice, FbGetInfo, Privilege::kAny, kFbInfoList},
    {rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, kSubdevice, FbGetInfoV2},
    {rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, kSubdevice, FbGetRegionInfo},
};

}  // namespace

std::span<const ControlEntry> MemoryControls() {
  return kMemoryEntries;
}

}  // namespace cgpu::sim
