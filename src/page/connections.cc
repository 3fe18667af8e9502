#include "page/connections.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

namespace cgpu::page {
namespace {

// One of so many places is kept free.
constexpr std::size_t kSpare = 8;
// Time for a connection that was closed to go, before another one is closed.
constexpr std::chrono::milliseconds kToGo{100};
// Times for the last connections to end by themselves, and between two that are closed then.
constexpr std::chrono::seconds kForLast{1};
constexpr std::chrono::milliseconds kToClose{1};
// Time for room for a body to be made.
constexpr std::chrono::seconds kForBody{1};
// Bytes of an IPv6 address that tell hosts apart: one host may have all addresses of a network.
constexpr std::size_t kNetwork6 = 8;

// Returns what tells hosts apart.
std::string PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  if (address.ss_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof(ip)};
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return {reinterpret_cast<const char*>(&ip), IN6_IS_ADDR_V4MAPPED(&ip) ? sizeof(ip) : kNetwork6};
}

}  // namespace

void Connections::Enter() {
  const MutexLock lock(mutex_);
  while (entered_ >= limits_.connections) {
    CloseOne(false);
    (void)left_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kToGo);
  }
  ++entered_;
  if (entered_ > limits_.connections - limits_.connections / kSpare) {
    CloseOne(false);  // in time, so that the next ones need not wait for it to go
  }
}

void Connections::Leave() {
  const MutexLock lock(mutex_);
  --entered_;
  left_.NotifyAll();
}

void Connections::WaitForNone() {
  const MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + kForLast;
  while (entered_ != 0) {
    if (std::chrono::steady_clock::now() < until) {
      (void)left_.WaitUntil(mutex_, until);
    } else {
      CloseOne(false);
      (void)left_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kToClose);
    }
  }
}

void Connections::CloseOne(bool with_body) {
  std::map<std::string, std::size_t> of_peer;
  for (const auto& [number, one] : open_) {
    ++of_peer[one.peer];
  }
  State* chosen = nullptr;
  for (auto& [number, one] : open_) {
    if (one.waits && !one.closed && (!with_body || one.body != 0) &&
        (chosen == nullptr || of_peer[one.peer] > of_peer[chosen->peer])) {
      chosen = &one;
    }
  }
  if (chosen != nullptr) {
    chosen->closed = true;
    (void)shutdown(chosen->fd, SHUT_RDWR);
  }
}

Connections::One::One(Connections& connections, int fd) : connections_(connections) {
  State state;
  state.fd = fd;
  state.peer = PeerOf(fd);
  const MutexLock lock(connections_.mutex_);
  number_ = ++connections_.last_;
  connections_.open_[number_] = std::move(state);
}

Connections::One::~One() {
  const MutexLock lock(connections_.mutex_);
  connections_.bodies_ -= connections_.open_[number_].body;
  connections_.open_.erase(number_);
  connections_.room_.NotifyAll();
}

void Connections::One::SetWaits(bool waits) {
  const MutexLock lock(connections_.mutex_);
  connections_.open_[number_].waits = waits;
}

bool Connections::One::TakeBody(std::size_t bytes) {
  Connections& all = connections_;
  const MutexLock lock(all.mutex_);
  all.bodies_ -= std::exchange(all.open_[number_].body, 0);
  all.room_.NotifyAll();
  const auto until = std::chrono::steady_clock::now() + kForBody;
  while (all.bodies_ + bytes > all.limits_.bodies) {
    if (bytes > all.limits_.bodies) {
      return false;
    }
    all.CloseOne(true);
    if (!all.room_.WaitUntil(all.mutex_, until)) {
      return false;
    }
  }
  all.bodies_ += bytes;
  all.open_[number_].body = bytes;
  return true;
}

}  // namespace cgpu::page
