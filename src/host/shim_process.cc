#include "host/shim_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/child.h"
#include "base/file.h"
#include "os/messages.h"
#include "os/privileges.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

using Clock = std::chrono::steady_clock;

// Time for an answer. A loaded host may take long; a broken shim must not hang a user for ever.
constexpr int kAnswerMs = 60'000;
// Time for the end of a shim that refuses its configuration; it ends at once.
constexpr int kRefusedMs = 3'000;
// Time for systemd to make a scope. It takes about 20 ms; the shim must not wait for it for ever.
constexpr std::chrono::seconds kScopeTime{10};
// Most bytes of complaints on the way to the shim.
constexpr std::size_t kMostComplaint = std::size_t{1} << 20;
// Number of the kernel's signals, 1 to 64, and of the bits of a signal set.
constexpr int kSignals = 64;
// The shim's descriptors, see protocol/config.h: 0 to 2 are /dev/null, then these.
constexpr int kErrorFd = kShimCreatorFd + 1;
constexpr int kProgramFd = kShimCreatorFd + 2;

// First words of BecomeShimInScope() where errors go: systemd-run has done its work.
constexpr std::string_view kInScope = "in scope\n";

struct ShimStart {
  int control;
  const ShimDescriptors& descriptors;
  int errors;  // O_CLOEXEC: closes when the program runs
  int program;
  uid_t uid;
  std::string scope;  // see ShimProcess::Start()
  std::string self;   // with a scope: the running program
  bool interleaver = false;
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

// Resets all signals with raw system calls, because the C library keeps two signals to itself. A
// program that posix_spawn() started, as everything below make is, has inherited these two ignored.
void ResetSignals() {
  const std::array<std::uint64_t, 4> standard{};  // the kernel's struct sigaction: SIG_DFL is 0
  for (int signal = 1; signal <= kSignals; ++signal) {
    (void)syscall(SYS_rt_sigaction, signal, standard.data(), nullptr, kSignals / 8);
  }
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void FailStart(const std::string& what) {
  (void)WriteAll(kErrorFd, what);
  _exit(1);
}

// Becomes the shim, with everything in its place; returns what went wrong.
Error BecomeShim(uid_t uid, bool interleaver = false) {
  ResetSignals();
  umask(077);
  // This limit counts all processes of a uid, and root in a container may take any uid. Where it
  // may not be raised, it stays.
  const rlimit processes{RLIM_INFINITY, RLIM_INFINITY};
  (void)setrlimit(RLIMIT_NPROC, &processes);
  if (chdir("/") != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot change to /");
  }
  const CapabilityMask keep = interleaver ? kInterleaverCapabilities : kShimCapabilities;
  CGPU_TRY(geteuid() == 0 ? BecomeUser(uid, keep) : SetNoNewPrivileges());
  char name[] = "cgpu-shim";
  std::string word = kInterleaverWord;
  char* const argv[] = {name, interleaver ? word.data() : nullptr, nullptr};
  char* const envp[] = {nullptr};
  execveat(kProgramFd, "", argv, envp, AT_EMPTY_PATH);
  return ErrnoError(Code::kPermission, errno, "cannot execute cgpu-shim");
}

// Becomes systemd-run; the work goes on in BecomeShimInScope(). systemd-run's complaints go where
// cgpu's errors go.
Error BecomeSystemdRun(const ShimStart& start) {
  // When the host stops, systemd stops the scope after the container engines, as their containers
  // are stopped with them.
  const std::vector<std::string> words = {
      "systemd-run",
      "--scope",
      "--quiet",
      "--no-ask-password",
      "--collect",
      "--unit=" + start.scope,
      "--description=cgpu: the shim of a container",
      "--property=TasksMax=4096",  // a shim has some hundreds of threads at most
      "--property=Before=docker.service containerd.service crio.service",
      "--",
      start.self,
      kBecomeShim,
      std::to_string(start.uid)};
  if (fcntl(kErrorFd, F_SETFD, 0) != 0 || fcntl(kProgramFd, F_SETFD, 0) != 0 ||
      dup2(kErrorFd, STDERR_FILENO) < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot pass descriptors on");
  }
  execvp(words[0].c_str(), PointersTo(words).data());
  return ErrnoError(Code::kNotFound, errno, "cannot execute systemd-run");
}

// Becomes the grandchild. It has its own session: no signal of a terminal or of a job reaches it.
[[noreturn]] void BecomeGrandchild(const ShimStart& start) {
  if (!ArrangeDescriptors(start)) {
    (void)WriteAll(start.errors, "cannot pass descriptors on");
    _exit(1);
  }
  FailStart(
      (start.scope.empty() ? BecomeShim(start.uid, start.interleaver) : BecomeSystemdRun(start))
          .what);
}

// Forks twice; returns once the shim's program runs, or with what went wrong before.
Result<> Spawn(ShimStart start) {
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  start.errors = pipe.to.get();
  CGPU_ASSIGN_OR_RETURN(const auto child, Fork());
  if (child == 0) {
    setsid();
    const auto grandchild = Fork();
    if (grandchild.ok() && *grandchild == 0) {
      BecomeGrandchild(start);
    }
    (void)WriteAll(start.errors, grandchild.ok() ? "" : grandchild.error().what);
    _exit(0);
  }
  pipe.to.reset();
  (void)TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
  const auto deadline = start.scope.empty() ? Clock::time_point::max() : Clock::now() + kScopeTime;
  std::string wrong;
  if (!ReadUntil(pipe.from.get(), deadline, kMostComplaint, wrong)) {
    // The grandchild holds the other end, so it lives, in the session of the child that has exited.
    (void)kill(-child, SIGKILL);
    wrong = "systemd-run does not end, or says too much";
  } else if (!start.scope.empty()) {
    // Warnings before these words do not matter.
    wrong = wrong.ends_with(kInScope) ? "" : wrong + "systemd-run failed";
  }
  if (!wrong.empty()) {
    const std::string who = start.interleaver ? "the shim's helper" : "the container's shim";
    return Error{
        Code::kUnavailable, 0, who + " did not start: " + wrong,
        "every user must be able to execute cgpu-shim, and the host needs room for processes "
        "and open files"};
  }
  return {};
}

// Starts the shim in a scope. Returns why not; "" if it has worked.
std::string SpawnInScope(ShimStart start, const std::string& scope) {
  const auto self = OwnProgram();
  if (!self.ok()) {
    return self.error().what;
  }
  start.scope = scope;
  start.self = *self;
  const auto spawned = Spawn(std::move(start));
  std::string why = spawned.ok() ? "" : spawned.error().what;
  std::ranges::replace(why, '\n', ' ');
  return why;
}

constexpr char kLookAtShim[] =
    "see `dmesg` for whether cgpu-shim was killed, then start the container again";

// Waits for the shim's answer: `expected` is "ready" or "ok"; "error SENTENCE" is the shim's
// refusal.
Result<> Expect(int control, const std::string& expected) {
  const auto answer = ReceiveMessage(control, kAnswerMs);
  if (!answer.ok()) {
    return Error{Code::kUnavailable, answer.error().sys_errno,
                 "the container's shim gave no answer: " + answer.error().what, kLookAtShim};
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
    return Error{Code::kUnavailable, 0, "the container's shim refused: " + text,
                 "start the container again; if the shim refuses again, report this sentence"};
  }
  return Error{Code::kInternal, 0, "the container's shim gave a strange answer",
               "cgpu and cgpu-shim must be of one version: install both again"};
}

// Opens cgpu-shim for execution.
Result<UniqueFd> OpenShim() {
  CGPU_ASSIGN_OR_RETURN(const auto path, ProgramPath("cgpu-shim"));
  auto program = OpenFile(path, O_PATH);
  if (!program.ok()) {
    Error error = program.error();
    error.hint = "cgpu-shim belongs beside cgpu, or in the folder that CGPU_LIBEXEC names";
    return error;
  }
  return program;
}

}  // namespace

uid_t PickShimUid(const std::vector<Reservation>& live, unsigned random) {
  uid_t uid = kShimUidFirst + random % kShimUidCount;
  for (uid_t tries = 0; tries < kShimUidCount; ++tries) {
    if (std::ranges::none_of(live,
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

bool SystemdRuns() {
  struct stat st{};
  return lstat("/run/systemd/system", &st) == 0 && S_ISDIR(st.st_mode);
}

Error BecomeShimInScope(const std::string& uid) {
  unsigned number = 0;
  if (fcntl(kErrorFd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(kProgramFd, F_SETFD, FD_CLOEXEC) != 0 ||
      dup2(STDIN_FILENO, STDERR_FILENO) < 0 || !ToUnsigned(uid, number)) {
    return Error{Code::kInvalid, 0, std::string(kBecomeShim) + " is only for shims in scopes", {}};
  }
  (void)WriteAll(kErrorFd, kInScope);
  FailStart(BecomeShim(number).what);
}

Result<ShimProcess> ShimProcess::Start(const ShimConfig& config, ShimDescriptors descriptors,
                                       uid_t uid, const std::string& scope) {
  CGPU_ASSIGN_OR_RETURN(const auto program, OpenShim());
  CGPU_ASSIGN_OR_RETURN(auto pair, MakeMessagePair());
  UniqueFd theirs = std::move(pair.second);
  ShimStart start{theirs.get(), descriptors, -1, program.get(), uid, {}, {}};
  const std::string why_no_scope = scope.empty() ? "" : SpawnInScope(start, scope);
  if (scope.empty() || !why_no_scope.empty()) {
    CGPU_TRY(Spawn(start));
  }
  theirs.reset();
  descriptors = {};
  ShimProcess shim(std::move(pair.first));
  shim.why_no_scope_ = why_no_scope;
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

Result<UniqueFd> StartInterleaver(uid_t uid) {
  CGPU_ASSIGN_OR_RETURN(const auto program, OpenShim());
  CGPU_ASSIGN_OR_RETURN(auto pair, MakeMessagePair());
  const ShimDescriptors none;
  ShimStart start{pair.second.get(), none, -1, program.get(), uid, {}, {}};
  start.interleaver = true;
  CGPU_TRY(Spawn(start));
  return std::move(pair.first);
}

bool ShimProcess::WaitForEnd(int timeout_ms) {
  // Tells a shim that waits for a listener that none will come.
  shutdown(control(), SHUT_WR);
  pollfd ended{control(), 0, 0};  // POLLHUP is always reported
  return TEMP_FAILURE_RETRY(poll(&ended, 1, timeout_ms)) > 0;
}

}  // namespace cgpu
