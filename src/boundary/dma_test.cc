#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "boundary/dma_tracker.h"
#include "boundary/testing.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {
namespace {

constexpr ledger::ObjectRef kRangeRef{0x50, 7};

DmaMapping At(std::uint64_t start, std::uint64_t length, std::uint64_t memory = 20) {
  DmaMapping mapping;
  mapping.start = start;
  mapping.end = start + length;
  mapping.device = 1;
  mapping.memory = memory;
  mapping.handle = static_cast<ledger::Handle>(memory);
  return mapping;
}

class DmaTrackerTest : public testing::Test {
 protected:
  DmaTrackerTest() { tracker_.AddRange(kRangeRef, kRangeRef.serial, 0, RangeTables::kOfMappings); }
  DmaTracker tracker_{{0xc1d00001, 3}, 1};
};

TEST_F(DmaTrackerTest, CountsTheTablesOfAMapping) {
  EXPECT_EQ(tracker_.Need(7, At(0, 4096), true), TableBytes(1, 4));  // a root and four more
  tracker_.Add(7, At(0, 4096));
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(1, 4));
  EXPECT_EQ(tracker_.Bytes(1), 0U);
  EXPECT_EQ(tracker_.Need(7, At(8192, 4096), true), 0U);
  EXPECT_EQ(tracker_.Need(7, At(4 * kMib, 4096), true), TableBytes(1, 0));
  EXPECT_EQ(tracker_.Need(7, At(std::uint64_t{1} << 47, 4096), true), TableBytes(1, 3));
  EXPECT_GE(tracker_.Need(7, At(0, 4096), false), TableBytes(1, 4));
  tracker_.Remove(7, 2, 0, 0);  // through another device
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(1, 4));
  tracker_.Remove(7, 1, 0, 0);
  EXPECT_EQ(tracker_.Bytes(0), 0U);
}

// Their number has a quota (kMaxDmaMappings).
TEST_F(DmaTrackerTest, CountsMappingsAndKeptPlaces) {
  tracker_.AddRange({0x51, 8}, kRangeRef.serial, 0, RangeTables::kKept);
  tracker_.Add(7, At(0, 4096));
  tracker_.Add(7, At(4096, 4096));
  EXPECT_EQ(tracker_.mappings(), 2U);
  tracker_.Add(8, At(64 * kMib, 4096));
  EXPECT_EQ(tracker_.mappings(), 4U) << "it and its place";
  tracker_.Remove(8, 1, 64 * kMib, 0);
  tracker_.Add(8, At(64 * kMib, 4096));
  tracker_.Remove(8, 1, 64 * kMib, 0);
  EXPECT_EQ(tracker_.mappings(), 3U) << "the place is kept once";
  tracker_.Forget(8);
  tracker_.Remove(7, 1, 0, 0);
  EXPECT_EQ(tracker_.mappings(), 1U);
}

TEST_F(DmaTrackerTest, RangesOfOneSpaceShareTables) {
  tracker_.AddRange({0x51, 8}, kRangeRef.serial, 0, RangeTables::kOfMappings);
  tracker_.Add(7, At(0, 4096));
  tracker_.Add(8, At(8192, 4096));
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(1, 4));
  tracker_.Forget(7);
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(1, 4));
  EXPECT_EQ(tracker_.Need(7, At(0, 4096), true), 0U) << "nothing can be mapped into it";
  tracker_.Forget(8);
  EXPECT_EQ(tracker_.Bytes(0), 0U);
  EXPECT_TRUE(tracker_.empty());
}

TEST_F(DmaTrackerTest, WhatIsMappedGoesWithItsMemory) {
  tracker_.Add(7, At(0, 4096, 20));
  tracker_.Add(7, At(4 * kMib, 4096, 20));
  tracker_.Add(7, At(8 * kMib, 4096, 21));
  tracker_.Forget(20);
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(1, 4));
  tracker_.Sweep([](ledger::ObjectRef object) { return object.serial != 21; });
  EXPECT_EQ(tracker_.Bytes(0), 0U);
}

