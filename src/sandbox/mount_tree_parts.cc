#include "sandbox/mount_tree_parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "os/mounts.h"

namespace cgpu {
namespace {

// Most bytes of a file of /proc/driver/nvidia or of a PCI device's sysfs folder that is copied.
constexpr std::size_t kCopyLimit = 64 * 1024;
// A PCI device's `vendor` and the beginning of its `class` in sysfs: NVIDIA, display controller.
// NVIDIA also makes root ports; below these are other makers' devices and granted GPUs.
constexpr std::string_view kNvidiaVendor = "0x10de\n";
constexpr std::string_view kDisplayClass = "0x03";
constexpr char kProcFolder[] = "/proc/driver/nvidia";
constexpr char kPciFolder[] = "/sys/bus/pci";

Result<> MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return MountError("cannot make " + path);
  }
  return {};
}

bool IsDots(std::string_view name) {
  return name == "." || name == "..";
}

std::string LinkTarget(int dirfd, const std::string& name) {
  char target[PATH_MAX];
  const ssize_t n = readlinkat(dirfd, name.c_str(), target, sizeof(target));
  return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : std::string();
}

}  // namespace

Result<> MakeLink(const std::string& target, const std::string& path) {
  if (symlink(target.c_str(), path.c_str()) != 0) {
    return MountError("cannot make the link " + path);
  }
  return {};
}

