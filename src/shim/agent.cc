#include "shim/agent.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
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

Result<AgentState> Agent::Save() const {
  AgentState state;
  state.socket = socket_.get();
  state.creator = creator_.get();
  state.word = word_;
  for (const Connection& one : connections_) {
    const bool silent = one.read == 0;
    if (!silent && !one.Done()) {
      return Error{Code::kConflict, 0, "a process is just being brought into the container", {}};
    }
    state.connections.push_back({one.socket.get(), silent});
  }
  return state;
}

std::unique_ptr<Agent> Agent::Resume(Server& server, const AgentState& state, unsigned user) {
  auto agent = std::make_unique<Agent>(server, UniqueFd(state.socket), UniqueFd(state.creator),
                                       user, state.word);
  for (const AgentState::Connection& one : state.connections) {
    Connection& connection = agent->connections_.emplace_back();
    connection.socket.reset(one.socket);
    connection.sender = SenderOf(one.socket).value_or(user);
    connection.state = RuntimeState(state.word);
    connection.read = one.silent ? 0 : kMaxText + 1;
  }
  return agent;
}

bool Agent::Over() const {
  // A descriptor comes with the first byte.
  const bool silent =
      std::ranges::any_of(connections_, [](const Connection& one) { return one.read == 0; });
  return accepting_ && !silent && (!creator_.valid() || server_.pool().WhatIsServed().ever);
}

std::vector<pollfd> Agent::Awaited() const {
  // The creator comes first: once it is seen to have exited, all its connections are seen, too. A
  // connection that cannot be taken now must not keep the caller busy.
  std::vector<pollfd> awaited = {{creator_.get(), POLLIN, 0},
                                 {accepting_ ? socket_.get() : -1, POLLIN, 0}};
  for (const Connection& one : connections_) {
    awaited.push_back({one.socket.get(), POLLIN, 0});
  }
  return awaited;
}

void Agent::Handle() {
  if (starved_) {
    starved_ = false;
    accepting_ = true;
  }
  std::vector<pollfd> awaited = Awaited();
  awaited[1].fd = socket_.get();  // there may be room for another one in a moment
  if (poll(awaited.data(), awaited.size(), 0) <= 0) {
    return;
  }
  std::size_t place = 2;
  for (auto one = connections_.begin(); one != connections_.end(); ++place) {
    const auto next = std::next(one);
    if (awaited[place].revents != 0) {
      const bool open = Receive(*one);
      accepting_ = accepting_ || !open || one->Done();
      if (!open) {
        connections_.erase(one);
      }
    }
    one = next;
  }
  if (awaited[0].revents != 0) {
    creator_.reset();
  }
  if (accepting_ && awaited[1].revents != 0) {
    Accept();
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
      const bool full = errno != EAGAIN;
      starved_ = starved_ || full;
      accepting_ = !full;
      return;
    }
    const auto sender = SenderOf(socket.get());
    if (!sender || (*sender != 0 && *sender != user_)) {
      continue;
    }
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    connection.sender = *sender;
    connection.state = RuntimeState(word_);
  }
  accepting_ = false;
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

void Agent::Settle(Connection& connection) {
  const bool known = word_.empty() || connection.state.has_metadata();
  if (!known && !connection.Done() && connection.held.size() <= kMaxFiles) {
    return;
  }
  for (UniqueFd& file : std::exchange(connection.held, {})) {
    if (known) {
      Take(connection, std::move(file));
    } else {
      server_.files().Discard(std::move(file));
    }
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
      connection.held.push_back(std::move(file));
    }
    connection.read += static_cast<std::size_t>(n);
    if (connection.read <= kMaxText) {
      connection.state.Read({piece, static_cast<std::size_t>(n)});
    }
    Settle(connection);
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
