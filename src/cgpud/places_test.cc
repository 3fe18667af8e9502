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

}  // namespace
}  // namespace cgpu
