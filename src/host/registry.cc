#include "host/registry.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "os/messages.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr int kBacklog = 64;
constexpr std::chrono::seconds kAnswerTime{5};
// Time for the other shims once one has answered: then the host is not the reason for the delay.
constexpr std::chrono::seconds kBehindOthers{2};
// Time for cgpud's answer: it starts a shim meanwhile, on a host that may be loaded.
constexpr int kDaemonMs = 90'000;
constexpr std::chrono::seconds kDaemonStart{10};
constexpr std::chrono::milliseconds kDaemonAsked{50};

// Returns the user's own runtime folder, if it is as it must be (XDG Base Directory Specification).
std::string RuntimeFolder() {
  const char* const path = secure_getenv("XDG_RUNTIME_DIR");
  struct stat st{};
  if (path != nullptr && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
      st.st_uid == geteuid()) {
    return path;
  }
  return {};
}

std::string OwnFolder() {
  if (geteuid() == 0) {
    return "/run/cgpu";
  }
  const std::string runtime = RuntimeFolder();
  return runtime.empty() ? "/tmp/cgpu-" + std::to_string(geteuid()) : runtime + "/cgpu";
}

// Checks that others cannot have put anything into the folder.
Result<> CheckFolder(const std::string& folder) {
  struct stat st{};
  if (lstat(folder.c_str(), &st) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot look at " + folder);
  }
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
    return Error{Code::kPermission, 0,
                 folder + " is not a folder that only the user " + std::to_string(geteuid()) +
                     " can write to",
                 "remove it, or make it that user's with mode 0700"};
  }
  return {};
}

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error{Code::kUnsupported, 0, path + " is too long for a socket",
                 "set XDG_RUNTIME_DIR to a shorter path"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Listens at `path`. Connecting needs write permission: the socket is made with the owner's alone,
// and then gets `mode`.
Result<UniqueFd> ListenAt(const std::string& path, int type) {
  CGPU_ASSIGN_OR_RETURN(const auto address, AddressOf(path));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const mode_t old = umask(0177);
  const bool bound = fd.valid() && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                                        sizeof(sockaddr_un)) == 0;
  umask(old);
  if (!bound || listen(fd.get(), kBacklog) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make the socket " + path);
  }
  return fd;
}

// Connects without waiting. kNotFound when no process holds the listening end.
Result<UniqueFd> Connect(const std::string& path, int type = SOCK_STREAM | SOCK_NONBLOCK) {
  CGPU_ASSIGN_OR_RETURN(const auto address, AddressOf(path));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a socket");
  }
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_un)) != 0) {
    const int error = errno;
    const Code code = error == ECONNREFUSED || error == ENOENT ? Code::kNotFound
                      : error == EACCES                        ? Code::kPermission
                                                               : Code::kUnavailable;
    return ErrnoError(code, error, "cannot connect to " + path);
  }
  return fd;
}

// Returns whether a process listens. A full backlog is a sign of life too.
bool Lives(const std::string& socket_path) {
  const auto connection = Connect(socket_path);
  return connection.ok() || connection.error().code != Code::kNotFound;
}

