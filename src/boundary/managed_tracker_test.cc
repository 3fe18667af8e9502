#include "boundary/managed_tracker.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "boundary/managed_tracker_testing.h"
#include "ledger/ledger.h"

namespace cgpu::boundary {
namespace {

class ManagedTrackerTest : public ::testing::Test {
 protected:
  static AddressRange Piece(std::uint64_t index, std::uint64_t count = 1) {
    return {kBase + index * 256 * kMib, kBase + (index + count) * 256 * kMib};
  }
  // Charges for the thread and process of that number.
  std::optional<ledger::Gpu> Charge(Witness witness, int thread, AddressRange range) {
    const ManagedTracker::Claim claim{witness, 1, 1, range};
    const auto look = tracker_.BeginLook();
    const auto full = tracker_.Charge(thread, claim);
    if (!full && !tracker_.IsKnown(1)) {
      tracker_.Know(look, claim, {});
    }
    return full;
  }
  // Settles with the answers of witness 1 and of those that are placed.
  bool Settle(const AddressRanges& shown, State state = State::kShown) {
    return SettleAt(tracker_.BeginLook(), shown, state);
  }
  bool SettleAt(ManagedTracker::Look look, const AddressRanges& shown,
                State state = State::kShown) {
    std::map<Witness, ManagedTracker::Seen> seen;
    for (const Witness witness : tracker_.Spaces()) {
      seen[witness] = {state, shown};
    }
    bool fits = tracker_.Settle(look, seen);
    for (const Witness witness : tracker_.Unplaced(look)) {
      fits = tracker_.Place(look, witness, {state, shown}) && fits;
    }
    Resolve({});
    return fits;
  }
  // Returns what is charged, as long as nothing is charged twice.
  AddressRanges ChargedOnce() const {
    AddressRanges ranges;
    for (const ChargedRange& charged : tracker_.Charges()) {
      EXPECT_EQ(charged.charges, 1U);
      ranges.push_back(charged.range);
    }
    return ranges;
  }
  void Resolve(const std::vector<AddressRanges>& files) { AnswerDoubts(tracker_, files); }

  ledger::Ledger ledger_{{1024 * kMib, 512 * kMib}, {8, 64, 8, 8}};
  ManagedTracker tracker_{ledger_, 1};
};

TEST_F(ManagedTrackerTest, ChargesBeforeAndSettlesAfter) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  const std::uint64_t one = ledger_.Used(0);
  EXPECT_GT(one, 256 * kMib);
  // It is not known to be over: while nothing is shown, the charge stays.
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), one);
  tracker_.Over(10);
  EXPECT_EQ(ledger_.Used(0), one) << "no look has settled it";
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), one);
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(tracker_.Empty());
  EXPECT_EQ(tracker_.TakeReleased(), std::vector<Witness>{1});
}

TEST_F(ManagedTrackerTest, ALookThatBeganBeforeTheEndDoesNotSettle) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  const auto look = tracker_.BeginLook();
  tracker_.Over(10);
  EXPECT_TRUE(SettleAt(look, {}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(ManagedTrackerTest, RefusesWhatDoesNotFit) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Charge(1 + static_cast<Witness>(i), 10 + i, Piece(static_cast<std::uint64_t>(i))),
              std::nullopt);
  }
  const std::uint64_t used = ledger_.Used(0);
  EXPECT_EQ(Charge(4, 13, Piece(3)), 0U);
  EXPECT_EQ(ledger_.Used(0), used);
}

TEST_F(ManagedTrackerTest, WhatAppearsInAKnownAddressSpaceNeedsNoWitnessOfItsOwn) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  ASSERT_EQ(Charge(2, 11, Piece(1)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0, 2)}));
  EXPECT_EQ(tracker_.TakeReleased(), std::vector<Witness>{2});
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0, 2)}));
}

