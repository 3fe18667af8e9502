#include "cgpud/places.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace cgpu {
namespace {

// Returns what `users` have when each takes all that it can, in turn.
std::vector<std::size_t> Taken(std::size_t users) {
  std::vector<std::size_t> taken(users);
  bool more = true;
  while (more) {
    more = false;
    for (std::size_t& own : taken) {
      if (HasPlace(own, std::accumulate(taken.begin(), taken.end(), std::size_t{0}))) {
        ++own;
        more = true;
      }
    }
  }
  return taken;
}

std::size_t Sum(const std::vector<std::size_t>& taken) {
  return std::accumulate(taken.begin(), taken.end(), std::size_t{0});
}

TEST(Places, OneUserHasEight) {
  EXPECT_EQ(Sum(Taken(1)), kPlacesOfOneUser);
}

TEST(Places, FewUsersKeepNobodyOut) {
  for (std::size_t users = 1; users <= 20; ++users) {
    const std::size_t taken = Sum(Taken(users));
    EXPECT_TRUE(HasPlace(0, taken)) << users << " users have " << taken;
    EXPECT_TRUE(users > 5 || taken <= (kPlaces - kPlacesOfRoot) * 2 / 3) << users << ": " << taken;
  }
}

TEST(Places, NoUserHasRoots) {
  EXPECT_LE(Sum(Taken(1000)), kPlaces - kPlacesOfRoot);
  EXPECT_FALSE(HasPlace(0, kPlaces - kPlacesOfRoot));
  EXPECT_FALSE(HasPlace(0, kPlaces + 1));
}

TEST(RefusalPace, SaysSomeAtOnceThenOneASecond) {
  using Verdict = RefusalPace::Verdict;
  RefusalPace pace;
  RefusalPace::Time now{};
  for (int i = 0; i < RefusalPace::kRefusalsAtOnce; ++i) {
    EXPECT_EQ(pace.Take(1000, now), Verdict::kLog) << i;
  }
  EXPECT_EQ(pace.Take(1000, now), Verdict::kFirstSilent);
  EXPECT_EQ(pace.Take(1000, now), Verdict::kSilent);
  EXPECT_EQ(pace.Take(1001, now), Verdict::kLog) << "another user";
  EXPECT_EQ(pace.Take(std::nullopt, now), Verdict::kLog) << "one that is not known";
  int logged = 0;
  for (int i = 0; i < 100'000; ++i) {
    now += std::chrono::milliseconds(1);
    const auto verdict = pace.Take(1000, now);
    logged += verdict == Verdict::kLog ? 1 : 0;
    EXPECT_NE(verdict, Verdict::kFirstSilent) << "it was said";
  }
  EXPECT_EQ(logged, 100);
  now += std::chrono::hours(1);
  EXPECT_EQ(pace.Take(1000, now), Verdict::kLog);
}

}  // namespace
}  // namespace cgpu
