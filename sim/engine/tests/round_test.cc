#include "sim/engine/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgpu::sim::engine {
namespace {

using ::testing::ElementsAre;

constexpr auto kLow = Interleave::kLow;
constexpr auto kMedium = Interleave::kMedium;
constexpr auto kHigh = Interleave::kHigh;

TEST(Round, HigherLevelsStandBetweenLowerOnes) {
  using Members = std::vector<RoundMember>;
  EXPECT_THAT(MakeRound(Members{}), ElementsAre());
  EXPECT_THAT(MakeRound(Members{{1, kLow}, {2, kLow}}), ElementsAre(1, 2));
  EXPECT_THAT(MakeRound(Members{{1, kHigh}, {2, kHigh}}), ElementsAre(1, 2));
  EXPECT_THAT(MakeRound(Members{{1, kLow}, {9, kHigh}, {2, kLow}}), ElementsAre(9, 1, 9, 2));
  EXPECT_THAT(MakeRound(Members{{5, kMedium}, {1, kLow}, {2, kLow}}), ElementsAre(5, 1, 5, 2));
  EXPECT_THAT(MakeRound(Members{{5, kMedium}, {6, kMedium}, {9, kHigh}}), ElementsAre(9, 5, 9, 6));
  EXPECT_THAT(MakeRound(Members{{5, kMedium}, {1, kLow}, {2, kLow}, {9, kHigh}}),
              ElementsAre(9, 5, 9, 1, 9, 5, 9, 2));
}

TEST(Round, AListHasAnEnd) {
  std::vector<RoundMember> members;
  for (GroupKey group = 0; group < 3000; ++group) {
    members.push_back({group, static_cast<Interleave>(group % 3)});
  }
  const std::vector<GroupKey> round = MakeRound(members);
  EXPECT_EQ(3000U, round.size());
  EXPECT_EQ(2U, round.front());
}

TEST(Round, ThePlaceIsKeptWhenOthersComeAndGo) {
  using Keys = std::vector<GroupKey>;
  const Keys round{9, 1, 9, 2, 9, 3};
  EXPECT_EQ(2U, SamePlace(round, 2, Keys{9, 1, 9, 2, 9, 3, 9, 4}));  // 9 before 2
  EXPECT_EQ(3U, SamePlace(round, 3, Keys{9, 1, 9, 2, 9, 3, 9, 4}));  // 2
  EXPECT_EQ(0U, SamePlace(Keys{1, 2, 3}, 1, Keys{1, 3}));            // 2 went: 3 is next
  EXPECT_EQ(1U, SamePlace(Keys{1, 2, 3}, 1, Keys{1, 2, 3, 4}));
  EXPECT_EQ(0U, SamePlace(Keys{}, 0, Keys{1, 2}));
}

}  // namespace
}  // namespace cgpu::sim::engine
