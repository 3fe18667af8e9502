#include "kernel/mount_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/file.h"

namespace cgpu {
namespace {

// Longest file of /proc/driver/nvidia or a PCI device's sysfs folder that is copied.
constexpr std::size_t kCopyLimit = 64 * 1024;
// NVIDIA's registered character device; the other majors (nvidia-uvm, nvidia-caps) are dynamic.
// NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/common/inc/nv.h NV_MAJOR_DEVICE_NUMBER.
constexpr unsigned kNvidiaMajor = 195;

Error MountError(std::string what) {
  const int saved = errno;
  Error error = ErrnoError(saved == EPERM || saved == EACCES ? Code::kPermission : Code::kInternal,
                           saved, std::move(what));
  return error;
}

using DirPtr = std::unique_ptr<DIR, int (*)(DIR*)>;

DirPtr OpenDir(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr && fd >= 0) {
    close(fd);
  }
  return {dir, closedir};
}

// A detached copy of the mounts at `dirfd`/`name`, to be attached elsewhere with Attach().
Result<UniqueFd> CloneMount(int dirfd, const std::string& name) {
  UniqueFd fd(open_tree(dirfd, name.c_str(),
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
  if (!fd.valid()) {
    Error error = MountError("cannot bind " + name);
    if (error.sys_errno == ENOENT) {
      error.code = Code::kNotFound;
    }
    return error;
  }
  return fd;
}

Result<> Attach(const UniqueFd& mount_fd, const std::string& target) {
  if (move_mount(mount_fd.get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return MountError("cannot mount on " + target);
  }
  return {};
}

Result<> MountTmpfs(const std::string& target, unsigned long flags, const char* options) {
  if (mount("cgpu", target.c_str(), "tmpfs", flags, options) != 0) {
    return MountError("cannot mount a tmpfs on " + target);
  }
  return {};
}

Result<> MakeReadOnly(const std::string& target) {
  constexpr unsigned long kFlags =
      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount(nullptr, target.c_str(), nullptr, kFlags, nullptr) != 0) {
    return MountError("cannot make " + target + " read-only");
  }
  return {};
}

Result<> MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return MountError("cannot make " + path);
  }
  return {};
}

Result<> MakeLink(const std::string& target, const std::string& path) {
  if (symlink(target.c_str(), path.c_str()) != 0) {
    return MountError("cannot make the link " + path);
  }
  return {};
}

class UmaskGuard {
 public:
  UmaskGuard() : old_(umask(022)) {}
  UmaskGuard(const UmaskGuard&) = delete;
  UmaskGuard& operator=(const UmaskGuard&) = delete;
  ~UmaskGuard() { umask(old_); }

