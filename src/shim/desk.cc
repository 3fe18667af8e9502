#include "shim/desk.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "os/messages.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

constexpr std::size_t kMaxRequest = 4096;

constexpr int kSoonMs = 100;

// Timeout of a peer that does not read.
constexpr timeval kSendTimeout{1, 0};

// Pause between two reports of refused calls to watchers.
constexpr time_t kTellSeconds = 1;

// The timeout for calls that are in the driver doubles, up to this, with each upgrade that fails
// for one: a tenant whose calls take long cannot put off its upgrade. It is kUnderway again when
// the last such failure is longer ago than kForgottenNs.
constexpr std::chrono::milliseconds kLongestUnderway{400};
constexpr std::int64_t kForgottenNs = 2'000'000'000;

// Timeout for housekeeping's work, which comes first. Meanwhile no call waits.
constexpr std::chrono::milliseconds kHousekeeping{500};

void Send(const UniqueFd& connection, std::string_view reply) {
  while (!reply.empty()) {
    const ssize_t n = send(connection.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return;
    }
    reply.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<Desk> Desk::Make(Server& server, Housekeeping& housekeeping, UniqueFd admin,
                        std::unique_ptr<Agent> agent) {
  UniqueFd pace(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!pace.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a timer");
  }
  return Desk(server, housekeeping, std::move(admin), std::move(agent), std::move(pace));
}

namespace {

// Places of the polled descriptors; the connections follow, then what the pool and the agent wait
// for.
enum { kRefusals, kPace, kRest, kAdmin, kFirstConnection };

}  // namespace

// Returns the descriptors to poll. One that cannot be handled now must not keep this thread busy.
std::vector<pollfd> Desk::Polled() const {
  std::vector<pollfd> polled(kFirstConnection);
  polled[kRefusals].fd = told_ ? -1 : server_.accounting().refusals();
  polled[kPace].fd = pace_.get();
  polled[kRest].fd = housekeeping_.rest_events();
  polled[kAdmin].fd = starved_ ? -1 : admin_.get();
  for (const Connection& one : connections_) {
    polled.push_back({one.socket.get(), 0, 0});
  }
  for (pollfd& one : polled) {
    one.events = POLLIN;
  }
  const auto add = [&polled](const std::vector<pollfd>& awaited) {
    polled.insert(polled.end(), awaited.begin(), awaited.end());
  };
  add(server_.pool().Awaited());
  if (agent_ != nullptr && !agent_->starved()) {
    add(agent_->Awaited());
  }
  return polled;
}

void Desk::Run() {
  while (!done_) {
    std::vector<pollfd> polled = Polled();
    const bool unproved = server_.proof().Look();
    const bool soon = server_.pool().SendAway() || starved_ || unproved ||
                      (agent_ != nullptr && agent_->starved());
    starved_ = false;
    if (poll(polled.data(), polled.size(), soon ? kSoonMs : -1) < 0) {
      continue;  // EINTR
    }
    if (server_.pool().EndSources()) {
      housekeeping_.Hasten();
    }
    if (agent_ != nullptr) {
      agent_->Handle();
    }
    LookForEnd();
    if (polled[kRest].revents != 0 && housekeeping_.Rested()) {
      done_ = ended_ && !server_.reconciler().Holding();
    }
    Serve(polled);
    if (!watchers_.empty()) {
      watchers_.Tell(server_.pool().Roots());
    }
    if (polled[kPace].revents != 0) {
      std::uint64_t ticks = 0;
      (void)!read(pace_.get(), &ticks, sizeof(ticks));
      told_ = false;
    } else if (polled[kRefusals].revents != 0) {
      TellRefused();
    }
  }
  admin_.reset();  // a later connection would get no answer
  watchers_.TellEnd(server_.accounting().Refused(), server_.control().Status().gpus);
}

// Serves those that have asked, in the order in which they came.
void Desk::Serve(const std::vector<pollfd>& polled) {
  std::size_t place = kFirstConnection;
  for (auto one = connections_.begin(); one != connections_.end(); ++place) {
    const auto next = std::next(one);
    if (polled[place].revents != 0 && HasAsked(*one)) {
      Connection connection = std::move(*one);
      connections_.erase(one);
      Answer(std::move(connection));
    }
    one = next;
  }
  if ((polled[kAdmin].revents & POLLIN) != 0) {
    Accept();
  }
}

void Desk::LookForEnd() {
  ended_ = !server_.pool().WhatIsServed().now && (agent_ == nullptr || agent_->Over());
  housekeeping_.SetOver(ended_);
}

void Desk::TellRefused() {
  told_ = true;
  server_.accounting().ResetRefusals();
  watchers_.TellRefused(server_.accounting().Refused(), server_.control().Status().gpus);
  const itimerspec when{{}, {kTellSeconds, 0}};
  (void)timerfd_settime(pace_.get(), 0, &when, nullptr);
}

// Accepts a connection of root, of the container's user or of this one.
void Desk::Accept() {
  UniqueFd socket(accept4(admin_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    starved_ = errno != EINTR && errno != ECONNABORTED;
    return;
  }
  // The socket's folder keeps others out, unless a container got that folder after all.
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != 0 && peer.uid != server_.config().user && peer.uid != geteuid())) {
    return;
  }
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
  if (connections_.size() >= kMaxConnections) {
    connections_.pop_front();
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  if (HasAsked(connection)) {  // as most have
    Connection asked = std::move(connection);
    connections_.pop_back();
    Answer(std::move(asked));
  }
}

// Reads what is there. Returns true if the request is complete.
bool Desk::HasAsked(Connection& connection) const {
  while (connection.line.size() < kMaxRequest && !connection.line.ends_with('\n')) {
    pollfd query{connection.socket.get(), POLLIN, 0};
    if (poll(&query, 1, 0) == 0) {
      return false;
    }
    auto part = ReceiveMessage(connection.socket.get(), 0);
    if (!part.ok()) {
      break;
    }
    connection.line += part->text;
    connection.file = part->fd.valid() ? std::move(part->fd) : std::move(connection.file);
  }
  return true;
}

void Desk::Answer(Connection connection) {
  const auto request = DecodeRequest(connection.line);
  if (!request.ok()) {
    Send(connection.socket, EncodeOutcome(request.error()));
  } else if (request->kind == AdminRequest::Kind::kUpgrade) {
    Upgrade(connection.socket, std::move(connection.file));
  } else if (request->kind != AdminRequest::Kind::kWatch) {
    Send(connection.socket, Reply(*request, std::move(connection.file)));
  } else if (watchers_.Add(connection.socket)) {
    watchers_.TellRefused(server_.accounting().Refused(), server_.control().Status().gpus);
  } else {
    Send(connection.socket,
         EncodeOutcome(Error{Code::kExhausted, 0, "too many watch this container", {}}));
  }
}

Result<Handover> Desk::Save() const {
  Handover state;
  state.config = server_.config();
  state.config.prove = false;  // the server's state holds what is left of it
  state.config.word.clear();   // the agent's does
  state.allowed = allowed_;
  state.launcher = launcher_;
  state.admin = admin_.get();
  state.closes = housekeeping_.closes();
  state.server = server_.Save();
  state.watchers = watchers_.Save();
  for (const Connection& one : connections_) {
    state.askers.push_back({one.socket.get(), one.line, one.file.get()});
  }
  if (agent_ == nullptr) {
    return state;
  }
  CGPU_ASSIGN_OR_RETURN(state.agent, agent_->Save());
  return state;
}

// Upgrades. Returns if that failed; then everything is as it was.
void Desk::Upgrade(const UniqueFd& connection, UniqueFd program) {
  const Error error = TryUpgrade(connection, std::move(program));
  Send(connection, EncodeOutcome(error));
}

Error Desk::TryUpgrade(const UniqueFd& connection, UniqueFd program) {
  if (!program.valid()) {
    return {Code::kInvalid, 0, "no program came with the request", {}};
  }
  if (!housekeeping_.Pause(kHousekeeping)) {
    return {Code::kConflict, 0, "it is looking after what its processes have left", "try again"};
  }
  const std::int64_t since = MonotonicNs();
  if (since - attempted_ns_ > kForgottenNs) {
    underway_ = kUnderway;
  }
  if (const auto quiet = server_.Quiesce(underway_); !quiet.ok()) {
    underway_ = std::min(2 * underway_, kLongestUnderway);
    attempted_ns_ = MonotonicNs();
    housekeeping_.Resume();
    return quiet.error();
  }
  auto state = Save();
  if (state.ok()) {
    state->quiet_since_ns = since;
    state->upgrader = connection.get();
  }
  Error error = state.ok() ? HandOver(*state, std::move(program), connection.get()) : state.error();
  server_.Resume();
  housekeeping_.Resume();
  return error;
}

void Desk::Inherit(const Handover& state) {
  launcher_ = state.launcher;
  allowed_ = state.allowed;
  watchers_.Adopt(state.watchers);
  for (const AskerState& one : state.askers) {
    connections_.push_back({UniqueFd(one.connection), one.line, UniqueFd(one.file)});
  }
}

// Returns true if the launcher, which lives as long as its container, is gone: the kernel then
// kills the container.
bool Desk::LauncherGone() const {
  pollfd launcher{launcher_, POLLRDHUP, 0};
  return agent_ == nullptr && poll(&launcher, 1, 0) > 0 && launcher.revents != 0;
}

std::string Desk::Reply(const AdminRequest& request, UniqueFd file) const {
  switch (request.kind) {
    case AdminRequest::Kind::kPs: {
      ContainerStatus status = server_.control().Status();
      status.pid = server_.pool().WhatIsServed().first_process;
      status.state = ended_ || LauncherGone() ? kEnded : kRunning;
      return EncodeStatus(status);
    }
    case AdminRequest::Kind::kMemory: {
      const auto memory = server_.control().MemoryOf(request.uuid);
      return memory.ok() ? EncodeGpuMemory(*memory) : EncodeOutcome(memory.error());
    }
    case AdminRequest::Kind::kSet:
      return EncodeOutcome(server_.control().SetLimit(request.uuid, request.bytes));
    case AdminRequest::Kind::kOrder:
      return EncodeOutcome(
          server_.control().SetOrder(request.uuid, request.order, std::move(file)));
    case AdminRequest::Kind::kWatch:
    case AdminRequest::Kind::kUpgrade:
      break;  // have no reply of this kind
    case AdminRequest::Kind::kTrace: {
      std::string text;
      for (const std::uint32_t ns : server_.executor().TakeTrace()) {
        text += std::to_string(ns) + "\n";
      }
      return text + ".\n";
    }
    case AdminRequest::Kind::kRefused: {
      std::string text;
      for (const auto& [what, count] : server_.accounting().Refused()) {
        text += std::to_string(count) + " " + what + "\n";
      }
      return text + ".\n";
    }
  }
  return EncodeOutcome(Error{Code::kInvalid, 0, "unknown request", {}});
}

}  // namespace cgpu::shim
