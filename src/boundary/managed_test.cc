#include "boundary/managed.h"

#include <gtest/gtest.h>

#include "boundary/managed_book.h"
#include "boundary/page_tables.h"
#include "ledger/ledger.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kBase = 0x100000000000;
constexpr std::uint64_t kTable = PageTables::kTableBytes;

constexpr std::uint64_t kReadWrite = 3;
constexpr std::uint64_t kShared = 1;
constexpr std::uint64_t kFixed = 0x10;
constexpr std::uint64_t kNoReplace = 0x100000;

TEST(PageTables, CountsEachTableOnceAndGivesItBack) {
  PageTables tables;
  tables.Map(kBase, kBase + 4096);
  EXPECT_EQ(tables.Bytes(), 4 * kTable) << "one of each level";
  tables.Map(kBase + kMib, kBase + kMib + 4096);
  EXPECT_EQ(tables.Bytes(), 4 * kTable) << "in the same tables";
  tables.Map(kBase + 2 * kMib, kBase + 2 * kMib + 4096);
  EXPECT_EQ(tables.Bytes(), 5 * kTable) << "the next 2 MiB";
  tables.Map(kBase + 512 * kMib, kBase + 1536 * kMib);
  EXPECT_EQ(tables.Bytes(), (5 + 512 + 2) * kTable);
  tables.Unmap(kBase, kBase + 4096);
  EXPECT_EQ(tables.Bytes(), (5 + 512 + 2) * kTable);
  tables.Unmap(kBase + kMib, kBase + kMib + 4096);
  EXPECT_EQ(tables.Bytes(), (4 + 512 + 2) * kTable);
  tables.Unmap(kBase + 512 * kMib, kBase + 1536 * kMib);
  tables.Unmap(kBase + 2 * kMib, kBase + 2 * kMib + 4096);
  EXPECT_EQ(tables.Bytes(), 0U);
}

MmapKind Judge(std::uint64_t address, std::uint64_t flags, std::uint64_t offset, bool uvm,
               std::uint64_t prot = kReadWrite, std::uint64_t length = kMib) {
  AddressRange range;
  return JudgeMmap({address, length, prot, flags, offset}, uvm, &range);
}

TEST(JudgeMmap, WhatLiesWhereItsOffsetSaysIsManagedWhateverTheFile) {
  for (const bool uvm : {false, true}) {
    EXPECT_EQ(Judge(kBase, kShared | kFixed, kBase, uvm), MmapKind::kManaged);
    EXPECT_EQ(Judge(kBase, kShared | kNoReplace, kBase, uvm), MmapKind::kManaged);
    EXPECT_EQ(Judge(kBase, 3 | kFixed, kBase, uvm), MmapKind::kManaged) << "MAP_SHARED_VALIDATE";
    EXPECT_EQ(Judge(kBase, kShared, kBase, uvm), MmapKind::kManaged) << "a hint";
    EXPECT_EQ(Judge(kBase - 1, kShared, kBase, uvm), MmapKind::kManaged) << "rounded up";
    EXPECT_EQ(Judge(kBase + 4095, kShared, kBase, uvm), MmapKind::kManaged) << "rounded down";
  }
}

TEST(JudgeMmap, WhatTheKernelPlacesIsManagedOrSuspectByTheFile) {
  EXPECT_EQ(Judge(0, kShared, kBase, true), MmapKind::kManaged);
  EXPECT_EQ(Judge(0, kShared, kBase, false), MmapKind::kSuspect);
  EXPECT_EQ(Judge(kBase + 4096, kShared, kBase, false), MmapKind::kSuspect);
}

TEST(JudgeMmap, WhatUvmRefusesIsHarmless) {
  EXPECT_EQ(Judge(kBase, kShared | kFixed, kBase + 4096, true), MmapKind::kHarmless);
  EXPECT_EQ(Judge(kBase, kShared | kFixed, kBase, true, 1), MmapKind::kHarmless);
  EXPECT_EQ(Judge(kBase, kShared | kFixed | 0x20, kBase, true), MmapKind::kHarmless);
  EXPECT_EQ(Judge(kBase, 2 | kFixed, kBase, true), MmapKind::kHarmless);
  EXPECT_EQ(Judge(kBase, kShared | kFixed, kBase, true, kReadWrite, 0), MmapKind::kHarmless);
  EXPECT_EQ(Judge(0, kShared, ~std::uint64_t{4095}, true), MmapKind::kHarmless);
  EXPECT_EQ(Judge(kBase, kShared, kBase, true, kReadWrite, ~std::uint64_t{0}), MmapKind::kHarmless);
}

