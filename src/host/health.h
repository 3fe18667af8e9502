// Watches whether the GPUs of a node answer.
#ifndef CGPU_HOST_HEALTH_H_
#define CGPU_HOST_HEALTH_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "host/node.h"

namespace cgpu {

class HealthWatch {
 public:
  // Asks one GPU and returns whether it answers. May take for ever: each GPU has a thread of its
  // own, which makes one call after the other.
  using Ask = std::function<bool()>;
  // Hears of each GPU that answers no more, and of each that answers again, one at a time.
  using Report = std::function<void(std::size_t gpu, bool healthy)>;

  // Asks each GPU once in `period`. One that has not answered when the period ends is not healthy.
  // All are taken to be healthy at first.
  HealthWatch(std::vector<Ask> asks, std::chrono::milliseconds period, Report report);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  // Reports nothing afterwards. A call that does not return keeps its thread.
  ~HealthWatch();

 private:
  struct State;
  static void AskAgainAndAgain(const std::shared_ptr<State>& state, std::size_t gpu,
                               const Ask& ask);
  void Run();
  void ReportChanges();

  const std::chrono::milliseconds period_;
  const Report report_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

// Returns what asks this GPU of the node. It keeps the GPU open while the GPU answers, since a GPU
// that nobody has open may have to start for each question; and lets go of it when it does not, so
// that it can be reset.
[[nodiscard]] HealthWatch::Ask AskerOf(const Node& node, const Gpu& gpu);

}  // namespace cgpu

#endif  // CGPU_HOST_HEALTH_H_