TEST_F(DmaTrackerTest, AnIntervalWithTablesOfItsOwnNeedsNoMore) {
  tracker_.AddRange({0x51, 8}, kRangeRef.serial, 0, RangeTables::kCovered);
  EXPECT_EQ(tracker_.Need(8, At(0, 64 * kMib), true), 0U);
  tracker_.Add(8, At(0, 64 * kMib));
  EXPECT_EQ(tracker_.Bytes(0), 0U);
  tracker_.Remove(8, 1, 0, 0);
  EXPECT_EQ(tracker_.Bytes(0), 0U);
}

TEST_F(DmaTrackerTest, CutsMappings) {
  tracker_.Add(7, At(0, 64 * kMib));
  const std::uint64_t whole = tracker_.Bytes(0);
  tracker_.Remove(7, 1, 16 * kMib, 16 * kMib);
  EXPECT_EQ(tracker_.Bytes(0), whole - TableBytes(8, 0));
  tracker_.Remove(7, 1, 8 * kMib, 1024 * kMib);
  EXPECT_EQ(tracker_.Bytes(0), TableBytes(4, 4));
  tracker_.Remove(7, 1, 0, ~std::uint64_t{0});
  EXPECT_EQ(tracker_.Bytes(0), 0U);
}

// Compares with the set of all tables that some mapping needs, counted one by one: never less, and
// nothing after everything is undone. The stated maximum is one.
TEST_F(DmaTrackerTest, IsNeverLessThanWhatIsNeeded) {
  std::mt19937_64 random(1);
  std::vector<DmaMapping> mappings;
  const auto real = [&] {
    std::set<std::pair<unsigned, std::uint64_t>> tables;
    for (const DmaMapping& mapping : mappings) {
      for (const unsigned shift : {21U, 29U, 38U, 47U, 63U}) {
        for (std::uint64_t at = mapping.start >> shift; at <= (mapping.end - 1) >> shift; ++at) {
          tables.emplace(shift, at);
        }
      }
    }
    return tables.size() * kTable;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t start = random() % 512 * (kMib / 2);
    const DmaMapping mapping = At(start, (1 + random() % 32) * kMib / 2, 20 + random() % 4);
    const bool free = std::none_of(mappings.begin(), mappings.end(), [&](const DmaMapping& other) {
      return other.start < mapping.end && mapping.start < other.end;
    });
    if (free) {
      const std::uint64_t before = tracker_.Bytes(0);
      const std::uint64_t need = tracker_.Need(7, mapping, true);
      EXPECT_LE(need, tracker_.Need(7, mapping, false));
      tracker_.Add(7, mapping);
      EXPECT_EQ(tracker_.Bytes(0), before + need);
      mappings.push_back(mapping);
    } else if (random() % 16 == 0) {
      const std::uint64_t gone = 20 + random() % 4;
      tracker_.Forget(gone);
      std::erase_if(mappings, [&](const DmaMapping& m) { return m.memory == gone; });
    } else {
      const std::size_t which = random() % mappings.size();
      tracker_.Remove(7, 1, mappings[which].start,
                      random() % 2 == 0 ? 0 : mappings[which].end - mappings[which].start);
      mappings.erase(mappings.begin() + static_cast<std::ptrdiff_t>(which));
    }
    EXPECT_GE(tracker_.Bytes(0), real());
  }
  for (const std::uint64_t memory : {20U, 21U, 22U, 23U}) {
    tracker_.Forget(memory);
  }
  EXPECT_EQ(tracker_.Bytes(0), 0U);
}

