#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/process.h"
#include "os/spare.h"

namespace cgpu::os {
namespace {

constexpr unsigned kPidfdThread = O_EXCL;  // PIDFD_THREAD, Linux 6.9

UniqueFd PidfdOpen(pid_t pid, unsigned flags) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, flags)));
}

bool Exited(int pidfd) {
  pollfd query{pidfd, POLLIN, 0};
  return poll(&query, 1, 0) > 0;
}

// Returns true if two processes have one address space now, false where the kernel does not tell.
bool ShareMemory(pid_t one, pid_t other) {
  return syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}

bool MayHaveExeced(const Process& process) {
  return process.shares_with != 0 && !ShareMemory(process.tgid, process.shares_with);
}

bool ReadStatus(int proc, pid_t tid, CallerTable::Status* status) {
  const std::string path = std::to_string(tid) + "/status";
  UniqueFd fd(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  // Last line that is needed. Above it are the process's groups, which may be thousands.
  constexpr std::string_view kLast = "\nNStgid:";
  std::string text;
  char chunk[4096];
  ssize_t n = 0;
  std::size_t last = std::string::npos;
  while ((last == std::string::npos || text.find('\n', last + 1) == std::string::npos) &&
         fd.valid() && (n = read(fd.get(), chunk, sizeof(chunk))) > 0) {
    const std::size_t from = text.size() - std::min(text.size(), kLast.size());
    text.append(chunk, static_cast<std::size_t>(n));
    last = last == std::string::npos ? text.find(kLast, from) : last;
  }
  const char* tgid_line = std::strstr(text.c_str(), "\nTgid:");
  const char* parent_line = std::strstr(text.c_str(), "\nPPid:");
  const char* ns_line = std::strstr(text.c_str(), kLast.data());
  if (tgid_line == nullptr || parent_line == nullptr || ns_line == nullptr) {
    return false;
  }
  status->tgid = static_cast<pid_t>(std::strtol(tgid_line + 6, nullptr, 10));
  status->parent = static_cast<pid_t>(std::strtol(parent_line + 6, nullptr, 10));
  // "NStgid: 4711 12 1": the number in our namespace, in the container's, in namespaces within.
  char* end = nullptr;
  status->ns_pid = static_cast<pid_t>(std::strtol(ns_line + 8, &end, 10));
  for (bool first = true; *end == '\t' || *end == ' '; first = false) {
    const auto below = static_cast<pid_t>(std::strtol(end, &end, 10));
    status->ns_pid = first ? below : status->ns_pid;
    status->is_init = below == 1;
  }
  return status->tgid > 0;
}

// Returned at the limit of the table, or of this process's descriptors.
Error TooManyProcesses() {
  return Error{Code::kExhausted, EMFILE, "too many processes of one container make calls", {}};
}

}  // namespace

bool HasExited(const Process& process) {
  return Exited(process.pidfd.get());
}

pid_t WithOrphans(int proc, pid_t pid) {
  CallerTable::Status status;
  CallerTable::Status parent;
  const bool known = ReadStatus(proc, pid, &status) && ReadStatus(proc, status.parent, &parent);
  return known && parent.is_init ? status.parent : pid;
}

std::shared_ptr<const Process> ProcessOf(pid_t pid) {
  auto process = std::make_shared<Process>();
  process->tgid = pid;
  process->pidfd = Frugally(PidfdOpen(pid, 0));
  return process->pidfd.valid() ? process : nullptr;
}

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