// Returns whether the process that began to listen there lives. A child of a killed daemon may
// still have the socket, for a moment or for as long as it works.
bool DaemonLives(const std::string& path) {
  const auto connection = Connect(path, SOCK_SEQPACKET | SOCK_NONBLOCK);
  if (!connection.ok()) {
    return connection.error().code != Code::kNotFound;
  }
  ucred listener{};
  socklen_t size = sizeof(listener);
  return getsockopt(connection->get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0 ||
         listener.pid <= 0 || kill(listener.pid, 0) == 0 || errno != ESRCH;
}

// A request that was sent, and what came back so far.
struct Asked {
  UniqueFd fd;
  bool waits = false;
  Result<std::string> answer = std::string();
};

Error NoAnswer(const std::string& id, int error) {
  return Error{Code::kUnavailable, error, "container " + id + " gives no answer",
               "its cgpu-shim may be stopped: let it go on (SIGCONT), or end the container with "
               "`cgpu upgrade --force " +
                   id + "`"};
}

// Reads once from what is readable.
void ReadSome(const std::string& id, Asked& asked) {
  char buffer[4096];
  const ssize_t n = read(asked.fd.get(), buffer, sizeof(buffer));
  if (n > 0 && asked.answer.value().size() <= kMaxMessage) {
    asked.answer.value().append(buffer, static_cast<std::size_t>(n));
  } else if (n >= 0 || (errno != EINTR && errno != EAGAIN)) {
    asked.waits = false;
    if (n != 0) {
      asked.answer = NoAnswer(id, n < 0 ? errno : 0);
    }
  }
}

// Waits until one descriptor can be read; `events` has a pollfd for each. Returns false at the
// deadline, or when none waits.
bool WaitForAny(std::vector<pollfd>& events, std::chrono::steady_clock::time_point deadline) {
  if (std::ranges::all_of(events, [](const pollfd& e) { return e.fd < 0; })) {
    return false;
  }
  int ready = 0;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    ready = poll(events.data(), events.size(), static_cast<int>(std::max(left.count(), 0L)));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

std::vector<std::string> IdsIn(const std::string& folder) {
  std::vector<std::string> ids;
  for (const std::string& name : NamesIn(folder).value_or({})) {
    std::string id = name.substr(0, name.find('.'));
    if (IsId(id) && name == id + ".sock") {
      ids.push_back(std::move(id));
    }
  }
  return ids;
}

void SortByAge(std::vector<Reservation>& reservations) {
  std::ranges::sort(reservations, [](const Reservation& a, const Reservation& b) {
    return std::tie(a.since, a.id) < std::tie(b.since, b.id);
  });
}

}  // namespace

RegistryLock::~RegistryLock() {
  if (fd_.valid()) {
    flock(fd_.get(), LOCK_UN);  // closing is not enough while a forked child has a copy
  }
}

Result<Registry> Registry::Open() {
  return OpenAt(OwnFolder());
}

Result<Registry> Registry::OpenAt(std::string folder) {
  // An older release made it 0700.
  const mode_t mode = geteuid() == 0 ? 0711 : 0700;
  if (mkdir(folder.c_str(), mode) != 0 && errno != EEXIST) {
    return ErrnoError(Code::kPermission, errno, "cannot make " + folder);
  }
  CGPU_TRY(CheckFolder(folder));
  if (chmod(folder.c_str(), mode) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot change the mode of " + folder);
  }
  return Registry(std::move(folder));
}

std::string Registry::PathOf(std::string_view id, std::string_view suffix) const {
  return std::string(folder_).append("/").append(id).append(suffix);
}

Result<RegistryLock> Registry::Lock() const {
  CGPU_ASSIGN_OR_RETURN(auto fd, OpenFile(folder_ + "/lock", O_RDWR | O_CREAT, 0600));
  if (TEMP_FAILURE_RETRY(flock(fd.get(), LOCK_EX)) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot lock " + folder_ + "/lock");
  }
  return RegistryLock(std::move(fd));
}

Result<std::vector<Reservation>> Registry::Live() const {
  const auto lock = Lock();
  return lock.ok() ? List(*lock) : Result<std::vector<Reservation>>(lock.error());
}

Result<Reservation> Registry::GrantOf(const std::string& id) const {
  const auto text = ReadFile(PathOf(id, ".grant"), kMaxMessage);
  auto reservation = text.ok() ? DecodeReservation(*text) : Result<Reservation>(text.error());
  if (!reservation.ok()) {
    // The container's part of the GPUs is unknown, so nothing can be granted safely beside it.
    Error error = reservation.error();
    error.what =
        "container " + id + " lives, but what it was granted cannot be read: " + error.what;
    error.hint =
        "stop it by its container engine or its `cgpu run`, then remove " + PathOf(id, ".sock");
    return error;
  }
  return reservation;
}

Result<std::vector<Reservation>> Registry::List(const RegistryLock& lock) const {
  std::vector<Reservation> live;
  for (const std::string& id : IdsIn(folder_)) {
    if (!Lives(PathOf(id, ".sock"))) {
      RemoveIfDead(lock, id);
      continue;
    }
    CGPU_ASSIGN_OR_RETURN(auto reservation, GrantOf(id));
    live.push_back(std::move(reservation));
  }
  SortByAge(live);
  return live;
}

Result<std::vector<Reservation>> Registry::Recorded(const RegistryLock& /*lock*/) const {
  std::vector<Reservation> recorded;
  for (const std::string& id : IdsIn(folder_)) {
    auto reservation = GrantOf(id);
    if (reservation.ok()) {
      recorded.push_back(std::move(*reservation));
    } else if (Lives(PathOf(id, ".sock"))) {
      return reservation.error();
    }
  }
  SortByAge(recorded);
  return recorded;
}

Result<UniqueFd> Registry::Add(const RegistryLock& lock, const Reservation& reservation) const {
  const std::string path = PathOf(reservation.id, ".sock");
  CGPU_ASSIGN_OR_RETURN(auto fd, ListenAt(path, SOCK_STREAM));
  if (const auto updated = Update(lock, reservation); !updated.ok()) {
    unlink(path.c_str());
    return updated.error();
  }
  return fd;
}

std::string Registry::AgentPath(const std::string& id) const {
  return PathOf(id, ".agent");
}

Result<UniqueFd> Registry::AddAgent(const RegistryLock& /*lock*/, const std::string& id,
                                    unsigned user) const {
  auto fd = ListenAt(AgentPath(id), SOCK_STREAM);
  if (fd.ok() && user != geteuid() && chown(AgentPath(id).c_str(), user, -1U) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot give away " + AgentPath(id));
  }
  return fd;
}

bool Registry::HasAgent(const std::string& id) const {
  return access(AgentPath(id).c_str(), F_OK) == 0;
}

Result<> Registry::Update(const RegistryLock& /*lock*/, const Reservation& reservation) const {
  return ReplaceFile(PathOf(reservation.id, ".grant"), EncodeReservation(reservation), 0600);
}

Result<GpuSettings> Registry::SettingsOf(const RegistryLock& /*lock*/,
                                         const std::string& uuid) const {
  if (!IsName(uuid)) {
    return Error{Code::kInvalid, 0, "\"" + uuid + "\" is no GPU's UUID",
                 "`cgpu smi -L` lists them"};
  }
  const std::string path = PathOf(uuid, ".card");
  const auto text = ReadFile(path, kMaxMessage);
  if (!text.ok()) {
    return text.error().code == Code::kNotFound ? GpuSettings() : Result<GpuSettings>(text.error());
  }
  auto settings = DecodeGpuSettings(*text);
  if (!settings.ok()) {
    Error error = settings.error();
    error.what = path + ": " + error.what;
    error.hint = "remove that file: the node's settings hold then";
    return error;
  }
  return settings;
}

Result<> Registry::SetGpu(const RegistryLock& lock, const std::string& uuid,
                          const GpuSettings& settings) const {
  CGPU_TRY(SettingsOf(lock, uuid));
  return ReplaceFile(PathOf(uuid, ".card"), EncodeGpuSettings(settings), 0600);
}

void Registry::RemoveIfDead(const RegistryLock& /*lock*/, const std::string& id) const {
  if (!Lives(PathOf(id, ".sock"))) {
    unlink(PathOf(id, ".grant").c_str());
    unlink(PathOf(id, ".grant.new").c_str());
    unlink(PathOf(id, ".agent").c_str());
    unlink(PathOf(id, ".sock").c_str());
  }
}

Result<UniqueFd> Registry::ConnectTo(const std::string& id) const {
  auto fd = Connect(PathOf(id, ".sock"));
  if (!fd.ok() && fd.error().code == Code::kNotFound) {
    Error error = fd.error();
    error.what = "container " + id + " has ended";
    return error;
  }
  return fd;
}

Result<UniqueFd> Registry::Request(const std::string& id, const AdminRequest& request,
                                   int fd) const {
  auto shim = ConnectTo(id);
  if (!shim.ok()) {
    return shim;
  }
  // Set before the request, so that the answer tells which process gave it.
  const int on = 1;
  (void)setsockopt(shim->get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  // A stopped shim's socket still takes one line.
  if (!SendMessage(shim->get(), EncodeRequest(request), fd).ok() ||
      shutdown(shim->get(), SHUT_WR) != 0) {
    return Error{Code::kNotFound, errno, "container " + id + " has ended", {}};
  }
  return std::move(*shim);
}

Result<UniqueFd> Registry::Watch(const std::string& id) const {
  AdminRequest request;
  request.kind = AdminRequest::Kind::kWatch;
  return Request(id, request);
}

Result<std::string> Registry::Ask(const std::string& id, const AdminRequest& request) const {
  return AskAll({{id, request}})[0];
}

std::vector<Result<std::string>> Registry::AskAll(const std::vector<Question>& questions) const {
  std::vector<Asked> all(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    auto sent = Request(questions[i].id, questions[i].request);
    all[i].waits = sent.ok();
    if (sent.ok()) {
      all[i].fd = std::move(*sent);
    } else {
      all[i].answer = sent.error();
    }
  }
  auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
  std::vector<pollfd> events(all.size());
  const auto wait = [&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      events[i] = {all[i].waits ? all[i].fd.get() : -1, POLLIN, 0};
    }
    return WaitForAny(events, deadline);
  };
  while (wait()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (events[i].revents != 0) {
        ReadSome(questions[i].id, all[i]);
        if (!all[i].waits) {
          deadline = std::min(deadline, std::chrono::steady_clock::now() + kBehindOthers);
        }
      }
    }
  }
  std::vector<Result<std::string>> answers;
  answers.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    answers.push_back(all[i].waits ? NoAnswer(questions[i].id, EAGAIN) : std::move(all[i].answer));
  }
  return answers;
}

