#include "boundary/quotas.h"

#include <gtest/gtest.h>

namespace cgpu::boundary {
namespace {

constexpr std::uint64_t kMib = 1024 * 1024;
constexpr std::uint64_t kMost = ~std::uint64_t{0};

TEST(Quotas, AreInProportionToTheGrant) {
  const auto whole = BoundsOf(16160 * kMib, 16160 * kMib, 16384 * kMib);
  EXPECT_EQ(whole.channels, 975U);
  EXPECT_EQ(whole.channel_groups, 975U);
  EXPECT_LE(whole.bar1_bytes, 16384 * kMib / 32 * 31);
  EXPECT_GT(whole.bar1_bytes, 16384 * kMib / 33 * 31);
  const auto unit = BoundsOf(1024 * kMib, 15360 * kMib, 256 * kMib);
  EXPECT_EQ(unit.channels, 79U);
  EXPECT_GT(unit.bar1_bytes, 16 * kMib);
  EXPECT_LT(unit.bar1_bytes, 17 * kMib);
  EXPECT_EQ(BoundsOf(7 * kMib, 0, 64 * kMib).channels, 975U) << "no total: all of it";
  EXPECT_EQ(BoundsOf(9 * kMib, 7 * kMib, 64 * kMib).channels, 975U) << "never more than all";
  EXPECT_EQ(BoundsOf(0, 7 * kMib, 64 * kMib).bar1_bytes, 0U);
  EXPECT_EQ(BoundsOf(7 * kMib, 7 * kMib, 0).bar1_bytes, 0U);
}

TEST(Quotas, SlicesTogetherLeaveRoom) {
  constexpr std::uint64_t kTotal = 81559 * kMib;
  constexpr std::uint64_t kWindow = 256 * kMib;
  for (std::uint64_t slices = 1; slices <= 64; ++slices) {
    const auto each = BoundsOf(kTotal / slices, kTotal, kWindow);
    EXPECT_LE(each.channels * slices, 1920U);
    EXPECT_LE(each.channel_groups * slices, 1920U);
    EXPECT_LE(each.bar1_bytes * slices, kWindow);
    EXPECT_GE(each.channels, 29U) << "enough for a context";
  }
}

TEST(Quotas, NothingOverflows) {
  const auto huge = BoundsOf(kMost, kMost, kMost);
  EXPECT_EQ(huge.channels, 975U);
  EXPECT_GT(huge.bar1_bytes, kMost / 32 * 30);
}

TEST(Quotas, ViewsTakeWholePages) {
  EXPECT_EQ(Bar1Bytes(0, 1, 4096), 4096U);
  EXPECT_EQ(Bar1Bytes(4095, 2, 4096), 8192U);
  EXPECT_EQ(Bar1Bytes(0x1ff000, 0x2000, 2 * kMib), 4 * kMib);
  EXPECT_EQ(Bar1Bytes(0, 0, 4096), 0U);
  EXPECT_EQ(Bar1Bytes(5, kMost - 4, 4096), kMost);
  EXPECT_EQ(Bar1Bytes(0, kMost, 4096), kMost);
}

}  // namespace
}  // namespace cgpu::boundary
