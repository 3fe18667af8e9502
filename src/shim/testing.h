// A server over callers, a listener and a driver of the test's own: no root, no GPU, no filter.
#ifndef CGPU_SHIM_TESTING_H_
#define CGPU_SHIM_TESTING_H_

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "os/notify.h"
#include "os/process.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rmclient/raw.h"
#include "shim/server.h"

namespace cgpu::shim {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kLimit = 64 * kMiB;
inline constexpr std::chrono::seconds kTimeout{20};

// Counts the steps of a call, and ends its caller before one of them.
class Fate {
 public:
  // `at`: number of the step before which the caller dies, from 1 on; 0: it lives.
  void DieBefore(int at) {
    steps_ = 0;
    at_ = at;
    dead_ = false;
  }
  void Step() {
    if (++steps_ == at_) {
      dead_ = true;
    }
  }
  void Die() { dead_ = true; }
  [[nodiscard]] bool dead() const { return dead_; }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  std::atomic<int> steps_{0};
  std::atomic<int> at_{0};
  std::atomic<bool> dead_{false};
};

// The end of a call.
struct Outcome {
  bool answered = false;
  bool continued = false;
  int error = 0;
};

// The listener of the test: hands out what Push() got.
class FakeChannel final : public os::NotifyChannel {
 public:
  explicit FakeChannel(Fate& fate) : fate_(fate) {
    int ends[2] = {-1, -1};
    (void)!pipe2(ends, O_CLOEXEC);
    end_.reset(ends[0]);
    other_.reset(ends[1]);
  }

  void Push(const os::Notification& notification) {
    const MutexLock lock(mutex_);
    waiting_.push_back(notification);
    changed_.NotifyAll();
  }
  // Waits until the call was answered or continued.
  Outcome Await(std::uint64_t id) {
    const MutexLock lock(mutex_);
    while (!outcomes_.contains(id)) {
      changed_.Wait(mutex_);
    }
    return outcomes_[id];
  }
  // Waits until a thread has received every call.
  void AwaitReceived() {
    const MutexLock lock(mutex_);
    while (!waiting_.empty()) {
      changed_.Wait(mutex_);
    }
  }
  [[nodiscard]] bool Answered(std::uint64_t id) const {
    const MutexLock lock(mutex_);
    return outcomes_.contains(id);
  }
  // Makes the kernel forget a call: its caller was killed, or a signal ended the call.
  void Forget(std::uint64_t id) {
    const MutexLock lock(mutex_);
    forgotten_.insert(id);
  }
  // The same, as soon as a thread has looked whether the caller still waits.
  void ForgetAfterALook(std::uint64_t id) {
    const MutexLock lock(mutex_);
    looked_at_ = id;
  }
  // Makes answers arrive at nobody (ENOENT), from now on.
  void LoseAnswers(bool lose) { lose_ = lose; }

  [[nodiscard]] Result<os::Notification> Receive() const override {
    const MutexLock lock(mutex_);
    const pid_t self = gettid();
    while (waiting_.empty() && !interrupted_.contains(self)) {
      changed_.Wait(mutex_);
    }
    interrupted_.erase(self);
    if (waiting_.empty()) {
      return Error{Code::kUnavailable, EINTR, "interrupted", {}};
    }
    const os::Notification next = waiting_.front();
    waiting_.pop_front();
    changed_.NotifyAll();
    return next;
  }
  void Interrupt(pid_t tid) const override {
    const MutexLock lock(mutex_);
    interrupted_.insert(tid);
    changed_.NotifyAll();
  }
  [[nodiscard]] bool Ended() const override { return false; }
  [[nodiscard]] bool Valid(std::uint64_t id) const override {
    fate_.Step();
    const MutexLock lock(mutex_);
    const bool valid = !fate_.dead() && !forgotten_.contains(id);
    if (id == looked_at_) {
      forgotten_.insert(id);
    }
    return valid;
  }
  [[nodiscard]] bool Answer(std::uint64_t id, std::int64_t /*value*/, int error) const override {
    return Settle(id, {true, false, error});
  }
  [[nodiscard]] bool Continue(std::uint64_t id) const override {
    return Settle(id, {false, true, 0});
  }
  [[nodiscard]] int fd() const override { return end_.get(); }

 private:
  bool Settle(std::uint64_t id, const Outcome& outcome) const {
    fate_.Step();
    const MutexLock lock(mutex_);
    if (fate_.dead() || forgotten_.contains(id) || lose_) {
      return false;
    }
    outcomes_[id] = outcome;
    changed_.NotifyAll();
    return true;
  }

  Fate& fate_;
  UniqueFd end_;
  UniqueFd other_;
  std::atomic<bool> lose_{false};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable std::deque<os::Notification> waiting_ CGPU_GUARDED_BY(mutex_);
  mutable std::set<pid_t> interrupted_ CGPU_GUARDED_BY(mutex_);
  mutable std::map<std::uint64_t, Outcome> outcomes_ CGPU_GUARDED_BY(mutex_);
  mutable std::set<std::uint64_t> forgotten_ CGPU_GUARDED_BY(mutex_);
  std::uint64_t looked_at_ CGPU_GUARDED_BY(mutex_) = 0;
};

// A thread of the test's own process, whose files and memory are the test's.
struct FakeCaller final : os::Caller {
  explicit FakeCaller(Fate& its_fate) : fate(its_fate) {}

