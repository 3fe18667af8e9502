// Controls about the board: the VBIOS, the InfoROM, the performance state. The versions are made
// up: public outputs of nvidia-smi -q have such on boards with these chips, with the first number
// of the VBIOS as here (92.00.9E.00.02 and OEM 2.0, ECC 6.1 of an A100; 94.02.5C.00.04 and OEM 2.0,
// ECC 6.16 of an A10).
#include <algorithm>
#include <cstddef>
#include <string_view>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl_board.h"
#include "sim/driver/bytes.h"
#include "sim/driver/control.h"
#include "sim/model/chip.h"

namespace cgpu::sim {
namespace {

using enum ObjectKind;

// Returns the first of the five numbers of the VBIOS's version.
rm::NvU32 BiosOf(const Chip* chip) {
  return chip == &kGv100   ? 0x88
         : chip == &kTu104 ? 0x90
         : chip == &kGa100 ? 0x92
         : chip == &kGa102 ? 0x94
                           : 0x96;
}

NvStatus BiosInfo(ControlCall& call) {
  const auto count = call.Get<rm::NV2080_CTRL_BIOS_GET_INFO_PARAMS>().biosInfoListSize;
  if (count == 0 || call.embedded.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < count; ++i) {
    const auto place = call.embedded.subspan(i * sizeof(rm::NV2080_CTRL_BIOS_INFO));
    auto info = Load<rm::NV2080_CTRL_BIOS_INFO>(place);
    if (info.index == rm::NV2080_CTRL_BIOS_INFO_INDEX_REVISION) {
      info.data = BiosOf(call.GetGpu().model->chip) << 24;
    } else if (info.index == rm::NV2080_CTRL_BIOS_INFO_INDEX_OEM_REVISION) {
      info.data = 1;
    } else {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    Store(place, info);
  }
  return rm::NV_OK;
}

NvStatus InforomImageVersion(ControlCall& call) {
  constexpr std::string_view kVersion = "G000.0000.00.01";
  rm::NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS params{};
  std::ranges::copy(kVersion, params.version);
  call.Put(params);
  return rm::NV_OK;
}

NvStatus InforomObjectVersion(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS>();
  const std::string_view object(params.objectType, sizeof(params.objectType));
  if (object == "OEM") {
    params.version = 2;
    params.subversion = 0;
  } else if (object == "ECC") {
    params.version = 6;
    params.subversion = 16;
  } else if (object != "OBD") {  // the board, which programs ask for; its version is 0.0 here
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  call.Put(params);
  return rm::NV_OK;
}

// A GPU here has one state.
NvStatus CurrentPstate(ControlCall& call) {
  call.Put(rm::NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS{1});
  return rm::NV_OK;
}

constexpr EmbeddedPointer kBiosInfoList{
    offsetof(rm::NV2080_CTRL_BIOS_GET_INFO_PARAMS, biosInfoList),
    offsetof(rm::NV2080_CTRL_BIOS_GET_INFO_PARAMS, biosInfoListSize),
    sizeof(rm::NV2080_CTRL_BIOS_INFO), 15};  // NV2080_CTRL_BIOS_INFO_MAX_SIZE
constexpr ControlEntry kBoardEntries[] = {
    {rm::NV2080_CTRL_CMD_BIOS_GET_INFO, kSubdevice, BiosInfo, Privilege::kAny, kBiosInfoList},
    {rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_IMAGE_VERSION, kSubdevice, InforomImageVersion},
    {rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION, kSubdevice, InforomObjectVersion},
    {rm::NV2080_CTRL_CMD_PERF_GET_CURRENT_PSTATE, kSubdevice, CurrentPstate},
};

}  // namespace

std::span<const ControlEntry> BoardControls() {
  return kBoardEntries;
}

}  // namespace cgpu::sim
