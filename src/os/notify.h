// The seccomp listener. Receives the tenants' trapped calls and answers them. Any thread may call
// any method; several threads may block in Receive() at once. Tests have channels of their own.
#ifndef CGPU_OS_NOTIFY_H_
#define CGPU_OS_NOTIFY_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::os {

struct Notification {
  std::uint64_t id = 0;
  pid_t tid = 0;  // the calling thread, in our pid namespace; a name only, see process.h
  std::uint32_t arch = 0;
  int nr = 0;
  std::uint64_t ip = 0;
  std::uint64_t args[6] = {};
  std::chrono::steady_clock::time_point received;  // when this process got it
};

// Receives calls and answers them.
class NotifyChannel {
 public:
  virtual ~NotifyChannel() = default;

  // Waits for the next call. kUnavailable: the caller died meanwhile, Interrupt() was called, or no
  // process is left under the filter (see Ended()).
  [[nodiscard]] virtual Result<Notification> Receive() const = 0;

  // Makes Receive() return in the thread `tid` of this process, if it waits there by then. (Kernels
  // before 6.11 leave a thread waiting even when the last process under the filter is gone.)
  virtual void Interrupt(pid_t tid) const = 0;

  // Returns true once no process is left under the filter.
  [[nodiscard]] virtual bool Ended() const = 0;

  // Returns true while the caller still waits in exactly this call. Ask after opening anything by
  // number.
  [[nodiscard]] virtual bool Valid(std::uint64_t id) const = 0;

  // Ends the call with `value`, or with -1 and `error` if `error` is not 0. Returns false if the
  // caller is gone or was interrupted; the call had its effect all the same.
  [[nodiscard]] virtual bool Answer(std::uint64_t id, std::int64_t value, int error) const = 0;

  // Lets the kernel execute the call as the tenant issued it. Only for calls that are harmless with
  // any content on any file, because memory and descriptors may have changed since.
  [[nodiscard]] virtual bool Continue(std::uint64_t id) const = 0;

  // Returns a descriptor that hangs up when no process is left under the filter.
  [[nodiscard]] virtual int fd() const = 0;
};

// The kernel's.
class NotifyListener final : public NotifyChannel {
 public:
  // Checks that the kernel's structures are not larger than ours, and takes SIGUSR1 for
  // Interrupt(). Call it once, before the first Make() and before the process confines itself.
  [[nodiscard]] static Result<> Prepare();

  // Takes the listener. kInvalid: the file is none. Asks a hostile file nothing that could hang.
  [[nodiscard]] static Result<NotifyListener> Make(UniqueFd fd);
  [[nodiscard]] static bool IsListener(int fd);

  [[nodiscard]] Result<Notification> Receive() const override;
  void Interrupt(pid_t tid) const override;
  [[nodiscard]] bool Ended() const override;
  [[nodiscard]] bool Valid(std::uint64_t id) const override;
  [[nodiscard]] bool Answer(std::uint64_t id, std::int64_t value, int error) const override;
  [[nodiscard]] bool Continue(std::uint64_t id) const override;
  [[nodiscard]] int fd() const override { return fd_.get(); }

 private:
  explicit NotifyListener(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace cgpu::os

#endif  // CGPU_OS_NOTIFY_H_
