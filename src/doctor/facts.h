// Facts of a host, for the checks: its files, what its kernel answers, what commands print. All
// come through one interface, so that a test can play any host. Nothing here changes the host.
#ifndef CGPU_DOCTOR_FACTS_H_
#define CGPU_DOCTOR_FACTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/child.h"
#include "base/result.h"

namespace cgpu::doctor {

// Questions that only a system call answers.
enum class Question {
  kSeccompNotify,  // filters can hand calls to another process
  kSeccompSizes,   // notifications are no larger than this program knows
  kWaitKillable,   // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
  kListener,       // a program that this user starts can be held by such a filter
  kSyncWakeUp,     // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
  kPidfdOpen,      // pidfd_open(2)
  kPidfdGetfd,     // pidfd_getfd(2)
  kPidfdThread,    // PIDFD_THREAD
  kKcmp,           // kcmp(2)
  kOpenTree,       // open_tree(2)
  kMountSetattr,   // mount_setattr(2)
  kCloseRange,     // close_range(2)
  kInotify,        // this user can watch files
  kUserNamespace,  // this user can make a user namespace
};

struct FileFacts {
  enum class Kind { kRegular, kFolder, kCharacterDevice, kOther };
  Kind kind = Kind::kRegular;
  unsigned mode = 0;  // permission bits
  unsigned user = 0;
  unsigned major = 0;  // of a device
  unsigned minor = 0;
};

class Facts {
 public:
  virtual ~Facts() = default;

  // Returns a file's content. kNotFound; kPermission: this user may not read it.
  [[nodiscard]] virtual Result<std::string> Read(const std::string& path) const = 0;
  // Returns the names in a folder, sorted; errors as Read().
  [[nodiscard]] virtual Result<std::vector<std::string>> List(const std::string& folder) const = 0;
  // Returns what a path leads to, through links; errors as Read().
  [[nodiscard]] virtual Result<FileFacts> Look(const std::string& path) const = 0;
  // Returns where a link leads; errors as Read().
  [[nodiscard]] virtual Result<std::string> Link(const std::string& path) const = 0;
  // Runs a program, found in PATH, with its errors among its output. It has seconds. kNotFound: it
  // is not here. kUnavailable: it did not end in time. Between two calls of Pause() a program runs
  // once for the same words.
  [[nodiscard]] virtual Result<Output> Run(const std::vector<std::string>& words) const = 0;
  // Returns 0 if the kernel can, or the errno of its answer.
  [[nodiscard]] virtual int Ask(Question question) const = 0;
  // Returns 0 if a process listens at a socket of the type SOCK_STREAM or SOCK_SEQPACKET, or the
  // errno. Waits for nothing and sends nothing.
  [[nodiscard]] virtual int Connect(const std::string& socket) const = 0;

  [[nodiscard]] virtual unsigned User() const = 0;        // uid
  [[nodiscard]] virtual std::uint64_t Now() const = 0;    // seconds of Unix time
  [[nodiscard]] virtual std::string Version() const = 0;  // of this cgpu
  [[nodiscard]] virtual std::string Program() const = 0;  // path of this cgpu
  // Waits a second, in which the host may change.
  virtual void Pause() const = 0;
};

// Returns the facts of this host. `version`: this program's.
[[nodiscard]] std::unique_ptr<Facts> ThisHost(const std::string& version);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_FACTS_H_