TEST(ManagedBytes, WholeBlocksOnceAndTables) {
  EXPECT_EQ(ManagedBytes({}), 0U);
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4096}}), 2 * kMib + 4 * kTable);
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4096}, {kBase + kMib, kBase + kMib + 4096}}),
            2 * kMib + 4 * kTable)
      << "one block";
  EXPECT_EQ(ManagedBytes({{kBase + kMib, kBase + 3 * kMib}}), 4 * kMib + 5 * kTable);
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4 * kMib}, {kBase, kBase + 4 * kMib}}),
            4 * kMib + 5 * kTable)
      << "the same twice";
}

class ManagedBookTest : public ::testing::Test {
 protected:
  ManagedBookTest() {
    EXPECT_TRUE(book_.SetCards({0}));
    book_.SetAnySpace(true);
  }
  static AddressRange Piece(std::uint64_t index) {
    return {kBase + index * 256 * kMib, kBase + (index + 1) * 256 * kMib};
  }

  ledger::Ledger ledger_{{1024 * kMib, 512 * kMib}, {8, 64, 8, 8}};
  ManagedBook book_{ledger_};
};

TEST_F(ManagedBookTest, ChargesBeforeAndSettlesAfter) {
  ASSERT_EQ(book_.Charge(1, 10, Piece(0)), std::nullopt);
  const std::uint64_t one = ledger_.Used(0);
  EXPECT_GT(one, 256 * kMib);
  // It is not known to be over: whatever is shown, the charge stays.
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {}));
  EXPECT_EQ(ledger_.Used(0), one);
  book_.Over(10);
  EXPECT_EQ(ledger_.Used(0), one) << "no look has settled it";
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {Piece(0)}));
  EXPECT_EQ(ledger_.Used(0), one);
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {}));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(book_.Processes().empty());
}

TEST_F(ManagedBookTest, ALookThatBeganBeforeTheEndDoesNotSettle) {
  ASSERT_EQ(book_.Charge(1, 10, Piece(0)), std::nullopt);
  const auto look = book_.BeginLook();
  book_.Over(10);
  EXPECT_TRUE(book_.Settle(1, look, {}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {}));
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(ManagedBookTest, RefusesWhatDoesNotFit) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(book_.Charge(1, 10 + i, Piece(static_cast<std::uint64_t>(i))), std::nullopt);
  }
  const std::uint64_t used = ledger_.Used(0);
  EXPECT_EQ(book_.Charge(1, 13, Piece(3)), 0U);
  EXPECT_EQ(ledger_.Used(0), used);
}

TEST_F(ManagedBookTest, AWatchedMappingIsChargedWhenItAppears) {
  book_.Watch(1, 10, Piece(0));
  EXPECT_EQ(ledger_.Used(0), 0U);
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {})) << "nothing came of it yet";
  EXPECT_TRUE(book_.Settle(1, book_.BeginLook(), {Piece(0)}));
  EXPECT_GT(ledger_.Used(0), 256 * kMib);
  book_.Watch(1, 11, {kBase, kBase + 2048 * kMib});
  EXPECT_FALSE(book_.Settle(1, book_.BeginLook(), {{kBase, kBase + 2048 * kMib}}));
  EXPECT_GT(ledger_.Used(0), 2048 * kMib) << "charged all the same";
}

TEST_F(ManagedBookTest, LiesOnEveryCardThatIsRegistered) {
  ASSERT_EQ(book_.Charge(1, 10, Piece(0)), std::nullopt);
  EXPECT_EQ(ledger_.Used(1), 0U);
  ASSERT_TRUE(book_.SetCards({0, 1}));
  EXPECT_GT(ledger_.Used(1), 256 * kMib);
  ASSERT_TRUE(book_.SetCards({0}));
  EXPECT_EQ(ledger_.Used(1), 0U);
  ASSERT_EQ(book_.Charge(1, 11, Piece(1)), std::nullopt);
  EXPECT_FALSE(book_.SetCards({0, 1})) << "512 MiB and tables do not fit";
  EXPECT_EQ(ledger_.Used(1), 0U);
  book_.Remove(1);
  EXPECT_EQ(ledger_.Used(0), 0U);
}

TEST_F(ManagedBookTest, WithoutASpaceNothingComesOfAMapping) {
  book_.SetAnySpace(false);
  book_.Watch(1, 10, Piece(0));
  book_.Over(10);
  EXPECT_EQ(book_.Unsettled(), 0U);
}

}  // namespace
}  // namespace cgpu::boundary
