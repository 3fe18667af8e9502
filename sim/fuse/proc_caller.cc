#include "sim/fuse/proc_caller.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "sim/fuse/pages.h"

namespace cgpu::sim {
namespace {

std::string ReadLink(const std::string& path) {
  char text[128];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  return length <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

std::string ProcPath(pid_t pid, const std::string& rest) {
  return "/proc/" + std::to_string(pid) + "/" + rest;
}

// Returns the file behind a link of /proc/PID/fd, without asking the file's own file system.
std::optional<Ino> InodeOnDevice(int directory, const char* name, dev_t device) {
  struct statx info{};
  if (statx(directory, name, AT_STATX_DONT_SYNC, STATX_INO, &info) != 0) {
    return std::nullopt;
  }
  if (makedev(info.stx_dev_major, info.stx_dev_minor) != device) {
    return std::nullopt;
  }
  return info.stx_ino;
}

ino_t NamespaceInode(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Is `caller`'s pid namespace the one `levels` above `target`'s?
bool IsAncestorNamespace(const std::string& caller, const std::string& target, std::size_t levels) {
  const UniqueFd wanted(open(caller.c_str(), O_RDONLY | O_CLOEXEC));
  UniqueFd at(open(target.c_str(), O_RDONLY | O_CLOEXEC));
  for (std::size_t i = 0; i < levels && at.valid(); ++i) {
    at = UniqueFd(ioctl(at.get(), NS_GET_PARENT));
  }
  return wanted.valid() && at.valid() && NamespaceInode(wanted.get()) == NamespaceInode(at.get());
}

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory OpenDirectory(const std::string& path) {
  return {opendir(path.c_str()), &closedir};
}

}  // namespace

NodeIdentity NodeIdentity::Of(dev_t device) {
  return {device, ReadLink("/proc/self/ns/user"), ReadLink("/proc/self/ns/pid")};
}

bool ProcCaller::Read(rm::NvP64 address, std::span<std::byte> bytes) {
  const iovec local{bytes.data(), bytes.size()};
  const iovec remote{reinterpret_cast<void*>(address), bytes.size()};
  return process_vm_readv(tid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes.size());
}

bool ProcCaller::Write(rm::NvP64 address, std::span<const std::byte> bytes) {
  const iovec local{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec remote{reinterpret_cast<void*>(address), bytes.size()};
  return process_vm_writev(tid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes.size());
}

std::shared_ptr<Pages> ProcCaller::PagesAt(rm::NvP64 address, rm::NvU64 length) {
  auto pages = FilePages::OfProcess(tid_, address, length);
  return pages.ok() ? std::move(pages).value() : nullptr;
}

UniqueFd ProcCaller::PathOf(int fd) const {
  return UniqueFd(open(ProcPath(tid_, "fd/" + std::to_string(fd)).c_str(), O_PATH | O_CLOEXEC));
}

std::optional<ProcCaller::Status> ProcCaller::ReadStatus(pid_t pid) {
  const Result<std::string> text = ReadFile(ProcPath(pid, "status"));
  if (!text.ok()) {
    return std::nullopt;
  }
  Status status;
  std::istringstream lines(text.value());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string key;
    fields >> key;
    if (key == "Tgid:") {
      fields >> status.tgid;
    } else if (key == "Uid:") {
      fields >> status.euid >> status.euid;  // real, then effective
    } else if (key == "CapEff:") {
      fields >> std::hex >> status.cap_eff;
    } else if (key == "SigPnd:" || key == "ShdPnd:") {
      std::uint64_t pending = 0;
      fields >> std::hex >> pending;
      status.pending |= pending;
    } else if (key == "NSpid:") {
      for (std::uint32_t number = 0; fields >> number;) {
        status.ns_pids.push_back(number);
      }
    }
  }
  return status;
}

const ProcCaller::Status& ProcCaller::Get() {
  if (!status_) {
    status_ = ReadStatus(tid_).value_or(Status{});
  }
  return *status_;
}

bool ProcCaller::HasCapability(unsigned number) {
  return (Get().cap_eff >> number & 1U) != 0 &&
         ReadLink(ProcPath(tid_, "ns/user")) == node_.user_ns;
}

bool ProcCaller::IsAdmin() {
  return HasCapability(CAP_SYS_ADMIN);
}

bool ProcCaller::IsNice() {
  return HasCapability(CAP_SYS_NICE);
}

FileId ProcCaller::ResolveFd(int fd) {
  if (fd < 0) {
    return 0;
  }
  const std::string path = ProcPath(tid_, "fd/" + std::to_string(fd));
  const auto ino = InodeOnDevice(AT_FDCWD, path.c_str(), node_.device);
  return ino && DecodeDeviceIno(*ino) ? files_.Find(*ino) : 0;
}

template <class Visit>
void ProcCaller::ForEachFile(const Visit& visit) {
  const Directory directory = OpenDirectory(ProcPath(tid_, "fd"));
  if (directory == nullptr) {
    return;
  }
  const int at = dirfd(directory.get());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): own DIR
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    const auto ino = InodeOnDevice(at, entry->d_name, node_.device);
    if (const auto device = ino ? DecodeDeviceIno(*ino) : std::nullopt) {
      visit(std::atoi(entry->d_name), *ino, *device);
    }
  }
}

std::map<int, FileId> ProcCaller::FilesByFd() {
  std::map<int, FileId> files;
  ForEachFile([&](int fd, Ino ino, const auto& /*device*/) {
    if (const FileId file = files_.Find(ino); file != 0) {
      files[fd] = file;
    }
  });
  return files;
}

void ProcCaller::LookAhead(bool files) {
  (void)Get();
  minors_.reset();
  if (files) {
    minors_ = OpenMinors();
  }
}

std::set<unsigned> ProcCaller::OpenMinors() {
  if (minors_) {
    return *std::exchange(minors_, std::nullopt);
  }
  std::set<unsigned> minors;
  ForEachFile([&](int /*fd*/, Ino /*ino*/, const auto& device) {
    if (device.kind == FileKind::kGpu) {
      minors.insert(device.minor);
    }
  });
  return minors;
}

std::optional<std::uint32_t> ProcCaller::PidAsSeen(std::uint32_t tgid) {
  const auto target = ReadStatus(static_cast<pid_t>(tgid));
  const std::size_t depth = Get().ns_pids.size();
  if (!target || depth == 0 || target->ns_pids.size() < depth) {
    return std::nullopt;
  }
  const auto pid = static_cast<pid_t>(tgid);
  if (!IsAncestorNamespace(ProcPath(tid_, "ns/pid"), ProcPath(pid, "ns/pid"),
                           target->ns_pids.size() - depth)) {
    return std::nullopt;
  }
  return target->ns_pids[depth - 1];
}

bool ProcCaller::IsKilled() const {
  const auto status = ReadStatus(tid_);
  return !status || (status->pending >> (SIGKILL - 1) & 1U) != 0;
}

}  // namespace cgpu::sim