TEST_F(ManagedTrackerTest, ATwinKeepsItsOwn) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  ASSERT_EQ(Charge(2, 10, Piece(0)), std::nullopt);
  EXPECT_EQ(ledger_.Used(0), 2 * ManagedBytes({Piece(0)})) << "it may lie elsewhere";
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(tracker_.Spaces(), (std::vector<Witness>{1, 2}));
  EXPECT_TRUE(tracker_.TakeReleased().empty());
  // A mapping that appears in both shows that they are the same.
  ASSERT_EQ(Charge(3, 10, Piece(1)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0, 2)}));
  EXPECT_EQ(tracker_.Spaces(), std::vector<Witness>{1});
  EXPECT_EQ(tracker_.TakeReleased(), (std::vector<Witness>{2, 3}));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0, 2)}));
}

TEST_F(ManagedTrackerTest, WhatNobodyCanBeAskedForStaysUntilItIsGone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_TRUE(Settle({}, State::kHidden));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0)}));
  ASSERT_EQ(Charge(2, 10, Piece(1)), std::nullopt);
  tracker_.Over(10);
  EXPECT_TRUE(Settle({}, State::kHidden));
  EXPECT_EQ(ledger_.Used(0), 2 * ManagedBytes({Piece(0)}));
  EXPECT_TRUE(Settle({}, State::kGone));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(tracker_.Empty());
}

TEST_F(ManagedTrackerTest, WhatUvmStillHasOfAGoneAddressSpaceStaysCharged) {
  EXPECT_FALSE(Charge(1, 10, Piece(0, 2)));
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0, 2)}));
  const auto look = tracker_.BeginLook();
  EXPECT_TRUE(tracker_.Settle(look, {{1, {State::kGone, {}}}}));
  EXPECT_TRUE(tracker_.HasDoubts());
  Resolve({{Piece(0, 2)}});
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0, 2)}));
  EXPECT_TRUE(tracker_.HasDoubts());
  EXPECT_TRUE(tracker_.Settle(tracker_.BeginLook(), {{1, {State::kGone, {}}}}));
  Resolve({});
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_FALSE(tracker_.HasDoubts());
  EXPECT_EQ(tracker_.TakeReleased(), std::vector<Witness>{1});
}

// Two address spaces are charged for a piece that UVM has once. The charge of the first one is
// given back. Then the second charge is all there is, whosever the piece is.
class ContestedChargeTest : public ManagedTrackerTest {
 protected:
  ContestedChargeTest() {
    for (const Witness witness : {1U, 2U}) {
      Map(witness, witness, Piece(0));
      EXPECT_TRUE(tracker_.Settle(tracker_.BeginLook(), {{witness, {State::kShown, {Piece(0)}}}}));
    }
    EXPECT_EQ(ledger_.Used(0), 2 * kPiece);
    EXPECT_TRUE(tracker_.Settle(tracker_.BeginLook(), {{1, {State::kGone, {}}}}));
    Resolve({{Piece(0)}});
    EXPECT_EQ(ledger_.Used(0), kPiece);
  }
  // A call of a program that nobody knows yet.
  void Map(Witness witness, std::uint64_t program, AddressRange range, AddressRanges shown = {}) {
    const ManagedTracker::Claim claim{witness, 2, program, range};
    const auto before = tracker_.BeginLook();
    EXPECT_FALSE(tracker_.Charge(20, claim));
    tracker_.Know(before, claim, std::move(shown));
    tracker_.Over(20);
  }
  // Settles with an address space that shows these.
  void Show(const AddressRanges& shown) {
    const auto look = tracker_.BeginLook();
    std::map<Witness, ManagedTracker::Seen> seen;
    for (const Witness witness : tracker_.Spaces()) {
      seen[witness] = {State::kShown, shown};
    }
    EXPECT_TRUE(tracker_.Settle(look, seen));
    EXPECT_TRUE(tracker_.Unplaced(look).empty());
  }

  const std::uint64_t kPiece = ManagedBytes({Piece(0)});
};

