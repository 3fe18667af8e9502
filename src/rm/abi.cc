#include "rm/abi.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "rm/nv_alloc.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_structs.h"

namespace cgpu::rm {
namespace {

constexpr Abi k550 = {
    .branch = Branch::k550,
    .name = "550",
    .reference = {550, 163, 1},
    .first = {550, 40, 7},
    .last = {550, 163, 1},
    .nvos46_size = sizeof(NVOS46_PARAMETERS_V550),
    .dma_buf_size = 2600,
    .channel_alloc_size = sizeof(NV_CHANNEL_ALLOC_PARAMS_V550),
    .vaspace_alloc_size = sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V550),
    .fb_info_v2_size = sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550),
    .fb_info_v2_count = 55,
    .fb_region_info_size = sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V550),
    .fb_region_stride = sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V550),
    .probed_ids_size = sizeof(NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V550),
    .build_version_v2_size = sizeof(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V550),
    .classlist_v2_size = sizeof(NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V550),
    .gr_info_v2_size = sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V550),
    .gpfifo_schedule_size = sizeof(NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V550),
};

constexpr Abi k580 = {
    .branch = Branch::k580,
    .name = "580",
    .reference = {580, 95, 5},
    .first = {580, 65, 6},
    .last = {580, 142, 0},
    .nvos46_size = sizeof(NVOS46_PARAMETERS_V580),
    .dma_buf_size = 2608,
    .channel_alloc_size = sizeof(NV_CHANNEL_ALLOC_PARAMS_V580),
    .vaspace_alloc_size = sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V580),
    .fb_info_v2_size = sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580),
    .fb_info_v2_count = 128,
    .fb_region_info_size = sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V580),
    .fb_region_stride = sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V580),
    .probed_ids_size = sizeof(NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V580),
    .build_version_v2_size = sizeof(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V580),
    .classlist_v2_size = sizeof(NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V580),
    .gr_info_v2_size = sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V580),
    .gpfifo_schedule_size = sizeof(NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580),
};

constexpr std::array<const Abi*, 2> kAbis = {&k550, &k580};

// Takes a decimal number of at most four digits off the front of `text`.
std::optional<unsigned> TakeNumber(std::string_view& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || digits > 4) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  return value;
}

}  // namespace

std::optional<DriverVersion> ParseDriverVersion(std::string_view text) {
  std::array<unsigned, 3> parts = {};
  std::size_t count = 0;
  while (true) {
    const std::optional<unsigned> number = TakeNumber(text);
    if (!number) {
      return std::nullopt;
    }
    parts.at(count++) = *number;
    if (text.empty()) {
      break;
    }
    if (text.front() != '.' || count == parts.size()) {
      return std::nullopt;
    }
    text.remove_prefix(1);
  }
  if (count < 2) {
    return std::nullopt;
  }
  return DriverVersion{parts[0], parts[1], parts[2]};
}

std::string ToString(DriverVersion version) {
  std::array<char, 48> text{};
  if (version.patch == 0) {
    std::snprintf(text.data(), text.size(), "%u.%02u", version.major, version.minor);
  } else {
    std::snprintf(text.data(), text.size(), "%u.%02u.%02u", version.major, version.minor,
                  version.patch);
  }
  return text.data();
}

const Abi* FindAbi(DriverVersion version) {
  for (const Abi* abi : kAbis) {
    if (abi->first <= version && version <= abi->last) {
      return abi;
    }
  }
  return nullptr;
}

const Abi& GetAbi(Branch branch) {
  return branch == Branch::k550 ? k550 : k580;
}

std::string SupportedDrivers() {
  std::string text;
  for (const Abi* abi : kAbis) {
    text += (text.empty() ? "" : " and ") + ToString(abi->first) + " to " + ToString(abi->last);
  }
  return text;
}

Error UnsupportedDriver(std::string_view version) {
  return Error{
      Code::kUnsupported, 0,
      "NVIDIA driver " + std::string(version) + " is not one whose interface this cgpu knows",
      "install a driver from " + SupportedDrivers() + ", or a cgpu that knows this one"};
}

}  // namespace cgpu::rm
