#include "cgpud/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "cgpud/audit.h"
#include "cgpud/calibrating.h"
#include "cgpud/creation.h"
#include "cgpud/event_keeper.h"
#include "cgpud/govern.h"
#include "cgpud/peer.h"
#include "cgpud/places.h"
#include "cgpud/plan_gpus.h"
#include "cgpud/supervisor.h"
#include "host/compute.h"
#include "host/node.h"
#include "host/registry.h"
#include "os/messages.h"
#include "os/service.h"
#include "protocol/creation.h"
#include "rm/abi.h"
#include "runtime/features.h"

namespace cgpu {
namespace {

// Time for a request, for a peer that connects and says nothing.
constexpr int kRequestMs = 10'000;
// Time for the request of a peer that gets no place. It should have come with the connection.
constexpr int kBusyMs = 10;
// Time until what refuses it ends, whatever came with the request.
constexpr suseconds_t kBusyEndUs = 200'000;
// Exit status of a child whose request was refused.
constexpr int kRefused = 3;

// `silent`: a refusal is not logged. Events have a bound of their own.
Result<CreationReply> SeeTo(const Surroundings& surroundings, const std::string& group,
                            int connection, const EventKeeper& keeper, bool silent) {
  // This comes first: a message that is left unread at the end would take the answer with it. The
  // kernel releases the files that come with it, which can take long where they are sockets: the
  // alarm is set.
  CGPU_ASSIGN_OR_RETURN(const auto message, ReceiveText(connection, kRequestMs));
  alarm(0);
  CGPU_ASSIGN_OR_RETURN(auto peer, AdmitPeer(connection, group));
  CGPU_ASSIGN_OR_RETURN(const auto request, DecodeCreationRequest(message));
  const std::string who = request.command ? "a command of uid " + std::to_string(peer.uid)
                                          : "container " + request.engine_id;
  const unsigned user = peer.uid;
  auto slice = CreateSlice(surroundings, request, std::move(peer));
  if (!slice.ok()) {
    if (!silent) {
      Log(LogLevel::kNotice, who + " gets no slice: " + slice.error().what);
    }
    // In Kubernetes, that is the answer for each container that asks for none.
    if (!surroundings.kubernetes || request.command || slice.error().code != Code::kNotFound) {
      keeper.ReportRefusal(request, user, who, slice.error());
    }
    return slice.error();
  }
  Log(LogLevel::kInfo, who + " gets its slice as " + slice->reply.id,
      {{"container", slice->reply.id}, {"name", slice->reservation.name}});
  for (const std::string& remark : slice->remarks) {
    Log(LogLevel::kInfo, remark);
  }
  keeper.ReportStart(slice->reservation, user);
  return std::move(slice->reply);
}

// Returns the path of a program that execvp(3) would find.
std::string FindProgram(const std::string& name) {
  const char* const path = secure_getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/sbin:/usr/bin:/sbin:/bin" : path;
  while (name.find('/') == std::string::npos && !rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) {
      return file;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return name;
}

// Variable that holds the number of the socket, for a daemon that executes itself again.
constexpr char kSocketVariable[] = "CGPUD_SOCKET";
// Variable that holds the version of the program before.
constexpr char kVersionVariable[] = "CGPUD_VERSION";

// Returns the socket that the previous program left, or none.
UniqueFd HandedSocket() {
  const char* const number = secure_getenv(kSocketVariable);
  const int fd = number == nullptr ? -1 : static_cast<int>(std::strtol(number, nullptr, 10));
  unsetenv(kSocketVariable);  // NOLINT(concurrency-mt-unsafe): the only thread, as below
  int listening = 0;
  socklen_t size = sizeof(listening);
  if (fd <= STDERR_FILENO || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 ||
      listening == 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return {};
  }
  return UniqueFd(fd);
}

// Executes the program again. Returns only if that fails; then all is as before. Signals stay
// blocked.
Error ExecuteAnew(char* const* argv, int socket, const std::string& version) {
  CGPU_ASSIGN_OR_RETURN(const auto program, OwnProgram());
  const std::string number = std::to_string(socket);
  if (fcntl(socket, F_SETFD, 0) == 0 &&
      setenv(kSocketVariable, number.c_str(), 1) == 0 &&    // NOLINT(concurrency-mt-unsafe)
      setenv(kVersionVariable, version.c_str(), 1) == 0) {  // NOLINT(concurrency-mt-unsafe)
    execv(program.c_str(), argv);
  }
  const Error error = ErrnoError(Code::kUnavailable, errno, "cannot execute " + program);
  (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
  unsetenv(kSocketVariable);   // NOLINT(concurrency-mt-unsafe)
  unsetenv(kVersionVariable);  // NOLINT(concurrency-mt-unsafe)
  return error;
}

// Returns the version of the program that handed its socket over; "": it does not say.
std::string VersionBefore() {
  const char* const version = secure_getenv(kVersionVariable);
  std::string before = version == nullptr ? "" : version;
  unsetenv(kVersionVariable);  // NOLINT(concurrency-mt-unsafe): the only thread, as above
  return before;
}

constexpr auto kNever = std::chrono::steady_clock::time_point::max();

class Daemon {
 public:
  // `before`: as EventKeeper has it.
  Daemon(const Settings& settings, char* const* argv, const Registry& registry, UniqueFd socket,
         UniqueFd signals, const std::string& version, std::optional<std::string> before)
      : version_(version),
        keeper_(version, std::move(before)),
        runtime_(settings.runtime),
        group_(settings.group),
        policies_(settings.policies),
        registry_(registry),
        argv_(argv),
        supervisor_(registry, UniqueFd(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC))),
        governing_(registry, settings.node, settings.max_inst),
        calibrating_(registry, settings.node, settings.calibrate && !settings.share),
        socket_(std::move(socket)),
        signals_(std::move(signals)) {
    surroundings_.node = settings.node;
    surroundings_.isolated = !settings.share;
    surroundings_.max_inst = settings.max_inst;
    surroundings_.firmware = settings.firmware;
    surroundings_.kubernetes = settings.kubernetes;
    if (settings.audit) {
      const std::chrono::seconds interval(*settings.audit);
      audit_.emplace(interval, interval);
    }
  }

  Result<> Run() {
    TellOfDriver();
    RestoreSettings();
    BeginEvents();
    supervisor_.Refresh();
    LogAll(governing_.Refresh());
    LogAll(calibrating_.Look(std::chrono::steady_clock::now()));
    TellReady();
    while (!stopping_) {
      std::vector<pollfd> events{{signals_.get(), POLLIN, 0},
                                 {children_.size() < kPlaces ? socket_.get() : -1, POLLIN, 0},
                                 {keeper_.reports(), POLLIN, 0}};
      for (const auto& some : {supervisor_.descriptors(), governing_.descriptors()}) {
        for (const int fd : some) {
          events.push_back({fd, POLLIN, 0});
        }
      }
      if (poll(events.data(), events.size(), Timeout()) < 0 && errno != EINTR) {
        return ErrnoError(Code::kInternal, errno, "cannot wait for requests");
      }
      if (events[0].revents != 0) {
        TakeSignals();
      }
      if (events[1].revents != 0) {
        TakeRequest();
      }
      keeper_.TakeReports();  // before the end of what they tell of
      std::vector<int> readable;
      for (std::size_t i = 3; i < events.size(); ++i) {
        if (events[i].revents != 0) {
          readable.push_back(events[i].fd);
        }
      }
      Tell(supervisor_.Look(readable));
      const Governing::News news = governing_.Look(readable);
      LogAll(news.log);
      const auto now = std::chrono::steady_clock::now();
      if (news.changed) {
        supervisor_.Refresh();
        LogAll(governing_.Refresh());
      }
      if (news.changed || now >= calibrating_.next().value_or(kNever)) {
        LogAll(calibrating_.Look(now));
      }
      LogAll(governing_.Step(now));
      keeper_.Flush();
    }
    keeper_.Stop();
    // A child that was just made may still have it: the next daemon must not take that for this
    // one.
    (void)shutdown(socket_.get(), SHUT_RDWR);
    return {};
  }

 private:
  void BeginEvents() {
    const auto group = FindGroup(group_);
    if (const auto begun =
            keeper_.Begin(group.ok() ? std::optional(*group) : std::nullopt, registry_);
        !begun.ok()) {
      Log(LogLevel::kWarning, "no events are kept: " + begun.error().what);
    }
  }

  void TellOfDriver() const {
    const auto node = FindNode(surroundings_.node);
    if (std::string notice = node.ok() ? rm::NotCompared(node->driver) : ""; !notice.empty()) {
      Log(LogLevel::kWarning, notice);
    }
  }

  // Sets what `cgpu policy` has saved, then the policies of config.yaml for the other GPUs.
  void RestoreSettings() const {
    const auto read = ReadSaved(kSavedFile);
    if (!read.ok()) {
      LogError(read.error());
    }
    const SavedByGpu saved = read.value_or({});
    for (const auto& [uuid, settings] : saved) {
      if (const auto set = RestoreGpu(registry_, uuid, settings); !set.ok()) {
        LogError(set.error());
      }
    }
    if (!policies_.empty()) {
      SetPolicies(saved);
    }
  }

  void SetPolicies(const SavedByGpu& saved) const {
    const auto node = FindNode(surroundings_.node);
    for (const auto& [uuid, policy] : policies_) {
      const auto& name = uuid;
      if (node.ok() &&
          std::ranges::none_of(node->gpus, [&](const Gpu& gpu) { return gpu.uuid == name; })) {
        Log(LogLevel::kWarning,
            "the settings have a policy for " + uuid + ", which is no GPU of this host");
      }
      const auto found = saved.find(uuid);
      if (found != saved.end() && found->second.policy) {
        continue;
      }
      if (const auto set = SetPolicyAtStart(registry_, uuid, policy); !set.ok()) {
        LogError(set.error());
      }
    }
  }

  // Returns the timeout for poll(2): until the audit has something to say, or shares need a look;
  // milliseconds, rounded up.
  [[nodiscard]] int Timeout() const {
    const auto audit = audit_ ? audit_->next().value_or(kNever) : kNever;
    const auto next =
        std::min({audit, governing_.next().value_or(kNever), keeper_.next().value_or(kNever),
                  calibrating_.next().value_or(kNever)});
    if (next == kNever) {
      return -1;
    }
    const auto now = std::chrono::steady_clock::now();
    return next <= now
               ? 0
               : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
  }

  void Tell(const Supervisor::News& news) {
    if (!news.gone.empty()) {
      LogAll(governing_.Refresh());  // for the containers that are left
    }
    keeper_.Take(news);
    const auto now = std::chrono::steady_clock::now();
    for (const Supervisor::Gone& gone : news.gone) {
      if (gone.killed) {
        Log(LogLevel::kWarning,
            "the shim of container " + gone.id + " ended before it: the container was killed",
            {{"container", gone.id}, {"name", gone.name}});
      }
    }
    if (!audit_) {
      return;
    }
    for (const Refusal& refusal : news.refused) {
      if (refusal.supervised) {
        audit_->Take(refusal);
      }
    }
    LogAudit(audit_->Due(now));
    for (const Supervisor::Gone& gone : news.gone) {
      LogAudit(audit_->End(gone.id, now));
    }
  }

  static void LogAudit(const std::vector<DueRefusal>& all) {
    for (const DueRefusal& one : all) {
      Log(LogLevel::kNotice, "audit", AuditFields(one));
    }
  }

  static void LogAll(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      Log(LogLevel::kInfo, line);
    }
  }

  void TakeSignals() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) {
      return;
    }
    if (info.ssi_signo == SIGHUP) {
      calibrating_.Stop();
      governing_.Stop();
      Log(LogLevel::kInfo, "executes its program anew");
      LogError(ExecuteAnew(argv_, socket_.get(), version_));
      LogAll(governing_.Refresh());
      LogAll(calibrating_.Look(std::chrono::steady_clock::now()));
    }
    stopping_ = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
    bool served = false;
    int status = 0;
    for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (const auto lines = calibrating_.Ended(child, status)) {
        LogAll(*lines);
        LogAll(governing_.Refresh());  // for what was found
        continue;
      }
      const auto found = children_.find(child);  // not: it may be one of the previous program
      if (found != children_.end()) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) {
          NoteRefusal(found->second);
        }
        children_.erase(found);
      }
      served = true;
    }
    if (served) {
      supervisor_.Refresh();
    }
  }

  // Gives each request to a child process, also one that is refused: a peer may have sent files
  // whose close takes as long as the peer likes, and they are closed with the connection.
  void TakeRequest() {
    UniqueFd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    auto gate = MakePipe();
    if (!connection.valid() || !gate.ok()) {
      return;
    }
    const auto user = UserOf(connection.get());
    const bool busy = user != 0 && !HasPlace(CountOf(user), children_.size() - CountOf(0));
    const bool silent = user != 0 && pace_.Silent(user, std::chrono::steady_clock::now());
    LookAtRuntime();
    const pid_t child = fork();
    if (child == 0) {
      keeper_.BecomeReporter();
      socket_.reset();  // whatever becomes of the daemon, no other process listens there
      gate->to.reset();
      char none = 0;
      (void)!read(gate->from.get(), &none, 1);  // so that the connection is closed here last
      _exit(Serve(connection.get(), busy, silent) ? 0 : kRefused);
    }
    if (child < 0) {
      LogError(ErrnoError(Code::kExhausted, errno, "cannot start a process for a request"));
      return;
    }
    if (!busy) {  // a child that only refuses has no place, whatever keeps it
      children_[child] = user;
    }
    connection.reset();
  }

  // Serves one request, in a child of its own. Returns false if it was refused.
  bool Serve(int connection, bool busy, bool silent) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    const itimerval time{{}, {busy ? 0 : kRequestMs / 1'000 + 1, busy ? kBusyEndUs : 0}};
    (void)setitimer(ITIMER_REAL, &time, nullptr);
    if (busy) {
      const Error error{Code::kExhausted, 0, "cgpud is busy with other requests of users",
                        "try again when they are through"};
      (void)SendMessage(connection, EncodeCreationReply(error));
      (void)ReceiveText(connection, kBusyMs);  // one that is left unread takes the answer with it
      return true;
    }
    const auto reply = SeeTo(surroundings_, group_, connection, keeper_, silent);
    (void)SendMessage(connection, EncodeCreationReply(reply));
    return reply.ok();
  }

  void NoteRefusal(std::optional<unsigned> user) {
    if (user != 0 && pace_.Take(user, std::chrono::steady_clock::now())) {
      Log(LogLevel::kWarning, "so many requests of uid " +
                                  (user ? std::to_string(*user) : std::string("unknown")) +
                                  " are refused that not all refusals are logged");
    }
  }

  [[nodiscard]] std::size_t CountOf(std::optional<unsigned> user) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(children_, [&](const auto& child) { return child.second == user; }));
  }

  // Looks at the OCI runtime, whose program may be replaced, as by an upgrade of its package. Each
  // program is asked once, also where it does not answer: no request is served meanwhile.
  void LookAtRuntime() {
    struct stat now{};
    const std::string path = FindProgram(runtime_);
    if (stat(path.c_str(), &now) != 0 ||
        (now.st_ino == seen_.st_ino && now.st_dev == seen_.st_dev &&
         now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec)) {
      return;
    }
    seen_ = now;
    const auto killable = AskForKillableWaits(path);
    surroundings_.killable = killable.ok() && *killable;
    if (!killable.ok()) {
      Log(LogLevel::kWarning, "cannot tell what " + path + " can: " + killable.error().what +
                                  "; it is asked again when it is replaced or cgpud is reloaded");
    }
  }

  const std::string version_;
  EventKeeper keeper_;
  const std::string runtime_;
  const std::string group_;
  const std::map<std::string, governor::Policy> policies_;
  const Registry& registry_;
  char* const* const argv_;
  struct stat seen_{};
  Surroundings surroundings_;
  Supervisor supervisor_;
  Governing governing_;
  Calibrating calibrating_;
  std::optional<AuditLog> audit_;
  UniqueFd socket_;
  UniqueFd signals_;
  RefusalPace pace_;
  std::map<pid_t, std::optional<unsigned>> children_;  // users whose requests they serve
  bool stopping_ = false;
};

