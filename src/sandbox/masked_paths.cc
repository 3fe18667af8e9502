#include "sandbox/masked_paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/file.h"
#include "os/mounts.h"
#include "sandbox/machine_devices.h"

namespace cgpu {
namespace {

// github.com/moby/moby oci/defaults.go, ReadonlyPaths, and the mount options of sysfs there.
constexpr const char* kReadOnly[] = {"/proc/bus",           "/proc/fs", "/proc/irq", "/proc/sys",
                                     "/proc/sysrq-trigger", "/sys"};
// MaskedPaths of the same file.
constexpr const char* kMasked[] = {
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list",
    "/proc/timer_stats", "/proc/latency_stats", "/proc/sched_debug", "/sys/firmware",
    "/sys/devices/virtual/powercap",
    // Paths that an engine's new sysfs lacks, or for which a container has no capability.
    "/proc/vmcore", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf"};
// File systems that control or show the kernel, if a machine mounts them outside /proc and /sys.
constexpr std::string_view kHiddenTypes[] = {"bpf", "debugfs", "tracefs"};
constexpr std::string_view kControlTypes[] = {"binfmt_misc", "cgroup",     "cgroup2",
                                              "configfs",    "efivarfs",   "fusectl",
                                              "pstore",      "securityfs", "resctrl"};
constexpr std::string_view kCopiedTypes[] = {"devtmpfs", "proc", "sysfs"};

template <std::size_t kSize>
bool IsAmong(const std::string_view (&names)[kSize], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

// Binds `source` on `target`; skips a source that does not exist.
Result<> BindOver(const std::string& source, const std::string& target) {
  auto clone = CloneMount(AT_FDCWD, source);
  if (!clone.ok()) {
    return clone.error().code == Code::kNotFound ? Result<>() : clone.error();
  }
  return Attach(*clone, target);
}

bool Exists(const std::string& path) {
  struct stat st{};
  return lstat(path.c_str(), &st) == 0;
}

Result<> Mask(const std::string& path) {
  if (IsDirectory(path)) {
    return HideFolder(path);
  }
  return Exists(path) ? BindOver("/dev/null", path) : Result<>();
}

// Masks paths in a mount, elsewhere, of the kind that is at `own`. A part of such a file system is
// judged by what it is.
Result<> MaskCopy(const MountEntry& mount, const char* own) {
  struct stat st{};
  if (mount.root == "/") {
    return BindOver(own, mount.point);
  }
  if (mount.type != "devtmpfs") {
    return MakeReadOnly(mount.point);
  }
  if (lstat(mount.point.c_str(), &st) == 0 && !S_ISDIR(st.st_mode) &&
      !IsMachineDevice(mount.root.substr(1), st, {})) {
    return {};
  }
  return Mask(mount.point);
}

bool IsReadOnlyPath(const std::string& path) {
  return std::ranges::any_of(kReadOnly,
                             [&](const char* folder) { return IsAtOrBelow(path, folder); });
}

// Other mounts are not even looked up: their file system's server may not answer.
bool Concerns(const MountEntry& mount) {
  return IsReadOnlyPath(mount.point) || IsAmong(kHiddenTypes, mount.type) ||
         IsAmong(kControlTypes, mount.type) || IsAmong(kCopiedTypes, mount.type);
}

Result<> MaskMount(const MountEntry& mount) {
  if (IsAmong(kHiddenTypes, mount.type)) {
    return Mask(mount.point);
  }
  return IsReadOnlyPath(mount.point) || IsAmong(kControlTypes, mount.type)
             ? MakeReadOnly(mount.point)
             : Result<>();
}

// Makes a proc, sysfs or devtmpfs elsewhere the one of /proc, /sys or /dev.
Result<> MaskCopies(const MountEntry& mount) {
  for (const char* own : {"/proc", "/sys", "/dev"}) {
    if (IsAtOrBelow(mount.point, own)) {
      return {};
    }
  }
  if (mount.type == "proc") {
    return MaskCopy(mount, "/proc");
  }
  if (mount.type == "sysfs") {
    return MaskCopy(mount, "/sys");
  }
  return mount.type == "devtmpfs" ? MaskCopy(mount, "/dev") : Result<>();
}

// Checks that nothing was missed.
Result<> CheckReadOnly(const std::string& path) {
  struct statvfs fs{};
  if (Exists(path) && (statvfs(path.c_str(), &fs) != 0 || (fs.f_flag & ST_RDONLY) == 0)) {
    return Error{Code::kInternal, 0, path + " did not become read-only", {}};
  }
  return {};
}

}  // namespace

Result<> MaskMachine() {
  for (const char* path : kReadOnly) {
    CGPU_TRY(BindOver(path, path));  // a mount of its own, to be made read-only
  }
  for (const char* path : kMasked) {
    CGPU_TRY(Mask(path));
  }
  CGPU_ASSIGN_OR_RETURN(const auto mounts, ReadMounts());
  for (const auto step : {MaskMount, MaskCopies}) {  // the copied mounts must be final
    for (const MountEntry& mount : mounts) {
      if (Concerns(mount) && IsOnTop(mount)) {
        CGPU_TRY(step(mount));
      }
    }
  }
  for (const char* path : kReadOnly) {
    CGPU_TRY(CheckReadOnly(path));
  }
  return {};
}

}  // namespace cgpu
