#include "governor/feedback.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace cgpu::governor {
namespace {

constexpr double kActive = 0.002;  // fraction of the measured time
constexpr double kTolerated = 0.015;
// Measurements skipped after a change: each may have begun before it.
constexpr int kSettling = 2;
constexpr double kStrongest = 0.3;  // a time slice is not shortened by more in one step
// Steps between two looks back at whether shorter time slices have brought anything.
constexpr int kStepsBetween = 4;
constexpr double kShortened = 0.8;
constexpr double kBrought = 1.05;
constexpr double kLongestRest = 60;
// Measurements without work after which a container counts as away: one that wants a little at
// times is without work in some.
constexpr int kWithout = 5;
// Most and fewest measurements that tell what a member wants: older ones say little of the present,
// fewer may be chance.
constexpr int kEvidence = 8;
constexpr int kLeastEvidence = 2;
// Factor on its share: a container that wants less than that at the most may want less than its
// share.
constexpr double kSurely = 1.5;
// Tolerance: time slices are not quite as long as planned.
constexpr double kLonger = 1.25;
constexpr double kUsPerS = 1e6;

std::uint32_t Corrected(std::uint32_t slice_us, double factor) {
  const auto wanted = static_cast<std::uint32_t>(std::lround(slice_us * factor));
  return std::min(slice_us, std::max(wanted, kLeastCorrectedUs));
}

}  // namespace

void Feedback::Evidence::Add(double used_now, double idle_now, double all_now) {
  steps = std::min(steps + 1, kEvidence);
  used += (used_now - used) / steps;
  idle += (idle_now - idle) / steps;
  all += (all_now - all) / steps;
}

void Feedback::Forget() {
  for (auto& [id, member] : members_) {
    member.factor = member.before = 1;
    member.evidence = {};
  }
  helped_.clear();
  settling_ = kSettling;
}

// Returns the members that had the GPU. Resets all time slices to the plan when other members have
// work than before, or when their shares are others.
std::vector<Feedback::Turn> Feedback::Take(const std::vector<Seen>& seen) {
  std::set<std::string> there;
  bool changed = false;
  double sum = 0;
  std::vector<Turn> turns;
  for (const Seen& one : seen) {
    there.insert(one.id);
    Member& member = members_[one.id];
    const bool had = one.used >= kActive && one.promised > 0;
    member.without = had ? 0 : member.without + 1;
    const bool active = had || (member.active && one.id != helped_ && member.without < kWithout);
    changed = changed || active != member.active || one.promised != member.promised ||
              one.slice_us != member.slice_us;
    member.used = (one.used + member.last) / 2;
    member.most = std::max(one.used, member.last);
    member.last = one.used;
    member.active = active;
    member.promised = one.promised;
    member.slice_us = one.slice_us;
    sum += active ? one.promised : 0;
    if (had) {
      turns.push_back({one.id, &member, one.promised});
    }
  }
  for (Turn& turn : turns) {
    turn.promised /= sum;
  }
  changed =
      std::erase_if(members_, [&](const auto& one) { return !there.contains(one.first); }) != 0 ||
      changed;
  if (changed) {
    Forget();
  }
  return turns;
}

// Weighs what each wants. Time that the others had beyond a time slice each, for each time slice of
// its own, is time in which it had no work. Where they do not fill their time slices, it may have
// had no work for longer.
void Feedback::Weigh(const std::vector<Turn>& turns, const std::vector<Seen>& seen) {
  double all = 0;
  double round_us = 0;
  for (const Turn& turn : turns) {
    all += turn.member->last;
    round_us += turn.member->longest_us;
  }
  for (const Seen& one : seen) {
    Member& member = members_.at(one.id);
    const double others = all - one.used;
    const double waited = one.turns * (round_us - member.longest_us) / kUsPerS * kLonger;
    member.evidence.Add(one.used, std::max(0.0, others - waited), all);
  }
}

void Feedback::LeaveInPeace(Member& member, double now_s) {
  member.content_until = now_s + member.rest_s;
  member.rest_s = std::min(2 * member.rest_s, kLongestRest);
  helped_.clear();
}

