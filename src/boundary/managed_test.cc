#include "boundary/managed.h"

#include <gtest/gtest.h>

#include "boundary/page_tables.h"
#include "boundary/testing.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint64_t kReadWrite = 3;
constexpr std::uint64_t kShared = 1;
constexpr std::uint64_t kFixed = 0x10;
constexpr std::uint64_t kNoReplace = 0x100000;

TEST(PageTables, CountsEachTableOnceAndGivesItBack) {
  PageTables tables;
  tables.Map(kBase, kBase + 4096);
  EXPECT_EQ(tables.Bytes(), TableBytes(1, 3)) << "one of each level";
  tables.Map(kBase + kMib, kBase + kMib + 4096);
  EXPECT_EQ(tables.Bytes(), TableBytes(1, 3)) << "in the same tables";
  tables.Map(kBase + 2 * kMib, kBase + 2 * kMib + 4096);
  EXPECT_EQ(tables.Bytes(), TableBytes(2, 3)) << "the next 2 MiB";
  tables.Map(kBase + 512 * kMib, kBase + 1536 * kMib);
  EXPECT_EQ(tables.Bytes(), TableBytes(2 + 512, 3 + 2));
  tables.Unmap(kBase, kBase + 4096);
  EXPECT_EQ(tables.Bytes(), TableBytes(2 + 512, 3 + 2));
  tables.Unmap(kBase + kMib, kBase + kMib + 4096);
  EXPECT_EQ(tables.Bytes(), TableBytes(1 + 512, 3 + 2));
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
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4096}}), 2 * kMib + TableBytes(1, 3));
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4096}, {kBase + kMib, kBase + kMib + 4096}}),
            2 * kMib + TableBytes(1, 3))
      << "one block";
  EXPECT_EQ(ManagedBytes({{kBase + kMib, kBase + 3 * kMib}}), 4 * kMib + TableBytes(2, 3));
  EXPECT_EQ(ManagedBytes({{kBase, kBase + 4 * kMib}, {kBase, kBase + 4 * kMib}}),
            4 * kMib + TableBytes(2, 3))
      << "the same twice";
}

TEST(AddressRanges, AreSets) {
  const AddressRanges set = Ordered({{30, 40}, {10, 20}, {18, 25}, {25, 28}, {50, 50}});
  EXPECT_EQ(set, (AddressRanges{{10, 28}, {30, 40}}));
  EXPECT_EQ(Intersection(set, {{0, 12}, {20, 35}}), (AddressRanges{{10, 12}, {20, 28}, {30, 35}}));
  EXPECT_EQ(Without(set, {{0, 12}, {20, 35}}), (AddressRanges{{12, 20}, {35, 40}}));
  EXPECT_EQ(Without({{0, 100}}, set), (AddressRanges{{0, 10}, {28, 30}, {40, 100}}));
  EXPECT_EQ(Union({{28, 30}}, set), (AddressRanges{{10, 40}}));
}

}  // namespace
}  // namespace cgpu::boundary
