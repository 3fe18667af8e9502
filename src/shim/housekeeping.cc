#include "shim/housekeeping.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "kernel/messages.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

// When to look after an exit or a close, in milliseconds from the one before: the last close is
// reported before the driver has acted on it, and the driver takes its time.
constexpr std::array<long, 9> kRounds = {1, 4, 10, 20, 40, 80, 160, 320, 640};

constexpr std::size_t kMaxRequest = 4096;

constexpr int kSoonMs = 100;

constexpr int kPatienceMs = 1'000;  // with a silent peer

// Between what those that watch are told of refused calls.
constexpr time_t kTellSeconds = 1;

// For the calls that are in the driver when an upgrade begins: others wait meanwhile.
constexpr std::chrono::milliseconds kUnderway{50};

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

Result<Housekeeping> Housekeeping::Make(Server& server, UniqueFd admin,
                                        std::unique_ptr<Agent> agent) {
  UniqueFd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  UniqueFd pace(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!inotify.valid() || !timer.valid() || !pace.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch for closes");
  }
  for (const std::string& path : server.config().watches) {
    if (inotify_add_watch(inotify.get(), path.c_str(), IN_CLOSE) < 0) {
      return ErrnoError(Code::kUnavailable, errno, "cannot watch " + path);
    }
  }
  return Housekeeping(server, std::move(admin), std::move(agent), std::move(inotify),
                      std::move(timer), std::move(pace));
}