Result<UniqueFd> ListenAsDaemon(const RegistryLock& /*lock*/, const std::string& path,
                                std::optional<unsigned> group) {
  if (DaemonLives(path)) {
    return Error{Code::kConflict, 0, "another daemon listens at " + path, "stop that one first"};
  }
  unlink(path.c_str());
  auto fd = ListenAt(path, SOCK_SEQPACKET);
  if (fd.ok() && group &&
      (chown(path.c_str(), -1U, *group) != 0 || chmod(path.c_str(), 0660) != 0)) {
    return ErrnoError(Code::kUnavailable, errno, "cannot give " + path + " to its group");
  }
  return fd;
}

Result<UniqueFd> ConnectToDaemon(const std::string& path) {
  return Connect(path, SOCK_SEQPACKET);
}

Result<UniqueFd> ConnectToDaemonSoon(const std::string& path) {
  auto connection = ConnectToDaemon(path);
  if (connection.ok() || connection.error().sys_errno != ECONNREFUSED) {
    return connection;
  }
  // A new daemon takes the old socket away before it makes its own.
  const auto until = std::chrono::steady_clock::now() + kDaemonStart;
  while (!connection.ok() && connection.error().code == Code::kNotFound &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kDaemonAsked);
    connection = ConnectToDaemon(path);
  }
  return connection;
}

Error NotAMember(const std::string& group) {
  return Error{Code::kPermission, 0,
               "only root and members of the group " + group + " may ask for slices",
               "become one: usermod -a -G " + group + " USER, and log in again"};
}

Result<CreationReply> AskDaemon(const UniqueFd& daemon, const CreationRequest& request) {
  // One that is busy may have answered and closed before the request was sent.
  (void)SendMessage(daemon.get(), EncodeCreationRequest(request));
  const auto reply = ReceiveMessage(daemon.get(), kDaemonMs);
  if (!reply.ok()) {
    Error error = reply.error();
    error.what = "cgpud gave no answer: " + error.what;
    error.hint = "see its log: journalctl -u cgpud";
    return error;
  }
  return DecodeCreationReply(reply->text);
}

Result<UniqueFd> ConnectToAgent(const std::string& path) {
  return Connect(path, SOCK_STREAM);
}

}  // namespace cgpu