  [[nodiscard]] ssize_t Read(std::uint64_t address, void* into, std::size_t size) const override {
    fate.Step();
    if (fate.dead()) {
      return 0;
    }
    std::memcpy(into, std::bit_cast<const void*>(address), size);
    return static_cast<ssize_t>(size);
  }
  [[nodiscard]] ssize_t Write(std::uint64_t address, const void* from,
                              std::size_t size) const override {
    fate.Step();
    if (fate.dead()) {
      return 0;
    }
    std::memcpy(std::bit_cast<void*>(address), from, size);
    return static_cast<ssize_t>(size);
  }
  [[nodiscard]] Result<UniqueFd> TakeFd(int fd) const override {
    fate.Step();
    if (fate.dead()) {
      return Error{Code::kNotFound, ESRCH, "the thread is gone", {}};
    }
    return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  [[nodiscard]] bool Alive() const override { return !fate.dead(); }
  [[nodiscard]] Result<os::FileIdentity> Identify(int /*proc*/, int fd) const override {
    fate.Step();
    if (fate.dead()) {
      return Error{Code::kNotFound, ENOENT, "no such descriptor", {}};
    }
    return os::Identify(fd);
  }

  Fate& fate;
};

class FakeLookup final : public os::CallerLookup {
 public:
  explicit FakeLookup(Fate& fate)
      : fate_(fate), events_(epoll_create1(EPOLL_CLOEXEC)), process_(MakeProcess()) {}

  [[nodiscard]] Result<std::shared_ptr<const os::Caller>> Find(pid_t tid, bool /*fresh*/) override {
    fate_.Step();
    if (fate_.dead()) {
      return Error{Code::kUnavailable, ESRCH, "the thread is gone", {}};
    }
    auto caller = std::make_shared<FakeCaller>(fate_);
    caller->tid = tid;
    caller->process = process_;
    return std::shared_ptr<const os::Caller>(std::move(caller));
  }
  [[nodiscard]] int exit_events() const override { return events_.get(); }
  [[nodiscard]] int proc_fd() const override { return -1; }
  std::vector<std::uint64_t> DropDead() override { return {}; }
  [[nodiscard]] std::vector<std::shared_ptr<const os::Process>> Processes() const override {
    return {process_};
  }
  [[nodiscard]] std::uint64_t next_serial() const override { return next_serial_; }
  void Adopt(std::vector<std::shared_ptr<const os::Process>> processes,
             std::uint64_t next_serial) override {
    process_ = processes.at(0);
    next_serial_ = next_serial;
  }

 private:
  static std::shared_ptr<const os::Process> MakeProcess() {
    auto process = std::make_shared<os::Process>();
    process->tgid = getpid();
    process->ns_pid = 1;
    process->serial = 1;
    process->pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    return process;
  }

