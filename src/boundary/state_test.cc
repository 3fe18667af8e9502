// Hands a boundary over. Each tracker plays a random history twice: once unchanged, once handed
// over before each step; both must always answer the same. All tests of a boundary run with
// hand-overs too (CGPU_TEST_HAND_OVER).
#include "base/state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary/dma_tracker.h"
#include "boundary/managed_tracker.h"
#include "boundary/managed_tracker_testing.h"
#include "boundary/testing.h"
#include "boundary/uvm_tracker.h"

namespace cgpu::boundary {
namespace {

constexpr ledger::Gpu kGpus = 2;
constexpr std::uint32_t kMemory = 0x30;
constexpr std::uint32_t kRange = 0x40;
constexpr int kSteps = 3000;

template <class Tracker>
std::string SavedTracker(const Tracker& tracker) {
  StateWriter writer;
  writer.Begin(1);
  tracker.Save(writer);
  writer.End();
  return writer.Take();
}

class Dice {
 public:
  std::uint64_t operator()(std::uint64_t sides) { return random_() % sides; }

 private:
  std::mt19937_64 random_{1};
};

TEST(BoundaryState, ADmaTrackerGoesOnAsTheOldOne) {
  DmaTracker old({0xc1d00001, 3}, 9);
  DmaTracker next = old;
  Dice dice;
  for (int step = 0; step < kSteps; ++step) {
    const std::string bytes = SavedTracker(next);
    next = DmaTracker({}, 0);
    StateReader reader(bytes);
    (void)reader.Enter();
    next.Load(reader, kGpus);
    ASSERT_TRUE(reader.Finish().ok());
    ASSERT_EQ(SavedTracker(next), bytes);
    ASSERT_EQ(next.client(), old.client());
    ASSERT_EQ(next.owner(), old.owner());
    const std::uint64_t range = 7 + dice(4);
    const std::uint64_t start = dice(64) * (kMib / 2);
    const DmaMapping mapping{start,        start + (1 + dice(8)) * (kMib / 2),
                             dice(2) == 0, static_cast<ledger::Handle>(1 + dice(2)),
                             20 + dice(4), static_cast<ledger::Handle>(200 + dice(4))};
    const std::uint64_t what = dice(12);
    for (DmaTracker* tracker : {&old, &next}) {
      if (what == 0) {
        tracker->Forget(range);
        tracker->AddRange({static_cast<ledger::Handle>(70 + range), range}, 7 + range % 2,
                          range == 8 ? 1 : 0,
                          range == 10  ? RangeTables::kCovered
                          : range == 9 ? RangeTables::kKept
                                       : RangeTables::kOfMappings);
      } else if (what == 1) {
        tracker->Forget(mapping.memory);
      } else if (what == 2) {
        tracker->Sweep([&](ledger::ObjectRef at) {
          return at.handle != mapping.handle && at.handle != 70 + range;
        });
      } else if (what < 6) {
        tracker->Remove(range, mapping.device, start, what == 3 ? 0 : mapping.end - start);
      } else {
        tracker->Add(range, mapping);
      }
    }
    for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
      ASSERT_EQ(next.Bytes(gpu), old.Bytes(gpu)) << step;
    }
    ASSERT_EQ(next.Need(range, mapping, true), old.Need(range, mapping, true));
    ASSERT_EQ(SavedTracker(next), SavedTracker(old));
  }
}

void PlaySpace(std::uint64_t what, std::uint64_t pick, std::uint64_t start, std::uint64_t end,
               UvmSpace& space) {
  const auto gpu = static_cast<ledger::Gpu>(pick % kGpus);
  const std::pair<std::uint32_t, std::uint32_t> channel(5, pick);
  switch (what) {
    case 0:
      return space.AddRange(start, end - start);
    case 1:
      return space.RemoveRange(start);
    case 2:
      return space.UnmapPieces(gpu, start, end);
    case 3:
      space.PlanPiece(gpu, start, end);
      space.AddWindow(gpu, start, end);
      return space.AddChannel(channel, gpu, start, end, space.NewHold());
    case 4:
      return space.AddChannel(channel, gpu, start, start, 0);
    case 5:
      return space.RemoveChannel(channel);
    case 6:
      space.AddGpu(gpu);
      return space.AddVaSpace(gpu);
    case 7:
      return pick < 3 ? space.RemoveGpu(gpu) : space.AddGpu(gpu);
    case 8:
      return pick < 8 ? space.RemoveGroup() : space.AddGroup();
    case 9:
      for (ledger::Gpu each = 0; each < kGpus; ++each) {
        space.PlanPiece(each, start, end);
      }
      space.AddRange(start, end - start);
      return space.AddPool(start);
    default:
      for (ledger::Gpu each = 0; each < kGpus; ++each) {
        space.PlanPiece(each, start, end);
        space.AddPiece(each, start, end, pick % 3 == 0 ? 0 : space.NewHold());
      }
  }
}

TEST(BoundaryState, AUvmSpaceGoesOnAsTheOldOne) {
  UvmSpace old(9);
  UvmSpace next(9);
  Dice dice;
  for (int step = 0; step < kSteps; ++step) {
    const std::string bytes = SavedTracker(next);
    next = UvmSpace(0);
    StateReader reader(bytes);
    (void)reader.Enter();
    next.Load(reader, kGpus);
    ASSERT_TRUE(reader.Finish().ok());
    ASSERT_EQ(SavedTracker(next), bytes);
    const std::uint64_t what = dice(15);
    const std::uint64_t pick = dice(20);
    const std::uint64_t start = kBase + dice(64) * kMib;
    const std::uint64_t end = start + (1 + dice(16)) * kMib;
    PlaySpace(what, pick, start, end, old);
    PlaySpace(what, pick, start, end, next);
    ASSERT_EQ(next.TakeReleased(), old.TakeReleased());
    ASSERT_EQ(next.owner(), old.owner());
    ASSERT_EQ(next.Ranges(), old.Ranges());
    ASSERT_EQ(next.Channels(), old.Channels());
    ASSERT_EQ(next.GpuOfChannel({5, pick}), old.GpuOfChannel({5, pick}));
    ASSERT_EQ(next.gpus(), old.gpus());
    ASSERT_EQ(next.va_spaces(), old.va_spaces());
    ASSERT_EQ(next.groups(), old.groups());
    for (ledger::Gpu gpu = 0; gpu < kGpus; ++gpu) {
      ASSERT_EQ(next.Bytes(gpu), old.Bytes(gpu)) << step;
      ASSERT_EQ(next.Windows(gpu), old.Windows(gpu));
    }
  }
}

// A tracker of managed memory with the ledger that it charges.
struct Managed {
  static constexpr ledger::Quotas kQuotas{8, 64, 8, 8};

