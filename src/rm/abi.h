// Driver versions, and what differs between their ABIs.
//
// A branch stands for a run of driver releases with the same layout in what this module knows of
// them: structures, escapes, controls, classes and nvidia-uvm's requests, by the numbers, sizes and
// offsets in testdata/. The headers of every release tag of NVIDIA/open-gpu-kernel-modules that
// lies in one of these runs were compiled and compared with the branch's reference
// (tools/driver_layouts.py --alike). Where a row differed within a run, it is unknown in that
// branch and says why. Three things do differ: NV_LOCKLESS_DIAGNOSTIC_PARAMS on 550, whose size the
// driver does not check there; MSENC_GET_CAPS_V2 on 580, which has another size in its first
// releases and is refused on them (controls/ctrl0080.inc); and commands and classes that came later
// within the branch, which an older release refuses itself. Releases without a tag were not
// compared.
//
// A release later than the last of these runs and of the same major number is taken as that branch,
// and cgpu tells a user that starts something on it (NotCompared()). That is a conclusion, not a
// comparison: of 190 steps from one release to the next within a branch, in all 16 branches that
// are public, 4 changed what a program's calls depend on. All 4 were the first or second step of
// their branch; the 152 later steps changed nothing of the kind. docs/reference/drivers.md has the
// count, and what was found after it. Every other version is refused: one before a run, and one of
// a major number that is not here, as each new branch did change something. The driver reports its
// version (NV_ESC_CHECK_VERSION_STR, NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2) but no sizes, so
// none of it can be tested at the start. docs/howto/add-a-driver-version.md says how to add a
// release.
#ifndef CGPU_RM_ABI_H_
#define CGPU_RM_ABI_H_

#include <compare>
#include <optional>
#include <span>
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

// Parses "550.163.01" or "550.67"; nullopt for anything else.
[[nodiscard]] std::optional<DriverVersion> ParseDriverVersion(std::string_view text);
// Returns the version as the driver writes it: at least two digits in the second and third part.
[[nodiscard]] std::string ToString(DriverVersion version);

// The sizes of parameters by branch are in the tables: escape_table.h, class_table.h and
// control_table.h.
struct Abi {
  Branch branch;
  std::string_view name;      // "550"
  DriverVersion reference;    // the release its layouts were read from
  DriverVersion first, last;  // the releases it was compared with, both included
  NvU32 fb_info_v2_count;     // entries of NV2080_CTRL_FB_GET_INFO_V2_PARAMS' list
  NvU32 fb_region_stride;     // bytes from one region of ..._FB_REGION_INFO_PARAMS to the next
};

// Returns the ABIs of all branches, the oldest first.
[[nodiscard]] std::span<const Abi> Abis();
// Returns the ABI of a driver release; nullptr when that release is not supported.
[[nodiscard]] const Abi* FindAbi(DriverVersion version);
// Returns a sentence for the user of a release that FindAbi() takes as a branch although it was not
// compared. Empty for every other release.
[[nodiscard]] std::string NotCompared(DriverVersion version);
[[nodiscard]] std::string NotCompared(std::string_view version);
[[nodiscard]] const Abi& GetAbi(Branch branch);
// Parses a version; "580" means the reference release of that branch. Fails with
// UnsupportedDriver() when FindAbi() does not know the release.
[[nodiscard]] Result<DriverVersion> SupportedVersion(std::string_view text);

// Returns "550.54.14 and later of 550, 580.65.06 and later of 580".
[[nodiscard]] std::string SupportedDrivers();
// Returns the error for a user whose driver FindAbi() does not know.
[[nodiscard]] Error UnsupportedDriver(std::string_view version);

}  // namespace cgpu::rm

#endif  // CGPU_RM_ABI_H_