  Fate& fate_;
  UniqueFd events_;
  std::shared_ptr<const os::Process> process_;
  std::uint64_t next_serial_ = 2;
};

// The one process of a container, a child of the test, which does nothing. Its end must be waited
// for.
class Child {
 public:
  explicit Child(FakeLookup& callers) : pid_(fork()) {
    if (pid_ == 0) {
      pause();
      _exit(0);
    }
    auto process = std::make_shared<os::Process>();
    process->tgid = pid_;
    process->serial = 1;
    process->pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    process_ = std::move(process);
    callers.Adopt({process_}, 2);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::shared_ptr<const os::Process>& process() const { return process_; }
  // Returns the signal that has ended it; 0: another end.
  [[nodiscard]] int AwaitSignal() const {
    int status = 0;
    return waitpid(pid_, &status, 0) == pid_ && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  const pid_t pid_;
  std::shared_ptr<const os::Process> process_;
};

// A driver that knows clients and tables of exported objects alone, and that can be told to wait or
// to have no room. A file is what has its inode: files in /dev are all the same.
class FakeDriver final : public rmclient::GpuCalls {
 public:
  explicit FakeDriver(Fate& fate) : fate_(fate) {}

  // Stops allocations and frees until Release().
  void Hold() {
    const MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    const MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  // Waits until one more allocation or free has begun than `before`: allocs() + frees().
  void AwaitOneMoreThan(int before) {
    const MutexLock lock(mutex_);
    while (allocs_ + frees_ <= before) {
      changed_.Wait(mutex_);
    }
  }
  // Refuses further clients while `full`.
  void SetFull(bool full) {
    const MutexLock lock(mutex_);
    full_ = full;
  }
  // Ends what is on the file, as its last close does.
  void Close(int file) {
    const FileId id = IdOf(file);
    const MutexLock lock(mutex_);
    std::erase_if(clients_, [&](const auto& client) { return client.second == id; });
    tables_.erase(id);
  }
  // Sets the file's table of exported objects up. Returns false if it has one.
  bool SetUpTable(int file) {
    const FileId id = IdOf(file);
    const MutexLock lock(mutex_);
    return tables_.insert(id).second;
  }
  [[nodiscard]] std::set<std::uint32_t> Clients() const {
    std::set<std::uint32_t> handles;
    const MutexLock lock(mutex_);
    for (const auto& [handle, file] : clients_) {
      handles.insert(handle);
    }
    return handles;
  }
  [[nodiscard]] int allocs() const {
    const MutexLock lock(mutex_);
    return allocs_;
  }
  [[nodiscard]] int frees() const {
    const MutexLock lock(mutex_);
    return frees_;
  }

  int Call(int file, unsigned long request, void* params) override {
    fate_.Step();
    switch (_IOC_NR(request)) {
      case rm::NV_ESC_RM_ALLOC:
        // The shim's own allocations have the longer form, the tests' the shorter one.
        if (_IOC_SIZE(request) == sizeof(rm::NVOS64_PARAMETERS)) {
          Alloc(file, *static_cast<rm::NVOS64_PARAMETERS*>(params));
        } else {
          Alloc(file, *static_cast<rm::NVOS21_PARAMETERS*>(params));
        }
        return 0;
      case rm::NV_ESC_RM_FREE:
        Free(*static_cast<rm::NVOS00_PARAMETERS*>(params));
        return 0;
      case rm::NV_ESC_RM_CONTROL:
        Control(file, *static_cast<rm::NVOS54_PARAMETERS*>(params));
        return 0;
      default:
        return EINVAL;
    }
  }

 private:
  using FileId = std::pair<dev_t, ino_t>;

  static FileId IdOf(int file) {
    struct stat status{};
    (void)fstat(file, &status);
    return {status.st_dev, status.st_ino};
  }
  void AwaitRelease() CGPU_REQUIRES(mutex_) {
    changed_.NotifyAll();
    while (held_) {
      changed_.Wait(mutex_);
    }
  }
  template <class Params>
  void Alloc(int file, Params& alloc) {
    const MutexLock lock(mutex_);
    ++allocs_;
    AwaitRelease();
    if (full_) {
      alloc.status = rm::NV_ERR_INSUFFICIENT_RESOURCES;
      return;
    }
    alloc.hObjectNew = next_++;
    clients_[alloc.hObjectNew] = IdOf(file);
    alloc.status = rm::NV_OK;
  }
  void Free(rm::NVOS00_PARAMETERS& free) {
    const MutexLock lock(mutex_);
    ++frees_;
    AwaitRelease();
    free.status =
        clients_.erase(free.hObjectOld) != 0 ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  // Asks whether a client exists, or sets up a table.
  void Control(int file, rm::NVOS54_PARAMETERS& control) {
    if (control.cmd == rm::NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD) {
      const auto* table =
          std::bit_cast<const rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS*>(
              control.params);
      control.status = SetUpTable(table->fd) ? rm::NV_OK : rm::NV_ERR_INVALID_ARGUMENT;
      return;
    }
    std::uint32_t wanted = 0;
    std::memcpy(&wanted, std::bit_cast<const void*>(control.params), sizeof(wanted));
    const MutexLock lock(mutex_);
    const auto client = clients_.find(control.hClient);
    const bool usable = client != clients_.end() && client->second == IdOf(file);
    control.status = usable && clients_.contains(wanted) ? rm::NV_OK : rm::NV_ERR_INVALID_CLIENT;
  }

  Fate& fate_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::uint32_t, FileId> clients_ CGPU_GUARDED_BY(mutex_);  // with the file of each
  std::set<FileId> tables_ CGPU_GUARDED_BY(mutex_);                  // files that have one
  bool full_ CGPU_GUARDED_BY(mutex_) = false;
  std::uint32_t next_ CGPU_GUARDED_BY(mutex_) = 0xc1d00001;
  int allocs_ CGPU_GUARDED_BY(mutex_) = 0;
  int frees_ CGPU_GUARDED_BY(mutex_) = 0;
  bool held_ CGPU_GUARDED_BY(mutex_) = false;
};

// The handler of a pool without threads.
class NoCalls final : public CallHandler {
  void Handle(const SourcePtr& /*source*/, const os::Notification& /*call*/) override {}
  void Run(std::unique_ptr<ParkedCall> /*call*/) override {}
};

// Returns a control file by the identity of /dev/zero.
inline NodeFile ControlFile() {
  struct stat zero{};
  (void)stat("/dev/zero", &zero);
  NodeFile file;
  file.kind = NodeFile::Kind::kCtl;
  file.granted = true;
  file.path = "/dev/zero";
  file.dev_major = major(zero.st_rdev);
  file.dev_minor = minor(zero.st_rdev);
  return file;
}

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_TESTING_H_