 private:
  mode_t old_;
};

bool IsDirectory(const std::string& path) {
  struct stat st{};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string LinkTarget(int dirfd, const std::string& name) {
  char target[PATH_MAX];
  const ssize_t n = readlinkat(dirfd, name.c_str(), target, sizeof(target));
  return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : std::string();
}

// Puts one entry of the old folder `dirfd` at `path`: links are copied, all else is bound. What
// vanished meanwhile is left out.
Result<> MirrorEntry(int dirfd, const std::string& name, const struct stat& st,
                     const std::string& path) {
  if (S_ISLNK(st.st_mode)) {
    const std::string target = LinkTarget(dirfd, name);
    return target.empty() ? Result<>() : MakeLink(target, path);
  }
  auto clone = CloneMount(dirfd, name);
  if (!clone.ok()) {
    return clone.error().code == Code::kNotFound ? Result<>() : clone.error();
  }
  if (S_ISDIR(st.st_mode)) {
    CGPU_TRY(MakeDirectory(path));
  } else {
    CGPU_TRY(WriteFile(path, ""));
  }
  return Attach(*clone, path);
}

using Skip = std::function<bool(const std::string& name, const struct stat& st)>;

// Covers the folder `path` with a writable tmpfs that holds what it held, but for what is skipped.
Result<> MirrorDirectory(const std::string& path, unsigned long flags, const Skip& skip) {
  const DirPtr old = OpenDir(path);
  if (old == nullptr) {
    return MountError("cannot read " + path);
  }
  CGPU_TRY(MountTmpfs(path, flags, "mode=755,size=4m"));
  while (const dirent* entry = readdir(old.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = entry->d_name;
    struct stat st{};
    if (name == "." || name == ".." ||
        fstatat(dirfd(old.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || skip(name, st)) {
      continue;
    }
    CGPU_TRY(MirrorEntry(dirfd(old.get()), name, st, std::string(path).append("/").append(name)));
  }
  return {};
}

// An empty writable tmpfs at `path`, which file systems like sysfs have no way to create.
Result<> CoverWithTmpfs(const std::string& path) {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (!IsDirectory(path)) {
    std::string have = path;
    while (!IsDirectory(have)) {
      have.resize(have.rfind('/'));
    }
    CGPU_TRY(MirrorDirectory(have.empty() ? "/" : have, kFlags,
                             [](const std::string&, const struct stat&) { return false; }));
    CGPU_TRY(MakeDirectories(path));
  }
  return MountTmpfs(path, kFlags, "mode=755,size=4m");
}

// Character device majors of NVIDIA's drivers: lines "195 nvidia" of /proc/devices.
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

std::string LastComponent(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Mount copies of the device files, taken before anything covers them.
Result<std::vector<UniqueFd>> CloneDevices(const std::vector<DeviceFile>& devices) {
  std::vector<UniqueFd> clones;
  for (const DeviceFile& device : devices) {
    auto clone = CloneMount(AT_FDCWD, device.source);
    if (!clone.ok()) {
      return clone.error();
    }
    clones.push_back(std::move(*clone));
  }
  return clones;
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
    const std::string folder = ".nvidia/" + LastComponent(devices[i].source);
    CGPU_TRY(MakeDirectories("/dev/" + folder));
    CGPU_TRY(Attach(clones[i], "/dev/" + folder));
    CGPU_TRY(MakeLink(folder + "/" + devices[i].name, path));
  }
  return {};
}

Result<> MountDev(const std::vector<DeviceFile>& devices, const std::vector<UniqueFd>& clones) {
  const std::set<unsigned> majors = NvidiaMajors();
  CGPU_TRY(MirrorDirectory(
      "/dev", MS_NOSUID | MS_NOEXEC, [&](const std::string& name, const struct stat& st) {
        return name.starts_with("nvidia") || name == ".nvidia" || name == "dri" ||
               (S_ISCHR(st.st_mode) && majors.contains(major(st.st_rdev)));
      }));
  return AttachDevices(devices, clones);
}

// What will be written into a tmpfs: read before the tmpfs covers where it came from.
struct CopiedFile {
  std::string path;  // relative
  std::string content;
  bool link = false;  // content is the link's target
};

void CopyFile(const std::string& source, const std::string& path, std::vector<CopiedFile>& out) {
  struct stat st{};
  if (lstat(source.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0444) == 0) {
    return;
  }
  if (auto content = ReadFile(source, kCopyLimit); content.ok()) {
    out.push_back({path, std::move(*content), false});
  }
}

// Every readable plain file of one folder. What cannot be read (write-only, root's own) is no part
// of what a process would have seen.
void CopyFolder(const std::string& source, const std::string& path, std::vector<CopiedFile>& out) {
  const DirPtr dir = OpenDir(source);
  if (dir == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = entry->d_name;
    CopyFile(std::string(source).append("/").append(name),
             std::string(path).append("/").append(name), out);
  }
}

std::vector<CopiedFile> CopyProc(const GpuTree& tree) {
  std::vector<CopiedFile> files;
  for (const char* name : {"version", "params"}) {
    CopyFile(tree.proc_source + "/" + name, name, files);
  }
  for (const std::string& bdf : tree.bdfs) {
    CopyFolder(tree.proc_source + "/gpus/" + bdf, "gpus/" + bdf, files);
  }
  return files;
}

std::vector<CopiedFile> CopyPci(const GpuTree& tree) {
  std::vector<CopiedFile> files;
  for (const std::string& bdf : tree.bdfs) {
    const std::string path = "devices/" + bdf;
    const std::string source = tree.pci_source + "/" + path;
    // sysfs has a link into /sys/devices here, which stays where it is.
    if (const std::string target = LinkTarget(AT_FDCWD, source); !target.empty()) {
      files.push_back({path, target, true});
    } else {
      CopyFolder(source, path, files);
    }
  }
  return files;
}

Result<> MountCopies(const std::string& root, const std::vector<CopiedFile>& files) {
  CGPU_TRY(CoverWithTmpfs(root));
  for (const CopiedFile& file : files) {
    const std::string path = std::string(root).append("/").append(file.path);
    CGPU_TRY(MakeDirectories(path.substr(0, path.rfind('/'))));
    if (file.link) {
      CGPU_TRY(MakeLink(file.content, path));
    } else {
      CGPU_TRY(WriteFile(path, file.content, 0444));
    }
  }
  return MakeReadOnly(root);
}

}  // namespace

Result<> MountGpuTree(const GpuTree& tree) {
  const UmaskGuard everyone_may_read;
  auto clones = CloneDevices(tree.devices);
  if (!clones.ok()) {
    return clones.error();
  }
  const std::vector<CopiedFile> proc_files = CopyProc(tree);
  const std::vector<CopiedFile> pci_files = CopyPci(tree);
  CGPU_TRY(MountDev(tree.devices, *clones));
  if (!tree.proc_source.empty()) {
    CGPU_TRY(MountCopies("/proc/driver/nvidia", proc_files));
  }
  if (!tree.pci_source.empty()) {
    CGPU_TRY(MountCopies("/sys/bus/pci", pci_files));
  }
  for (const std::string& folder : tree.hide) {
    if (!IsDirectory(folder)) {
      continue;
    }
    const auto covered =
        MountTmpfs(folder, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "mode=555,size=4k");
    if (!covered.ok() && IsDirectory(folder)) {  // it may have been removed meanwhile
      return covered.error();
    }
  }
  return {};
}

}  // namespace cgpu
