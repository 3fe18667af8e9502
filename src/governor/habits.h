// Learns for which part of its time on the GPU engine each process works, from windows of which it
// is known who was there and how busy the engine was. Pure.
//
// The model: in each stay on the engine a process works for its first burst, then for a part of
// what is left. A Kalman filter learns both of each process; its measurements are the windows, and
// it takes their noise from how far it was off. The constants were found by trying loads that fill
// the GPU, pause at times of chance or regularly, and are kept off by a clock.
#ifndef CGPU_GOVERNOR_HABITS_H_
#define CGPU_GOVERNOR_HABITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cgpu::governor {

// Times are parts of a window. Thread-compatible.
class Habits {
 public:
  // Processes that are kept: those seen last. A filter of n processes costs n * n each window.
  static constexpr std::size_t kMost = 64;

  struct Presence {
    std::uint32_t pid = 0;
    double there = 0;  // time on the engine
    double turns = 0;  // stays that began in the window
  };
  struct Habit {
    double works = 0.5;  // 0 to 1
    double burst = 0;
  };

  // Learns from a window that was busy for the part `busy`. Every process has one presence.
  void Learn(const std::vector<Presence>& present, double busy);
  // Returns what is known of a process.
  [[nodiscard]] Habit Of(std::uint32_t pid) const;

 private:
  struct Known {
    std::uint32_t pid = 0;
    std::uint64_t seen = 0;  // window
    Habit habit;
  };
  // The filter's state has two places for each process: works, burst.
  [[nodiscard]] std::size_t Places() const { return 2 * known_.size(); }
  double& Covariance(std::size_t a, std::size_t b) { return covariance_[a * Places() + b]; }
  [[nodiscard]] std::size_t IndexOf(std::uint32_t pid);
  void Add(std::uint32_t pid);
  void Forget(std::size_t index);
  void Correct(std::size_t place, double by);

  std::vector<Known> known_;
  std::vector<double> covariance_;  // Places() rows
  double noise_ = 0.15 * 0.15;      // variance of what a window says
  std::uint64_t window_ = 0;
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_HABITS_H_
