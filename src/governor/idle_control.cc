#include "governor/idle_control.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace cgpu::governor {
namespace {

constexpr double kUsPerSecond = 1e6;
constexpr double kLeastUsed = 0.002;  // fraction of the measured time
// Time slices of its own that a container may be beyond its cap, or below it, without a
// consequence: a measurement has whole ones.
constexpr double kSlices = 1.5;
// Difference of two numbers of time slices that were counted in the same time.
constexpr double kSameCount = 1.5;
// Most debt, in seconds of its cap.
constexpr double kMostOwed = 60;
// Time in which a debt is paid, if no more than half of the container's time goes for it.
constexpr double kPaidIn = 0.5;
constexpr double kMostPaid = 0.5;
// How much longer than planned a round may be while several have work.
constexpr double kLongerRound = 1.25;
// Bound of one step: rounds become longer at once, and shorter by and by.
constexpr double kShrinks = 0.25;
// Without idle time, containers that want all of it have at least this part of the GPU.
constexpr double kFull = 0.97;
// Shortest time slice of the idle group, as a part of the one for a container that has all its time
// slice: what a container can have beyond its cap until it is seen.
constexpr double kLeastPart = 0.1;

}  // namespace

// Returns the length of the rounds in which those who have all their time slices are at their caps.
double IdleControl::LongestRoundUs() const {
  double round = 0;
  for (const Member& member : members_) {
    round = std::max(round, member.slice_us / member.cap);
  }
  return round;
}

// Returns the time slice with which any container is at its cap or below, if all others are idle.
std::uint32_t IdleControl::Planned() const {
  double least = kMostIdleUs;
  for (const Member& member : members_) {
    least = std::min<double>(least, member.slice_us);
  }
  return Within(LongestRoundUs() - least - 2.0 * kSwitchUs);
}

std::uint32_t IdleControl::Within(double us) const {
  const std::uint32_t most = beside_high_ ? kMostIdleBesideHighUs : kMostIdleUs;
  return static_cast<std::uint32_t>(std::clamp<double>(us, kLeastIdleUs, most));
}

void IdleControl::SetPlan(std::vector<Member> members, bool beside_high) {
  if (members == members_ && beside_high == beside_high_) {
    return;
  }
  members_ = std::move(members);
  beside_high_ = beside_high;
  std::set<std::string> there;
  for (const Member& member : members_) {
    there.insert(member.id);
  }
  std::erase_if(debts_, [&](const auto& one) { return !there.contains(one.first); });
  Begin(members_.empty() ? 0 : Planned());
}

double IdleControl::DebtOf(const Member& member) const {
  const auto debt = debts_.find(member.id);
  const double slack = kSlices * member.slice_us / kUsPerSecond;
  return debt == debts_.end() || member.cap >= 1
             ? 0
             : std::max(0.0, (debt->second - slack) / member.cap);
}

double IdleControl::DebtOf(const std::string& id) const {
  const auto member = std::ranges::find(members_, id, &Member::id);
  return member == members_.end() ? 0 : DebtOf(*member);
}

// Returns the part of its cap that it may use now.
double IdleControl::PayingOf(const Member& member) const {
  return 1 - std::clamp(DebtOf(member) / kPaidIn, 0.0, kMostPaid);
}

std::uint32_t IdleControl::SliceOf(const std::string& id, std::uint32_t slice_us) const {
  const auto member = std::ranges::find(members_, id, &Member::id);
  if (member == members_.end()) {
    return slice_us;
  }
  const auto paying = static_cast<std::uint32_t>(slice_us * PayingOf(*member));
  return std::min<std::uint32_t>(slice_us, std::max<std::uint32_t>(paying, kLeastTurnUs));
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
  const double turn_us = part.turns > 0 ? kUsPerSecond * part.used / part.turns : 0;
  constexpr double kSwitch = kSwitchUs;
  if (turn_us > slice_us && turn_us <= slice_us + kSwitch) {
    part.used = slice_us / kUsPerSecond * part.turns;
  }
  return part;
}

// Adds up what each had beyond its cap. Returns those that had work, and what they had.
std::vector<IdleControl::Active> IdleControl::Count(const Seen& seen) {
  std::vector<Active> active;
  for (const Member& member : members_) {
    const auto found = seen.used.find(member.id);
    const Part part = found == seen.used.end()
                          ? Part{}
                          : WithoutSwitch(SliceOf(member.id, member.slice_us), found->second);
    double& debt = debts_[member.id];
    debt = std::clamp(debt + (part.used - member.cap) * seen.seconds,
                      -kSlices * member.slice_us / kUsPerSecond, kMostOwed * member.cap);
    if (part.used >= kLeastUsed && part.turns > 0) {
      active.push_back({member.cap, PayingOf(member), part});
    }
  }
  return active;
}

// Returns the length of a round, from the mean time slices of all: it is more exact than the number
// of rounds in the measured time.
double IdleControl::RoundUs(const Seen& seen, std::vector<Active>& active) const {
  const Part idle = WithoutSwitch(slice_us_, seen.idle);
  double round_us = kUsPerSecond * idle.used / idle.turns + kSwitchUs;
  for (Active& one : active) {
    const double apart = std::abs(one.part.turns - seen.idle.turns) * seen.seconds;
    one.presence = apart <= kSameCount ? 1 : one.part.turns / seen.idle.turns;
    one.turn_us = kUsPerSecond * one.part.used / one.part.turns;
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
  bool debts = false;
  for (const Active& one : active) {
    caps += one.cap;
    nearest = std::max(nearest, one.part.used / one.cap / one.paying);
    debts = debts || one.paying < 1;
  }
  if (slice_us_ == 0) {
    Begin(nearest > 1 ? Within(0) : 0);
    return;
  }
  if (std::exchange(settling_, false) || seen.idle.turns <= 0) {
    return;
  }
  double round_us = kUsPerSecond / seen.idle.turns;
  if (!beside_high_) {  // whose time slices are not known here
    round_us = RoundUs(seen, active);
    nearest = 0;
    for (const Active& one : active) {
      nearest = std::max(nearest, one.presence * one.turn_us / round_us / one.cap / one.paying);
    }
  }
  double wanted_us = round_us * nearest;
  if (active.size() > 1) {
    wanted_us = std::min(wanted_us, kLongerRound * LongestRoundUs());
  }
  const bool needless = active.size() > 1 && caps > kFull && nearest < 1 && !debts;
  if (needless && slice_us_ <= kLeastIdleUs) {
    slice_us_ = 0;
    return;
  }
  const double least = std::min<double>(kLeastPart * Planned(), slice_us_);
  slice_us_ = Within(std::max({slice_us_ + wanted_us - round_us, kShrinks * slice_us_, least}));
}

}  // namespace cgpu::governor
