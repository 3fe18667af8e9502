#include "launcher/shim_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "kernel/messages.h"
#include "kernel/privileges.h"

namespace cgpu {
namespace {

// A loaded machine may take long; a shim that is broken must not hang a user for ever.
constexpr int kAnswerMs = 60'000;
// One that refuses its configuration ends at once.
constexpr int kRefusedMs = 3'000;
// The shim's descriptors, see registry/config.h: 0 to 2 are /dev/null, then these.
constexpr int kErrorFd = kShimCreatorFd + 1;
constexpr int kProgramFd = kShimCreatorFd + 2;

struct ShimStart {
  int control;
  const ShimDescriptors& descriptors;
  int errors;  // O_CLOEXEC: closes when the program runs
  int program;
  uid_t uid;
};

// Puts the descriptors where the shim expects them and closes everything else.
bool ArrangeDescriptors(const ShimStart& start) {
  struct Place {
    int from;
    int to;
  };
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const auto or_null = [null](const UniqueFd& fd) { return fd.valid() ? fd.get() : null; };
  const ShimDescriptors& given = start.descriptors;
  Place places[] = {{null, 0},
                    {null, 1},
                    {null, 2},
                    {start.control, kShimControlFd},
                    {or_null(given.admin), kShimAdminFd},
                    {or_null(given.record), kShimRecordFd},
                    {or_null(given.agent), kShimAgentFd},
                    {or_null(given.creator), kShimCreatorFd},
                    {start.errors, kErrorFd},
                    {start.program, kProgramFd}};
  constexpr int kAbove = 64;  // out of the way of every place
  for (Place& place : places) {
    place.from = fcntl(place.from, F_DUPFD_CLOEXEC, kAbove);
    if (place.from < 0) {
      return false;
    }
  }
  for (const Place& place : places) {
    const bool ours = place.to == kErrorFd || place.to == kProgramFd;
    if (dup3(place.from, place.to, ours ? O_CLOEXEC : 0) < 0) {
      return false;
    }
  }
  return close_range(kProgramFd + 1, UINT_MAX, 0) == 0;
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    std::signal(signal, SIG_DFL);  // fails for some, which cannot be changed anyway
  }
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void FailStart(const std::string& what) {
  (void)WriteAll(kErrorFd, what);
  _exit(1);
}

// The grandchild. Its own session: no signal of a terminal or of a job reaches it.
[[noreturn]] void BecomeShim(const ShimStart& start) {
  if (!ArrangeDescriptors(start)) {
    _exit(1);
  }
  ResetSignals();
  umask(077);
  if (chdir("/") != 0) {
    FailStart("cannot change to /");
  }
  if (geteuid() == 0) {
    const auto became = BecomeUser(start.uid, kShimCapabilities);
    if (!became.ok()) {
      FailStart(became.error().what);
    }
  } else if (const auto given_up = SetNoNewPrivileges(); !given_up.ok()) {
    FailStart(given_up.error().what);
  }
  char name[] = "cgpu-shim";
  char* const argv[] = {name, nullptr};
  char* const envp[] = {nullptr};
  execveat(kProgramFd, "", argv, envp, AT_EMPTY_PATH);
  FailStart(ErrnoError(Code::kPermission, errno, "cannot execute cgpu-shim").what);
}

// Forks twice; returns once the shim's program runs, or with what went wrong before.
Result<> Spawn(ShimStart start) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a pipe");
  }
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  start.errors = to.get();
  const pid_t child = fork();
  if (child < 0) {
    return ErrnoError(Code::kExhausted, errno, "cannot start a process");
  }
  if (child == 0) {
    setsid();
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      BecomeShim(start);
    }
    _exit(grandchild < 0 ? 1 : 0);
  }
  to.reset();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string wrong;
  char buffer[256];
  for (ssize_t n; (n = read(from.get(), buffer, sizeof(buffer))) != 0;) {
    if (n > 0) {
      wrong.append(buffer, static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      break;
    }
  }
  if (!wrong.empty() || status != 0) {
    return Error{Code::kUnavailable, 0, "the container's shim did not start: " + wrong,
                 "cgpu-shim must be executable by everyone"};
  }
  return {};
}

// "ready" and "ok" are `expected`; "error SENTENCE" is the shim's refusal.
Result<> Expect(int control, const std::string& expected) {
  const auto answer = ReceiveMessage(control, kAnswerMs);
  if (!answer.ok()) {
    return Error{Code::kUnavailable,
                 answer.error().sys_errno,
                 "the container's shim gave no answer: " + answer.error().what,
                 {}};
  }
  std::string text = answer.value().text;
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  if (text == expected) {
    return {};
  }
  constexpr std::string_view kError = "error ";
  if (text.starts_with(kError)) {
    text.erase(0, kError.size());
    return Error{Code::kUnavailable, 0, "the container's shim refused: " + text, {}};
  }
  return Error{Code::kInternal, 0, "the container's shim gave a strange answer", {}};
}

}  // namespace

uid_t PickShimUid(const std::vector<Reservation>& live, unsigned random) {
  uid_t uid = kShimUidFirst + random % kShimUidCount;
  for (uid_t tries = 0; tries < kShimUidCount; ++tries) {
    if (std::none_of(live.begin(), live.end(),
                     [&](const Reservation& other) { return other.shim_uid == uid; })) {
      break;
    }
    uid = uid + 1 == kShimUidFirst + kShimUidCount ? kShimUidFirst : uid + 1;
  }
  return uid;
}

Result<std::string> ProgramPath(const std::string& name) {
  if (const char* folder = secure_getenv("CGPU_LIBEXEC"); folder != nullptr) {
    return std::string(folder) + "/" + name;
  }
  const auto self = OwnProgram();
  return self.ok() ? self->substr(0, self->rfind('/') + 1) + name : self;
}

Result<ShimProcess> ShimProcess::Start(const ShimConfig& config, ShimDescriptors descriptors,
                                       uid_t uid) {
  const auto path = ProgramPath("cgpu-shim");
  if (!path.ok()) {
    return path.error();
  }
  auto program = OpenFile(*path, O_PATH);
  if (!program.ok()) {
    Error error = program.error();
    error.hint = "cgpu-shim belongs beside cgpu, or in the folder that CGPU_LIBEXEC names";
    return error;
  }
  auto pair = MakeMessagePair();
  if (!pair.ok()) {
    return pair.error();
  }
  UniqueFd theirs = std::move(pair->second);
  CGPU_TRY(Spawn({theirs.get(), descriptors, -1, program->get(), uid}));
  theirs.reset();
  descriptors = {};
  ShimProcess shim(std::move(pair->first));
  CGPU_TRY(SendMessage(shim.control(), EncodeConfig(config)));
  if (auto ready = Expect(shim.control(), "ready"); !ready.ok()) {
    (void)shim.WaitForEnd(kRefusedMs);  // until then its grant is not free
    return ready.error();
  }
  return shim;
}

Result<> ShimProcess::Attach(UniqueFd listener, pid_t pid) {
  CGPU_TRY(SendMessage(control(), EncodeListener(static_cast<unsigned>(pid)), listener.get()));
  listener.reset();
  return Expect(control(), "ok");
}

bool ShimProcess::WaitForEnd(int timeout_ms) {
  // A shim that never got a listener waits for one: this tells it that none will come.
  shutdown(control(), SHUT_WR);
  pollfd ended{control(), 0, 0};  // POLLHUP is always reported
  int polled = 0;
  while ((polled = poll(&ended, 1, timeout_ms)) < 0 && errno == EINTR) {
  }
  return polled > 0;
}

}  // namespace cgpu
