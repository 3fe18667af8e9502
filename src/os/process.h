// The tenants' processes as pinned kernel objects. A pid is only a name, which the kernel may give
// to another process at any moment. A pidfd and an open /proc/PID/mem keep meaning the process they
// were opened for, and fail once it is gone. So: find the caller by the number in the notification,
// then ask NotifyListener::Valid(), and from there use only what this header returns.
//
// A cached entry may be trusted because it holds a pidfd of the *thread*. While that thread lives,
// nobody else has its number, so a notification with that number came from it. Once it is dead,
// every use of the pidfd fails with ESRCH and the entry is dropped. The memory descriptor belongs
// to the address space at the time it was opened. An exec replaces the address space; reads then
// return nothing, and the caller looks the process up again.
//
// Reads do return something while another process uses the old address space. Therefore a process
// that shared it with its parent when first seen (vfork, CLONE_VM) is compared with its parent at
// every call, which costs other processes nothing. One case stays undetected: an exec after sharing
// memory with a process other than its parent at that time, or with a child that lives on. The
// parameters of such a process's calls are then read from and written to the other's memory; that
// is a process of the same container that it could write to before. Nothing else may depend on
// which address space a process has: charges to an address space go by address_space.h.
#ifndef CGPU_OS_PROCESS_H_
#define CGPU_OS_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"

namespace cgpu::os {

// The descriptor numbers of a process that led to a file worth taking, as far as they are
// remembered. Any thread may use it.
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

// One process of the tenant. Only `usual` changes after construction, so threads may share it.
struct Process {
  pid_t tgid = 0;            // for messages and lookups that are verified by `pidfd`
  pid_t ns_pid = 0;          // its number in the container's pid namespace, one below ours
  std::uint64_t serial = 0;  // unique in this shim: never given to another process
  UniqueFd pidfd;
  pid_t shares_with = 0;  // its parent, if both had one address space when `mem` was opened
  UniqueFd mem;  // /proc/TID/mem of the thread that called first: its leader may have exited
  std::uint64_t program = 0;  // another number for each opening of `mem`: hints at an exec
  mutable UsualNumbers usual;
};

[[nodiscard]] bool HasExited(const Process& process);

// Returns the process with this number, with its `tgid` and `pidfd` alone. Nothing: there is none,
// the number is that of a further thread, or this process has no room.
[[nodiscard]] std::shared_ptr<const Process> ProcessOf(pid_t pid);

// Returns the parent of `pid` if that is process 1 of a PID namespace below the one of `proc`:
// orphans of that namespace become its children. Otherwise returns `pid`.
[[nodiscard]] pid_t WithOrphans(int proc, pid_t pid);

// The identity of a file, asked in a way that a hostile file system cannot hang.
struct FileIdentity {
  std::uint64_t dev = 0;   // makedev form
  std::uint64_t rdev = 0;  // of a character device, else 0
  std::uint64_t ino = 0;
};
[[nodiscard]] Result<FileIdentity> Identify(int fd);

// Identifies the file that thread `tid` has under the number `fd`, without taking it; `proc` as
// CallerTable's. Asks no FUSE server. The kernel walks to the open file by its own link, where it
// asks a file system only for d_weak_revalidate (fs/namei.c complete_walk()), which FUSE does not
// have and network file systems do. The attributes are those that the kernel knows
// (AT_STATX_DONT_SYNC). ENOENT in sys_errno: there is no such descriptor or no such thread.
[[nodiscard]] Result<FileIdentity> IdentifyOf(int proc, pid_t tid, int fd);

struct Caller {
  virtual ~Caller() = default;

  pid_t tid = 0;
  UniqueFd thread_pidfd;  // invalid on kernels without PIDFD_THREAD (before 6.9)
  std::shared_ptr<const Process> process;
  bool own_file_table = false;  // only meaningful without thread_pidfd: see TakeFd()

  // Return the bytes transferred, or -1 with errno (EFAULT or another). 0: the address space is
  // gone.
  [[nodiscard]] virtual ssize_t Read(std::uint64_t address, void* into, std::size_t size) const;
  [[nodiscard]] virtual ssize_t Write(std::uint64_t address, const void* from,
                                      std::size_t size) const;

  // Returns a duplicate of the thread's descriptor `fd`. ESRCH: the thread is gone. EBADF: no such
  // descriptor, or the thread has a table of its own and this kernel cannot look into it.
  [[nodiscard]] virtual Result<UniqueFd> TakeFd(int fd) const;

