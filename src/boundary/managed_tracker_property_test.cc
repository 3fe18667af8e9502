// Random histories of processes and their address spaces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "boundary/managed_tracker.h"
#include "boundary/managed_tracker_testing.h"
#include "ledger/ledger.h"

namespace cgpu::boundary {
namespace {

using Blocks = std::set<std::uint64_t>;

struct Mm {
  Blocks managed;
  Blocks copies;  // shown, copied from a parent: no memory
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

// A simulated machine. `tame`: each process has an address space of its own, makes one mapping at a
// time and maps nothing over another. Then the charge is exact whenever all is settled, but for
// tables of contested pieces. Otherwise it is never too low.
class Machine {
 public:
  Machine(std::uint64_t seed, bool tame) : random_(seed), tame_(tame) { Spawn(); }

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
    for (int tries = 0; tries < 100 && !tracker_.Empty(); ++tries) {
      Settle();
    }
    EXPECT_EQ(ledger_.Used(0), 0U);
    EXPECT_TRUE(tracker_.Empty());
    EXPECT_TRUE(opened_.empty()) << "witnesses that nobody needs";
  }
  [[nodiscard]] std::uint64_t joined() const { return joined_; }

 private:
  static constexpr std::uint64_t kBlocks = 12;
  static constexpr std::uint64_t kLimit = 80 * kMib;

  std::uint64_t Dice(std::uint64_t sides) { return random_() % sides; }

  void Spawn() { tasks_.push_back({NewMm(), false}); }

  std::shared_ptr<Mm> NewMm() {
    all_.push_back(std::make_shared<Mm>());
    all_.back()->users = 1;
    return all_.back();
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
    ManagedTracker::Claim claim;
    claim.witness = ++last_;
    claim.process = task + 1;
    claim.program = tame_ ? task + 1 : 1 + Dice(3);  // nothing may rely on it
    claim.range = RangesOf(blocks).front();
    opened_[claim.witness] = {mm, task};
    if (tracker_.Meets(claim)) {
      Settle();
    }
    const bool known = tracker_.IsKnown(claim.program);
    const auto look = tracker_.BeginLook();
    const AddressRanges shown = RangesOf(Shown(*mm));
    if (tracker_.Charge(thread, claim)) {
      Settle();
      if (tracker_.Charge(thread, claim)) {
        opened_.erase(claim.witness);
        return;
      }
    }
    if (!known) {
      tracker_.Know(look, claim, shown);
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
      return;  // it is made, or its thread is gone
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
    tracker_.Over(thread);
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
    tasks_[task].mm = NewMm();
  }

  void Exit(std::size_t task) {
    if (tasks_[task].mm != nullptr) {
      --tasks_[task].mm->users;
      tasks_[task].mm = nullptr;
    }
  }

  ManagedTracker::Seen Ask(Witness witness) {
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

  // Does what other processes may do between two looks.
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
      tracker_.Over(thread);
    }
    const auto look = tracker_.BeginLook();
    std::map<Witness, ManagedTracker::Seen> seen;
    for (const Witness witness : tracker_.Spaces()) {
      seen[witness] = Ask(witness);
      Meanwhile();
    }
    const std::size_t before = tracker_.Spaces().size();
    EXPECT_TRUE(tracker_.Settle(look, seen));
    joined_ += before > tracker_.Spaces().size() ? 1 : 0;
    for (const Witness witness : tracker_.Unplaced(look)) {
      EXPECT_TRUE(tracker_.Place(look, witness, Ask(witness)));
      Meanwhile();
    }
    AskUvm();
    for (const Witness witness : tracker_.TakeReleased()) {
      EXPECT_EQ(opened_.erase(witness), 1U) << "given back twice";
    }
  }

  // Each address space has a file of its own here, and addresses are used twice in it.
  void AskUvm() {
    for (const auto& mm : all_) {
      if (mm->users == 0 && (tame_ || Dice(2) == 0)) {
        mm->managed.clear();  // the kernel has unmapped it by now
      }
    }
    std::vector<AddressRanges> files;
    for (const auto& mm : all_) {
      files.push_back(RangesOf(mm->managed));
    }
    AnswerDoubts(tracker_, files);
    std::erase_if(all_, [](const auto& mm) { return mm->users == 0 && mm->managed.empty(); });
  }

  [[nodiscard]] std::uint64_t Living() const {
    std::uint64_t bytes = 0;
    for (const auto& mm : all_) {
      bytes += ManagedBytes(RangesOf(mm->managed));
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
    EXPECT_GE(ledger_.Used(0), Living());
    EXPECT_LT(ledger_.Used(0), Living() + 2 * kMib) << "a block too many";
  }

  std::mt19937_64 random_;
  const bool tame_;
  ledger::Ledger ledger_{{kLimit}, {8, 64, 8, 8}};
  ManagedTracker tracker_{ledger_, 1};
  std::vector<Task> tasks_;
  std::vector<std::shared_ptr<Mm>> all_;  // that have something in UVM, or may
  std::map<int, Pending> pending_;        // by thread
  std::map<Witness, Opened> opened_;
  Witness last_ = 0;
  std::uint64_t joined_ = 0;
};

std::uint64_t Parameter(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no other thread
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// CGPU_TRACKER_STEPS counts steps of all machines together; CGPU_TRACKER_SEED is the first one's.
TEST(ManagedTrackerProperty, NothingThatLivesIsEverGivenBack) {
  constexpr std::uint64_t kSteps = 60;  // of one machine
  const std::uint64_t machines = Parameter("CGPU_TRACKER_STEPS", 360'000) / kSteps / 2;
  const std::uint64_t first = Parameter("CGPU_TRACKER_SEED", 0);
  std::uint64_t joined = 0;
  for (const bool tame : {false, true}) {
    for (std::uint64_t seed = first; seed < first + machines; ++seed) {
      Machine machine(seed, tame);
      for (std::uint64_t step = 0; step <= kSteps; ++step) {
        step < kSteps ? machine.Step() : machine.EndAll();
        if (::testing::Test::HasFailure()) {
          FAIL() << "seed " << seed << (tame ? ", tame" : "") << ", step " << step;
        }
      }
      joined += machine.joined();
    }
  }
  EXPECT_GT(joined, machines / 10) << "address spaces are hardly ever joined: it proves little";
}

}  // namespace
}  // namespace cgpu::boundary
