#include "governor/idle_control.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace cgpu::governor {
namespace {

constexpr double kUsPerS = 1e6;
constexpr double kActive = 0.002;  // fraction of the measured time
// Time slices of its own that a container may be beyond its cap, or below it, without a
// consequence: a measurement has whole ones.
constexpr double kSlices = 1.5;
// Difference of two numbers of time slices that were counted in the same time.
constexpr double kSameCount = 1.5;
// Most debt, in seconds of its cap: beside high priority it can grow and not be paid.
constexpr double kMostOwed = 10;
// Time in which a debt is paid, if no more than half of the container's time goes for it.
constexpr double kPaidIn = 0.5;
constexpr double kMostPaid = 0.5;
// Bounds of one step. Rounds become longer at once, and shorter by and by.
constexpr double kShrinks = 0.25;
// Without idle time, containers that want all of it have at least this part of the GPU.
constexpr double kFull = 0.97;
// Shortest time slice of the idle group, as a part of the one for a container that has all its time
// slice: what a container can have beyond its cap until it is seen.
constexpr double kLeastPart = 0.1;

}  // namespace

// Returns the time slice with which every container is at its cap or below, if all have more work
// than they get; or, if all others are idle, the one whose rounds are the longest.
std::uint32_t IdleControl::Planned() const {
  double round = 0;
  double least = kMostIdleUs;
  for (const Member& member : members_) {
    round = std::max(round, member.slice_us / member.cap);
    least = std::min<double>(least, member.slice_us);
  }
  return Within(round - least - 2.0 * kSwitchUs);
}

std::uint32_t IdleControl::Within(double us) const {
  return static_cast<std::uint32_t>(
      std::clamp<double>(us, std::min(kLeastIdleUs, most_us_), most_us_));
}

void IdleControl::SetPlan(std::vector<Member> members, bool beside_high) {
  if (members == members_ && slice_us_ != 0) {
    most_us_ = beside_high ? kMostIdleBesideHighUs : kMostIdleUs;
    slice_us_ = Within(slice_us_);
    return;
  }
  members_ = std::move(members);
  most_us_ = beside_high ? kMostIdleBesideHighUs : kMostIdleUs;
  std::set<std::string> there;
  for (const Member& member : members_) {
    there.insert(member.id);
  }
  std::erase_if(debts_, [&](const auto& one) { return !there.contains(one.first); });
  Begin(members_.empty() ? 0 : Planned());
}

double IdleControl::MostDebt() const {
  double most = 0;
  for (const Member& member : members_) {
    const auto debt = debts_.find(member.id);
    if (debt != debts_.end() && member.cap < 1) {
      most = std::max(most, (debt->second - kSlices * member.slice_us / kUsPerS) / member.cap);
    }
  }
  return most;
}

void IdleControl::Still() {
  if (!members_.empty()) {
    Begin(Planned());
  }
}

// Sets a time slice that does not follow from the one before.
void IdleControl::Begin(std::uint32_t us) {
  settling_ = settling_ || slice_us_ != us;
  slice_us_ = us;
}

// Returns what it had without the part of a switch that the driver's list counts as the time of the
// context that leaves. That part is not known, so only whole time slices are corrected.
IdleControl::Part IdleControl::WithoutSwitch(std::uint32_t slice_us, Part part) {
  const double turn_us = part.turns > 0 ? kUsPerS * part.used / part.turns : 0;
  constexpr double kSwitch = kSwitchUs;
  if (turn_us > slice_us && turn_us <= slice_us + kSwitch) {
    part.used = slice_us / kUsPerS * part.turns;
  }
  return part;
}

// Adds up what each had beyond its cap. Returns those that had work, and what they had.
std::vector<IdleControl::Active> IdleControl::Count(const Seen& seen) {
  std::vector<Active> active;
  for (const Member& member : members_) {
    const auto found = seen.used.find(member.id);
    const Part part =
        found == seen.used.end() ? Part{} : WithoutSwitch(member.slice_us, found->second);
    double& debt = debts_[member.id];
    debt = std::clamp(debt + (part.used - member.cap) * seen.seconds,
                      -kSlices * member.slice_us / kUsPerS, kMostOwed * member.cap);
    if (part.used >= kActive && part.turns > 0) {
      active.push_back({member.cap, part});
    }
  }
  return active;
}

// Returns the length of a round, from the mean time slices of all: it is more exact than the number
// of rounds in the measured time.
double IdleControl::RoundUs(const Seen& seen, std::vector<Active>& active) const {
  const Part idle = WithoutSwitch(slice_us_, seen.idle);
  double round_us = kUsPerS * idle.used / idle.turns + kSwitchUs;
  for (Active& one : active) {
    const double apart = std::abs(one.part.turns - seen.idle.turns) * seen.seconds;
    one.presence = apart <= kSameCount ? 1 : one.part.turns / seen.idle.turns;
    one.turn_us = kUsPerS * one.part.used / one.part.turns;
    round_us += one.presence * (one.turn_us + kSwitchUs);
  }
  return round_us;
}

void IdleControl::Step(const Seen& seen) {
  std::vector<Active> active = Count(seen);
  if (active.empty()) {
    return;
  }
  double caps = 0;
  double nearest = 0;  // the container nearest to its cap has this part of it
  for (const Active& one : active) {
    caps += one.cap;
    nearest = std::max(nearest, one.part.used / one.cap);
  }
  const double debt = MostDebt();
  if (slice_us_ == 0) {
    Begin(nearest > 1 || debt > 0 ? Within(0) : 0);
    return;
  }
  if (std::exchange(settling_, false) || seen.idle.turns <= 0) {
    return;
  }
  const double round_us = RoundUs(seen, active);
  nearest = 0;
  for (const Active& one : active) {
    nearest = std::max(nearest, one.presence * one.turn_us / round_us / one.cap);
  }
  const double wanted = 1 - std::clamp(debt / kPaidIn, 0.0, kMostPaid);
  double change_us = round_us * (nearest / wanted - 1);
  if (debt > 0) {
    change_us = std::max(change_us, 0.0);
  }
  const bool needless = active.size() > 1 && caps > kFull && nearest < 1 && debt <= 0;
  if (needless && slice_us_ <= kLeastIdleUs) {
    slice_us_ = 0;
    return;
  }
  const double least = std::min<double>(kLeastPart * Planned(), slice_us_);
  slice_us_ = Within(std::max({slice_us_ + change_us, kShrinks * slice_us_, least}));
}

}  // namespace cgpu::governor