  void HandOver() {
    const std::string rows = SavedTracker(*ledger);
    const std::string bytes = SavedTracker(*tracker);
    ledger = std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>{1, 1}, kQuotas);
    tracker = std::make_unique<ManagedTracker>(*ledger, 2);
    StateReader rows_reader(rows);
    (void)rows_reader.Enter();
    ASSERT_TRUE(ledger->Load(rows_reader).ok());
    StateReader reader(bytes);
    (void)reader.Enter();
    tracker->Load(reader);
    ASSERT_TRUE(reader.Finish().ok());
    tracker->Resume();
    ASSERT_EQ(SavedTracker(*tracker), bytes);
    ASSERT_EQ(SavedTracker(*ledger), rows);
  }

  std::unique_ptr<ledger::Ledger> ledger =
      std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>{100 * kMib, 60 * kMib}, kQuotas);
  std::unique_ptr<ManagedTracker> tracker = std::make_unique<ManagedTracker>(*ledger, 2);
};

struct ManagedStep {
  std::uint64_t what;
  ManagedTracker::Claim claim;
  int thread;
  AddressRanges ranges;
  bool all;
};

// Plays a step and compares the results that it reports. `gone`: witnesses that have said so once.
bool Play(const ManagedStep& step, ManagedTracker::Look& look, std::set<Witness>& gone,
          ManagedTracker& tracker) {
  const auto ask = [&](Witness witness) -> ManagedTracker::Seen {
    if (!step.all) {
      gone.insert(witness);
    }
    return {gone.contains(witness) ? State::kGone : State::kShown, Ordered(step.ranges)};
  };
  switch (step.what) {
    case 0:
    case 1:
    case 2:
      return !tracker.Charge(step.thread, step.claim);
    case 3:
      tracker.Watch(step.thread, step.claim, {});
      return true;
    case 4:
    case 5:
      tracker.Over(step.thread);
      return true;
    case 6:
      look = tracker.BeginLook();
      return true;
    case 7: {
      std::map<Witness, ManagedTracker::Seen> all;
      for (const auto witness : tracker.Spaces()) {
        all[witness] = ask(witness);
      }
      return tracker.Settle(look, std::move(all));
    }
    case 8: {
      bool fits = true;
      for (const auto witness : tracker.Unplaced(look)) {
        fits = tracker.Place(look, witness, ask(witness)) && fits;
      }
      AnswerDoubts(tracker, {Ordered(step.ranges)});
      return fits;
    }
    default:
      tracker.Know(tracker.BeginLook(), step.claim, Ordered(step.ranges));
      return true;
  }
}

