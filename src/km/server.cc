#define FUSE_USE_VERSION 314
#include "km/server.h"

#include <fcntl.h>
#include <fuse.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"
#include "kernel/mounts.h"
#include "kernel/service.h"
#include "km/tree.h"
#include "launcher/node.h"

namespace cgpu::km {
namespace {

constexpr char kType[] = "fuse.cgpu-km";
// No value is longer.
constexpr std::size_t kMaxWritten = 64;

void Log(const std::string& text) {
  (void)std::fprintf(stderr, "cgpu-km: %s\n", text.c_str());
}

// One open of a file: what it said then.
struct OpenFile {
  Place place;
  std::string text;
};

const Tree& TheTree() {
  return *static_cast<const Tree*>(fuse_get_context()->private_data);
}

unsigned Asker() {
  return fuse_get_context()->uid;
}

OpenFile* FileOf(const fuse_file_info* info) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): libfuse keeps a number for us
  return reinterpret_cast<OpenFile*>(static_cast<std::uintptr_t>(info->fh));
}

void* Init(fuse_conn_info* /*connection*/, fuse_config* config) {
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  config->direct_io = 1;
  return fuse_get_context()->private_data;
}

int GetAttr(const char* path, struct stat* attributes, fuse_file_info* info) {
  const auto place = TheTree().Look(path, Asker());
  if (!place.ok()) {
    return -ErrnoOf(place.error());
  }
  *attributes = {};
  attributes->st_ctime = attributes->st_mtime = attributes->st_atime = std::time(nullptr);
  if (IsFolder(place->kind)) {
    attributes->st_mode = S_IFDIR | 0555;
    attributes->st_nlink = 2;
    return 0;
  }
  attributes->st_mode = S_IFREG | (IsWritable(place->kind) ? 0644 : 0444);
  attributes->st_nlink = 1;
  if (info != nullptr) {
    attributes->st_size = static_cast<off_t>(FileOf(info)->text.size());
    return 0;
  }
  const auto text = TheTree().Read(*place);
  attributes->st_size = text.ok() ? static_cast<off_t>(text->size()) : 0;
  return 0;
}

int ReadDir(const char* path, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/,
            fuse_file_info* /*info*/, fuse_readdir_flags /*flags*/) {
  const auto place = TheTree().Look(path, Asker());
  if (!place.ok()) {
    return -ErrnoOf(place.error());
  }
  const auto entries = TheTree().List(*place, Asker());
  if (!entries.ok()) {
    Log(entries.error().what);
    return -ErrnoOf(entries.error());
  }
  struct stat attributes{};
  attributes.st_mode = S_IFDIR;
  for (const char* name : {".", ".."}) {
    (void)fill(buffer, name, &attributes, 0, fuse_fill_dir_flags{});
  }
  for (const Tree::Entry& entry : *entries) {
    attributes.st_mode = entry.folder ? S_IFDIR : S_IFREG;
    (void)fill(buffer, entry.name.c_str(), &attributes, 0, fuse_fill_dir_flags{});
  }
  return 0;
}

int Open(const char* path, fuse_file_info* info) {
  auto place = TheTree().Look(path, Asker());
  if (!place.ok()) {
    return -ErrnoOf(place.error());
  }
  const int access = info->flags & O_ACCMODE;
  if (access != O_RDONLY && (Asker() != 0 || !IsWritable(place->kind))) {
    return -EACCES;
  }
  auto file = std::make_unique<OpenFile>();
  if (access != O_WRONLY) {
    auto text = TheTree().Read(*place);
    if (!text.ok()) {
      Log(std::string(path) + ": " + text.error().what);
      return -ErrnoOf(text.error());
    }
    file->text = std::move(*text);
  }
  file->place = std::move(*place);
  info->fh = reinterpret_cast<std::uintptr_t>(file.release());
  return 0;
}

int Release(const char* /*path*/, fuse_file_info* info) {
  const std::unique_ptr<OpenFile> file(FileOf(info));
  return 0;
}

int Read(const char* /*path*/, char* buffer, std::size_t size, off_t offset, fuse_file_info* info) {
  const std::string& text = FileOf(info)->text;
  const std::size_t from = std::min(static_cast<std::size_t>(offset), text.size());
  return static_cast<int>(text.copy(buffer, size, from));
}

