#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "os/newer_seccomp.h"
#include "os/notify.h"

namespace cgpu::os {

// Recognises the file by the name that /proc shows: the kernel makes it.
bool NotifyListener::IsListener(int fd) {
  constexpr std::string_view kName = "anon_inode:seccomp notify";
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  char name[kName.size() + 1];
  const ssize_t n = readlinkat(AT_FDCWD, path.c_str(), name, sizeof(name));
  return n > 0 && std::string_view(name, static_cast<std::size_t>(n)) == kName;
}

Result<> NotifyListener::Prepare() {
  seccomp_notif_sizes sizes{};
  if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) {
    return ErrnoError(Code::kUnsupported, errno, "this kernel has no seccomp user notification");
  }
  if (sizes.seccomp_notif > sizeof(seccomp_notif) ||
      sizes.seccomp_notif_resp > sizeof(seccomp_notif_resp)) {
    return Error{Code::kUnsupported, 0, "this kernel's seccomp notifications are larger than known",
                 "use a newer cgpu"};
  }
  struct sigaction action{};
  action.sa_handler = [](int) {};  // does nothing but cause EINTR, so without SA_RESTART
  (void)sigaction(SIGUSR1, &action, nullptr);
  return {};
}

Result<NotifyListener> NotifyListener::Make(UniqueFd fd) {
  if (!IsListener(fd.get())) {
    return Error{Code::kInvalid, 0, "this is no seccomp listener", {}};
  }
  // The caller and the shim alternate, so one core serves them best. Older kernels do not know the
  // flag: then it is only slower.
  (void)ioctl(fd.get(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
  return NotifyListener(std::move(fd));
}

Result<Notification> NotifyListener::Receive() const {
  seccomp_notif raw{};
  if (ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_RECV, &raw) != 0) {
    return Error{Code::kUnavailable, errno, "no notification", {}};
  }
  Notification n;
  n.received = std::chrono::steady_clock::now();
  n.id = raw.id;
  n.tid = static_cast<pid_t>(raw.pid);
  n.arch = raw.data.arch;
  n.nr = raw.data.nr;
  n.ip = raw.data.instruction_pointer;
  std::memcpy(n.args, raw.data.args, sizeof(n.args));
  return n;
}

void NotifyListener::Interrupt(pid_t tid) const {
  (void)syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
}

bool NotifyListener::Ended() const {
  pollfd query{fd_.get(), 0, 0};
  return poll(&query, 1, 0) > 0 && (query.revents & POLLHUP) != 0;
}

bool NotifyListener::Valid(std::uint64_t id) const {
  return ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool NotifyListener::Answer(std::uint64_t id, std::int64_t value, int error) const {
  seccomp_notif_resp reply{};
  reply.id = id;
  reply.val = error != 0 ? 0 : value;
  reply.error = -error;
  return ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_SEND, &reply) == 0;
}

bool NotifyListener::Continue(std::uint64_t id) const {
  seccomp_notif_resp reply{};
  reply.id = id;
  reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  return ioctl(fd_.get(), SECCOMP_IOCTL_NOTIF_SEND, &reply) == 0;
}

}  // namespace cgpu::os
