#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "os/mounts.h"
#include "sandbox/mount_tree.h"
#include "sandbox/mount_tree_parts.h"
#include "sandbox/own_folders.h"

namespace cgpu {
namespace {

Error DevConflict(std::string what) {
  return Error{Code::kConflict, 0, "the container's /dev " + std::move(what),
               "leave /dev to the container engine: no volume over it and no GPU's files in it"};
}

// Opens a folder of the root that is no link; with `magic`, one of that file system (statfs(2)).
UniqueFd OpenOwnFolder(const char* path, long magic = 0) {
  UniqueFd fd(open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct statfs fs{};
  if (fd.valid() && magic != 0 && (fstatfs(fd.get(), &fs) != 0 || fs.f_type != magic)) {
    fd.reset();
  }
  return fd;
}

// Checks that /dev is a file system that the runtime made for this container. A file system of the
// machine is mounted elsewhere too: `mounts` is everything that this mount namespace has. (A shared
// root makes two mounts of one below the container's root; so does a volume that holds that root.)
Result<> CheckDev(const UniqueFd& dev, const std::vector<MountEntry>& mounts) {
  if (!dev.valid()) {
    return DevConflict("is no folder of its own");
  }
  CGPU_ASSIGN_OR_RETURN(const auto found, FindMount(dev.get(), "/dev"));
  const auto own = std::ranges::find(mounts, found.id, &MountEntry::id);
  if (!found.begins || own == mounts.end() || own->type != "tmpfs" || own->root != "/") {
    return DevConflict("is no tmpfs of its own");
  }
  const std::string root = own->point.substr(0, own->point.rfind('/') + 1);
  if (std::ranges::any_of(mounts, [&](const MountEntry& mount) {
        return mount.device == own->device && !mount.point.starts_with(root);
      })) {
    return DevConflict("is a tmpfs that is mounted elsewhere too");
  }
  return {};
}

// Checks a device that the runtime had to make against the source's mount copy.
Result<> CheckDeviceFile(const DeviceFile& device, const UniqueFd& source) {
  struct stat wanted{};
  struct stat there{};
  if (fstat(source.get(), &wanted) != 0) {
    return MountError("cannot ask about " + device.source);
  }
  if (lstat(("/dev/" + device.name).c_str(), &there) != 0 || !S_ISCHR(there.st_mode) ||
      there.st_rdev != wanted.st_rdev) {
    return DevConflict("has no device file " + device.name + " like " + device.source);
  }
  return {};
}

// Checks that the device files that the runtime had to make are there, and nothing else of
// NVIDIA's.
Result<> CheckDevFiles(const std::vector<DeviceFile>& devices,
                       const std::vector<UniqueFd>& sources) {
  std::set<std::string> made_by_runtime;
  std::set<std::string> ours = {kDevFolder};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].via_folder) {
      ours.insert(devices[i].name);
      continue;
    }
    made_by_runtime.insert(devices[i].name);
    CGPU_TRY(CheckDeviceFile(devices[i], sources[i]));
  }
  if (OpenDir(AT_FDCWD, "/dev") == nullptr) {
    return MountError("cannot read the container's /dev");
  }
  for (const std::string& path : EntriesOf("/dev", "")) {
    const std::string name = LastComponent(path);
    if (ours.contains(name) || (name.starts_with("nvidia") && !made_by_runtime.contains(name))) {
      return DevConflict("has a file " + name + " already");
    }
  }
  return {};
}

// Adds a folder to /dev. The runtime may have made /dev read-only by now, so it is changed through
// another way to it.
Result<> AddFolder(int dev, const DeviceFile& device, const UniqueFd& clone) {
  const std::string folder = kDevFolder + ("/" + LastComponent(device.source));
  const std::string target = folder + "/" + device.name;
  if ((mkdirat(dev, kDevFolder, 0755) != 0 && errno != EEXIST) ||
      (mkdirat(dev, folder.c_str(), 0755) != 0 && errno != EEXIST) ||
      symlinkat(target.c_str(), dev, device.name.c_str()) != 0) {
    return MountError("cannot make /dev/" + device.name);
  }
  CGPU_TRY(KeepMountsHere(clone.get(), device.source));
  return Attach(clone, "/dev/" + folder);
}

