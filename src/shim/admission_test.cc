#include "shim/admission.h"

#include <gtest/gtest.h>

namespace cgpu::shim {
namespace {

struct Item {
  int name = 0;
  Claim claim;
};

std::unique_ptr<Item> Make(int name, std::vector<std::uint64_t> exclusive, int gpu = -1,
                           bool releases = false) {
  return std::make_unique<Item>(Item{name, {std::move(exclusive), gpu, releases}});
}

// Returns the item if it may run now, or parks it and returns null.
std::unique_ptr<Item> Start(Admission<Item>& admission, std::unique_ptr<Item> item,
                            bool hold = false) {
  return admission.Start(item->claim, hold) ? std::move(item)
                                            : admission.Park(std::move(item), hold);
}

TEST(Admission, KeepsCallsOfOneClientInOrder) {
  Admission<Item> admission(1);
  auto first = Start(admission, Make(1, {7}));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Start(admission, Make(2, {7})), nullptr);
  EXPECT_EQ(Start(admission, Make(3, {7})), nullptr);
  EXPECT_NE(Start(admission, Make(4, {8})), nullptr);
  auto ready = admission.Finish(first->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 2);
  ready = admission.Finish(ready[0]->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 3);
  EXPECT_EQ(admission.parked(), 0U);
}

TEST(Admission, NobodyOvertakesAParkedCallOfItsClient) {
  Admission<Item> admission(1);
  auto a = Start(admission, Make(1, {7}));
  EXPECT_EQ(Start(admission, Make(2, {7, 8})), nullptr);
  EXPECT_EQ(Start(admission, Make(3, {8})), nullptr) << "8 is free, but call 2 came first";
  auto ready = admission.Finish(a->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 2);
  ready = admission.Finish(ready[0]->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 3);
}

TEST(Admission, LimitsTheCallsOnAGpuButNotTheOnesThatGiveBack) {
  Admission<Item> admission(2);
  std::vector<std::unique_ptr<Item>> running;
  for (int i = 0; i < Admission<Item>::kPerGpu; ++i) {
    running.push_back(Start(admission, Make(i, {}, 0)));
    ASSERT_NE(running.back(), nullptr);
  }
  EXPECT_EQ(Start(admission, Make(10, {}, 0)), nullptr);
  EXPECT_NE(Start(admission, Make(11, {}, 1)), nullptr) << "the other GPU is idle";
  EXPECT_NE(Start(admission, Make(12, {5}, 0, true)), nullptr);
  const auto ready = admission.Finish(running[0]->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 10);
}

TEST(Admission, LetsASecondCallRunBesideOneThatTakesLong) {
  Admission<Item> admission(2);
  const auto first = Start(admission, Make(1, {}, 0));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Start(admission, Make(2, {}, 0)), nullptr);
  EXPECT_EQ(Start(admission, Make(3, {}, 0)), nullptr);
  EXPECT_TRUE(admission.Overdue().empty()) << "it has just begun";
  auto ready = admission.Overdue();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 2);
  EXPECT_TRUE(admission.Overdue().empty());
  EXPECT_TRUE(admission.Overdue().empty()) << "two are in the driver";
  EXPECT_TRUE(admission.Finish(ready[0]->claim).empty()) << "the first still is";
  ready = admission.Overdue();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 3);
}

TEST(Admission, CallsThatComeBackAreNotOverdue) {
  Admission<Item> admission(1);
  auto running = Start(admission, Make(0, {}, 0));
  for (int i = 1; i < 10; ++i) {
    EXPECT_EQ(Start(admission, Make(i, {}, 0)), nullptr);
    EXPECT_TRUE(admission.Overdue().empty());
    auto ready = admission.Finish(running->claim);
    ASSERT_EQ(ready.size(), 1U);
    running = std::move(ready[0]);
  }
}

TEST(Admission, WhatWasPutBackComesFirst) {
  Admission<Item> admission(1);
  const auto first = Start(admission, Make(1, {}, 0));
  EXPECT_EQ(Start(admission, Make(2, {7}, 0)), nullptr);
  EXPECT_EQ(Start(admission, Make(3, {7}, 0)), nullptr);
  (void)admission.Overdue();
  auto ready = admission.Overdue();
  ASSERT_EQ(ready.size(), 1U);
  admission.PutBack(std::move(ready[0]));
  ready = admission.Finish(first->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 2);
}

TEST(Admission, HeldCallsRunWhenAThreadIsThere) {
  Admission<Item> admission(1);
  auto running = Start(admission, Make(1, {}));
  EXPECT_EQ(Start(admission, Make(2, {}), /*hold=*/true), nullptr);
  const auto ready = admission.Finish(running->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 2);
}

TEST(Admission, HoldsNothingWhenNoEndWouldReleaseIt) {
  Admission<Item> admission(1);
  const auto first = Start(admission, Make(1, {}), /*hold=*/true);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(admission.Finish(first->claim).empty());
  EXPECT_NE(Start(admission, Make(2, {}), /*hold=*/true), nullptr);
}

TEST(Admission, PurgesWhatIsGone) {
  Admission<Item> admission(1);
  auto running = Start(admission, Make(1, {7}));
  EXPECT_EQ(Start(admission, Make(2, {7})), nullptr);
  EXPECT_EQ(Start(admission, Make(3, {7})), nullptr);
  const auto gone = admission.Purge([](const Item& item) { return item.name == 2; });
  ASSERT_EQ(gone.size(), 1U);
  const auto ready = admission.Finish(running->claim);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0]->name, 3);
}

}  // namespace
}  // namespace cgpu::shim
