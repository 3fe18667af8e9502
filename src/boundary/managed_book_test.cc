#include "boundary/managed_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "ledger/ledger.h"

namespace cgpu::boundary {
namespace {

using State = ManagedBook::Seen::State;
using Witness = ManagedBook::Witness;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kBase = 0x100000000000;

class ManagedBookTest : public ::testing::Test {
 protected:
  ManagedBookTest() {
    EXPECT_TRUE(book_.SetCards({0}));
    book_.ExpectSpaces();
  }
  static AddressRange Piece(std::uint64_t index, std::uint64_t count = 1) {
    return {kBase + index * 256 * kMib, kBase + (index + count) * 256 * kMib};
  }
  // By thread and process of that number.
  std::optional<ledger::Card> Charge(Witness witness, int thread, AddressRange range) {
    const ManagedBook::Claim claim{witness, 1, 1, range};
    const auto look = book_.BeginLook();
    const auto full = book_.Charge(thread, claim);
    if (!full && !book_.IsKnown(1)) {
      book_.Know(look, claim, {});
    }
    return full;
  }
  // As witness 1 and those that are placed say.
  bool Settle(const AddressRanges& shown, State state = State::kShown) {
    return SettleAt(book_.BeginLook(), shown, state);
  }
  bool SettleAt(ManagedBook::Look look, const AddressRanges& shown, State state = State::kShown) {
    std::map<Witness, ManagedBook::Seen> seen;
    for (const Witness witness : book_.Spaces()) {
      seen[witness] = {state, shown};
    }
    bool fits = book_.Settle(look, seen);
    for (const Witness witness : book_.Unplaced(look)) {
      fits = book_.Place(look, witness, {state, shown}) && fits;
    }
    return fits;
  }

  ledger::Ledger ledger_{{1024 * kMib, 512 * kMib}, {8, 64, 8, 8}};
  ManagedBook book_{ledger_};
};

TEST_F(ManagedBookTest, ChargesBeforeAndSettlesAfter) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  const std::uint64_t one = ledger_.Used(0);
  EXPECT_GT(one, 256 * kMib);
  // It is not known to be over: while nothing is shown, the charge stays.
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), one);
  book_.Over(10);
  EXPECT_EQ(ledger_.Used(0), one) << "no look has settled it";
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), one);
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(book_.Empty());
  EXPECT_EQ(book_.TakeReleased(), std::vector<Witness>{1});
}

TEST_F(ManagedBookTest, ALookThatBeganBeforeTheEndDoesNotSettle) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  const auto look = book_.BeginLook();
  book_.Over(10);
  EXPECT_TRUE(SettleAt(look, {}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(ManagedBookTest, RefusesWhatDoesNotFit) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Charge(1 + static_cast<Witness>(i), 10 + i, Piece(static_cast<std::uint64_t>(i))),
              std::nullopt);
  }
  const std::uint64_t used = ledger_.Used(0);
  EXPECT_EQ(Charge(4, 13, Piece(3)), 0U);
  EXPECT_EQ(ledger_.Used(0), used);
}

TEST_F(ManagedBookTest, WhatAppearsInAKnownAddressSpaceNeedsNoWitnessOfItsOwn) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  ASSERT_EQ(Charge(2, 11, Piece(1)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0, 2)}));
  EXPECT_EQ(book_.TakeReleased(), std::vector<Witness>{2});
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0, 2)}));
}

TEST_F(ManagedBookTest, ATwinKeepsItsOwn) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  ASSERT_EQ(Charge(2, 10, Piece(0)), std::nullopt);
  EXPECT_EQ(ledger_.Used(0), 2 * ManagedBytes({Piece(0)})) << "it may lie elsewhere";
  book_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(book_.Spaces(), (std::vector<Witness>{1, 2}));
  EXPECT_TRUE(book_.TakeReleased().empty());
  // One that appears in both shows that they are one.
  ASSERT_EQ(Charge(3, 10, Piece(1)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0, 2)}));
  EXPECT_EQ(book_.Spaces(), std::vector<Witness>{1});
  EXPECT_EQ(book_.TakeReleased(), (std::vector<Witness>{2, 3}));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0, 2)}));
}