Result<UniqueFd> Listen(const Registry& registry, const Settings& settings) {
  const auto group = FindGroup(settings.group);
  if (!group.ok()) {
    Log(LogLevel::kWarning, "only root may ask for slices: " + group.error().what +
                                "; make the group, or set `group` in " + kSettingsFile +
                                ", then restart cgpud");
  }
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  return ListenAsDaemon(lock, settings.socket, group.ok() ? std::optional(*group) : std::nullopt);
}

}  // namespace

Result<> RunDaemon(const Settings& settings, char* const* argv, const std::string& version) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "cgpud runs as root", "start it with systemctl, or sudo"};
  }
  // This makes the folder, so that the socket has a place.
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
    sigaddset(&taken, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  UniqueFd signals(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) {
    return ErrnoError(Code::kInternal, errno, "cannot take signals");
  }
  UniqueFd handed = HandedSocket();
  auto before = handed.valid() ? std::optional(VersionBefore()) : std::nullopt;
  CGPU_ASSIGN_OR_RETURN(auto socket, handed.valid() ? Result<UniqueFd>(std::move(handed))
                                                    : Listen(registry, settings));
  Log(LogLevel::kInfo, "listens at " + settings.socket);
  return Daemon(settings, argv, registry, std::move(socket), std::move(signals), version,
                std::move(before))
      .Run();
}

}  // namespace cgpu
