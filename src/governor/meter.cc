#include "governor/meter.h"

namespace cgpu::governor {

void Meter::Close(std::uint64_t time_ns) {
  if (on_ && time_ns > since_) {
    counted_[*on_] += time_ns - since_;
  }
  since_ = time_ns;
}

void Meter::Add(std::uint32_t pid, std::uint64_t time_ns, bool begins) {
  if (!from_) {
    from_ = time_ns;
  }
  last_ = time_ns;
  if (begins) {
    Close(time_ns);
    on_ = pid;
  } else if (on_ == pid) {
    Close(time_ns);
    on_.reset();
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
  for (const auto& [pid, ns] : counted_) {
    use.parts[pid] = static_cast<double>(ns) / static_cast<double>(use.span_ns);
  }
  counted_.clear();
  from_ = last_;
  return use;
}

}  // namespace cgpu::governor
