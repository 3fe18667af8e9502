// Driver versions and what differs between their ABIs.
//
// A branch is a run of driver releases whose structures, as far as this module knows them, are laid
// out alike. That was checked by compiling the headers of every release tag published in
// NVIDIA/open-gpu-kernel-modules: 550.40.07 to 550.163.01 (34 tags) and 580.65.06 to 580.142 (21
// tags). A version outside these runs is not supported: nothing here guesses.
#ifndef CGPU_RM_ABI_H_
#define CGPU_RM_ABI_H_

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rm/by_branch.h"
#include "rm/nv_types.h"

namespace cgpu::rm {

struct DriverVersion {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;  // 0 when the version has two parts, as 550.67 has

  friend auto operator<=>(const DriverVersion&, const DriverVersion&) = default;
};

// "550.163.01" or "550.67"; nullopt for anything else.
[[nodiscard]] std::optional<DriverVersion> ParseDriverVersion(std::string_view text);
// As the driver itself writes it: two digits at least in the second and third part.
[[nodiscard]] std::string ToString(DriverVersion version);

// Sizes and counts that differ between branches.
struct Abi {
  Branch branch;
  std::string_view name;        // "550"
  DriverVersion reference;      // the release its layouts were read from
  DriverVersion first, last;    // the releases it is known to fit, both included
  NvU32 nvos46_size;            // NV_ESC_RM_MAP_MEMORY_DMA
  NvU32 dma_buf_size;           // NV_ESC_EXPORT_TO_DMABUF_FD
  NvU32 channel_alloc_size;     // NV_CHANNEL_ALLOC_PARAMS
  NvU32 vaspace_alloc_size;     // NV_VASPACE_ALLOCATION_PARAMETERS
  NvU32 fb_info_v2_size;        // NV2080_CTRL_FB_GET_INFO_V2_PARAMS
  NvU32 fb_info_v2_count;       // entries of its list
  NvU32 fb_region_info_size;    // NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS
  NvU32 fb_region_stride;       // bytes from one of its regions to the next
  NvU32 probed_ids_size;        // NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS
  NvU32 build_version_v2_size;  // NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS
  NvU32 classlist_v2_size;      // NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS
  NvU32 gr_info_v2_size;        // NV2080_CTRL_GR_GET_INFO_V2_PARAMS
  NvU32 gpfifo_schedule_size;   // NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS
};

// The ABI of a driver release, or nullptr when that release is not supported.
[[nodiscard]] const Abi* FindAbi(DriverVersion version);
[[nodiscard]] const Abi& GetAbi(Branch branch);

// "550.40.07 to 550.163.01 and 580.65.06 to 580.142".
[[nodiscard]] std::string SupportedDrivers();
// What to tell a user whose driver FindAbi() does not know.
[[nodiscard]] Error UnsupportedDriver(std::string_view version);

}  // namespace cgpu::rm

#endif  // CGPU_RM_ABI_H_
