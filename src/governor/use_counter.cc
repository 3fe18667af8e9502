#include "governor/use_counter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cgpu::governor {
namespace {

constexpr double kTiny = 1e-9;

}  // namespace

void UseCounter::Add(std::uint32_t pid, std::uint64_t time_ns, bool begins) {
  const bool known = std::exchange(known_, true);
  latest_ = pid;
  if (begins) {
    if (open_) {  // the driver did not tell when it left
      open_->end_ns = time_ns;
      stays_.push_back(*open_);
    }
    open_ = Stay{pid, time_ns, 0};
  } else if (open_ && open_->pid == pid) {
    open_->end_ns = time_ns;
    stays_.push_back(*std::exchange(open_, std::nullopt));
  } else if (!known) {  // it was there from before the first switch
    stays_.push_back({pid, 0, time_ns});
  }
}

void UseCounter::Lost() {
  stays_.clear();
  open_.reset();
  known_ = false;
}

std::vector<UseCounter::Share> UseCounter::SharesOf(const Sample& sample) {
  const std::uint64_t window_begin = sample.end_ns - std::min(sample.length_ns, sample.end_ns);
  std::map<std::uint32_t, Share> shares;
  const auto add = [&](const Stay& stay) {
    const std::uint64_t begin = std::max(stay.begin_ns, window_begin);
    const std::uint64_t end = std::min(stay.end_ns, sample.end_ns);
    if (end <= begin) {
      return;
    }
    Share& share = shares[stay.pid];
    share.presence.pid = stay.pid;
    const double part = static_cast<double>(end - begin) / static_cast<double>(sample.length_ns);
    share.stays.push_back(part);
    share.presence.there += part;
    share.presence.turns += stay.begin_ns >= window_begin ? 1 : 0;
  };
  std::ranges::for_each(stays_, add);
  if (open_) {
    add({open_->pid, open_->begin_ns, sample.end_ns});
  }
  std::erase_if(stays_, [&](const Stay& stay) { return stay.end_ns <= sample.end_ns; });
  if (shares.empty()) {
    latest_ = sample.pid != 0 ? sample.pid : latest_;
    add({latest_, window_begin, sample.end_ns});
  }
  std::vector<Share> all;
  all.reserve(shares.size());
  for (auto& [pid, share] : shares) {
    all.push_back(std::move(share));
  }
  return all;
}

// Fills in what a process is expected to have used.
void UseCounter::Expect(Share& share) const {
  const Habits::Habit habit = habits_.Of(share.presence.pid);
  for (const double stay : share.stays) {
    const double burst = std::min(stay, habit.burst);
    share.used += burst + habit.works * (stay - burst);
  }
  const double works = share.used / share.presence.there;
  share.doubt = share.presence.there * std::max(works * (1 - works), kTiny);
}

// Makes up for what the expected uses lack of the busy time, or exceed it by, where there is most
// doubt: where a process neither works all the time nor never.
void UseCounter::Divide(std::vector<Share>& shares, double busy) {
  for (std::size_t round = 0; round <= shares.size(); ++round) {
    double rest = busy;
    for (const Share& share : shares) {
      rest -= share.used;
    }
    const auto can_change = [&rest](const Share& share) {
      return rest > 0 ? share.used < share.presence.there - kTiny : share.used > kTiny;
    };
    double doubt = 0;
    for (const Share& share : shares) {
      doubt += can_change(share) ? share.doubt : 0;
    }
    if (std::abs(rest) < kTiny || doubt == 0) {
      break;
    }
    for (Share& share : shares) {
      if (can_change(share)) {
        share.used = std::clamp(share.used + rest * share.doubt / doubt, 0.0, share.presence.there);
      }
    }
  }
}

// Adds what the stays leave of the busy time: switches are missing.
void UseCounter::Complete(std::vector<Share>& shares, double busy) {
  double rest = busy;
  double there = 0;
  for (const Share& share : shares) {
    rest -= share.used;
    there += share.presence.there;
  }
  for (Share& share : shares) {
    share.used += std::max(rest, 0.0) * share.presence.there / there;
  }
}

void UseCounter::AddSample(const Sample& sample) {
  if (sample.length_ns == 0 || (until_ && sample.end_ns <= *until_)) {
    return;
  }
  if (!until_) {
    taken_until_ = sample.end_ns - std::min(sample.length_ns, sample.end_ns);
  }
  std::vector<Share> shares = SharesOf(sample);
  std::vector<Habits::Presence> present;
  present.reserve(shares.size());
  for (const Share& share : shares) {
    present.push_back(share.presence);
  }
  habits_.Learn(present, sample.busy);
  for (Share& share : shares) {
    Expect(share);
  }
  Divide(shares, sample.busy);
  Complete(shares, sample.busy);
  for (const Share& share : shares) {
    auto ns = static_cast<std::uint64_t>(
        std::llround(share.used * static_cast<double>(sample.length_ns)));
    if (share.presence.pid == 0) {
      unclaimed_ns_ += ns;
      continue;
    }
    ns += std::exchange(unclaimed_ns_, 0);
    use_.used_ns[share.presence.pid] += ns;
    use_.busy_ns += ns;
  }
  until_ = sample.end_ns;
}

UseCounter::Use UseCounter::Take() {
  use_.span_ns = until_ ? *until_ - taken_until_ : 0;
  use_.end_ns = taken_until_ = until_.value_or(0);
  return std::exchange(use_, Use{});
}

}  // namespace cgpu::governor
