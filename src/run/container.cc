#include "run/container.h"

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "os/messages.h"
#include "os/namespaces.h"
#include "protocol/text.h"
#include "run/signals.h"

namespace cgpu {
namespace {

constexpr int kStartMs = 60'000;
constexpr char kEndedEarly[] =
    "its first process ended early: start it again, and see `dmesg` for whether it was killed";

// Returns the error that process 1 sent in place of the expected message.
Error ErrorIn(const std::string& text) {
  const auto lines = SplitLines(text);
  const auto error = lines.ok() && lines.value().size() == 1 ? ErrorFrom(lines.value()[0])
                                                             : std::optional<Error>();
  return error.value_or(Error{Code::kInternal, 0, "the container did not start", kEndedEarly});
}

// Returns the process that a pidfd stands for, in this process's pid namespace: "Pid:\t1234" of its
// fdinfo.
Result<pid_t> PidOf(int pidfd) {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile("/proc/self/fdinfo/" + std::to_string(pidfd)));
  constexpr std::string_view kKey = "\nPid:\t";
  const std::size_t at = text.find(kKey);
  std::uint64_t pid = 0;
  if (at == std::string::npos) {
    return Error{Code::kUnsupported, 0, "/proc/self/fdinfo does not show a process's id",
                 "mount /proc without restrictions"};
  }
  const std::string_view rest = std::string_view(text).substr(at + kKey.size());
  if (!ToNumber(rest.substr(0, rest.find('\n')), 10, 1 << 30, pid)) {
    return Error{Code::kUnavailable, 0, "the container's command ended before it ran",
                 "start it again, and see `dmesg` for whether it was killed"};
  }
  return static_cast<pid_t>(pid);
}

}  // namespace

Container::Container(Container&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      control_(std::move(other.control_)),
      init_(std::move(other.init_)),
      command_(std::move(other.command_)),
      listener_(std::move(other.listener_)),
      command_pid_(other.command_pid_) {}

Container::~Container() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Reap();
  }
}

Result<Container> Container::Start(const InitOptions& options) {
  CGPU_ASSIGN_OR_RETURN(auto pair, MakeMessagePair());
  CGPU_ASSIGN_OR_RETURN(const auto pid, ForkIntoNamespaces(CLONE_NEWPID));
  if (pid == 0) {
    RunInit(options, pair.second.get());
  }
  pair.second.reset();
  Container container(pid, std::move(pair.first));
  container.init_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!container.init_.valid()) {
    return ErrnoError(Code::kInternal, errno, "cannot hold on to the container's first process");
  }
  CGPU_TRY(container.ReceiveParts());
  return container;
}

Result<> Container::ReceiveParts() {
  for (const char* expected : {"listener", "pid"}) {
    auto message = ReceiveMessage(control_.get(), kStartMs);
    if (!message.ok()) {
      return Error{Code::kUnavailable, 0, "the container did not start: " + message.error().what,
                   kEndedEarly};
    }
    if (message->text != expected || !message->fd.valid()) {
      return ErrorIn(message->text);
    }
    (listener_.valid() ? command_ : listener_) = std::move(message->fd);
  }
  CGPU_ASSIGN_OR_RETURN(command_pid_, PidOf(command_.get()));
  return {};
}

Result<> Container::Go() {
  return SendMessage(control_.get(), "go");
}

int Container::Reap(bool* killed) {
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(pid_, &status, 0));
  pid_ = 0;
  if (killed != nullptr) {
    *killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<int> Container::Wait(int signals, int shim) {
  pollfd events[] = {{signals, POLLIN, 0}, {init_.get(), POLLIN, 0}, {shim, 0, 0}};
  while (true) {
    if (poll(events, 3, -1) < 0 && errno != EINTR) {
      return ErrnoError(Code::kInternal, errno, "cannot wait for the container");
    }
    if (events[1].revents != 0) {
      return Reap();
    }
    if (events[2].revents != 0) {
      return EndAfterShim();
    }
    if (events[0].revents != 0) {
      PassSignalOn(signals, command_.get());
    }
  }
}

// Handles the end of the shim. A shim ends when the container's last process does, which may show
// here before process 1 has quite ended. Or it ended by itself, and then the container must end.
Result<int> Container::EndAfterShim() {
  constexpr int kGraceMs = 200;
  pollfd ended{init_.get(), POLLIN, 0};
  if (poll(&ended, 1, kGraceMs) > 0) {
    return Reap();
  }
  kill(pid_, SIGKILL);
  bool killed = false;
  if (const int status = Reap(&killed); !killed) {
    return status;
  }
  return Error{Code::kUnavailable, 0,
               "the container's shim ended before the container, which was killed",
               "without its shim a container has no limits; see the system's log"};
}

}  // namespace cgpu
