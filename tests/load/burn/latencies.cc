#include "load/burn/latencies.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cgpu::burn {

std::size_t Latencies::BucketOf(std::uint64_t ns) {
  const auto width = static_cast<unsigned>(std::bit_width(ns));
  if (width <= kFine) {
    return ns;
  }
  const unsigned shift = width - kFine - 1;
  return (std::size_t{shift} << kFine) + (ns >> shift);
}

std::uint64_t Latencies::LastOf(std::size_t bucket) {
  if (bucket < (std::size_t{2} << kFine)) {
    return bucket;
  }
  const std::size_t shift = (bucket >> kFine) - 1;
  const std::uint64_t first = bucket - (shift << kFine);
  return (first << shift) + ((std::uint64_t{1} << shift) - 1);
}

void Latencies::Add(std::uint64_t ns) {
  ++buckets_[BucketOf(ns)];
  ++count_;
  most_ = std::max(most_, ns);
}

std::uint64_t Latencies::Percentile(double percent) const {
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(count_) * percent / 100));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets && count_ != 0; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted && seen != 0) {
      return std::min(LastOf(bucket), most_);
    }
  }
  return most_;
}

}  // namespace cgpu::burn
