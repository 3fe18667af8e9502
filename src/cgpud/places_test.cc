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
  RefusalPace pace;
  RefusalPace::Time now{};
  for (int i = 1; i < RefusalPace::kRefusalsAtOnce; ++i) {
    EXPECT_FALSE(pace.Silent(1000, now)) << i;
    EXPECT_FALSE(pace.Take(1000, now)) << i;
  }
  EXPECT_FALSE(pace.Silent(1000, now));
  EXPECT_TRUE(pace.Take(1000, now)) << "the next is left out";
  EXPECT_TRUE(pace.Silent(1000, now));
  EXPECT_FALSE(pace.Silent(1001, now)) << "another user";
  EXPECT_FALSE(pace.Silent(std::nullopt, now)) << "one that is not known";
  int logged = 0;
  for (int i = 0; i < 100'000; ++i) {
    now += std::chrono::milliseconds(1);
    logged += pace.Silent(1000, now) ? 0 : 1;
    EXPECT_FALSE(pace.Take(1000, now)) << "it was said";
  }
  EXPECT_EQ(logged, 100);
  now += std::chrono::hours(1);
  EXPECT_FALSE(pace.Silent(1000, now));
}

}  // namespace
}  // namespace cgpu
