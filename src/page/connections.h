// The connections of a server: how many there are, and which one has to go for the next. Clients
// that are slow on purpose so keep nobody else out: where there is no place left, the oldest
// connection that waits for its client is closed, of the address that has the most.
//
// Thread-safe.
#ifndef CGPU_PAGE_CONNECTIONS_H_
#define CGPU_PAGE_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.h"

namespace cgpu::page {

class Connections {
 public:
  struct Limits {
    std::size_t connections = 512;
    // Bytes of bodies that are being read and judged, together.
    std::size_t bodies = std::size_t{32} << 20;
  };
  explicit Connections(Limits limits) : limits_(limits) {}

  // Waits for a place, which Leave() gives back. Closes another connection if none is free.
  void Enter();
  void Leave();
  // Waits until all have left. After a while it closes those that wait for their clients.
  void WaitForNone();

  // One connection: from Enter() on, and gone before Leave().
  class One {
   public:
    // Borrows the socket.
    One(Connections& connections, int fd);
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    ~One();
    // Says whether the connection waits for its client.
    void SetWaits(bool waits);
    // Takes these bytes for a body, until they are set anew: closes others that wait with bodies.
    // Returns false where there is no room.
    [[nodiscard]] bool TakeBody(std::size_t bytes);

   private:
    Connections& connections_;
    std::uint64_t number_;
  };

 private:
  struct State {
    int fd = -1;
    std::string peer;
    std::size_t body = 0;
    bool waits = false;
    bool closed = false;
  };
  // Closes a connection that waits; `with_body`: one that has a body.
  void CloseOne(bool with_body) CGPU_REQUIRES(mutex_);

  const Limits limits_;
  Mutex mutex_;
  CondVar left_;
  CondVar room_;  // for bodies
  std::size_t entered_ CGPU_GUARDED_BY(mutex_) = 0;
  std::size_t bodies_ CGPU_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_ CGPU_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, State> open_ CGPU_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace cgpu::page

#endif  // CGPU_PAGE_CONNECTIONS_H_