TEST_F(ManagedBookTest, WhatNobodyCanBeAskedForStaysUntilItIsGone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_TRUE(Settle({}, State::kHidden));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0)}));
  ASSERT_EQ(Charge(2, 10, Piece(1)), std::nullopt);
  book_.Over(10);
  EXPECT_TRUE(Settle({}, State::kHidden));
  EXPECT_EQ(ledger_.Used(0), 2 * ManagedBytes({Piece(0)}));
  EXPECT_TRUE(Settle({}, State::kGone));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(book_.Empty());
}

TEST_F(ManagedBookTest, AWatchedMappingIsChargedWhenItAppears) {
  book_.Watch(10, {1, 1, 1, Piece(0)}, {});
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(Settle({})) << "nothing came of it yet";
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  book_.Watch(11, {2, 1, 1, Piece(0, 8)}, {});
  EXPECT_FALSE(Settle({Piece(0, 8)}));
  EXPECT_GT(ledger_.Used(0), 2048 * kMib) << "charged all the same";
}

TEST_F(ManagedBookTest, AWatchedMappingWhoseOffsetIsAnAddressInUseIsNone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_TRUE(Settle({Piece(0)}));
  const ManagedBook::Claim claim{2, 1, 1, Piece(0, 8)};
  EXPECT_EQ(book_.Counted(claim), AddressRanges{Piece(0)});
  book_.Watch(10, claim, {Piece(0)});
  book_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), ManagedBytes({Piece(0)}));
}

TEST_F(ManagedBookTest, LiesOnEveryCardThatIsRegistered) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_EQ(ledger_.Used(1), 0U);
  ASSERT_TRUE(book_.SetCards({0, 1}));
  EXPECT_GT(ledger_.Used(1), 256 * kMib);
  ASSERT_TRUE(book_.SetCards({0}));
  EXPECT_EQ(ledger_.Used(1), 0U);
  ASSERT_EQ(Charge(2, 11, Piece(1)), std::nullopt);
  EXPECT_FALSE(book_.SetCards({0, 1})) << "512 MiB and tables do not fit";
  EXPECT_EQ(ledger_.Used(1), 0U);
}

TEST_F(ManagedBookTest, WithoutASpaceNothingComesOfAMapping) {
  ManagedBook book(ledger_);
  book.Watch(10, {1, 1, 1, Piece(0)}, {});
  book.Over(10);
  EXPECT_EQ(book.Unsettled(), 0U);
  EXPECT_EQ(book.TakeReleased(), std::vector<Witness>{1});
}

TEST_F(ManagedBookTest, SumsDoNotWrap) {
  ASSERT_TRUE(book_.SetCards({}));
  constexpr std::uint64_t kTop = std::uint64_t{1} << 56;
  for (int thread = 0; thread < 300; ++thread) {
    const auto witness = static_cast<Witness>(thread + 1);
    ASSERT_EQ(book_.Charge(thread, {witness, 1, 1, {4096, kTop}}), std::nullopt) << "on no card";
  }
  EXPECT_FALSE(book_.SetCards({0})) << "300 times 64 PiB";
}