// A fork's address space shows the address, but has nothing there in UVM. It must not stand for
// another that has.
TEST_F(ContestedChargeTest, StaysWhenItsAddressSpaceStopsShowingIt) {
  Show({});
  Resolve({{Piece(0)}});
  EXPECT_EQ(ledger_.Used(0), kPiece) << "it lies there still";
  Show({});
  Resolve({});
  EXPECT_EQ(ledger_.Used(0), 0U);
}

// Piece 0 is unmapped and mapped again between two looks.
TEST_F(ContestedChargeTest, IsNotThatOfAnotherMappingThere) {
  Map(2, 2, Piece(0));
  Show({Piece(0)});
  Resolve({{Piece(0)}, {Piece(0)}});
  EXPECT_EQ(ledger_.Used(0), 2 * kPiece);
  Resolve({{Piece(0)}});
  EXPECT_EQ(ledger_.Used(0), kPiece) << "the first one is gone";
  Show({});
  Resolve({});
  EXPECT_EQ(ledger_.Used(0), 0U);
}

// Witnesses 2 and 3 are of one address space. That is known once piece 1 appears in both.
TEST_F(ContestedChargeTest, StaysWhenAddressSpacesAreJoined) {
  Map(3, 3, Piece(0), {});
  Show({Piece(0)});
  ASSERT_EQ(tracker_.Spaces().size(), 2U);
  Map(3, 3, Piece(1));
  Show({Piece(0), Piece(1)});
  ASSERT_EQ(tracker_.Spaces().size(), 1U);
  Resolve({{Piece(0)}, {Piece(0), Piece(1)}});
  EXPECT_EQ(ledger_.Used(0), kPiece + ManagedBytes({Piece(0), Piece(1)}));
  Resolve({{Piece(0), Piece(1)}});
  EXPECT_GE(ledger_.Used(0), ManagedBytes({Piece(0), Piece(1)}));
  EXPECT_LT(ledger_.Used(0), ManagedBytes({Piece(0), Piece(1)}) + 2 * kMib) << "tables at most";
}

TEST_F(ManagedTrackerTest, NothingIsAskedWhereAThreadIsAboutToMap) {
  EXPECT_FALSE(Charge(1, 10, Piece(0)));
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_FALSE(tracker_.Charge(11, {2, 2, 2, Piece(0)}));
  EXPECT_TRUE(tracker_.Settle(tracker_.BeginLook(), {{1, {State::kGone, {}}}}));
  EXPECT_TRUE(tracker_.HasDoubts());
  EXPECT_TRUE(tracker_.Doubts().empty());
}

TEST_F(ManagedTrackerTest, AWatchedMappingIsChargedWhenItAppears) {
  tracker_.Watch(10, {1, 1, 1, Piece(0)}, {});
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(Settle({})) << "nothing came of it yet";
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  tracker_.Watch(11, {2, 1, 1, Piece(0, 8)}, {});
  EXPECT_FALSE(Settle({Piece(0, 8)}));
  EXPECT_GT(ledger_.Used(0), 2048 * kMib) << "charged all the same";
}

TEST_F(ManagedTrackerTest, AWatchedMappingWhoseOffsetIsAnAddressInUseIsNone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  const ManagedTracker::Claim claim{2, 1, 1, Piece(0, 8)};
  EXPECT_EQ(tracker_.Counted(claim), AddressRanges{Piece(0)});
  tracker_.Watch(10, claim, {Piece(0)});
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0)}));
}

TEST_F(ManagedTrackerTest, LiesOnEveryGrantedGpu) {
  ManagedTracker tracker(ledger_, 2);
  ASSERT_EQ(tracker.Charge(10, {1, 1, 1, Piece(0)}), std::nullopt);
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  EXPECT_EQ(ledger_.Used(1), ledger_.Used(0));
  EXPECT_EQ(tracker.Charge(11, {2, 1, 1, Piece(1)}), ledger::Gpu{1}) << "512 MiB and tables";
  EXPECT_EQ(ledger_.Used(1), ledger_.Used(0)) << "all or none";
}