namespace {

Result<FileIdentity> IdentifyAt(int at, const char* path, int flags) {
  struct statx info{};
  // DONT_SYNC: a FUSE server that does not answer must not hang us.
  if (statx(at, path, flags | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot identify a file");
  }
  FileIdentity identity;
  identity.dev = makedev(info.stx_dev_major, info.stx_dev_minor);
  identity.rdev = S_ISCHR(info.stx_mode) ? makedev(info.stx_rdev_major, info.stx_rdev_minor) : 0;
  identity.ino = info.stx_ino;
  return identity;
}

}  // namespace

Result<FileIdentity> Identify(int fd) {
  return IdentifyAt(fd, "", AT_EMPTY_PATH);
}

Result<FileIdentity> IdentifyOf(int proc, pid_t tid, int fd) {
  char path[64];
  (void)std::snprintf(path, sizeof(path), "%d/fd/%d", tid, fd);
  return IdentifyAt(proc, path, AT_NO_AUTOMOUNT);
}

Result<FileIdentity> Caller::Identify(int proc, int fd) const {
  return IdentifyOf(proc, tid, fd);
}

CallerTable::CallerTable(UniqueFd proc_fd)
    : proc_(std::move(proc_fd)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

std::shared_ptr<const Process> CallerTable::Known(pid_t tgid) const {
  const MutexLock lock(mutex_);
  const auto found = processes_.find(tgid);
  return found == processes_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<const Process>> CallerTable::FindProcess(pid_t tid, const Status& status,
                                                                bool fresh) {
  const auto known = Known(status.tgid);
  const bool lives = known != nullptr && !HasExited(*known);
  if (lives && !fresh && !MayHaveExeced(*known)) {
    return known;
  }
  auto process = std::make_shared<Process>();
  process->tgid = status.tgid;
  process->ns_pid = status.ns_pid;
  process->pidfd = Frugally(PidfdOpen(status.tgid, 0));
  bool no_room = !process->pidfd.valid() && errno == EMFILE;
  // Asked before the memory is opened: the next call notices an exec in between.
  process->shares_with = ShareMemory(tid, status.parent) ? status.parent : 0;
  const std::string path = std::to_string(tid) + "/mem";
  process->mem = Frugally(UniqueFd(openat(proc_.get(), path.c_str(), O_RDWR | O_CLOEXEC)));
  no_room = no_room || (!process->mem.valid() && errno == EMFILE);
  if (no_room) {
    return TooManyProcesses();
  }
  if (!process->pidfd.valid() || !process->mem.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot open the calling process");
  }
  const MutexLock lock(mutex_);
  const auto now = processes_.find(status.tgid);
  const bool there = now != processes_.end() && !HasExited(*now->second);
  if (there && !lives) {
    return now->second;  // another thread of the process was faster
  }
  if (!there && processes_.size() >= kMaxProcesses) {
    return TooManyProcesses();
  }
  // It may be the same process with a new address space.
  process->serial = there ? now->second->serial : next_serial_++;
  process->program = next_program_++;
  Keep(process);
  return std::shared_ptr<const Process>(process);
}

void CallerTable::Keep(std::shared_ptr<const Process> process) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(process->tgid);
  // Fails while others have taken all epoll watches of this uid. Then the end of the process is
  // noticed by the close of its files.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->pidfd.get(), &event);
  std::shared_ptr<const Process>& known = processes_[process->tgid];
  if (known != nullptr) {
    StopWatching(*known);
  }
  known = std::move(process);
}

// Others may still hold the process and its pidfd, which would then be readable forever.
void CallerTable::StopWatching(const Process& process) const {
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process.pidfd.get(), nullptr);
}

std::uint64_t CallerTable::next_serial() const {
  const MutexLock lock(mutex_);
  return next_serial_;
}

void CallerTable::Adopt(std::vector<std::shared_ptr<const Process>> processes,
                        std::uint64_t next_serial) {
  const MutexLock lock(mutex_);
  for (auto& process : processes) {
    Keep(std::move(process));
  }
  next_serial_ = next_serial;
}

Result<std::shared_ptr<const Caller>> CallerTable::Find(pid_t tid, bool fresh) {
  std::shared_ptr<const Caller> known;
  {
    const MutexLock lock(mutex_);
    if (const auto found = threads_.find(tid); found != threads_.end()) {
      known = found->second;
    }
  }
  if (known != nullptr) {
    if (!fresh && known->thread_pidfd.valid() && !MayHaveExeced(*known->process)) {
      return known;
    }
    const MutexLock lock(mutex_);
    if (const auto found = threads_.find(tid); found != threads_.end() && found->second == known) {
      threads_.erase(found);
    }
  }
  auto caller = std::make_shared<Caller>();
  caller->tid = tid;
  caller->thread_pidfd = Frugally(PidfdOpen(tid, kPidfdThread));
  Status status;
  if (!ReadStatus(proc_.get(), tid, &status)) {
    return Error{Code::kUnavailable, ESRCH, "the calling thread is gone", {}};
  }
  CGPU_ASSIGN_OR_RETURN(caller->process, FindProcess(tid, status, fresh));
  if (!caller->thread_pidfd.valid()) {
    // Without PIDFD_THREAD the leader's table stands for the thread's, if both are the same one.
    caller->own_file_table =
        tid != status.tgid && syscall(SYS_kcmp, tid, status.tgid, KCMP_FILES, 0, 0) != 0;
  } else {
    Remember(caller);
  }
  return std::shared_ptr<const Caller>(caller);
}

void CallerTable::Remember(const std::shared_ptr<const Caller>& caller) {
  const MutexLock lock(mutex_);
  if (threads_.size() >= sweep_at_) {
    std::erase_if(threads_, [](const auto& entry) { return !entry.second->Alive(); });
    sweep_at_ = 2 * threads_.size() + 64;
  }
  if (threads_.size() < kMaxThreads) {
    threads_[caller->tid] = caller;
  }
}

std::vector<std::uint64_t> CallerTable::DropDead() {
  std::vector<std::shared_ptr<const Process>> processes = All();
  std::erase_if(processes, [](const auto& process) { return !HasExited(*process); });
  std::vector<std::shared_ptr<const Caller>> threads;
  {
    const MutexLock lock(mutex_);
    threads.reserve(threads_.size());
    for (const auto& [tid, caller] : threads_) {
      threads.push_back(caller);
    }
  }
  std::erase_if(threads, [](const auto& caller) { return caller->Alive(); });
  std::vector<std::uint64_t> dead;
  const MutexLock lock(mutex_);
  for (const auto& process : processes) {
    const auto found = processes_.find(process->tgid);
    if (found != processes_.end() && found->second == process) {
      StopWatching(*process);
      dead.push_back(process->serial);
      processes_.erase(found);
    }
  }
  for (const auto& caller : threads) {
    const auto found = threads_.find(caller->tid);
    if (found != threads_.end() && found->second == caller) {
      threads_.erase(found);
    }
  }
  return dead;
}

std::vector<std::shared_ptr<const Process>> CallerTable::All() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const Process>> list;
  list.reserve(processes_.size());
  for (const auto& [tgid, process] : processes_) {
    list.push_back(process);
  }
  return list;
}

std::vector<std::shared_ptr<const Process>> CallerTable::Processes() const {
  auto list = All();
  std::erase_if(list, [](const auto& process) { return HasExited(*process); });
  return list;
}

}  // namespace cgpu::os
