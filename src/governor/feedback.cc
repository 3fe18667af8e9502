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

std::uint32_t Corrected(std::uint32_t slice_us, double factor) {
  const auto wanted = static_cast<std::uint32_t>(std::lround(slice_us * factor));
  return std::min(slice_us, std::max(wanted, kLeastCorrectedUs));
}

}  // namespace

void Feedback::Forget() {
  for (auto& [id, member] : members_) {
    member.factor = member.before = 1;
  }
  helped_.clear();
  settling_ = kSettling;
}

// Those that have work; all slices are as planned again when these are others than before, or have
// other parts.
std::vector<Feedback::Turn> Feedback::Take(const std::vector<Seen>& seen) {
  std::set<std::string> there;
  bool changed = false;
  double sum = 0;
  std::vector<Turn> turns;
  for (const Seen& one : seen) {
    there.insert(one.id);
    Member& member = members_[one.id];
    const bool active = one.used >= kActive && one.promised > 0;
    changed = changed || active != member.active || one.promised != member.promised ||
              one.slice_us != member.slice_us;
    member.used = (one.used + member.last) / 2;
    member.most = std::max(one.used, member.last);
    member.last = one.used;
    member.active = active;
    member.promised = one.promised;
    member.slice_us = one.slice_us;
    if (active) {
      turns.push_back({one.id, &member, one.promised});
      sum += one.promised;
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

void Feedback::LookBack(std::vector<Turn>& turns, const Turn& needy, double now_s) {
  if (helped_ != needy.id) {
    helped_ = needy.id;
    steps_ = 0;
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
      needy.member->content_until = now_s + needy.member->rest_s;
      needy.member->rest_s = std::min(2 * needy.member->rest_s, kLongestRest);
      helped_.clear();
      return;
    }
  }
  helped_used_ = needy.member->used;
  for (Turn& turn : turns) {
    turn.member->before = turn.member->factor;
  }
}

void Feedback::Correct(std::vector<Turn>& turns, double now_s) {
  const auto needy =
      std::min_element(turns.begin(), turns.end(), [&](const Turn& x, const Turn& y) {
        const bool x_content = x.member->content_until > now_s;
        const bool y_content = y.member->content_until > now_s;
        return x_content != y_content ? y_content : x.Ratio() < y.Ratio();
      });
  if (needy == turns.end() || needy->member->content_until > now_s || needy->Lack() < kTolerated) {
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
    Correct(turns, now_s);
  }
  for (const Seen& one : seen) {
    Member& member = members_.at(one.id);
    const std::uint32_t slice = Corrected(one.slice_us, member.factor);
    // What the floor does not let through is not counted either.
    member.factor = one.slice_us == 0 ? 1 : static_cast<double>(slice) / one.slice_us;
  }
}

std::uint32_t Feedback::SliceOf(const std::string& id, std::uint32_t slice_us) const {
  const auto at = members_.find(id);
  return at == members_.end() ? slice_us : Corrected(slice_us, at->second.factor);
}

}  // namespace cgpu::governor
