// The tenants' processes as pinned kernel objects. A pid number is only a name that the kernel may
// give to another process at any moment; a pidfd and an open /proc/PID/mem keep meaning the process
// they were opened for, and fail once it is gone. So: find the caller by the number in the
// notification, then ask NotifyListener::Valid(), and from there use only what this header returns.
//
// Why a cached entry may be trusted: it holds a pidfd of the *thread*. As long as that thread lives
// its number belongs to nobody else, so a notification with that number came from it; once it is
// dead every use of the pidfd fails with ESRCH and the entry is dropped. The memory descriptor
// belongs to the address space at the time it was opened; exec replaces that, and reads then return
// nothing, which makes the caller look the process up again. That is not so while another process
// uses the old address space: a process that shared it with its parent when first seen (vfork,
// CLONE_VM) is therefore compared with its parent at every call, which costs others nothing. Not
// seen: an exec after sharing memory with a process other than its parent then, or with a child
// that lives on. The parameters of its calls are then read from and written to the other's memory,
// a process of the same container that it could write to before. Nothing else may rest on which
// address space a process has: what is charged to one goes by address_space.h.
#ifndef CGPU_KERNEL_PROCESS_H_
#define CGPU_KERNEL_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::kernel {

// Which of a process's descriptor numbers led to a file that was worth taking, so far as is
// remembered. From any thread.
class UsualNumbers {
 public:
  [[nodiscard]] bool Contains(int number) const {
    return number >= 0 && Place(number).load(std::memory_order_relaxed) == number;
  }
  void Add(int number) { Place(number).store(number, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kPlaces = 16;
  [[nodiscard]] const std::atomic<int>& Place(int number) const {
    return places_[static_cast<unsigned>(number) % kPlaces];
  }
  std::atomic<int>& Place(int number) { return places_[static_cast<unsigned>(number) % kPlaces]; }

  std::array<std::atomic<int>, kPlaces> places_{-1, -1, -1, -1, -1, -1, -1, -1,
                                                -1, -1, -1, -1, -1, -1, -1, -1};
};

// One process of the tenant. Immutable after construction but for `usual`, so safe to share between
// threads.
struct Process {
  pid_t tgid = 0;            // for messages and lookups that are verified by `pidfd`
  pid_t ns_pid = 0;          // its number in the pid namespace one below ours: the container's
  std::uint64_t serial = 0;  // unique in this shim: never given to another process
  UniqueFd pidfd;
  pid_t shares_with = 0;  // its parent, if both had one address space when `mem` was opened
  UniqueFd mem;  // /proc/TID/mem of the thread that called first: its leader may have exited
  std::uint64_t program = 0;  // another one whenever `mem` was opened: a hint, see above
  mutable UsualNumbers usual;
};

[[nodiscard]] bool HasExited(const Process& process);

// What a file is, asked in a way that a hostile file system cannot hang.
struct FileIdentity {
  std::uint64_t dev = 0;   // makedev form
  std::uint64_t rdev = 0;  // of a character device, else 0
  std::uint64_t ino = 0;
};
[[nodiscard]] Result<FileIdentity> Identify(int fd);

// What the thread `tid` has under the number `fd`, without taking it; `proc` as CallerTable's. Asks
// no FUSE server: the kernel walks to the open file by its own link, where it asks a file system
// only for d_weak_revalidate (fs/namei.c complete_walk()), which FUSE does not have and network
// file systems do; and the file's attributes are those it knows (AT_STATX_DONT_SYNC). ENOENT in
// sys_errno: there is no such descriptor or no such thread.
[[nodiscard]] Result<FileIdentity> IdentifyOf(int proc, pid_t tid, int fd);

struct Caller {
  pid_t tid = 0;
  UniqueFd thread_pidfd;  // invalid on kernels without PIDFD_THREAD (before 6.9)
  std::shared_ptr<const Process> process;
  bool own_file_table = false;  // only meaningful without thread_pidfd: see TakeFd()

  // Bytes transferred, or -1 with errno EFAULT or another; 0 means that the address space is gone.
  [[nodiscard]] ssize_t Read(std::uint64_t address, void* into, std::size_t size) const;
  [[nodiscard]] ssize_t Write(std::uint64_t address, const void* from, std::size_t size) const;

  // A duplicate of the thread's descriptor `fd`. ESRCH: the thread is gone. EBADF: no such
  // descriptor, or the thread has a table of its own and this kernel cannot look into it.
  [[nodiscard]] Result<UniqueFd> TakeFd(int fd) const;

  // False once the process (the thread, where the kernel can tell) has exited.
  [[nodiscard]] bool Alive() const;
};

// Finds callers, caching them. Thread-safe. Its lock is never held while the kernel is asked about
// a process: that can wait for whom the process waits for, as for an exec that closes files.
class CallerTable {
 public:
  // Each known process takes two descriptors of this one, each known thread one. Threads beyond
  // their bound are looked up at every call.
  static constexpr std::size_t kMaxProcesses = 16'384;
  static constexpr std::size_t kMaxThreads = 16'384;

  // What /proc says of a thread.
  struct Status {
    pid_t tgid = 0;
    pid_t ns_pid = 0;  // in its innermost pid namespace
    pid_t parent = 0;
  };

  // `proc_fd`: an open /proc of the pid namespace that notifications are numbered in.
  explicit CallerTable(UniqueFd proc_fd);

  // The caller with thread id `tid`. Must be followed by NotifyListener::Valid(). What is cached is
  // not looked at again: of a thread that is gone TakeFd() fails with ESRCH. With `fresh` the
  // cached entry is dropped first: after ESRCH or an empty read. kExhausted: there is no room for
  // another process.
  [[nodiscard]] Result<std::shared_ptr<const Caller>> Find(pid_t tid, bool fresh = false);

  // An epoll descriptor that becomes readable when a known process exits; then call DropDead().
  [[nodiscard]] int exit_events() const { return epoll_.get(); }

  [[nodiscard]] int proc_fd() const { return proc_.get(); }

  // Forgets processes and threads that have exited. Returns the serials of the processes.
  std::vector<std::uint64_t> DropDead();

  // Processes known and alive, in order of serial.
  [[nodiscard]] std::vector<std::shared_ptr<const Process>> Processes() const;

  // --- From one table to a later one, which knows none yet. Callers are found anew.
  [[nodiscard]] std::uint64_t next_serial() const;
  void Adopt(std::vector<std::shared_ptr<const Process>> processes, std::uint64_t next_serial);

 private:
  Result<std::shared_ptr<const Process>> FindProcess(pid_t tid, const Status& status, bool fresh);
  void Keep(std::shared_ptr<const Process> process);
  void Remember(const std::shared_ptr<const Caller>& caller);
  [[nodiscard]] std::shared_ptr<const Process> Known(pid_t tgid) const;
  [[nodiscard]] std::vector<std::shared_ptr<const Process>> All() const;
  void StopWatching(const Process& process) const;

  const UniqueFd proc_;
  UniqueFd epoll_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<pid_t, std::shared_ptr<const Caller>> threads_;
  std::map<pid_t, std::shared_ptr<const Process>> processes_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_program_ = std::uint64_t{1} << 48;  // above every serial
  std::size_t sweep_at_ = 64;
};

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_PROCESS_H_
