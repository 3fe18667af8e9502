#include "shim/rounds.h"

#include <gtest/gtest.h>

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kSecondUs = 1'000'000;

// Looks when it is due, until `end_us`; each look takes `took_us`. Returns how often it looked.
int LookUntil(Rounds& rounds, std::uint64_t end_us, std::uint64_t took_us, bool holding = true) {
  int looks = 0;
  while (rounds.due_us() && *rounds.due_us() < end_us) {
    const std::uint64_t began = *rounds.due_us();
    rounds.Done({began, began + took_us, false, holding, false});
    ++looks;
  }
  return looks;
}

TEST(Rounds, OneCloseIsLookedAfterSoonAndLessAndLessOften) {
  Rounds rounds;
  EXPECT_FALSE(rounds.due_us());
  rounds.Closed(0, true);
  EXPECT_EQ(rounds.due_us(), 1'000U);
  EXPECT_EQ(LookUntil(rounds, 2 * kSecondUs, 0), 9);
  EXPECT_EQ(LookUntil(rounds, 30 * kSecondUs, 0), 4);
  EXPECT_FALSE(rounds.due_us());
}

// The driver may take long to act on the close.
TEST(Rounds, ACloseWhileAnothersIsLookedAfterIsLookedAfterForAsLong) {
  Rounds rounds;
  rounds.Closed(0, false);
  ASSERT_TRUE(rounds.due_us());
  rounds.Closed(0, true);
  EXPECT_GE(LookUntil(rounds, 2 * kSecondUs, 0), 4);
  EXPECT_GE(LookUntil(rounds, 30 * kSecondUs, 0), 4);
  EXPECT_FALSE(rounds.due_us());
}

TEST(Rounds, ClosesWithoutPauseStartNoMoreThanTenLooksASecond) {
  Rounds rounds;
  int looks = 0;
  for (std::uint64_t now = 0; now < 100 * kSecondUs; now += 500) {
    rounds.Closed(now, true);
    looks += LookUntil(rounds, now, 10);
  }
  EXPECT_LE(looks, 1000 + 9);
  EXPECT_GE(looks, 500) << "the closes of one's own are seen, too";
}

TEST(Rounds, ClosesWhereNothingIsHeldAreHardlyLookedAt) {
  Rounds rounds;
  int looks = 0;
  for (std::uint64_t now = 0; now < 100 * kSecondUs; now += 500) {
    rounds.Closed(now, false);
    looks += LookUntil(rounds, now, 10, false);
  }
  EXPECT_LE(looks, 1000);
}

TEST(Rounds, NothingPutsADueLookBack) {
  Rounds rounds;
  rounds.Closed(0, true);
  for (std::uint64_t now = 0; now < 1'000; now += 10) {
    rounds.Closed(now, true);
    rounds.Hasten(now);
    EXPECT_EQ(rounds.due_us(), 1'000U);
  }
}

TEST(Rounds, ACloseDuringTheLooksIsLookedAfterInATenthOfASecond) {
  for (std::uint64_t at : {500'000U, 20'000U, 2'000U}) {
    Rounds rounds;
    rounds.Closed(0, true);
    (void)LookUntil(rounds, at, 0);
    if (rounds.Hears(at)) {
      rounds.Closed(at, true);
    }
    ASSERT_TRUE(rounds.due_us());
    EXPECT_LE(*rounds.due_us(), at + 100'000);
  }
}

TEST(Rounds, ACloseThatALookFindsIsLookedAfterAgain) {
  Rounds rounds;
  rounds.Closed(0, true);
  (void)LookUntil(rounds, kSecondUs, 0);
  const std::uint64_t last = *rounds.due_us();
  rounds.Closed(last, true);
  rounds.Done({last, last, false, true, false});
  EXPECT_EQ(rounds.due_us(), last + 100'000);
}

TEST(Rounds, AnEndOfItsOwnIsLookedAfterAtOnce) {
  Rounds rounds;
  rounds.Closed(0, true);
  (void)LookUntil(rounds, kSecondUs, 0);
  ASSERT_GT(*rounds.due_us(), kSecondUs + 100'000);
  rounds.Hasten(kSecondUs);
  EXPECT_EQ(rounds.due_us(), kSecondUs + 1'000);
}

TEST(Rounds, LooksTakeATenthOfTheTimeWhateverHappens) {
  constexpr std::uint64_t kTookUs = 20'000;
  Rounds rounds;
  std::uint64_t spent = 0;
  std::uint64_t now = 0;
  while (now < 100 * kSecondUs) {
    rounds.Hasten(now);
    now = *rounds.due_us();
    rounds.Done({now, now + kTookUs, true, true, false});
    now += kTookUs;
    spent += kTookUs;
  }
  EXPECT_LE(spent, 10 * kSecondUs + kTookUs);
}

TEST(Rounds, WhatIsFoundLeadsToAnotherLookSoon) {
  Rounds rounds;
  rounds.Hasten(0);
  (void)LookUntil(rounds, kSecondUs, 0);
  const std::uint64_t now = *rounds.due_us();
  rounds.Done({now, now, true, true, false});
  EXPECT_EQ(rounds.due_us(), now + 4'000);
}

TEST(Rounds, AContainerThatIsOverIsLookedAfterForAsLongAsItHoldsAnything) {
  Rounds rounds;
  rounds.Hasten(0);
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t now = *rounds.due_us();
    rounds.Done({now, now, false, true, true});
    ASSERT_TRUE(rounds.due_us());
  }
}

TEST(Rounds, WhatAThreadMayDoAtAnyTimeIsLookedAfterUntilItHas) {
  Rounds rounds;
  rounds.Hasten(0);
  std::uint64_t now = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(rounds.due_us());
    EXPECT_LE(*rounds.due_us(), now + kSecondUs);
    now = *rounds.due_us();
    rounds.Done({now, now, false, true, false, true});
  }
  (void)LookUntil(rounds, now + 30 * kSecondUs, 0);
  EXPECT_FALSE(rounds.due_us());
}

}  // namespace
}  // namespace cgpu::shim