class DmaTest : public BoundaryTest {
 protected:
  void SetUp() override {
    MakeSubdevice();
    ASSERT_EQ(AllocMemory(kMemory, kMib), rm::NV_OK);
    rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
    ASSERT_EQ(Alloc(kDevice, kRange, rm::NV01_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
    before_ = ledger_->Used(0);
  }

  // `given`: the address that the driver chooses.
  std::uint32_t Map(std::uint32_t memory, std::uint32_t range, std::uint64_t length,
                    std::uint64_t given, bool fixed = true, std::uint32_t driver_says = rm::NV_OK) {
    rm::NVOS46_PARAMETERS_V535 map{};
    map.hClient = kClient;
    map.hDevice = kDevice;
    map.hDma = range;
    map.hMemory = memory;
    map.length = length;
    map.flags = fixed ? 1U << 15 : 0;
    map.dmaOffset = fixed ? given : 0;
    Call call;
    call.process = 1;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_MAP_MEMORY_DMA, map, call), 0);
    EXPECT_TRUE(call.ChangesState());
    Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      Store(call.image, given, offsetof(rm::NVOS46_PARAMETERS_V535, dmaOffset));
      SetStatus(call, driver_says);
      EXPECT_FALSE(boundary_->Account(call, decision, 0).has_value());
    }
    return StatusOf(call).value();
  }

  void Unmap(std::uint32_t range, std::uint64_t address, std::uint64_t size) {
    rm::NVOS47_PARAMETERS_V550 unmap{kClient, kDevice, range, kMemory, 0, address, size, 0};
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_UNMAP_MEMORY_DMA, unmap, call), 0);
    Decision decision = boundary_->Decide(call);
    EXPECT_FALSE(Execute(call, decision).has_value());
  }

  [[nodiscard]] std::uint64_t Tables() const { return ledger_->Used(0) - before_; }

  static constexpr std::uint32_t kMemory = 0x30;
  static constexpr std::uint32_t kRange = 0x40;
  std::uint64_t before_ = 0;
};

TEST_F(DmaTest, ChargesThePageTablesOfMappings) {
  EXPECT_EQ(Map(kMemory, kRange, kMib, kMib), rm::NV_OK);
  EXPECT_EQ(Tables(), TableBytes(1, 4));
  EXPECT_EQ(Map(kMemory, kRange, kMib, 5 * kMib, false), rm::NV_OK);
  EXPECT_EQ(Tables(), TableBytes(2, 4));
  EXPECT_EQ(Map(kMemory, kRange, kMib, 9 * kMib, true, rm::NV_ERR_INVALID_ARGUMENT),
            rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Tables(), TableBytes(2, 4));
  Unmap(kRange, kMib, 0);
  EXPECT_EQ(Tables(), TableBytes(1, 4));
  Unmap(kRange, 5 * kMib, kMib);
  EXPECT_EQ(Tables(), 0U);
}

