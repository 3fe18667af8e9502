// A stand-in for cgpu-shim, for the tests of `cgpu run` itself: it speaks the launcher's protocol
// and the admin socket, and answers every trapped call with ENOTTY. A container's name tells it how
// to misbehave: "refuse...", "die-early...", "die-late...", and "patient...", which calls its
// process "asked" when it is, and answers `cgpu ps` only after SIGUSR1.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "os/messages.h"
#include "protocol/admin.h"
#include "protocol/config.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kUsed = std::uint64_t{100} << 20;  // bytes of its process on each GPU

void AnswerTrap(int listener) {
  seccomp_notif call{};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0) {
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.error = -ENOTTY;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

std::string StatusText(const ShimConfig& config, unsigned pid) {
  ContainerStatus status;
  status.id = config.id;
  status.name = config.name;
  status.pid = pid;
  status.user = config.user;
  status.state = "running";
  status.since = config.since;
  for (const GpuGrant& grant : config.gpus) {
    const auto index = static_cast<unsigned>(status.gpus.size());
    status.gpus.push_back(
        {grant.gpu.uuid, index, grant.gpu.index, grant.limit_bytes, kUsed, kUsed, 0});
  }
  return EncodeStatus(status);
}

const sigset_t& Usr1() {
  static const sigset_t set = [] {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    return one;
  }();
  return set;
}

void AnswerAdmin(ShimConfig& config, unsigned pid) {
  const UniqueFd peer(accept4(kShimAdminFd, nullptr, nullptr, SOCK_CLOEXEC));
  char buffer[4096];
  const ssize_t n = read(peer.get(), buffer, sizeof(buffer));
  if (n <= 0) {
    return;
  }
  const auto request = DecodeRequest(std::string_view(buffer, static_cast<std::size_t>(n)));
  if (!request.ok()) {
    (void)WriteAll(peer.get(), EncodeOutcome(request.error()));
  } else if (request.value().kind == AdminRequest::Kind::kPs) {
    if (config.name.starts_with("patient")) {
      (void)prctl(PR_SET_NAME, "asked");
      int which = 0;
      (void)sigwait(&Usr1(), &which);
    }
    (void)WriteAll(peer.get(), StatusText(config, pid));
  } else if (request.value().kind == AdminRequest::Kind::kMemory) {
    (void)WriteAll(peer.get(), EncodeGpuMemory({kUsed, kUsed, {{pid, kUsed}}}));
  } else {
    for (GpuGrant& grant : config.gpus) {
      if (request.value().uuid == grant.gpu.uuid || request.value().uuid == "*") {
        grant.limit_bytes = request.value().bytes;
      }
    }
    (void)WriteAll(peer.get(), EncodeOutcome({}));
  }
}

int Serve(ShimConfig config, int listener, unsigned pid) {
  int launcher = kShimControlFd;
  while (true) {
    pollfd events[] = {{listener, POLLIN, 0}, {kShimAdminFd, POLLIN, 0}, {launcher, POLLIN, 0}};
    if (poll(events, 3, -1) < 0) {
      return 1;
    }
    if ((events[0].revents & POLLHUP) != 0) {
      return 0;
    }
    if (events[0].revents != 0) {
      AnswerTrap(listener);
      if (config.name.starts_with("die-late")) {
        return 1;
      }
    }
    if (events[1].revents != 0) {
      AnswerAdmin(config, pid);
    }
    if (events[2].revents != 0) {
      launcher = -1;
    }
  }
}

int Main() {
  const auto text = ReceiveMessage(kShimControlFd, -1);
  auto config = text.ok() ? DecodeConfig(text.value().text) : Result<ShimConfig>(text.error());
  if (!config.ok()) {
    (void)SendMessage(kShimControlFd, "error " + config.error().what);
    return 1;
  }
  if (config->name.starts_with("refuse")) {
    (void)SendMessage(kShimControlFd, "error it does not like the name");
    return 1;
  }
  if (config->name.starts_with("patient")) {
    (void)sigprocmask(SIG_BLOCK, &Usr1(), nullptr);
  }
  (void)SendMessage(kShimControlFd, "ready\n");
  const auto message = ReceiveMessage(kShimControlFd, -1);
  const auto pid = message.ok() ? DecodeListener(message.value().text) : Result<unsigned>(0);
  if (!message.ok() || !pid.ok() || config->name.starts_with("die-early")) {
    return 1;
  }
  (void)SendMessage(kShimControlFd, "ok\n");
  return Serve(*config, message.value().fd.get(), pid.value());
}

}  // namespace
}  // namespace cgpu

int main() {
  return cgpu::Main();
}