TEST(BoundaryState, AManagedTrackerGoesOnAsTheOldOne) {
  Managed old;
  Managed next;
  ManagedTracker::Look look = 0;
  std::set<Witness> gone;
  bool settling = false;  // a shim finishes a settlement before it hands over
  Dice dice;
  for (int i = 0; i < kSteps; ++i) {
    if (!settling) {
      next.HandOver();
    }
    const std::uint64_t start = kBase + dice(8) * 4 * kMib;
    const std::uint64_t other = kBase + dice(8) * 4 * kMib;
    const auto witness = static_cast<ManagedTracker::Witness>(i + 1);
    ManagedStep step{dice(10),
                     {witness, 1 + dice(3), witness, {start, start + (1 + dice(16)) * kMib}},
                     static_cast<int>(10 + dice(6)),
                     {{start, start + 2 * kMib}, {other, other + kMib}},
                     dice(4) != 0};
    step.ranges.resize(dice(3));
    constexpr std::uint64_t kSettle = 7;
    constexpr std::uint64_t kPlace = 8;
    if (step.what == kPlace && !settling) {
      continue;
    }
    settling = step.what == kSettle || (settling && step.what != kPlace);
    ManagedTracker::Look next_look = look;
    const bool done = Play(step, look, gone, *old.tracker);
    ASSERT_EQ(Play(step, next_look, gone, *next.tracker), done);
    ASSERT_EQ(next_look, look);
    ASSERT_EQ(next.tracker->Witnesses(), old.tracker->Witnesses());
    ASSERT_EQ(next.tracker->Unfinished(), old.tracker->Unfinished());
    ASSERT_EQ(next.tracker->Unsettled(), old.tracker->Unsettled());
    ASSERT_EQ(SavedTracker(*next.ledger), SavedTracker(*old.ledger)) << i;
  }
}

// Has something in every tracker.
class BoundaryStateTest : public BoundaryTest {
 protected:
  static constexpr ledger::FileKey kSpace = Boundary::kFirstSpace + 5;

