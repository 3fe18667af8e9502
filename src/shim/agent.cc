#include "shim/agent.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "os/notify.h"

namespace cgpu::shim {
namespace {

constexpr std::size_t kPiece = 16 * 1024;
constexpr int kPieces = 8;              // read from one connection before the others' turn
constexpr std::size_t kMaxFiles = 253;  // in one message: the kernel's SCM_MAX_FD

// Room for the descriptors of one message, aligned as its header must be.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(kMaxFiles * sizeof(int))];
};

std::vector<UniqueFd> FilesOf(msghdr& message) {
  std::vector<UniqueFd> files;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
      files.emplace_back(fd);
    }
  }
  return files;
}

// Returns the uid at the other end.
std::optional<unsigned> SenderOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? std::optional(peer.uid)
                                                                        : std::nullopt;
}

}  // namespace

Agent::Agent(Server& server, UniqueFd socket, UniqueFd creator, unsigned user)
    : server_(server),
      socket_(std::move(socket)),
      creator_(std::move(creator)),
      user_(user),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Result<std::unique_ptr<Agent>> Agent::Make(Server& server, UniqueFd socket, UniqueFd creator,
                                           unsigned user) {
  std::unique_ptr<Agent> agent(new Agent(server, std::move(socket), std::move(creator), user));
  if (!agent->Watch(agent->socket_.get()) || !agent->Watch(agent->creator_.get())) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch the socket for listeners");
  }
  return agent;
}

Result<AgentState> Agent::Save() const {
  AgentState state;
  state.socket = socket_.get();
  state.creator = creator_.get();
  for (const Connection& one : connections_) {
    const bool silent = one.read == 0;
    if (!silent && !one.Done()) {
      return Error{Code::kConflict, 0, "a process is just being brought into the container", {}};
    }
    state.connections.push_back({one.socket.get(), silent});
  }
  return state;
}

Result<std::unique_ptr<Agent>> Agent::Resume(Server& server, const AgentState& state,
                                             unsigned user) {
  std::unique_ptr<Agent> agent(
      new Agent(server, UniqueFd(state.socket), UniqueFd(state.creator), user));
  bool watched = agent->Watch(agent->socket_.get()) &&
                 (!agent->creator_.valid() || agent->Watch(agent->creator_.get()));
  for (const AgentState::Connection& one : state.connections) {
    Connection& connection = agent->connections_.emplace_back();
    connection.socket.reset(one.socket);
    connection.sender = SenderOf(one.socket).value_or(user);
    connection.read = one.silent ? 0 : kMaxText + 1;
    watched = agent->Watch(one.socket) && watched;
  }
  if (!watched) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch the sockets for listeners");
  }
  return agent;
}

bool Agent::Watch(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Agent::Over() const {
  // A descriptor comes with the first byte.
  const bool silent =
      std::ranges::any_of(connections_, [](const Connection& one) { return one.read == 0; });
  return accepting_ && !silent && (!creator_.valid() || server_.pool().WhatIsServed().ever);
}

// Connections that cannot be taken now must not keep the epoll readable.
void Agent::SetAccepting(bool accepting) {
  if (accepting_ == accepting) {
    return;
  }
  epoll_event event{};
  event.events = accepting ? EPOLLIN : 0U;
  event.data.fd = socket_.get();
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
  accepting_ = accepting;
}

void Agent::Handle() {
  if (starved_) {
    starved_ = false;
    SetAccepting(true);
  }
  std::array<epoll_event, kMaxConnections + 2> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (const epoll_event& event :
       std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
    const int fd = event.data.fd;
    if (fd == socket_.get()) {
      Accept();
    } else if (fd == creator_.get()) {
      (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);  // other processes may have it
                                                                  // open
      creator_.reset();
    } else {
      // Not found: it was closed for another one.
      const auto found = std::ranges::find_if(
          connections_, [&](const Connection& c) { return c.socket.get() == fd; });
      if (found == connections_.end()) {
        continue;
      }
      const bool open = Receive(*found);
      if (!open || found->Done()) {
        SetAccepting(true);  // there is room, or there can be
      }
      if (!open) {
        connections_.erase(found);
      }
    }
  }
}

bool Agent::MakeRoom() {
  if (connections_.size() < kMaxConnections) {
    return true;
  }
  const auto done =
      std::ranges::find_if(connections_, [](const Connection& one) { return one.Done(); });
  if (done == connections_.end()) {
    return false;
  }
  connections_.erase(done);
  return true;
}

void Agent::Accept() {
  while (MakeRoom()) {
    UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) {
        continue;
      }
      starved_ = errno != EAGAIN;
      SetAccepting(!starved_);
      return;
    }
    const auto sender = SenderOf(socket.get());
    if (!sender || (*sender != 0 && *sender != user_) || !Watch(socket.get())) {
      continue;
    }
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    connection.sender = *sender;
  }
  SetAccepting(false);
}

void Agent::Take(Connection& connection, UniqueFd file) {
  if (!os::NotifyListener::IsListener(file.get())) {
    server_.files().Discard(std::move(file));
    return;
  }
  auto listener = os::NotifyListener::Make(std::move(file));
  if (!listener.ok()) {
    return;
  }
  // Without room the listener is closed: then its processes' calls fail.
  if (const auto source =
          server_.pool().Serve(std::make_unique<os::NotifyListener>(std::move(*listener)));
      source.ok()) {
    connection.sources.push_back(*source);
  }
}

bool Agent::Receive(Connection& connection) {
  for (int i = 0; i < kPieces; ++i) {
    if (!server_.files().CanDiscard(kMaxFiles)) {
      starved_ = true;
      return true;
    }
    char piece[kPiece];
    Control control;  // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel's to fill
    iovec part{piece, sizeof(piece)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    const ssize_t n = recvmsg(connection.socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (n <= 0) {
      return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    for (UniqueFd& file : FilesOf(message)) {
      Take(connection, std::move(file));
    }
    connection.read += static_cast<std::size_t>(n);
    if (connection.read <= kMaxText) {
      connection.state.Read({piece, static_cast<std::size_t>(n)});
    }
    for (const auto& one : connection.sources) {
      if (const auto source = one.lock()) {
        server_.pool().SetProcess(*source, connection.state.process().value_or(0),
                                  connection.sender);
      }
    }
  }
  return true;
}

}  // namespace cgpu::shim
