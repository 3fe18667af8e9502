// Controls the time slice of the idle group (rmclient/idle_group.h) that holds the containers of a
// GPU to their caps. Pure.
//
// In each round, every container that has work has one time slice, and so has the idle group. A
// container that used u of the time, and may use c, is at its cap when rounds are u / c times as
// long. So the idle group's time slice grows or shrinks until the container that is nearest to its
// cap, or farthest beyond, is just there. One that waits for each of its kernels gives up its time
// slice early; then the rounds become shorter, and it gets what it wants up to its cap.
//
// Time that a container had beyond its cap is a debt, however it came by it: a neighbour that fell
// idle, or work that begins after a pause. It pays by time slices of its own that are up to half as
// long, and may use so much less until the debt is paid. Its neighbours do not pay.
//
// A kernel that cannot be preempted runs on beyond its container's time slice. While others have
// work, rounds do not become much longer for that: they would lose their time. So such a container
// may have more than its cap beside others.
#ifndef CGPU_GOVERNOR_IDLE_CONTROL_H_
#define CGPU_GOVERNOR_IDLE_CONTROL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "governor/order.h"

namespace cgpu::governor {

// Shortest time slice of the idle group: below it, switches take a third of a full GPU's time.
inline constexpr std::uint32_t kLeastIdleUs = 4 * kSwitchUs;
// Longest, and the longest while a container of high priority may come at any time.
inline constexpr std::uint32_t kMostIdleUs = 200'000;
inline constexpr std::uint32_t kMostIdleBesideHighUs = 8 * kSwitchUs;

// The control of one GPU. Thread-compatible.
class IdleControl {
 public:
  struct Member {
    std::string id;
    double cap = 1;  // most that it may use: above 0, up to 1
    std::uint32_t slice_us = 0;

    bool operator==(const Member&) const = default;
  };
  // Replaces the members: the containers with work of normal priority. The debts of those that stay
  // are kept. `beside_high`: there are containers of high priority, too.
  void SetPlan(std::vector<Member> members, bool beside_high);

  struct Part {
    double used = 0;   // fraction of the measured time
    double turns = 0;  // time slices per second
  };
  struct Seen {
    double seconds = 0;                // that were measured
    std::map<std::string, Part> used;  // by container
    Part idle;                         // the idle group's
  };
  // Takes one measurement.
  void Step(const Seen& seen);
  // Says that the GPU went to nobody else for a while: one container may have it for itself, or all
  // are idle. The next one that has work is held as if it had all that it can.
  void Still();

  // Returns the time slice that the idle group is to have. 0: it is to want none.
  [[nodiscard]] std::uint32_t slice_us() const { return slice_us_; }
  // Returns the time slice that `id` has instead of `slice_us`: a shorter one while it has a debt.
  [[nodiscard]] std::uint32_t SliceOf(const std::string& id, std::uint32_t slice_us) const;
  // Returns the time by which `id` is beyond its cap, in seconds of its own time, less what the
  // measurement cannot tell.
  [[nodiscard]] double DebtOf(const std::string& id) const;

 private:
  // One that had work in the measured time.
  struct Active {
    double cap = 1;
    double paying = 1;  // part of its cap that it may use now
    Part part;
    double presence = 1;  // part of the rounds in which it had a time slice
    double turn_us = 0;   // its mean time slice
  };

  [[nodiscard]] double DebtOf(const Member& member) const;
  [[nodiscard]] double PayingOf(const Member& member) const;
  [[nodiscard]] double LongestRoundUs() const;
  [[nodiscard]] static Part WithoutSwitch(std::uint32_t slice_us, Part part);
  [[nodiscard]] std::vector<Active> Count(const Seen& seen);
  [[nodiscard]] double RoundUs(const Seen& seen, std::vector<Active>& active) const;
  void Begin(std::uint32_t us);
  [[nodiscard]] std::uint32_t Planned() const;
  [[nodiscard]] std::uint32_t Within(double us) const;

  std::vector<Member> members_;
  // In seconds of the GPU's time, by container. Below 0: it had less than its cap, within limits.
  std::map<std::string, double> debts_;
  bool beside_high_ = false;
  std::uint32_t slice_us_ = 0;
  bool settling_ = false;  // the next measurement has time before the present time slice
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_IDLE_CONTROL_H_