// The thread is slow: before it maps anything, what was there is unmapped, and that is seen.
TEST_F(ManagedBookTest, WhatWasThereBeforeIsNewOnceItWasGone) {
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  book_.Over(10);
  EXPECT_TRUE(Settle({Piece(0)}));
  const std::uint64_t one = ledger_.Used(0);
  ASSERT_GT(one, 0U);
  book_.Watch(11, {2, 1, 1, Piece(0)}, {Piece(0)});
  EXPECT_TRUE(book_.Watches());
  EXPECT_TRUE(Settle({}));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(Settle({Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), one);
}

// One that was moved away and back is not taken for another's that lies at the same address.
TEST_F(ManagedBookTest, AMappingThatComesBackIsNobodyElses) {
  const auto settle = [&](const AddressRanges& first, const AddressRanges& second) {
    const auto says = [&](Witness witness) {
      return ManagedBook::Seen{State::kShown, witness == 2 ? second : first};
    };
    const auto look = book_.BeginLook();
    std::map<Witness, ManagedBook::Seen> seen;
    for (const Witness witness : book_.Spaces()) {
      seen[witness] = says(witness);
    }
    EXPECT_TRUE(book_.Settle(look, seen));
    for (const Witness witness : book_.Unplaced(look)) {
      EXPECT_TRUE(book_.Place(look, witness, says(witness)));
    }
  };
  const AddressRange kept = Piece(5);
  ASSERT_EQ(Charge(1, 9, kept), std::nullopt);
  ASSERT_EQ(Charge(1, 10, Piece(0)), std::nullopt);
  book_.Over(9);
  book_.Over(10);
  settle({Piece(0), kept}, {});
  settle({kept}, {});                                              // moved away
  ASSERT_EQ(book_.Charge(20, {2, 2, 2, Piece(0)}), std::nullopt);  // by another process
  book_.Watch(10, {3, 1, 1, Piece(0)}, {});                        // and moved back
  book_.Over(10);
  book_.Over(20);
  settle({Piece(0), kept}, {Piece(0)});
  settle({kept}, {Piece(0)});
  EXPECT_GT(ledger_.Used(0), 512 * kMib) << "the other's is there still";
}

// --- Whatever processes do with their address spaces

using Blocks = std::set<std::uint64_t>;

struct Mm {
  Blocks managed;
  Blocks copies;  // shown, of a parent's: no memory
  int users = 0;
};

struct Task {
  std::shared_ptr<Mm> mm;  // none: it has ended
  bool reaped = false;
};

struct Pending {
  std::shared_ptr<Mm> mm;
  std::size_t task = 0;
  Blocks blocks;
  bool executed = false;
};

struct Opened {
  std::shared_ptr<Mm> mm;
  std::size_t task = 0;
};

AddressRanges RangesOf(const Blocks& blocks) {
  AddressRanges ranges;
  for (const std::uint64_t block : blocks) {
    ranges.push_back({kBase + block * 2 * kMib, kBase + (block + 1) * 2 * kMib});
  }
  return Ordered(std::move(ranges));
}

// `tame`: each process in an address space of its own, one mapping at a time and nothing mapped
// over another. Then what is charged is exact whenever all is settled. Otherwise it is never too
// little.
class Machine {
 public:
  Machine(std::uint64_t seed, bool tame) : random_(seed), tame_(tame) {
    EXPECT_TRUE(book_.SetCards({0}));
    book_.ExpectSpaces();
    Spawn();
  }

  void Step() {
    Act();
    if (Dice(6) == 0) {
      Settle();
      if (tame_) {
        Exact();
      }
    }
    Check();
  }

  void EndAll() {
    while (!pending_.empty()) {
      Leave(pending_.begin()->first);
    }
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      Exit(task);
    }
    Settle();
    Settle();
    EXPECT_EQ(ledger_.Used(0), 0U);
    EXPECT_TRUE(book_.Empty());
    EXPECT_TRUE(opened_.empty()) << "witnesses that nobody needs";
  }
  [[nodiscard]] std::uint64_t joined() const { return joined_; }

 private:
  static constexpr std::uint64_t kBlocks = 12;
  static constexpr std::uint64_t kLimit = 80 * kMib;

  std::uint64_t Dice(std::uint64_t sides) { return random_() % sides; }

  void Spawn() {
    tasks_.push_back({std::make_shared<Mm>(), false});
    ++tasks_.back().mm->users;
  }

  void Act() {
    const std::size_t task = Dice(tasks_.size());
    if (tasks_[task].mm == nullptr) {
      tasks_[task].reaped = tasks_[task].reaped || Dice(2) == 0;
      return;
    }
    switch (Dice(tame_ ? 8 : 14)) {
      case 0:
      case 1:
      case 2:
        return Begin(task);
      case 3:
        return Unmap(*tasks_[task].mm);
      case 4:
        return LeaveAny();
      case 5:
        return Fork(task);
      case 6:
        if (tasks_.size() > 1) {
          Exit(task);
        }
        return;
      case 7:
      case 8:
        return ExecuteAny();
      case 9:
      case 10:
        return Share(task);
      case 11:
        return Program(task);
      default:
        return Begin(task);
    }
  }

  Blocks SomeBlocks() {
    const std::uint64_t first = Dice(kBlocks);
    const std::uint64_t count = 1 + Dice(3);
    Blocks blocks;
    for (std::uint64_t i = first; i < first + count; ++i) {
      blocks.insert(i);
    }
    return blocks;
  }

  void Begin(std::size_t task) {
    const int thread = static_cast<int>(10 * task + Dice(2));
    if (pending_.contains(thread)) {
      Leave(thread);
    }
    while (tame_ && !pending_.empty()) {
      Leave(pending_.begin()->first);
    }
    const std::shared_ptr<Mm> mm = tasks_[task].mm;
    const Blocks blocks = SomeBlocks();
    const Blocks there = Shown(*mm);
    if (tame_ && std::any_of(blocks.begin(), blocks.end(),
                             [&](auto block) { return there.contains(block); })) {
      return;
    }
    ManagedBook::Claim claim;
    claim.witness = ++last_;
    claim.process = task + 1;
    claim.program = tame_ ? task + 1 : 1 + Dice(3);  // nobody may rely on it
    claim.range = RangesOf(blocks).front();
    opened_[claim.witness] = {mm, task};
    if (book_.Meets(claim)) {
      Settle();
    }
    const bool known = book_.IsKnown(claim.program);
    const auto look = book_.BeginLook();
    const AddressRanges shown = RangesOf(Shown(*mm));
    if (book_.Charge(thread, claim)) {
      Settle();
      if (book_.Charge(thread, claim)) {
        opened_.erase(claim.witness);
        return;
      }
    }
    if (!known) {
      book_.Know(look, claim, shown);
    }
    pending_[thread] = {mm, task, blocks, false};
    if (tame_) {
      Execute(pending_[thread]);
    }
  }

  static Blocks Shown(const Mm& mm) {
    Blocks shown = mm.managed;
    shown.insert(mm.copies.begin(), mm.copies.end());
    return shown;
  }

  void Execute(Pending& pending) {
    if (pending.executed || tasks_[pending.task].mm != pending.mm) {
      return;  // made, or its thread is gone
    }
    pending.executed = true;
    const bool is_managed =
        tame_ || Dice(4) != 0;  // else the descriptor led elsewhere, or it failed
    for (const std::uint64_t block : pending.blocks) {
      pending.mm->copies.erase(block);
      if (is_managed) {
        pending.mm->managed.insert(block);
      } else {
        pending.mm->managed.erase(block);
      }
    }
  }

  void ExecuteAny() {
    if (!pending_.empty()) {
      Execute(std::next(pending_.begin(), static_cast<long>(Dice(pending_.size())))->second);
    }
  }

  void Leave(int thread) {
    Execute(pending_[thread]);
    pending_.erase(thread);
    book_.Over(thread);
  }

  void LeaveAny() {
    if (!pending_.empty()) {
      Leave(std::next(pending_.begin(), static_cast<long>(Dice(pending_.size())))->first);
    }
  }

  void Unmap(Mm& mm) {
    for (const std::uint64_t block : SomeBlocks()) {
      mm.managed.erase(block);
      mm.copies.erase(block);
    }
  }

  void Fork(std::size_t task) {
    const Blocks shown = Shown(*tasks_[task].mm);
    Spawn();
    tasks_.back().mm->copies = shown;
  }

  void Share(std::size_t task) {
    tasks_.push_back({tasks_[task].mm, false});
    ++tasks_.back().mm->users;
  }

  void Program(std::size_t task) {
    --tasks_[task].mm->users;
    tasks_[task].mm = std::make_shared<Mm>();
    ++tasks_[task].mm->users;
  }

  void Exit(std::size_t task) {
    if (tasks_[task].mm != nullptr) {
      --tasks_[task].mm->users;
      tasks_[task].mm = nullptr;
    }
  }

  ManagedBook::Seen Ask(Witness witness) {
    const auto found = opened_.find(witness);
    EXPECT_NE(found, opened_.end()) << "a witness that was given back";
    const auto& [mm, task] = found->second;
    if (mm->users == 0) {
      return {State::kGone, {}};
    }
    if (tasks_[task].reaped) {
      return {State::kHidden, {}};
    }
    return {State::kShown, RangesOf(Shown(*mm))};
  }

  // Does what others may do between two looks.
  void Meanwhile() {
    if (!tame_ && Dice(3) == 0) {
      const std::size_t task = Dice(tasks_.size());
      if (Dice(2) == 0) {
        ExecuteAny();
      } else if (tasks_[task].mm != nullptr) {
        Unmap(*tasks_[task].mm);
      }
    }
  }

  void Settle() {
    std::vector<int> left;
    for (const auto& [thread, pending] : pending_) {
      if (tasks_[pending.task].mm != pending.mm || (pending.executed && Dice(2) == 0)) {
        left.push_back(thread);
      }
    }
    for (const int thread : left) {
      pending_.erase(thread);
      book_.Over(thread);
    }
    const auto look = book_.BeginLook();
    std::map<Witness, ManagedBook::Seen> seen;
    for (const Witness witness : book_.Spaces()) {
      seen[witness] = Ask(witness);
      Meanwhile();
    }
    const std::size_t before = book_.Spaces().size();
    EXPECT_TRUE(book_.Settle(look, seen));
    joined_ += before > book_.Spaces().size() ? 1 : 0;
    for (const Witness witness : book_.Unplaced(look)) {
      EXPECT_TRUE(book_.Place(look, witness, Ask(witness)));
      Meanwhile();
    }
    for (const Witness witness : book_.TakeReleased()) {
      EXPECT_EQ(opened_.erase(witness), 1U) << "given back twice";
    }
  }

  [[nodiscard]] std::uint64_t Living() const {
    std::set<const Mm*> spaces;
    std::uint64_t bytes = 0;
    for (const Task& task : tasks_) {
      if (task.mm != nullptr && spaces.insert(task.mm.get()).second) {
        bytes += ManagedBytes(RangesOf(task.mm->managed));
      }
    }
    return bytes;
  }

  void Check() {
    EXPECT_GE(ledger_.Used(0), Living());
    EXPECT_LE(ledger_.Used(0), kLimit);
  }

  void Exact() {
    while (!pending_.empty()) {
      Leave(pending_.begin()->first);
    }
    Settle();
    EXPECT_EQ(ledger_.Used(0), Living());
  }

  std::mt19937_64 random_;
  const bool tame_;
  ledger::Ledger ledger_{{kLimit}, {8, 64, 8, 8}};
  ManagedBook book_{ledger_};
  std::vector<Task> tasks_;
  std::map<int, Pending> pending_;  // by thread
  std::map<Witness, Opened> opened_;
  Witness last_ = 0;
  std::uint64_t joined_ = 0;
};

TEST(ManagedBookProperty, NothingThatLivesIsEverGivenBack) {
  constexpr std::uint64_t kSeeds = 3000;
  std::uint64_t joined = 0;
  for (const bool tame : {false, true}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      Machine machine(seed, tame);
      for (int step = 0; step < 60; ++step) {
        machine.Step();
        if (::testing::Test::HasFailure()) {
          FAIL() << "seed " << seed << (tame ? ", tame" : "") << ", step " << step;
        }
      }
      machine.EndAll();
      if (::testing::Test::HasFailure()) {
        FAIL() << "seed " << seed << (tame ? ", tame" : "") << ", at the end";
      }
      joined += machine.joined();
    }
  }
  EXPECT_GT(joined, kSeeds / 10) << "address spaces are hardly ever joined: it proves little";
}

}  // namespace
}  // namespace cgpu::boundary