// One write is one value.
int Write(const char* path, const char* bytes, std::size_t size, off_t offset,
          fuse_file_info* info) {
  if (offset != 0 || size > kMaxWritten) {
    return -EINVAL;
  }
  const auto written = TheTree().Write(FileOf(info)->place, std::string_view(bytes, size), Asker());
  if (!written.ok()) {
    Log(std::string(path) + ": " + written.error().what);
    return -ErrnoOf(written.error());
  }
  return static_cast<int>(size);
}

// What a shell's ">" does before it writes.
int Truncate(const char* path, off_t size, fuse_file_info* /*info*/) {
  const auto place = TheTree().Look(path, Asker());
  if (!place.ok()) {
    return -ErrnoOf(place.error());
  }
  if (Asker() != 0 || !IsWritable(place->kind)) {
    return -EACCES;
  }
  return size == 0 ? 0 : -EINVAL;
}

fuse_operations Operations() {
  fuse_operations operations{};
  operations.init = Init;
  operations.getattr = GetAttr;
  operations.readdir = ReadDir;
  operations.open = Open;
  operations.release = Release;
  operations.read = Read;
  operations.write = Write;
  operations.truncate = Truncate;
  return operations;
}

// For as long as this process lives.
Result<UniqueFd> OnlyOne(const std::string& path) {
  auto lock = cgpu::OpenFile(path, O_RDWR | O_CREAT, 0600);
  if (lock.ok() && flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{Code::kConflict, 0, "another cgpu-km runs already", "stop that one first"};
  }
  return lock;
}

// Of servers that were killed. Call under the lock.
Result<> ClearLeftovers(const std::string& folder) {
  const auto mounts = ReadMounts();
  if (!mounts.ok()) {
    return mounts.error();
  }
  for (const MountEntry& mount : *mounts) {
    if (mount.point != folder) {
      continue;
    }
    if (mount.type != kType) {
      return Error{Code::kConflict, 0, mount.type + " is mounted at " + folder, "unmount it"};
    }
    if (umount2(folder.c_str(), MNT_DETACH) != 0) {
      return MountError("cannot unmount what was left at " + folder);
    }
  }
  return {};
}

struct Destroy {
  void operator()(fuse* handle) const { fuse_destroy(handle); }
};

Result<> Serve(Tree& tree, const std::string& folder) {
  char program[] = "cgpu-km";
  char option[] = "-o";
  char values[] =
      "allow_other,default_permissions,nosuid,nodev,noexec,fsname=cgpu-km,subtype=cgpu-km";
  std::array<char*, 3> words = {program, option, values};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  const fuse_operations operations = Operations();
  const std::unique_ptr<fuse, Destroy> handle(
      fuse_new(&arguments, &operations, sizeof(operations), &tree));
  fuse_opt_free_args(&arguments);
  if (handle == nullptr) {
    return Error{Code::kInternal, 0, "libfuse refused the options", {}};
  }
  fuse_session* const session = fuse_get_session(handle.get());
  if (fuse_mount(handle.get(), folder.c_str()) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot mount a FUSE file system on " + folder);
  }
  int ended = fuse_set_signal_handlers(session);
  if (ended == 0) {
    Log("serves " + folder);
    TellReady();
    ended = fuse_loop_mt(handle.get(), nullptr);
    fuse_remove_signal_handlers(session);
  }
  fuse_unmount(handle.get());
  (void)rmdir(folder.c_str());
  // A positive number is the signal that ended it.
  return ended >= 0 ? Result<>()
                    : ErrnoError(Code::kInternal, -ended, "the file system's loop has ended");
}

}  // namespace

Result<> ServeTree(const Settings& settings, const std::string& version) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "cgpu-km runs as root", "start it with systemctl, or sudo"};
  }
  auto registry = Registry::Open();
  if (!registry.ok()) {
    return registry.error();
  }
  const std::string folder = registry->folder() + "/km";
  const auto lock = OnlyOne(folder + ".lock");
  if (!lock.ok()) {
    return lock.error();
  }
  CGPU_TRY(ClearLeftovers(folder));
  auto node = FindNode(settings.node);
  if (!node.ok()) {
    return node.error();
  }
  CGPU_TRY(MakeDirectories(folder));
  Tree tree(std::move(*registry), std::move(node->cards), version, settings.max_inst);
  return Serve(tree, folder);
}

}  // namespace cgpu::km