  void SetUp() override {
    MakeSubdevice();
    ASSERT_EQ(AllocMemory(kMemory, kMib), rm::NV_OK);
    rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
    ASSERT_EQ(Alloc(kDevice, kRange, rm::NV01_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
    rm::NVOS46_PARAMETERS_V535 map{};
    map.hClient = kClient;
    map.hDevice = kDevice;
    map.hDma = kRange;
    map.hMemory = kMemory;
    map.length = kMib;
    map.flags = 1U << 15;
    Run(rm::NV_ESC_RM_MAP_MEMORY_DMA, map);
    boundary_->AddSpace(kSpace, 1);
    ASSERT_EQ(boundary_->managed().Charge(10, {1, 1, 1, {kBase, kBase + kMib}}), std::nullopt);
    boundary_->managed().Over(10);
    boundary_->managed().Watch(11, {2, 1, 1, {kBase, kBase + kMib}}, {});
    boundary_->SetSizes(1, {64 * kMib, 8192, 256 * kMib});
    boundary_->CountRefused("a thing");
    boundary_->CountRefused("a thing");
  }
  template <class T>
  void Run(std::uint32_t nr, T& params) {
    Call call;
    call.process = 1;
    ASSERT_EQ(Copy(nr, params, call), 0);
    Decision decision = boundary_->Decide(call);
    ASSERT_FALSE(Execute(call, decision).has_value());
  }

  // A new pair that has loaded `bytes`; null if it refused them.
  struct Pair {
    std::unique_ptr<ledger::Ledger> ledger;
    std::unique_ptr<Boundary> boundary;
    Result<> loaded;
  };
  Pair Load(std::string_view bytes, std::size_t gpus = 2) const {
    Pair pair{std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>(gpus, 1), kQuotas),
              nullptr,
              {}};
    pair.boundary = std::make_unique<Boundary>(abi_, std::vector<GpuIds>(gpus), *pair.ledger);
    pair.loaded = LoadBoth(bytes, *pair.ledger, *pair.boundary);
    return pair;
  }
};

TEST_F(BoundaryStateTest, SizesRefusalsAndQuotasAreAsTheyWere) {
  const std::uint64_t window = ledger_->Bar1Quota(1);
  EXPECT_GT(window, 0U);
  const auto refused = boundary_->refused();
  EXPECT_EQ(refused.at("a thing"), 2U);
  HandOver(abi_, kQuotas, ledger_, boundary_);
  EXPECT_EQ(boundary_->refused(), refused);
  const GpuSizes& sizes = boundary_->gpus()[1].sizes;
  EXPECT_EQ(sizes.context_bytes, 64 * kMib);
  EXPECT_EQ(sizes.space_bytes, 8192U);
  EXPECT_EQ(sizes.bar1_bytes, 256 * kMib);
  EXPECT_EQ(ledger_->Bar1Quota(1), window);
  EXPECT_EQ(boundary_->managed().Unsettled(), 1U) << "there is a space still";
  boundary_->managed().Over(11);
  EXPECT_EQ(boundary_->managed().Unsettled(), 2U);
  EXPECT_EQ(boundary_->FindSpace(kSpace)->owner(), 1U);
}

// Stands for a version that counts page tables differently.
TEST_F(BoundaryStateTest, WhatTheTrackersHoldIsChargedWhateverTheLedgerSaid) {
  const std::uint64_t used = ledger_->Used(0);
  const std::string right = Saved(*ledger_, *boundary_);
  const ledger::ExtraKey dma{1, std::uint64_t{1} << 62 | ledger_->FindClient(kClient)->ref.serial};
  ASSERT_GT(ledger_->Extra(dma, 0), 0U);
  ledger_->ForceExtra(dma, 0, 0);
  ledger_->ForceExtra({1, kSpace}, 0, 77);  // it has nothing
  const Pair next = Load(Saved(*ledger_, *boundary_));
  ASSERT_TRUE(next.loaded.ok());
  EXPECT_EQ(next.ledger->Used(0), used);
  EXPECT_EQ(Saved(*next.ledger, *next.boundary), right);
}

TEST_F(BoundaryStateTest, WhatIsKeptOfClientsThatAreGoneIsDropped) {
  ASSERT_TRUE(ledger_->RemoveClient(ledger_->FindClient(kClient)->ref));
  ASSERT_GT(ledger_->Used(0), 0U);
  const Pair next = Load(Saved(*ledger_, *boundary_));
  ASSERT_TRUE(next.loaded.ok());
  EXPECT_EQ(next.ledger->Used(0), ManagedBytes({{kBase, kBase + kMib}})) << "no client's";
}

TEST_F(BoundaryStateTest, WantsAsManyGpus) {
  for (const std::size_t gpus : {1U, 3U}) {
    ledger::Ledger ledger(std::vector<std::uint64_t>(gpus, 1), kQuotas);
    Boundary other(abi_, std::vector<GpuIds>(gpus), ledger);
    EXPECT_FALSE(Load(Saved(ledger, *boundary_), gpus).loaded.ok()) << gpus;
  }
}

TEST_F(BoundaryStateTest, BytesThatMakeNoSenseDoNoHarm) {
  const std::string whole = Saved(*ledger_, *boundary_);
  const auto check = [&](std::string_view bytes) {
    const Pair pair = Load(bytes);
    if (!pair.loaded.ok()) {
      return;
    }
    const std::string once = Saved(*pair.ledger, *pair.boundary);
    const Pair next = Load(once);
    ASSERT_TRUE(next.loaded.ok());
    EXPECT_EQ(Saved(*next.ledger, *next.boundary), once);
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    check(std::string_view(whole).substr(0, at));
    for (const int value : {0, 1, 2, 3, 0x7f, 0x80, 0xff}) {
      std::string wrong = whole;
      wrong[at] = static_cast<char>(value);
      check(wrong);
    }
  }
}

// Writes records of numbers, one in another.
class Records {
 public:
  Records& In(StateTag tag) {
    writer_.Begin(tag);
    return *this;
  }
  Records& Row(StateTag tag, const std::vector<std::uint64_t>& numbers) {
    writer_.Begin(tag);
    for (const std::uint64_t number : numbers) {
      writer_.Number(number);
    }
    writer_.End();
    return *this;
  }
  Records& Out() {
    writer_.End();
    return *this;
  }
  StateWriter& writer() { return writer_; }

