#include "load/burn/latencies.h"

#include <gtest/gtest.h>

#include <limits>

namespace cgpu::burn {
namespace {

TEST(Latencies, OfNothingAreNothing) {
  const Latencies none;
  EXPECT_EQ(none.count(), 0U);
  EXPECT_EQ(none.Percentile(50), 0U);
  EXPECT_EQ(none.most(), 0U);
}

TEST(Latencies, PercentilesAreNoLessAndAtMostOnePercentMore) {
  for (const std::uint64_t unit :
       {std::uint64_t{1}, std::uint64_t{977}, std::uint64_t{1'000'003}}) {
    Latencies some;
    for (std::uint64_t i = 1; i <= 1000; ++i) {
      some.Add(i * unit);
    }
    for (const std::uint64_t percent : {1U, 50U, 90U, 99U, 100U}) {
      const std::uint64_t exact = percent * 10 * unit;
      const std::uint64_t found = some.Percentile(static_cast<double>(percent));
      EXPECT_GE(found, exact);
      EXPECT_LE(found, exact + exact / 100);
    }
    EXPECT_EQ(some.most(), 1000 * unit);
    EXPECT_EQ(some.count(), 1000U);
  }
}

TEST(Latencies, TakeWhateverThereIs) {
  Latencies some;
  some.Add(0);
  some.Add(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(some.Percentile(50), 0U);
  EXPECT_EQ(some.Percentile(0), 0U);
  EXPECT_EQ(some.Percentile(100), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace cgpu::burn