// Shortens time slices for `needy` from now on.
void Feedback::Help(const Turn& needy) {
  helped_ = needy.id;
  steps_ = 0;
  planned_ = needy.member->evidence;
  needy.member->evidence = {};  // shorter time slices tell more of what it wants
}

void Feedback::LookBack(std::vector<Turn>& turns, const Turn& needy, double now_s) {
  if (helped_ != needy.id) {
    Help(needy);
  }
  if (steps_++ % kStepsBetween != 0) {
    return;
  }
  if (steps_ > 1) {
    const bool shortened = std::ranges::any_of(turns, [](const Turn& turn) {
      return turn.member->factor < kShortened * turn.member->before;
    });
    if (shortened && needy.member->used < kBrought * helped_used_) {
      for (Turn& turn : turns) {
        turn.member->factor = turn.member->before;
      }
      LeaveInPeace(*needy.member, now_s);
      return;
    }
  }
  helped_used_ = needy.member->used;
  for (Turn& turn : turns) {
    turn.member->before = turn.member->factor;
  }
}

// Returns whether time slices may stay short for a member that turned out to want little more than
// its share, or less.
bool Feedback::IsWorthIt(const std::vector<Turn>& turns, double now_s) {
  const auto helped = std::ranges::find(turns, helped_, &Turn::id);
  if (helped == turns.end() ||
      helped->member->evidence.MostWanted() >= kSurely * helped->promised) {
    return true;
  }
  const Evidence& evidence = helped->member->evidence;
  if (evidence.steps < kStepsBetween ||
      evidence.used - planned_.used > std::max(planned_.all - evidence.all, 0.0)) {
    return true;
  }
  for (auto& [id, member] : members_) {
    member.factor = member.before = 1;
  }
  LeaveInPeace(*helped->member, now_s);
  return false;
}

bool Feedback::MayBeHelped(const Turn& turn, double now_s) const {
  return turn.member->content_until <= now_s && turn.member->evidence.steps >= kLeastEvidence &&
         (turn.id == helped_ || !turn.WantsLess());
}

void Feedback::Correct(std::vector<Turn>& turns, double now_s) {
  if (!IsWorthIt(turns, now_s)) {
    return;
  }
  const auto needy = std::ranges::min_element(turns, [&](const Turn& x, const Turn& y) {
    const bool helped_x = MayBeHelped(x, now_s);
    const bool helped_y = MayBeHelped(y, now_s);
    return helped_x != helped_y ? helped_x : x.Ratio() < y.Ratio();
  });
  if (needy == turns.end() || !MayBeHelped(*needy, now_s) || needy->Lack() < kTolerated) {
    return;
  }
  if (needy->member->factor < 1) {  // its time slice was shortened too much
    needy->member->factor = std::min(1.0, needy->member->factor / std::max(needy->Ratio(), 0.5));
    return;
  }
  LookBack(turns, *needy, now_s);
  if (helped_ != needy->id) {
    return;
  }
  double all = 0;  // less than 1: switches take a part
  for (const Turn& turn : turns) {
    all += turn.member->used;
  }
  for (Turn& turn : turns) {
    const double ratio = needy->Ratio() / turn.Ratio();
    if (ratio < 1 && turn.member->used > turn.promised * all) {
      turn.member->factor *= std::max(ratio, kStrongest);
    }
  }
}

void Feedback::Step(const std::vector<Seen>& seen, double now_s) {
  std::vector<Turn> turns = Take(seen);
  if (settling_ > 0) {
    --settling_;
  } else if (turns.size() > 1) {
    Weigh(turns, seen);
    Correct(turns, now_s);
  }
  for (const Seen& one : seen) {
    Member& member = members_.at(one.id);
    const std::uint32_t slice = Corrected(one.slice_us, member.factor);
    // A measurement may have begun before the time slices changed.
    member.longest_us = std::max(slice, member.before_us);
    member.before_us = slice;
    // The factor does not count what the floor prevents, either.
    member.factor = one.slice_us == 0 ? 1 : static_cast<double>(slice) / one.slice_us;
  }
}

std::uint32_t Feedback::SliceOf(const std::string& id, std::uint32_t slice_us) const {
  const auto at = members_.find(id);
  return at == members_.end() ? slice_us : Corrected(slice_us, at->second.factor);
}

}  // namespace cgpu::governor
