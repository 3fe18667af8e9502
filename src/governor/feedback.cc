#include "governor/feedback.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace cgpu::governor {
namespace {

constexpr double kActive = 0.002;  // of the time measured
constexpr double kTolerated = 0.015;
// Measurements passed over after a change: each may have begun before it.
constexpr int kSettling = 2;
constexpr double kStrongest = 0.3;  // a slice is not shortened by more in one step
// A look back: whether shorter slices have brought anything.
constexpr int kStepsBetween = 4;
constexpr double kShortened = 0.8;
constexpr double kBrought = 1.05;
constexpr double kLongestRest = 60;
// Who wants a little now and then is without work in some measurements.
constexpr int kWithout = 5;
// Of what a member wants: more measurements before say little of now, fewer little for chance.
constexpr int kEvidence = 8;
constexpr int kLeastEvidence = 2;
// Of its part; who wants less at the most may want less than its part.
constexpr double kSurely = 1.5;
// Turns are not quite as long as slices say.
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

// Those that had the card; all slices are as planned again when those that have work are others
// than before, or have other parts.
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

// What the others had beyond a slice each for each turn of its own: it had no work then. Where they
// do not fill their slices it may have had none in more of the time.
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

// From now on slices are shortened for `needy`.
void Feedback::Help(const Turn& needy) {
  helped_ = needy.id;
  steps_ = 0;
  planned_ = needy.member->evidence;
  needy.member->evidence = {};  // shorter slices tell more of what it wants
}

void Feedback::LookBack(std::vector<Turn>& turns, const Turn& needy, double now_s) {
  if (helped_ != needy.id) {
    Help(needy);
  }
  if (steps_++ % kStepsBetween != 0) {
    return;
  }
  if (steps_ > 1) {
    const bool shortened = std::any_of(turns.begin(), turns.end(), [](const Turn& turn) {
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

// Whether slices may stay short for one that turned out to want little more than its part, or less.
bool Feedback::IsWorthIt(const std::vector<Turn>& turns, double now_s) {
  const auto helped = std::find_if(turns.begin(), turns.end(),
                                   [this](const Turn& turn) { return turn.id == helped_; });
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
  const auto needy =
      std::min_element(turns.begin(), turns.end(), [&](const Turn& x, const Turn& y) {
        const bool helped_x = MayBeHelped(x, now_s);
        const bool helped_y = MayBeHelped(y, now_s);
        return helped_x != helped_y ? helped_x : x.Ratio() < y.Ratio();
      });
  if (needy == turns.end() || !MayBeHelped(*needy, now_s) || needy->Lack() < kTolerated) {
    return;
  }
  if (needy->member->factor < 1) {  // it was shortened too much
    needy->member->factor = std::min(1.0, needy->member->factor / std::max(needy->Ratio(), 0.5));
    return;
  }
  LookBack(turns, *needy, now_s);
  if (helped_ != needy->id) {
    return;
  }
  for (Turn& turn : turns) {
    const double ratio = needy->Ratio() / turn.Ratio();
    if (ratio < 1 && turn.member->used > turn.promised) {
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
    // A measurement may have begun before the slices changed.
    member.longest_us = std::max(slice, member.before_us);
    member.before_us = slice;
    // What the floor does not let through is not counted either.
    member.factor = one.slice_us == 0 ? 1 : static_cast<double>(slice) / one.slice_us;
  }
}

std::uint32_t Feedback::SliceOf(const std::string& id, std::uint32_t slice_us) const {
  const auto at = members_.find(id);
  return at == members_.end() ? slice_us : Corrected(slice_us, at->second.factor);
}

}  // namespace cgpu::governor