std::string LastComponent(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> EntriesOf(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> paths;
  const DirPtr dir = OpenDir(AT_FDCWD, folder);
  while (const dirent* entry =
             dir ? readdir(dir.get()) : nullptr) {  // NOLINT(concurrency-mt-unsafe): own DIR
    if (!IsDots(entry->d_name) && std::string_view(entry->d_name).starts_with(prefix)) {
      paths.push_back(folder + "/" + entry->d_name);
    }
  }
  return paths;
}

std::string ExistingFolder(std::string path) {
  while (!path.empty() && !IsDirectory(path)) {
    path.resize(path.rfind('/'));
  }
  return path.empty() ? "/" : path;
}

namespace {

Result<> MirrorEntries(DIR* old, const std::string& path, const std::string& under,
                       const Skip& skip);

// Returns true if a folder of the file system `device` holds, at any depth, an entry to leave out.
// Does not look into other file systems. Follows no link: a program with a hand in the image could
// put one in a folder's place, and it would lead out of the container.
bool HoldsSkipped(int dirfd_of, const std::string& name, const std::string& path, dev_t device,
                  const Skip& skip) {
  const DirPtr dir = OpenDir(dirfd_of, name, O_NOFOLLOW);
  const int fd = dir == nullptr ? -1 : dirfd(dir.get());
  struct stat st{};
  if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != device) {
    return false;
  }
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string below = path + "/" + entry->d_name;
    if (IsDots(entry->d_name) ||
        fstatat(dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (skip(below, st) || (S_ISDIR(st.st_mode) &&
                            HoldsSkipped(dirfd(dir.get()), entry->d_name, below, device, skip))) {
      return true;
    }
  }
  return false;
}

// The target of the entry `name` of the old folder `old`.
struct Place {
  int old;
  std::string name;
  std::string path;   // absolute
  std::string under;  // relative, for Skip
};

// Copies a link, makes a folder that holds an entry to leave out again, and binds all else. Leaves
// out entries that vanished meanwhile.
Result<> MirrorEntry(const Place& place, const struct stat& st, const Skip& skip) {
  if (S_ISLNK(st.st_mode)) {
    const std::string target = LinkTarget(place.old, place.name);
    return target.empty() ? Result<>() : MakeLink(target, place.path);
  }
  struct stat old{};
  if (S_ISDIR(st.st_mode) && fstat(place.old, &old) == 0 &&
      HoldsSkipped(place.old, place.name, place.under, old.st_dev, skip)) {
    const DirPtr inner = OpenDir(place.old, place.name, O_NOFOLLOW);
    CGPU_TRY(MakeDirectory(place.path));
    return inner == nullptr ? Result<>()
                            : MirrorEntries(inner.get(), place.path, place.under + "/", skip);
  }
  auto clone = CloneMount(place.old, place.name);
  if (!clone.ok()) {
    return clone.error().code == Code::kNotFound ? Result<>() : clone.error();
  }
  if (S_ISDIR(st.st_mode)) {
    CGPU_TRY(MakeDirectory(place.path));
  } else {
    CGPU_TRY(WriteFile(place.path, ""));
  }
  return Attach(*clone, place.path);
}

Result<> MirrorEntries(DIR* old, const std::string& path, const std::string& under,
                       const Skip& skip) {
  while (const dirent* entry = readdir(old)) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = entry->d_name;
    struct stat st{};
    if (IsDots(name) || fstatat(dirfd(old), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        skip(under + name, st)) {
      continue;
    }
    std::string target = path + "/";
    target += name;
    CGPU_TRY(MirrorEntry({dirfd(old), name, std::move(target), under + name}, st, skip));
  }
  return {};
}

}  // namespace

Result<> MirrorDirectory(const std::string& path, unsigned long flags, const Skip& skip) {
  const DirPtr old = OpenDir(AT_FDCWD, path);
  if (old == nullptr) {
    return MountError("cannot read " + path);
  }
  CGPU_TRY(MountTmpfs(path, flags, "mode=755,size=4m"));
  return MirrorEntries(old.get(), path, "", skip);
}

namespace {

// Covers `path` with an empty writable tmpfs, because file systems like sysfs cannot make files.
Result<> CoverWithTmpfs(const std::string& path) {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (const std::string have = ExistingFolder(path); have != path) {
    CGPU_TRY(MirrorDirectory(have, kFlags,
                             [](const std::string&, const struct stat&) { return false; }));
    CGPU_TRY(MakeDirectories(path));
    CGPU_TRY(MakeReadOnly(have));
  }
  return MountTmpfs(path, kFlags, "mode=755,size=4m");
}

// Returns mount copies of the device files, taken before anything covers them.
Result<std::vector<UniqueFd>> CloneDevices(const std::vector<DeviceFile>& devices) {
  std::vector<UniqueFd> clones;
  for (const DeviceFile& device : devices) {
    CGPU_ASSIGN_OR_RETURN(auto clone, CloneMount(AT_FDCWD, device.source));
    clones.push_back(std::move(clone));
  }
  return clones;
}

void CopyFile(const std::string& source, const std::string& path, std::vector<CopiedFile>& out) {
  struct stat st{};
  if (lstat(source.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0444) == 0) {
    return;
  }
  if (auto content = ReadFile(source, kCopyLimit); content.ok()) {
    out.push_back({path, std::move(*content), false});
  }
}

// Copies every readable plain file of one folder. A process would not have seen files that cannot
// be read (write-only, root's own).
void CopyFolder(const std::string& source, const std::string& path, std::vector<CopiedFile>& out) {
  const DirPtr dir = OpenDir(AT_FDCWD, source);
  if (dir == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = entry->d_name;
    CopyFile(std::string(source).append("/").append(name),
             std::string(path).append("/").append(name), out);
  }
}

// Says that no program makes device files here. Otherwise the vendor's libraries would try to make
// those they miss, and fail where they may not (NVIDIA/nvidia-modprobe,
// modprobe-utils/nvidia-modprobe-utils.c; google/gvisor and NVIDIA/nvidia-container-toolkit write
// the same for containers).
void KeepDeviceFiles(std::string& params) {
  constexpr std::string_view kModify = "ModifyDeviceFiles: 1\n";
  if (const auto at = params.find(kModify); at != std::string::npos) {
    params[at + kModify.size() - 2] = '0';
  }
}

std::vector<CopiedFile> CopyProc(const GpuTree& tree) {
  std::vector<CopiedFile> files;
  for (const char* name : {"version", "params"}) {
    CopyFile(tree.proc_source + "/" + name, name, files);
  }
  if (!files.empty() && files.back().path == "params") {
    KeepDeviceFiles(files.back().content);
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
    // sysfs has a link into /sys/devices here, and it stays where it is.
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

// Returns NVIDIA's GPUs that are not given, where pci_source has links to the devices, as sysfs
// has. Hiding them hides everything that other links of /sys lead to.
std::vector<std::string> GpusNotGiven(const GpuTree& tree) {
  std::vector<std::string> hide;
  if (tree.pci_source.empty()) {
    return hide;
  }
  for (const std::string& entry : EntriesOf(tree.pci_source + "/devices", "")) {
    if (LinkTarget(AT_FDCWD, entry).empty() ||
        std::ranges::find(tree.bdfs, LastComponent(entry)) != tree.bdfs.end()) {
      continue;
    }
    std::error_code gone;
    const auto device = std::filesystem::canonical(entry, gone);
    const auto vendor = ReadFile(entry + "/vendor", kCopyLimit);
    const auto kind = ReadFile(entry + "/class", kCopyLimit);
    if (!gone && vendor.ok() && *vendor == kNvidiaVendor && kind.ok() &&
        kind->starts_with(kDisplayClass)) {
      hide.push_back(device.string());
    }
  }
  return hide;
}

// Returns the folders to cover: those that show GPUs beside the folders that are replaced whole,
// and the tree's own.
std::vector<std::string> FoldersToHide(const GpuTree& tree, const NodeFiles& files) {
  std::vector<std::string> hide;
  const auto add = [&](const std::vector<std::string>& more) {
    hide.insert(hide.end(), more.begin(), more.end());
  };
  if (!tree.proc_source.empty()) {
    add(EntriesOf("/proc/driver", "nvidia-"));  // nvidia-uvm, nvidia-caps, nvidia-nvlink, ...
    add({"/proc/bus/pci"});
  }
  if (!tree.pci_source.empty()) {
    add(EntriesOf("/sys/class", "nvidia"));
    add({"/sys/class/drm"});
    add(files.gpus);
  }
  add(tree.hide);
  return hide;
}

}  // namespace

Result<NodeFiles> TakeFromNode(const GpuTree& tree) {
  CGPU_ASSIGN_OR_RETURN(auto devices, CloneDevices(tree.devices));
  UniqueFd prover;
  if (!tree.prover.empty()) {
    CGPU_ASSIGN_OR_RETURN(prover, CloneMount(AT_FDCWD, tree.prover));
  }
  return NodeFiles{std::move(devices), std::move(prover), CopyProc(tree), CopyPci(tree),
                   GpusNotGiven(tree)};
}

Result<> MountViews(const GpuTree& tree, const NodeFiles& files,
                    const std::function<Result<>(const std::string&)>& prepare) {
  const std::vector<std::string> hide = FoldersToHide(tree, files);
  if (!tree.proc_source.empty()) {
    CGPU_TRY(prepare(kProcFolder));
    CGPU_TRY(MountCopies(kProcFolder, files.proc));
  }
  if (!tree.pci_source.empty()) {
    CGPU_TRY(prepare(kPciFolder));
    CGPU_TRY(MountCopies(kPciFolder, files.pci));
  }
  for (const std::string& folder : hide) {
    if (IsDirectory(folder)) {
      CGPU_TRY(prepare(folder));
      CGPU_TRY(HideFolder(folder));
    }
  }
  return {};
}

}  // namespace cgpu
