// cgpu-shim: one per container. cgpu starts it with the sockets that protocol/config.h describes;
// users never start it by hand.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"
#include "make_server.h"
#include "os/messages.h"
#include "os/spare.h"
#include "protocol/config.h"
#include "resume.h"
#include "shim/confine.h"
#include "shim/desk.h"
#include "shim/housekeeping.h"
#include "shim/interleave.h"
#include "shim/server.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

// Returns the descriptor that the launcher left under this number, if `check` accepts it.
template <class Check>
UniqueFd TakeFd(int number, const Check& check) {
  UniqueFd fd(fcntl(number, F_GETFD) >= 0 ? number : -1);
  if (!fd.valid() || !check(number)) {
    return {};
  }
  (void)fcntl(number, F_SETFD, FD_CLOEXEC);
  return fd;
}

UniqueFd TakeListening(int number) {
  return TakeFd(number, [](int fd) {
    int listening = 0;
    socklen_t size = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
  });
}

UniqueFd TakeRecord() {
  return TakeFd(kShimRecordFd, [](int fd) {
    struct stat info{};
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  });
}

UniqueFd TakeCreator() {
  return TakeFd(kShimCreatorFd, [](int fd) {
    return syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
  });
}

// Makes the agent if the launcher gave the shim its socket; else returns null.
Result<std::unique_ptr<Agent>> MakeAgent(Server& server) {
  UniqueFd socket = TakeListening(kShimAgentFd);
  UniqueFd creator = TakeCreator();
  if (!socket.valid()) {
    return std::unique_ptr<Agent>();
  }
  if (!creator.valid() || fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Error{
        Code::kInvalid, 0, "an agent's socket, but no pidfd of the container's creator", {}};
  }
  return std::make_unique<Agent>(server, std::move(socket), std::move(creator),
                                 server.config().user, server.config().word);
}

// Attaches the one listener that there is without an agent: the launcher hands it over.
Result<> ServeFirst(Server& server, const std::string& text, UniqueFd fd) {
  CGPU_ASSIGN_OR_RETURN(const auto process, DecodeListener(text));
  CGPU_ASSIGN_OR_RETURN(auto listener, os::NotifyListener::Make(std::move(fd)));
  CGPU_ASSIGN_OR_RETURN(
      const auto source,
      server.pool().Serve(std::make_unique<os::NotifyListener>(std::move(listener))));
  server.pool().SetProcess(*source, process, 0);
  return {};
}

Result<std::unique_ptr<Server>> MakeConfigured(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto config, DecodeConfig(text));
  // A launcher that runs as root starts its shims under uids of their own.
  CGPU_TRY(CheckPrivileges(config.user == getuid() ? config.user : 0));
  CGPU_TRY(os::NotifyListener::Prepare());
  return MakeServer(config, TakeRecord());
}

// Answers a container's calls until its end. Tells the launcher when it is ready. The caller owns
// what has threads: it tells the launcher of an error before it waits for these.
Result<> ServeFor(int launcher, std::unique_ptr<Server>& server,
                  std::unique_ptr<Housekeeping>& housekeeping) {
  UniqueFd admin = TakeListening(kShimAdminFd);
  CGPU_ASSIGN_OR_RETURN(const auto config, ReceiveText(launcher, -1));
  CGPU_ASSIGN_OR_RETURN(server, MakeConfigured(config));
  CGPU_ASSIGN_OR_RETURN(auto agent, MakeAgent(*server));
  Message first;
  const bool by_launcher = agent == nullptr;
  if (by_launcher) {
    CGPU_TRY(SendMessage(launcher, "ready"));
    CGPU_ASSIGN_OR_RETURN(first, ReceiveMessage(launcher, -1));
  }
  CGPU_ASSIGN_OR_RETURN(housekeeping, Housekeeping::Make(*server));
  CGPU_ASSIGN_OR_RETURN(auto desk,
                        Desk::Make(*server, *housekeeping, std::move(admin), std::move(agent)));
  Handover known;  // nothing more is known yet
  known.launcher = launcher;
  CGPU_TRY(ConfineSystemCalls(known.allowed));
  desk.Inherit(known);
  server->Start();
  CGPU_TRY(housekeeping->Start());
  if (by_launcher) {
    CGPU_TRY(ServeFirst(*server, first.text, std::move(first.fd)));
  }
  (void)SendMessage(launcher, by_launcher ? "ok" : "ready");
  desk.Run();
  // Workers may still wait in the kernel; their results do not matter any more.
  _exit(0);
}

Result<> Serve() {
  CGPU_TRY(ReserveDescriptors());
  const UniqueFd launcher(kShimControlFd);
  (void)fcntl(launcher.get(), F_SETFD, FD_CLOEXEC);
  std::unique_ptr<Server> server;
  std::unique_ptr<Housekeeping> housekeeping;
  auto done = ServeFor(launcher.get(), server, housekeeping);
  (void)SendMessage(launcher.get(), "error " + done.error().what);
  return done;
}

// Sets the limits of this process: as many files as it may have, and little memory. The host pays
// for a shim, whatever its container does. Beyond the limit it ends, and its container with it.
//
// A cgroup cannot do this: UVM charges pages of the tenant's managed memory to whoever makes the
// request that moves them to the host, and that is this process
// (NVIDIA/open-gpu-kernel-modules 595.45.04 kernel-open/nvidia-uvm/uvm_va_block.c,
// uvm_memcg_context_start()).
void SetOwnLimits() {
  constexpr rlim_t kMostMemory = rlim_t{512} << 20U;  // in use are some MiB, and 64 for stacks
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  // The stacks of all threads count, used or not.
  constexpr std::size_t kStack = std::size_t{1} << 20U;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) == 0) {
    (void)pthread_attr_setstacksize(&attributes, kStack);
    (void)pthread_setattr_default_np(&attributes);
    (void)pthread_attr_destroy(&attributes);
  }
#ifndef __SANITIZE_ADDRESS__  // which maps terabytes
  if (getrlimit(RLIMIT_DATA, &limit) == 0) {
    limit.rlim_cur = std::min(limit.rlim_max, kMostMemory);
    (void)setrlimit(RLIMIT_DATA, &limit);
  }
#endif
}

Result<> Interleave() {
  const UniqueFd socket(kShimControlFd);
  (void)fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  CGPU_TRY(CheckPrivileges(0, kInterleaverCapabilities));
  CGPU_TRY(ConfineInterleaver());
  ServeInterleaver(socket.get());
  _exit(0);
}

}  // namespace
}  // namespace cgpu::shim

int main(int argc, char** argv) {
  // One heap for all threads, because their stacks come and go: this process must stay small.
  mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): the only thread yet
  cgpu::shim::SetOwnLimits();
  cgpu::os::KeepSpare();
  const std::string_view word = argc > 1 ? argv[1] : "";
  const auto done = word == cgpu::shim::kCheckWord    ? cgpu::shim::CheckHandover()
                    : word == cgpu::shim::kResumeWord ? cgpu::shim::ResumeServing()
                    : word == cgpu::kInterleaverWord  ? cgpu::shim::Interleave()
                                                      : cgpu::shim::Serve();
  if (!done.ok()) {
    (void)std::fprintf(stderr, "cgpu-shim: %s\n", cgpu::FormatError(done.error()).c_str());
    return 1;
  }
  return 0;
}
