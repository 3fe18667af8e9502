#include "boundary/range_search.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "boundary/testing.h"

namespace cgpu::boundary {
namespace {

using Found = RangeSearch::Found;
using Answer = RangeSearch::Answer;

// The ranges that UVM has in each file.
using Uvm = std::map<std::uint64_t, AddressRanges>;

class RangeSearchTest : public ::testing::Test {
 protected:
  static AddressRange At(std::uint64_t mib, std::uint64_t length) {
    return {kBase + mib * kMib, kBase + (mib + length) * kMib};
  }
  static RangeSearch::File File(std::uint64_t key, AddressRanges known,
                                AddressRanges windows = {}) {
    return {key, std::move(known), {std::move(windows)}};
  }
  // Looks, with so many questions at most.
  Found Look(std::size_t questions = 1000) {
    std::size_t left = questions;
    return search_.Find(
        view_,
        [&](std::uint64_t file, const AddressRange& range) {
          --left;
          EXPECT_LT(range.start, range.end);
          return Intersection({range}, uvm_[file]).empty() ? Answer::kFree : taken_;
        },
        [&] { return left == 0; });
  }
  // Looks until it is unknown or nothing, a few questions each.
  Found LookOften() {
    Found found = Found::kUnfinished;
    for (int i = 0; i < 2000 && found == Found::kUnfinished; ++i) {
      found = Look(3);
    }
    return found;
  }

  RangeSearch::View view_{{}, {}, {0}};
  Uvm uvm_;
  Answer taken_ = Answer::kTaken;
  RangeSearch search_;
};

TEST_F(RangeSearchTest, WhatIsKnownIsNoFind) {
  view_.files = {File(7, {At(0, 64)}, {At(100, 16)}), File(9, {At(50, 1)})};
  view_.charges = {{At(200, 10), 1}, {At(300, 10), 2}};
  uvm_[7] = {At(0, 64), At(101, 2), At(200, 10), At(300, 10)};
  uvm_[9] = {At(50, 1), At(302, 3)};
  EXPECT_EQ(Look(), Found::kNothing);
  view_.files.clear();
  EXPECT_EQ(Look(), Found::kNothing);
}

TEST_F(RangeSearchTest, FindsWhatLiesInAGapAndAsksThereFirst) {
  view_.files = {File(7, {At(0, 64)}), File(9, {At(0, 64)})};
  uvm_[9] = {At(64, 1)};
  EXPECT_EQ(Look(), Found::kUnknown);
  EXPECT_EQ(Look(1), Found::kUnknown) << "the first question";
  uvm_[9] = {};
  EXPECT_EQ(LookOften(), Found::kUnfinished) << "three questions are too few for one round";
  EXPECT_EQ(Look(), Found::kUnfinished) << "the rest of a round";
  EXPECT_EQ(Look(), Found::kNothing);
}

TEST_F(RangeSearchTest, AGapThatTheTenantCutsIsAskedAboutAllTheSame) {
  view_.files = {File(7, {})};
  for (std::uint64_t i = 0; i < 100; ++i) {
    view_.files[0].known.push_back(At(10 * i, 1));
  }
  uvm_[7] = view_.files[0].known;
  uvm_[7].push_back(At(995, 1));
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_NE(Look(1), Found::kNothing);
    // Ranges come and go below what was asked about: the search does not go by their number.
    if (i % 2 == 0) {
      view_.files[0].known.erase(view_.files[0].known.begin());
      uvm_[7].erase(uvm_[7].begin());
    }
  }
  EXPECT_EQ(LookOften(), Found::kUnknown);
}

TEST_F(RangeSearchTest, AnAnswerThatIsNoneIsNoFind) {
  view_.files = {File(7, {})};
  uvm_[7] = {At(0, 1)};
  taken_ = Answer::kUnclear;
  EXPECT_EQ(Look(), Found::kNothing);
}

TEST_F(RangeSearchTest, AChargeIsForOneFile) {
  view_.files = {File(7, {}), File(8, {}), File(9, {})};
  view_.charges = {{At(0, 10), 1}, {At(10, 10), 2}};
  uvm_[7] = {At(0, 20)};
  uvm_[8] = {At(10, 10)};
  EXPECT_EQ(Look(), Found::kNothing);
  uvm_[9] = {At(19, 1)};
  EXPECT_EQ(Look(), Found::kUnknown);
  EXPECT_EQ(Look(), Found::kUnknown);
  uvm_[9] = {};
  uvm_[8] = {At(9, 11)};
  EXPECT_EQ(LookOften(), Found::kUnknown);
}

TEST_F(RangeSearchTest, AWindowHoldsNoMoreThanIsCharged) {
  view_.used = {256 * kMib};
  view_.files = {File(7, {}, {At(0, 4096)}), File(9, {At(5000, 1)}, {At(5000, 4096)})};
  uvm_[7] = {At(1000, 200)};
  uvm_[9] = {At(5000, 1), At(6000, 100)};
  EXPECT_EQ(Look(), Found::kNothing) << "300 of 320 MiB";
  uvm_[9] = {At(5000, 1), At(6000, 130)};
  EXPECT_EQ(Look(), Found::kUnknown);
  EXPECT_EQ(LookOften(), Found::kUnknown) << "the count goes on in the next look";
  view_.used = {9000 * kMib};
  EXPECT_EQ(LookOften(), Found::kUnfinished);
  EXPECT_EQ(Look(), Found::kUnfinished);
  EXPECT_EQ(Look(), Found::kNothing);
}

// Files with ranges, charges and windows, and at times something that belongs to nobody.
TEST_F(RangeSearchTest, FindsWhateverIsUnknownAndNothingElse) {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto dice = [&](std::uint64_t sides) { return random() % sides; };
  for (int round = 0; round < 2000; ++round) {
    view_ = {{}, {}, {1000 * kMib}};
    uvm_.clear();
    search_ = {};
    std::map<std::uint64_t, std::size_t> charges;  // by block of 10 MiB
    std::set<std::pair<std::uint64_t, std::uint64_t>> used;
    const std::uint64_t count = 1 + dice(3);
    for (std::uint64_t key = 0; key < count; ++key) {
      view_.files.push_back(File(key, {}));
      for (std::uint64_t block = 0; block < 20; ++block) {
        const std::uint64_t kind = dice(5);
        const AddressRange range = At(10 * block, 10);
        if (kind < 3) {
          used.insert({key, block});
        }
        if (kind == 0) {
          view_.files[key].known.push_back(range);
        } else if (kind == 1) {
          view_.files[key].windows[0].push_back(range);
        } else if (kind == 2) {
          ++charges[block];
        }
        if (kind < 3 && dice(3) != 0) {
          uvm_[key].push_back(range);
        }
      }
    }
    for (const auto& [block, times] : charges) {
      view_.charges.push_back({At(10 * block, 10), times});
    }
    ASSERT_EQ(LookOften() == Found::kUnknown || Look() == Found::kUnknown, false) << round;
    const std::uint64_t file = dice(count);
    const std::uint64_t block = dice(20);
    if (!used.contains({file, block}) && !charges.contains(block)) {
      uvm_[file].push_back(At(10 * block + dice(10), 1));
      uvm_[file] = Ordered(std::move(uvm_[file]));
      ASSERT_EQ(Look() == Found::kUnknown || Look() == Found::kUnknown, true) << round;
    }
  }
}

}  // namespace
}  // namespace cgpu::boundary