Result<> AddProver(int dev, const UniqueFd& clone) {
  const std::string path = std::string(kProver).substr(std::string_view("/dev/").size());
  if (mkdirat(dev, kDevFolder, 0755) != 0 && errno != EEXIST) {
    return MountError("cannot make the folder of " + path);
  }
  const UniqueFd place(openat(dev, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  if (!place.valid()) {
    return MountError("cannot make /dev/" + path);
  }
  CGPU_TRY(Restrict(clone, path));
  return Attach(clone, kProver);
}

Result<> AddToDev(const UniqueFd& dev, const GpuTree& tree, const NodeFiles& files) {
  const std::vector<UniqueFd>& clones = files.devices;
  CGPU_TRY(CheckDevFiles(tree.devices, clones));
  CGPU_TRY(KeepMountsHere(dev.get(), "/dev"));
  CGPU_ASSIGN_OR_RETURN(const auto writable, WritableClone(dev.get(), "/dev"));
  for (std::size_t i = 0; i < tree.devices.size(); ++i) {
    if (tree.devices[i].via_folder) {
      CGPU_TRY(AddFolder(writable.get(), tree.devices[i], clones[i]));
    }
  }
  return files.prover.valid() ? AddProver(writable.get(), files.prover) : Result<>();
}

// Adds the folders of `own` that the container has to those that are hidden. Called in the
// container's root: `places` are paths there.
Result<> HideOwn(const std::vector<std::string>& places, GpuTree& tree) {
  for (const std::string& place : places) {
    struct stat st{};
    if (place == "/" || (lstat(place.c_str(), &st) == 0 && !S_ISDIR(st.st_mode))) {
      return Error{Code::kConflict, 0, "the container would have " + place + " of cgpu itself",
                   "leave that mount out"};
    }
    tree.hide.push_back(place);
  }
  return {};
}

Result<> EnterRoot(const std::string& rootfs) {
  if (chdir(rootfs.c_str()) != 0 || chroot(".") != 0 || chdir("/") != 0) {
    return MountError("cannot go into " + rootfs);
  }
  return {};
}

}  // namespace

Result<> MountGpuTreeAt(const GpuTree& tree, const std::string& rootfs) {
  const UmaskGuard everyone_may_read;
  CGPU_ASSIGN_OR_RETURN(const auto files, TakeFromNode(tree));
  CGPU_ASSIGN_OR_RETURN(const auto mounts, ReadMounts());  // all, not only the container's
  std::error_code gone;
  const auto root = std::filesystem::canonical(rootfs, gone);
  if (gone) {
    return ErrnoError(Code::kInternal, gone.value(), "cannot find " + rootfs);
  }
  CGPU_ASSIGN_OR_RETURN(const auto own, FindOwnFolders(tree.own, root, mounts));
  CGPU_TRY(EnterRoot(root));
  GpuTree shown = tree;
  CGPU_TRY(HideOwn(own, shown));
  const UniqueFd dev = OpenOwnFolder("/dev");
  CGPU_TRY(CheckDev(dev, mounts));
  CGPU_TRY(AddToDev(dev, tree, files));
  if (!OpenOwnFolder("/proc", PROC_SUPER_MAGIC).valid()) {
    shown.proc_source.clear();
  }
  if (!OpenOwnFolder("/sys", SYSFS_MAGIC).valid()) {
    shown.pci_source.clear();
  }
  return MountViews(shown, files, [](const std::string& folder) -> Result<> {
    const std::string have = ExistingFolder(folder);
    const UniqueFd fd(open(have.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return fd.valid() ? KeepMountsHere(fd.get(), have) : MountError("cannot open " + have);
  });
}

}  // namespace cgpu
