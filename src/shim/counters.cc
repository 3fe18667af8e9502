#include "shim/counters.h"

#include <algorithm>
#include <cstddef>

namespace cgpu::shim {
namespace {

using boundary::CallKind;
using boundary::Reason;

static_assert(kCallKinds.size() == static_cast<std::size_t>(CallKind::kOther) + 1);
static_assert(kRefusalReasons.size() == static_cast<std::size_t>(Reason::kNotKnown) + 1);

void Add(std::atomic<std::uint64_t>& count, std::uint64_t more) {
  count.fetch_add(more, std::memory_order_relaxed);
}

template <std::size_t N>
std::array<std::uint64_t, N> Values(const std::array<std::atomic<std::uint64_t>, N>& counts) {
  std::array<std::uint64_t, N> values{};
  std::ranges::transform(counts, values.begin(), [](const std::atomic<std::uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  });
  return values;
}

template <std::size_t N>
void Set(std::array<std::atomic<std::uint64_t>, N>& counts,
         const std::array<std::uint64_t, N>& values) {
  for (std::size_t i = 0; i < N; ++i) {
    counts[i].store(values[i], std::memory_order_relaxed);
  }
}

}  // namespace

void Counters::CountAnswered(CallKind kind, std::chrono::nanoseconds took) {
  const auto ns = static_cast<std::uint64_t>(took.count());
  const auto* const bound = std::ranges::lower_bound(kDurationBoundsNs, ns);
  Add(calls_[static_cast<std::size_t>(kind)], 1);
  Add(durations_[static_cast<std::size_t>(bound - kDurationBoundsNs.begin())], 1);
  Add(duration_ns_, ns);
}

void Counters::CountRefused(Reason reason) {
  Add(refused_[static_cast<std::size_t>(reason)], 1);
}

CallCounters Counters::Read() const {
  return {Values(calls_), Values(refused_), Values(durations_),
          duration_ns_.load(std::memory_order_relaxed), upgrades_};
}

void Counters::Resume(const CallCounters& counts) {
  Set(calls_, counts.calls);
  Set(refused_, counts.refused);
  Set(durations_, counts.durations);
  duration_ns_.store(counts.duration_ns, std::memory_order_relaxed);
  upgrades_ = counts.upgrades;
}

}  // namespace cgpu::shim
