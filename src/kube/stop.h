// Asks threads to end, and wakes those that wait in poll(2). Thread-safe.
#ifndef CGPU_KUBE_STOP_H_
#define CGPU_KUBE_STOP_H_

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>

#include "base/fd.h"

namespace cgpu::kube {

class Stop {
 public:
  Stop() : event_(eventfd(0, EFD_CLOEXEC)) {}

  // Once and for all.
  void Set() { (void)eventfd_write(event_.get(), 1); }
  [[nodiscard]] bool set() const { return WaitFor(std::chrono::milliseconds(0)); }
  // Readable once it is set.
  [[nodiscard]] int fd() const { return event_.get(); }
  // Waits until it is set, or so long; returns whether it is.
  [[nodiscard]] bool WaitFor(std::chrono::milliseconds time) const {
    const auto until = std::chrono::steady_clock::now() + time;
    pollfd event{event_.get(), POLLIN, 0};
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      const int ready = poll(&event, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
      if (ready >= 0 || errno != EINTR) {
        return ready > 0;
      }
    }
  }

 private:
  UniqueFd event_;
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_STOP_H_