// Starts the rounds anew.
void Housekeeping::Schedule() {
  round_ = 0;
  itimerspec when{};
  when.it_value.tv_nsec = kRounds[0] * 1'000'000;
  (void)timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Housekeeping::Round() {
  std::uint64_t ticks = 0;
  (void)!read(timer_.get(), &ticks, sizeof(ticks));
  if (server_.Reconcile()) {
    round_ = 0;
  }
  ++round_;
  const bool holding = server_.Holding();
  if (ended_ && !holding) {
    done_ = true;
    return;
  }
  itimerspec when{};
  if (round_ < kRounds.size() && holding) {
    when.it_value.tv_nsec = kRounds[round_] * 1'000'000;
  } else if (ended_) {
    when.it_value.tv_sec = 1;  // files of this container live on elsewhere, and so does its grant
  } else {
    return;
  }
  (void)timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Housekeeping::DrainInotify() const {
  alignas(inotify_event) char buffer[4096];
  while (read(inotify_.get(), buffer, sizeof(buffer)) > 0) {
  }
}

void Housekeeping::LookForEnd() {
  const bool over = !server_.WhatIsServed().now && (agent_ == nullptr || agent_->Over());
  if (over && !ended_) {
    Schedule();
  }
  ended_ = over;
}

void Housekeeping::Run() {
  enum { kHangUps, kAgent, kExits, kInotify, kTimer, kAdmin, kAttention, kRefusals, kPace, kCount };
  std::array<pollfd, kCount> polled{};
  polled[kHangUps] = {server_.hang_ups(), POLLIN, 0};
  polled[kAgent] = {agent_ == nullptr ? -1 : agent_->events(), POLLIN, 0};
  polled[kExits] = {server_.exit_events(), POLLIN, 0};
  polled[kInotify] = {inotify_.get(), POLLIN, 0};
  polled[kTimer] = {timer_.get(), POLLIN, 0};
  polled[kAdmin] = {admin_.get(), POLLIN, 0};
  polled[kAttention] = {server_.attention(), POLLIN, 0};
  polled[kRefusals] = {server_.refusals(), POLLIN, 0};
  polled[kPace] = {pace_.get(), POLLIN, 0};
  while (!done_) {
    const bool unproved = server_.LookForProof();
    const bool soon =
        server_.SendAway() || starved_ || unproved || (agent_ != nullptr && agent_->starved());
    // A connection that cannot be taken must not keep this thread busy.
    polled[kAdmin].fd = starved_ ? -1 : admin_.get();
    starved_ = false;
    if (poll(polled.data(), polled.size(), soon ? kSoonMs : -1) < 0) {
      continue;  // EINTR
    }
    const bool hung_up = server_.EndSources();
    if (hung_up || polled[kExits].revents != 0) {
      server_.DropDead();
      Schedule();
    }
    if (agent_ != nullptr) {
      agent_->Handle();
    }
    LookForEnd();
    if (polled[kInotify].revents != 0) {
      DrainInotify();
      Schedule();
    }
    if (polled[kAttention].revents != 0) {
      server_.ResetAttention();
      Schedule();
    }
    if (polled[kTimer].revents != 0) {
      Round();
    }
    if ((polled[kAdmin].revents & POLLIN) != 0) {
      ServeAdmin();
    }
    if (!watchers_.empty()) {
      watchers_.Tell(server_.Roots());
    }
    if (polled[kRefusals].revents != 0) {
      TellRefused();
      polled[kRefusals].fd = -1;  // until the pace allows the next
    } else if (polled[kPace].revents != 0) {
      std::uint64_t ticks = 0;
      (void)!read(pace_.get(), &ticks, sizeof(ticks));
      polled[kRefusals].fd = server_.refusals();
    }
  }
  admin_.reset();  // nobody shall come from now on who would be told nothing
  watchers_.TellEnd(server_.Refused());
}

void Housekeeping::TellRefused() {
  server_.ResetRefusals();
  watchers_.TellRefused(server_.Refused());
  const itimerspec when{{}, {kTellSeconds, 0}};
  (void)timerfd_settime(pace_.get(), 0, &when, nullptr);
}

void Housekeeping::ServeAdmin() {
  UniqueFd connection(accept4(admin_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) {
    starved_ = errno != EINTR && errno != ECONNABORTED;
    return;
  }
  // The socket's folder and mode decide who gets here. A silent peer must not hold us up.
  const timeval patience{kPatienceMs / 1'000, 0};
  (void)setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  std::string line;
  UniqueFd file;
  while (line.size() < kMaxRequest && !line.ends_with('\n')) {
    auto part = ReceiveMessage(connection.get(), kPatienceMs);
    if (!part.ok()) {
      break;
    }
    line += part->text;
    file = part->fd.valid() ? std::move(part->fd) : std::move(file);
  }
  const auto request = DecodeRequest(line);
  if (request.ok() && request->kind == AdminRequest::Kind::kWatch) {
    watchers_.Add(std::move(connection));
    watchers_.TellRefused(server_.Refused());
    return;
  }
  if (request.ok() && request->kind == AdminRequest::Kind::kUpgrade) {
    Upgrade(connection, std::move(file));
    return;
  }
  Send(connection,
       request.ok() ? Reply(*request, std::move(file)) : EncodeOutcome(request.error()));
}

Result<Handover> Housekeeping::Save() const {
  Handover state;
  state.config = server_.config();
  state.config.prove = false;  // what of it is left stands in the server's state
  state.allowed = allowed_;
  state.launcher = launcher_;
  state.admin = admin_.get();
  state.server = server_.Save();
  state.watchers = watchers_.Save();
  if (agent_ == nullptr) {
    return state;
  }
  auto agent = agent_->Save();
  if (!agent.ok()) {
    return agent.error();
  }
  state.agent = std::move(*agent);
  return state;
}

// Returns where the upgrade did not come about; then everything is as it was.
void Housekeeping::Upgrade(const UniqueFd& connection, UniqueFd program) {
  if (!program.valid()) {
    const Error error{Code::kInvalid, 0, "no program came with the request", {}};
    Send(connection, EncodeOutcome(error));
    return;
  }
  const std::int64_t since = MonotonicNs();
  if (const auto quiet = server_.Quiesce(kUnderway); !quiet.ok()) {
    Send(connection, EncodeOutcome(quiet.error()));
    return;
  }
  auto state = Save();
  if (state.ok()) {
    state->quiet_since_ns = since;
    state->upgrader = connection.get();
  }
  const Error error =
      state.ok() ? HandOver(*state, std::move(program), connection.get()) : state.error();
  server_.Resume();
  Send(connection, EncodeOutcome(error));
}

void Housekeeping::Inherit(const Handover& state) {
  launcher_ = state.launcher;
  allowed_ = state.allowed;
  watchers_.Adopt(state.watchers);
  Schedule();  // closes in between have told nobody
}

// Of a launcher that lives as long as its container: the kernel then kills that.
bool Housekeeping::LauncherGone() const {
  pollfd launcher{launcher_, POLLRDHUP, 0};
  return agent_ == nullptr && poll(&launcher, 1, 0) > 0 && launcher.revents != 0;
}

std::string Housekeeping::Reply(const AdminRequest& request, UniqueFd file) const {
  switch (request.kind) {
    case AdminRequest::Kind::kPs: {
      ContainerStatus status = server_.Status();
      status.pid = server_.WhatIsServed().first_process;
      status.state = ended_ || LauncherGone() ? kEnded : kRunning;
      return EncodeStatus(status);
    }
    case AdminRequest::Kind::kMemory: {
      const auto memory = server_.MemoryOf(request.uuid);
      return memory.ok() ? EncodeCardMemory(*memory) : EncodeOutcome(memory.error());
    }
    case AdminRequest::Kind::kSet:
      return EncodeOutcome(server_.SetLimit(request.uuid, request.bytes));
    case AdminRequest::Kind::kOrder:
      return EncodeOutcome(server_.SetOrder(request.uuid, request.order, std::move(file)));
    case AdminRequest::Kind::kWatch:
    case AdminRequest::Kind::kUpgrade:
      break;  // have no reply of this kind
    case AdminRequest::Kind::kTrace: {
      std::string text;
      for (const std::uint32_t ns : server_.TakeTrace()) {
        text += std::to_string(ns) + "\n";
      }
      return text + ".\n";
    }
    case AdminRequest::Kind::kRefused: {
      std::string text;
      for (const auto& [what, count] : server_.Refused()) {
        text += std::to_string(count) + " " + what + "\n";
      }
      return text + ".\n";
    }
  }
  return EncodeOutcome(Error{Code::kInvalid, 0, "unknown request", {}});
}

}  // namespace cgpu::shim
