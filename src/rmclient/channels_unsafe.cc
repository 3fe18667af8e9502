#include <algorithm>

#include "rm/channel_params.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rmclient/channels.h"

namespace cgpu::rmclient {
namespace {

template <class Parameters>
Outcome MapMemoryDma(Client& client, Parameters params, rm::NvU64* address) {
  const int error = Escape(client.fd(), rm::NV_ESC_RM_MAP_MEMORY_DMA, &params, sizeof(params));
  *address = params.dmaOffset;
  return {error, params.status};
}

}  // namespace

Result<std::vector<rm::NvU32>> ClassesOf(Client& client, const Gpu& gpu) {
  const std::string what = "asking for the classes of GPU " + gpu.bdf;
  rm::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS params{};
  const auto ask = [&] {
    return Checked(
        client.Control(gpu.device, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, &params, sizeof(params)),
        what);
  };
  CGPU_TRY(ask());
  std::vector<rm::NvU32> classes(params.numClasses);
  params.classList = reinterpret_cast<rm::NvP64>(classes.data());
  CGPU_TRY(ask());
  return classes;
}

rm::NvU32 FirstOf(std::span<const rm::NvU32> wanted, const std::vector<rm::NvU32>& classes) {
  const auto found = std::ranges::find_if(wanted, [&classes](rm::NvU32 cls) {
    return std::ranges::find(classes, cls) != classes.end();
  });
  return found == wanted.end() ? 0 : *found;
}

Result<std::uint64_t> MapForGpu(Client& client, const Gpu& gpu, rm::NvHandle memory,
                                std::size_t length) {
  rm::NvHandle range = 0;
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  CGPU_TRY(
      Checked(client.Alloc(gpu.device, &range, rm::NV01_MEMORY_VIRTUAL, &params, sizeof(params)),
              "making a range of addresses of GPU " + gpu.bdf));
  std::uint64_t address = 0;
  const auto map = [&](auto params_of_version) {
    params_of_version.hClient = client.handle();
    params_of_version.hDevice = gpu.device;
    params_of_version.hDma = range;
    params_of_version.hMemory = memory;
    params_of_version.length = length;
    return MapMemoryDma(client, params_of_version, &address);
  };
  const bool longer = rm::EscapeAcceptsSize(client.abi(), rm::NV_ESC_RM_MAP_MEMORY_DMA,
                                            sizeof(rm::NVOS46_PARAMETERS_V580));
  CGPU_TRY(Checked(longer ? map(rm::NVOS46_PARAMETERS_V580{}) : map(rm::NVOS46_PARAMETERS_V535{}),
                   "mapping memory for GPU " + gpu.bdf));
  return address;
}

Result<rm::NvHandle> MakeChannel(Client& client, const Gpu& gpu, rm::NvHandle group,
                                 rm::NvU32 class_number, const ChannelPlaces& places) {
  rm::ChannelParams params;
  params.hObjectError = places.errors;
  params.gpFifoOffset = places.ring;
  params.gpFifoEntries = places.entries;
  params.hUserdMemory = places.userd;
  params.userdOffset = places.userd_offset;
  rm::NV_CHANNEL_ALLOC_PARAMS_V610 raw{};
  rm::NV_CHANNEL_ALLOC_PARAMS_V570 older{};
  rm::IntoLayout(params, raw);
  rm::IntoLayout(params, older.v535);
  rm::NvHandle channel = 0;
  CGPU_TRY(Checked(client.abi().branch >= rm::Branch::k610
                       ? client.Alloc(group, &channel, class_number, &raw, sizeof(raw))
                       : client.Alloc(group, &channel, class_number, &older, sizeof(older)),
                   "making a channel on GPU " + gpu.bdf));
  return channel;
}

Outcome ScheduleGroup(Client& client, rm::NvHandle group) {
  rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580 schedule{};
  schedule.bEnable = 1;
  return client.Control(group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &schedule,
                        rm::ControlSize(client.abi(), rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE));
}

}  // namespace cgpu::rmclient