TEST_F(ManagedTrackerTest, SumsDoNotWrap) {
  ManagedTracker tracker(ledger_, 0);
  constexpr std::uint64_t kTop = std::uint64_t{1} << 56;
  for (int thread = 0; thread < 300; ++thread) {
    const auto witness = static_cast<Witness>(thread + 1);
    ASSERT_EQ(tracker.Charge(thread, {witness, 1, 1, {4096, kTop}}), std::nullopt) << "on no card";
  }
  EXPECT_EQ(tracker_.Charge(1, {1, 1, 1, {4096, kTop}}), ledger::Gpu{0});
}

// The thread is slow: before it maps anything, the old mapping is unmapped, and that is seen.
TEST_F(ManagedTrackerTest, WhatWasThereBeforeIsNewOnceItWasGone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  const std::uint64_t one = ledger_.Used(0);
  ASSERT_GT(one, 0U);
  tracker_.Watch(11, {2, 1, 1, Piece(0)}, {Piece(0)});
  EXPECT_TRUE(tracker_.Watches());
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), one) << "UVM was asked about what a thread may map meanwhile";
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), one);
}

// The kernel shows a mapping no more before UVM has taken it down, and that may take seconds.
TEST_F(ManagedTrackerTest, WhatIsShownNoMoreIsChargedUntilUvmHasNothingThere) {
  const auto settle = [&](const AddressRanges& shown, const AddressRanges& file) {
    const auto look = tracker_.BeginLook();
    EXPECT_TRUE(tracker_.Settle(look, {{1, {State::kShown, shown}}}));
    EXPECT_TRUE(tracker_.Unplaced(look).empty());
    Resolve({file});  // UVM's one file
  };
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  tracker_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  const std::uint64_t one = ledger_.Used(0);
  settle({}, {Piece(0)});
  EXPECT_EQ(ledger_.Used(0), one);
  EXPECT_EQ(ChargedOnce(), AddressRanges{Piece(0)});
  // It is mapped, unmapped, and over before anybody looks.
  ASSERT_EQ(Charge(1, 10, Piece(2)), std::nullopt);
  tracker_.Over(10);
  settle({}, {Piece(0), Piece(2)});
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0), Piece(2)}));
  settle({}, {Piece(2)});
  EXPECT_EQ(ChargedOnce(), AddressRanges{Piece(2)});
  EXPECT_EQ(ledger_.Used(0), one);
  settle({}, {});
  EXPECT_TRUE(tracker_.Empty());
  EXPECT_EQ(ledger_.Used(0), 0U);
}

// A mapping that was moved away and back is not confused with another's at the same address.
TEST_F(ManagedTrackerTest, AMappingThatComesBackIsNobodyElses) {
  const auto settle = [&](const AddressRanges& first, const AddressRanges& second) {
    const auto says = [&](Witness witness) {
      return ManagedTracker::Seen{State::kShown, witness == 2 ? second : first};
    };
    const auto look = tracker_.BeginLook();
    std::map<Witness, ManagedTracker::Seen> seen;
    for (const Witness witness : tracker_.Spaces()) {
      seen[witness] = says(witness);
    }
    EXPECT_TRUE(tracker_.Settle(look, seen));
    for (const Witness witness : tracker_.Unplaced(look)) {
      EXPECT_TRUE(tracker_.Place(look, witness, says(witness)));
    }
    Resolve({first, second});
  };
  const AddressRange kept = Piece(5);
  ASSERT_EQ(Charge(1, 9, kept), std::nullopt);
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  tracker_.Over(9);
  tracker_.Over(10);
  settle({Piece(0), kept}, {});
  settle({kept}, {});                                                 // moved away
  ASSERT_EQ(tracker_.Charge(20, {2, 2, 2, Piece(0)}), std::nullopt);  // by another process
  tracker_.Watch(10, {3, 1, 1, Piece(0)}, {});                        // and moved back
  tracker_.Over(10);
  tracker_.Over(20);
  settle({Piece(0), kept}, {Piece(0)});
  settle({kept}, {Piece(0)});
  EXPECT_GT(ledger_.Used(0), 512 * kMib) << "the other's is there still";
}

}  // namespace
}  // namespace cgpu::boundary
