#include "governor/meter.h"

#include <utility>

namespace cgpu::governor {
namespace {

// A process that comes back sooner was waiting, as far as one can tell.
constexpr std::uint64_t kSoonNs = 100'000'000;
// Longest switch between two contexts of one process. After more, the process had been taken off.
constexpr std::uint64_t kSwitchNs = 1'000'000;
constexpr double kSecondNs = 1e9;

}  // namespace

// Counts the time slice that ends, so that it is in the same Use as its time.
void Meter::CountTurn() {
  if (on_ && std::exchange(fresh_, false)) {
    ++counted_[*on_].turns;
  }
}

void Meter::Close(std::uint64_t time_ns) {
  if (on_ && time_ns > since_) {
    counted_[*on_].on += time_ns - since_;
    on_all_ += time_ns - since_;
  }
  since_ = time_ns;
}

void Meter::Add(std::uint32_t pid, std::uint64_t time_ns, bool begins) {
  if (!from_) {
    from_ = time_ns;
  }
  last_ = time_ns;
  if (begins) {
    const bool back =  // from a context of its own
        !on_ && latest_ == pid && time_ns < since_ + kSwitchNs;
    if (back && time_ns > since_) {
      counted_[pid].on += time_ns - since_;
    }
    Close(time_ns);
    if (on_ && *on_ != pid) {
      CountTurn();
      left_[*on_] = {time_ns, on_all_};  // the driver did not tell
    }
    fresh_ = fresh_ || (latest_ && *latest_ != pid);
    on_ = latest_ = pid;
    const auto left = left_.find(pid);
    if (!back && left != left_.end() && time_ns < left->second.time_ns + kSoonNs) {
      counted_[pid].between += on_all_ - left->second.on_all;
    }
  } else if (on_ == pid) {
    Close(time_ns);
    CountTurn();
    on_.reset();
    left_[pid] = {time_ns, on_all_};
  }
}

void Meter::Lost() {
  *this = Meter();
}

std::optional<Meter::Use> Meter::Take(std::uint64_t least_ns) {
  if (!from_ || last_ < *from_ + least_ns || last_ == *from_) {
    return std::nullopt;
  }
  Close(last_);
  Use use;
  use.span_ns = last_ - *from_;
  for (const auto& [pid, counted] : counted_) {
    const auto span = static_cast<double>(use.span_ns);
    use.parts[pid] = {static_cast<double>(counted.on) / span,
                      static_cast<double>(counted.between) / span,
                      static_cast<double>(counted.turns) * kSecondNs / span};
  }
  std::erase_if(left_, [this](const auto& one) { return one.second.time_ns + kSoonNs < last_; });
  counted_.clear();
  from_ = last_;
  return use;
}

}  // namespace cgpu::governor