 private:
  StateWriter writer_;
};

// Returns the answer of a boundary without GPUs to rows that it loads.
template <class Write>
std::string Verdict(const Write& write) {
  ledger::Ledger ledger({1, 1}, {8, 64, 8, 8});
  Boundary boundary(rm::GetAbi(rm::Branch::k550), std::vector<GpuIds>(2), ledger);
  Records records;
  records.In(1).Row(2, {0}).Row(2, {0});
  write(records);
  records.Out();
  const std::string bytes = records.writer().Take();
  StateReader reader(bytes);
  (void)reader.Enter();
  const Result<> loaded = boundary.Load(reader);
  const std::string what = loaded.ok() ? "" : loaded.error().what;
  const std::size_t colon = what.find(": ");
  return colon == std::string::npos ? what : what.substr(colon + 2);
}

std::string VerdictInSpace(
    std::uint64_t key, const std::vector<std::pair<StateTag, std::vector<std::uint64_t>>>& rows) {
  return Verdict([&](Records& to) {
    to.In(3).Row(10, {key}).In(11);
    for (const auto& [tag, numbers] : rows) {
      to.Row(tag, numbers);
    }
    to.Out().Out();
  });
}

std::string VerdictIn(StateTag tracker,
                      const std::vector<std::pair<StateTag, std::vector<std::uint64_t>>>& rows) {
  return Verdict([&](Records& to) {
    to.In(tracker);
    for (const auto& [tag, numbers] : rows) {
      to.Row(tag, numbers);
    }
    to.Out();
  });
}

TEST(BoundaryStateRows, SpacesThatCannotBeAreRefused) {
  constexpr std::uint64_t kKey = Boundary::kFirstSpace;
  EXPECT_EQ(VerdictInSpace(kKey, {}), "");
  EXPECT_EQ(VerdictInSpace(kKey, {{20, {1, 1}}, {21, {0, kMost}}, {22, {1, 1, 1}}}), "");
  EXPECT_EQ(VerdictInSpace(kKey, {{23, {1, 5, 6, 1}}, {23, {1, 6, kMost, 1}}}), "");
  EXPECT_EQ(VerdictInSpace(kKey, {{24, {1, 2, 1, 5, 6, 1}}, {24, {1, 3, 1, 5, 5, 1}}}), "");
  EXPECT_EQ(VerdictInSpace(kKey - 1, {}), "the key of a space");
  EXPECT_EQ(VerdictInSpace(std::uint64_t{1} << 62, {}), "the key of a space");
  EXPECT_EQ(VerdictInSpace(kKey, {{21, {1, kMost}}}), "a range of a space");
  EXPECT_EQ(VerdictInSpace(kKey, {{22, {2, 1, 1}}}), "a GPU that is not granted");
  EXPECT_EQ(VerdictInSpace(kKey, {{23, {2, 5, 6, 1}}}), "a GPU that is not granted");
  EXPECT_EQ(VerdictInSpace(kKey, {{23, {1, 5, 5, 1}}}), "a piece of nothing");
  EXPECT_EQ(VerdictInSpace(kKey, {{23, {1, 5, 7, 1}}, {23, {1, 6, 8, 1}}}), "a piece twice");
  EXPECT_EQ(VerdictInSpace(kKey, {{24, {1, 2, 2, 5, 6, 1}}}), "a GPU that is not granted");
  EXPECT_EQ(VerdictInSpace(kKey, {{24, {1, 2, 1, 6, 5, 1}}}), "a channel's range");
  EXPECT_EQ(VerdictInSpace(kKey, {{24, {1, 2, 1, 5, 6, 1}}, {24, {1, 2, 1, 5, 6, 1}}}),
            "a channel twice");
  EXPECT_EQ(VerdictInSpace(kKey, {{29 | kRequired, {}}}),
            "record 29 is of a newer version of cgpu");
  EXPECT_EQ(
      Verdict([](Records& to) { to.In(3).Row(10, {kKey}).Out().In(3).Row(10, {kKey}).Out(); }),
      "a space twice");
}

TEST(BoundaryStateRows, ManagedMemoryThatCannotBeIsRefused) {
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {32, {1, 5, 6}}, {33, {1, 5, 6, 1, 1}}, {34, {1, 5, 5}}}), "");
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {31, {1}}}), "an address space twice");
  EXPECT_EQ(VerdictIn(4, {{35 | kRequired, {7, 1}},
                          {36 | kRequired, {7, 5, 6}},
                          {37 | kRequired, {7, 5, 8}},
                          {33, {1, 5, 6, 1, 1, 8}},
                          {34, {1, 5, 6, 0, 0, 7}}}),
            "");
  EXPECT_EQ(VerdictIn(4, {{35 | kRequired, {0, 1}}}), "an address space without a witness");
  for (const StateTag tag : {StateTag{32}, 36 | kRequired, 37 | kRequired}) {
    EXPECT_EQ(VerdictIn(4, {{tag, {1, 5, 6}}}), "a mapping in an unknown address space");
  }
  EXPECT_EQ(VerdictIn(4, {{33, {0, 5, 6, 1, 1}}}), "a mapping without a witness");
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {32, {1, 6, 5}}}), "a range of addresses");
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {32, {1, 6, kMost}}}), "a range of addresses");
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {34, {1, 6, 5}}}), "a range of addresses");
  EXPECT_EQ(VerdictIn(4, {{31, {1}}, {33, {1, 5, 6, 1, 1}}, {33, {1, 5, 6, 1, 1}}}),
            "a thread twice");
}