  // Returns false once the process (the thread, where the kernel can tell) has exited.
  [[nodiscard]] virtual bool Alive() const;

  // Identifies as IdentifyOf() does, for this thread.
  [[nodiscard]] virtual Result<FileIdentity> Identify(int proc, int fd) const;
};

// Finds callers. Thread-safe.
class CallerLookup {
 public:
  virtual ~CallerLookup() = default;

  // Returns the caller with thread id `tid`. NotifyListener::Valid() must follow. A cached entry
  // may be that of a thread that is gone: then TakeFd() fails with ESRCH. `fresh` drops the cached
  // entry first; use it after ESRCH or an empty read. kExhausted: there is no room for another
  // process.
  [[nodiscard]] virtual Result<std::shared_ptr<const Caller>> Find(pid_t tid, bool fresh) = 0;

  // Returns an epoll descriptor that becomes readable when a known process exits; then call
  // DropDead(). Some exits are not told while others have all epoll watches of this uid.
  [[nodiscard]] virtual int exit_events() const = 0;

  // Returns the open /proc of the pid namespace that callers are numbered in.
  [[nodiscard]] virtual int proc_fd() const = 0;

  // Forgets processes and threads that have exited. Returns the serials of the processes.
  virtual std::vector<std::uint64_t> DropDead() = 0;

  // Returns the known processes that are alive, in order of serial.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const Process>> Processes() const = 0;

  // --- Hand-over to a later lookup, which knows no process yet. It looks up callers by itself.
  [[nodiscard]] virtual std::uint64_t next_serial() const = 0;
  virtual void Adopt(std::vector<std::shared_ptr<const Process>> processes,
                     std::uint64_t next_serial) = 0;
};

// Finds callers in /proc and caches them. Never holds its lock while it asks the kernel about a
// process: the kernel can make it wait for everything that the process waits for, for example an
// exec that closes files.
class CallerTable final : public CallerLookup {
 public:
  // Limits of the cache. Each known process takes two descriptors of this one, each known thread
  // takes one. Threads beyond kMaxThreads are looked up at every call.
  static constexpr std::size_t kMaxProcesses = 16'384;
  static constexpr std::size_t kMaxThreads = 16'384;

  // The fields of a thread's status in /proc.
  struct Status {
    pid_t tgid = 0;
    pid_t ns_pid = 0;  // as Process::ns_pid
    pid_t parent = 0;
    bool is_init = false;  // process 1 of a namespace below ours
  };

  // `proc_fd`: an open /proc, see proc_fd().
  explicit CallerTable(UniqueFd proc_fd);

  [[nodiscard]] Result<std::shared_ptr<const Caller>> Find(pid_t tid, bool fresh) override;
  [[nodiscard]] int exit_events() const override { return epoll_.get(); }
  [[nodiscard]] int proc_fd() const override { return proc_.get(); }
  std::vector<std::uint64_t> DropDead() override;
  [[nodiscard]] std::vector<std::shared_ptr<const Process>> Processes() const override;
  [[nodiscard]] std::uint64_t next_serial() const override;
  void Adopt(std::vector<std::shared_ptr<const Process>> processes,
             std::uint64_t next_serial) override;

 private:
  Result<std::shared_ptr<const Process>> FindProcess(pid_t tid, const Status& status, bool fresh);
  void Keep(std::shared_ptr<const Process> process) CGPU_REQUIRES(mutex_);
  void Remember(const std::shared_ptr<const Caller>& caller);
  [[nodiscard]] std::shared_ptr<const Process> Known(pid_t tgid) const;
  [[nodiscard]] std::vector<std::shared_ptr<const Process>> All() const;
  void StopWatching(const Process& process) const;

  const UniqueFd proc_;
  UniqueFd epoll_;
  mutable Mutex mutex_;  // guards the rest
  std::map<pid_t, std::shared_ptr<const Caller>> threads_ CGPU_GUARDED_BY(mutex_);
  std::map<pid_t, std::shared_ptr<const Process>> processes_ CGPU_GUARDED_BY(mutex_);
  std::uint64_t next_serial_ CGPU_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_program_ CGPU_GUARDED_BY(mutex_) = std::uint64_t{1}
                                                        << 48;  // above every serial
  std::size_t sweep_at_ CGPU_GUARDED_BY(mutex_) = 64;
};

}  // namespace cgpu::os

#endif  // CGPU_OS_PROCESS_H_