TEST_F(DmaTest, RefusesWhatTheLimitHasNoRoomFor) {
  // Half a TiB in pages of 4 KiB: 1 GiB of tables.
  EXPECT_EQ(Map(kMemory, kRange, std::uint64_t{1} << 39, 0), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(Map(kMemory, kRange, std::uint64_t{1} << 39, 0, false), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(Map(kMemory, kRange, ~std::uint64_t{0}, kMib), rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Map(kMemory, kRange, 0, 0), rm::NV_ERR_INVALID_LIMIT);
  EXPECT_EQ(Map(kMemory, 0x99, kMib, 0), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Map(0x99, kRange, kMib, 0), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Map(kMemory, kMemory, kMib, 0), rm::NV_ERR_INVALID_OBJECT_HANDLE);
  EXPECT_EQ(Tables(), 0U);
}

TEST_F(DmaTest, MappingsGoWithTheirMemoryTheirRangeAndWhatIsAboveThem) {
  EXPECT_EQ(Map(kMemory, kRange, kMib, 0), rm::NV_OK);
  ASSERT_EQ(Free(kMemory), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), before_ - rm::RoundVidmem(kMib, 0, 0));
  before_ = ledger_->Used(0);
  ASSERT_EQ(AllocMemory(kMemory, kMib), rm::NV_OK);
  const std::uint64_t with = ledger_->Used(0);
  EXPECT_EQ(Map(kMemory, kRange, kMib, 0), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), with + TableBytes(1, 4));
  ASSERT_EQ(Free(kRange), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), with);
  EXPECT_EQ(Map(kMemory, kRange, kMib, 0), rm::NV_ERR_OBJECT_NOT_FOUND);
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  ASSERT_EQ(Alloc(kDevice, kRange, rm::NV01_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
  EXPECT_EQ(Map(kMemory, kRange, kMib, 0), rm::NV_OK);
  ASSERT_EQ(Free(kDevice), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(DmaTest, AClientThatIsGoneLeavesNothing) {
  EXPECT_EQ(Map(kMemory, kRange, kMib, 0), rm::NV_OK);
  EXPECT_TRUE(ledger_->RemoveClient(ledger_->FindClient(kClient)->ref));
  boundary_->DropGoneClients();
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(DmaTest, IntervalsAreChargedWithTheirTables) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = 64 * kMib;
  params.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL;
  ASSERT_EQ(Alloc(kDevice, 0x50, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
  const std::uint64_t whole = Tables();
  EXPECT_GE(whole, TableBytes(32, 4));
  EXPECT_EQ(Map(kMemory, 0x50, kMib, 0), rm::NV_OK);
  EXPECT_EQ(Tables(), whole) << "it has them already";
  ASSERT_EQ(Free(0x50), rm::NV_OK);
  EXPECT_EQ(Tables(), 0U);
  rm::NV_MEMORY_ALLOCATION_PARAMS lazy = params;
  lazy.flags |= rm::NVOS32_ALLOC_FLAGS_LAZY;
  lazy.size = std::uint64_t{1} << 46;
  ASSERT_EQ(Alloc(kDevice, 0x50, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(lazy)), rm::NV_OK);
  EXPECT_EQ(Tables(), 0U);
  EXPECT_EQ(Map(kMemory, 0x50, kMib, 0), rm::NV_OK);
  EXPECT_EQ(Tables(), TableBytes(1, 4));
  rm::NV_MEMORY_ALLOCATION_PARAMS big_pages = params;
  big_pages.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_HUGE);
  const std::uint64_t before = Tables();
  ASSERT_EQ(Alloc(kDevice, 0x52, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(big_pages)), rm::NV_OK);
  EXPECT_GE(Tables() - before, TableBytes(32, 4)) << "the driver takes as much as for small ones";
  rm::NV_MEMORY_ALLOCATION_PARAMS huge = lazy;
  huge.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL;
  EXPECT_EQ(Alloc(kDevice, 0x51, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(huge)),
            rm::NV_ERR_NO_MEMORY);
}

TEST_F(DmaTest, SparseRangesKeepTheirTables) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = 64 * kMib;
  params.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL | rm::NVOS32_ALLOC_FLAGS_SPARSE;
  ASSERT_EQ(Alloc(kDevice, 0x50, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
  const std::uint64_t ends = Tables();
  EXPECT_GE(ends, TableBytes(2, 0));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t at = 0; at < 16; ++at) {
      ASSERT_EQ(Map(kMemory, 0x50, 4096, at * 2 * kMib), rm::NV_OK);
      Unmap(0x50, at * 2 * kMib, 4096);
    }
    EXPECT_EQ(Tables() - ends, TableBytes(16, 4)) << round;
  }
  ASSERT_EQ(Free(0x50), rm::NV_OK);
  EXPECT_EQ(Tables(), 0U);
  params.flags |= rm::NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED;
  ASSERT_EQ(Alloc(kDevice, 0x51, rm::NV50_MEMORY_VIRTUAL, memory_.Lend(params)), rm::NV_OK);
  EXPECT_EQ(Tables(), ends) << "whoever manages it";
}

}  // namespace
}  // namespace cgpu::boundary
