#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernel/process.h"

namespace cgpu::kernel {
namespace {

constexpr unsigned kPidfdThread = O_EXCL;  // PIDFD_THREAD, Linux 6.9

UniqueFd PidfdOpen(pid_t pid, unsigned flags) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, flags)));
}

bool Exited(int pidfd) {
  pollfd query{pidfd, POLLIN, 0};
  return poll(&query, 1, 0) > 0;
}

// Reads the thread's Tgid and its number in its innermost pid namespace.
bool ReadStatus(int proc, pid_t tid, pid_t* tgid, pid_t* ns_pid) {
  const std::string path = std::to_string(tid) + "/status";
  UniqueFd fd(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd.valid() ? read(fd.get(), text, sizeof(text) - 1) : -1;
  if (n <= 0) {
    return false;
  }
  text[n] = '\0';
  const char* tgid_line = std::strstr(text, "\nTgid:");
  const char* ns_line = std::strstr(text, "\nNStgid:");
  if (tgid_line == nullptr || ns_line == nullptr) {
    return false;
  }
  *tgid = static_cast<pid_t>(std::strtol(tgid_line + 6, nullptr, 10));
  // "NStgid: 4711 12 1": as we number it, as its container does, as namespaces within do.
  char* end = nullptr;
  *ns_pid = static_cast<pid_t>(std::strtol(ns_line + 8, &end, 10));
  if (*end == '\t' || *end == ' ') {
    *ns_pid = static_cast<pid_t>(std::strtol(end, nullptr, 10));
  }
  return *tgid > 0;
}

}  // namespace

ssize_t Caller::Read(std::uint64_t address, void* into, std::size_t size) const {
  return pread(process->mem.get(), into, size, static_cast<off_t>(address));
}

ssize_t Caller::Write(std::uint64_t address, const void* from, std::size_t size) const {
  return pwrite(process->mem.get(), from, size, static_cast<off_t>(address));
}

Result<UniqueFd> Caller::TakeFd(int fd) const {
  if (!thread_pidfd.valid() && own_file_table) {
    return Error{Code::kNotFound, EBADF, "the thread has a descriptor table of its own", {}};
  }
  const int pidfd = thread_pidfd.valid() ? thread_pidfd.get() : process->pidfd.get();
  UniqueFd dup(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0)));
  if (!dup.valid()) {
    return Error{Code::kNotFound, errno, "cannot take the caller's descriptor", {}};
  }
  return dup;
}

bool Caller::Alive() const {
  return !Exited(thread_pidfd.valid() ? thread_pidfd.get() : process->pidfd.get());
}

Result<FileIdentity> Identify(int fd) {
  struct statx info{};
  // DONT_SYNC: a FUSE server that does not answer must not hang us.
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot identify a file");
  }
  FileIdentity identity;
  identity.dev = makedev(info.stx_dev_major, info.stx_dev_minor);
  identity.char_device = S_ISCHR(info.stx_mode);
  identity.rdev = identity.char_device ? makedev(info.stx_rdev_major, info.stx_rdev_minor) : 0;
  identity.ino = info.stx_ino;
  return identity;
}

CallerTable::CallerTable(UniqueFd proc_fd)
    : proc_(std::move(proc_fd)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Result<std::shared_ptr<const Process>> CallerTable::FindProcess(pid_t tgid, pid_t ns_pid,
                                                                bool fresh) {
  std::uint64_t serial = 0;
  if (const auto found = processes_.find(tgid); found != processes_.end()) {
    if (!Exited(found->second->pidfd.get())) {
      if (!fresh) {
        return found->second;
      }
      serial = found->second->serial;  // the same process with a new address space
    }
  }
  auto process = std::make_shared<Process>();
  process->tgid = tgid;
  process->ns_pid = ns_pid;
  process->pidfd = PidfdOpen(tgid, 0);
  const std::string path = std::to_string(tgid) + "/mem";
  process->mem = UniqueFd(openat(proc_.get(), path.c_str(), O_RDWR | O_CLOEXEC));
  if (!process->pidfd.valid() || !process->mem.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot open the calling process");
  }
  process->serial = serial != 0 ? serial : next_serial_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(tgid);
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->pidfd.get(), &event);
  processes_[tgid] = process;
  return std::shared_ptr<const Process>(process);
}

Result<std::shared_ptr<const Caller>> CallerTable::Find(pid_t tid, bool fresh) {
  const std::lock_guard lock(mutex_);
  if (const auto found = threads_.find(tid); found != threads_.end()) {
    if (!fresh && found->second->thread_pidfd.valid()) {
      return found->second;
    }
    threads_.erase(found);
  }
  auto caller = std::make_shared<Caller>();
  caller->tid = tid;
  caller->thread_pidfd = PidfdOpen(tid, kPidfdThread);
  pid_t tgid = 0;
  pid_t ns_pid = 0;
  if (!ReadStatus(proc_.get(), tid, &tgid, &ns_pid)) {
    return Error{Code::kUnavailable, ESRCH, "the calling thread is gone", {}};
  }
  auto process = FindProcess(tgid, ns_pid, fresh);
  if (!process.ok()) {
    return process.error();
  }
  caller->process = *process;
  if (!caller->thread_pidfd.valid()) {
    // Without PIDFD_THREAD the leader's table stands for the thread's, if they are the same one.
    caller->own_file_table = tid != tgid && syscall(SYS_kcmp, tid, tgid, KCMP_FILES, 0, 0) != 0;
  } else {
    threads_[tid] = caller;
    if (threads_.size() >= sweep_at_) {
      std::erase_if(threads_, [](const auto& entry) { return !entry.second->Alive(); });
      sweep_at_ = 2 * threads_.size() + 64;
    }
  }
  return std::shared_ptr<const Caller>(caller);
}

std::vector<std::uint64_t> CallerTable::DropDead() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> dead;
  std::erase_if(processes_, [&](const auto& entry) {
    const bool exited = Exited(entry.second->pidfd.get());
    if (exited) {
      dead.push_back(entry.second->serial);
    }
    return exited;
  });
  std::erase_if(threads_, [](const auto& entry) { return !entry.second->Alive(); });
  return dead;
}

std::vector<std::shared_ptr<const Process>> CallerTable::Processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Process>> list;
  for (const auto& [tgid, process] : processes_) {
    if (!Exited(process->pidfd.get())) {
      list.push_back(process);
    }
  }
  return list;
}

}  // namespace cgpu::kernel
