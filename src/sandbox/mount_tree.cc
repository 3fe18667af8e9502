#include "sandbox/mount_tree.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>

#include "base/fd.h"
#include "base/file.h"
#include "os/mounts.h"
#include "sandbox/machine_devices.h"
#include "sandbox/masked_paths.h"
#include "sandbox/mount_tree_parts.h"

namespace cgpu {
namespace {

// NVIDIA's registered character device; the other majors (nvidia-uvm, nvidia-caps) are dynamic.
// NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/common/inc/nv.h NV_MAJOR_DEVICE_NUMBER.
constexpr unsigned kNvidiaMajor = 195;
// Returns the character device majors of NVIDIA's drivers: lines "195 nvidia" of /proc/devices.
std::set<unsigned> NvidiaMajors() {
  std::set<unsigned> majors{kNvidiaMajor};
  const auto text = ReadFile("/proc/devices");
  std::string_view rest = text.ok() ? std::string_view(*text) : std::string_view();
  rest = rest.substr(0, rest.find("Block devices:"));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    unsigned major = 0;
    const auto [tail, ec] = std::from_chars(line.data(), line.data() + line.size(), major);
    if (ec == std::errc() &&
        line.substr(static_cast<std::size_t>(tail - line.data())).starts_with(" nvidia")) {
      majors.insert(major);
    }
  }
  return majors;
}

Result<> AttachDevices(const std::vector<DeviceFile>& devices,
                       const std::vector<UniqueFd>& clones) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string path = "/dev/" + devices[i].name;
    if (!devices[i].via_folder) {
      CGPU_TRY(WriteFile(path, ""));
      CGPU_TRY(Attach(clones[i], path));
      continue;
    }
    const std::string folder = kDevFolder + ("/" + LastComponent(devices[i].source));
    CGPU_TRY(MakeDirectories("/dev/" + folder));
    CGPU_TRY(Attach(clones[i], "/dev/" + folder));
    CGPU_TRY(MakeLink(folder + "/" + devices[i].name, path));
  }
  return {};
}

Result<> MountDev(const GpuTree& tree, const std::vector<UniqueFd>& clones) {
  const std::set<unsigned> majors = NvidiaMajors();
  const std::set<dev_t> terminals = OwnTerminals();
  CGPU_TRY(MirrorDirectory(
      "/dev", MS_NOSUID | MS_NOEXEC, [&](const std::string& path, const struct stat& st) {
        return path.starts_with("nvidia") || path == kDevFolder || path == "dri" ||
               (S_ISCHR(st.st_mode) && majors.contains(major(st.st_rdev))) ||
               (tree.mask_machine && IsMachineDevice(path, st, terminals));
      }));
  return AttachDevices(tree.devices, clones);
}

}  // namespace

Result<> MountGpuTree(const GpuTree& tree) {
  const UmaskGuard everyone_may_read;
  CGPU_ASSIGN_OR_RETURN(const auto files, TakeFromNode(tree));
  CGPU_TRY(MountDev(tree, files.devices));
  CGPU_TRY(MountViews(tree, files, [](const std::string&) { return Result<>(); }));
  return tree.mask_machine ? MaskMachine() : Result<>();
}

}  // namespace cgpu