TEST(BoundaryStateRows, DmaTrackersThatCannotBeAreRefused) {
  EXPECT_EQ(VerdictIn(5, {{40, {1, 1, 1}}, {41, {7, 1, 1, 1, 0}}, {42, {7, 5, 6, 1, 1, 1, 1}}}),
            "");
  EXPECT_EQ(VerdictIn(5, {{41, {7, 1, 1, 2, 0}}}), "a GPU that is not granted");
  EXPECT_EQ(VerdictIn(5, {{41, {7, 1, 1, 1, 0}}, {41, {7, 1, 1, 1, 0}}}), "a range twice");
  EXPECT_EQ(VerdictIn(5, {{42, {7, 5, 6, 1, 1, 1, 1}}}), "a mapping in a range that is not there");
  EXPECT_EQ(VerdictIn(5, {{41, {7, 1, 1, 1, 0}}, {42, {7, 6, 6, 1, 1, 1, 1}}}),
            "a mapping of nothing");
  EXPECT_EQ(Verdict([](Records& to) { to.In(5).Out().In(5).Out(); }), "a client's tracker twice");
  EXPECT_EQ(Verdict([](Records& to) { to.Row(2, {0}); }), "there are more GPUs, or fewer");
}

}  // namespace
}  // namespace cgpu::boundary
