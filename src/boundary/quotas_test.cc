#include "boundary/quotas.h"

#include <gtest/gtest.h>

#include "boundary/testing.h"

namespace cgpu::boundary {
namespace {

TEST(Quotas, AreInProportionToTheGrant) {
  const auto whole = QuotasOf(16160 * kMib, 16160 * kMib, 16384 * kMib);
  EXPECT_EQ(whole.channels, 1008U);
  EXPECT_EQ(whole.channel_groups, 1008U);
  EXPECT_LE(whole.bar1_bytes, 16384 * kMib / 32 * 31);
  EXPECT_GT(whole.bar1_bytes, 16384 * kMib / 33 * 31);
  const auto unit = QuotasOf(1024 * kMib, 15360 * kMib, 256 * kMib);
  EXPECT_EQ(unit.channels, 112U);
  EXPECT_GT(unit.bar1_bytes, 16 * kMib);
  EXPECT_LT(unit.bar1_bytes, 17 * kMib);
  EXPECT_EQ(QuotasOf(7 * kMib, 0, 64 * kMib).channels, 1008U) << "no total: all of it";
  EXPECT_EQ(QuotasOf(9 * kMib, 7 * kMib, 64 * kMib).channels, 1008U) << "never more than all";
  EXPECT_EQ(QuotasOf(0, 7 * kMib, 64 * kMib).bar1_bytes, 0U);
  EXPECT_EQ(QuotasOf(7 * kMib, 7 * kMib, 0).bar1_bytes, 0U);
}

TEST(Quotas, SlicesTogetherLeaveRoom) {
  constexpr std::uint64_t kTotal = 81559 * kMib;
  constexpr std::uint64_t kWindow = 256 * kMib;
  for (std::uint64_t slices = 1; slices <= 20; ++slices) {
    const auto each = QuotasOf(kTotal / slices, kTotal, kWindow);
    EXPECT_LE(each.channels * slices, 1920U);
    EXPECT_LE(each.channel_groups * slices, 1920U);
    EXPECT_LE(each.bar1_bytes * slices, kWindow);
  }
}

TEST(Quotas, TheSmallestSliceHasRoomForAContext) {
  constexpr std::uint64_t kTotal = 81559 * kMib;
  EXPECT_GE(QuotasOf(kMib, kTotal, kMib).channels, 45U) << "with 32 connections";
  EXPECT_EQ(EncodersOf(kMib, kTotal), 1U);
  EXPECT_EQ(EncodersOf(kTotal / 4 + kMib, kTotal), 2U);
  EXPECT_EQ(EncodersOf(kTotal, kTotal), 8U);
  EXPECT_EQ(EncodersOf(5 * kMib, 0), 8U) << "no total: all of it";
}

TEST(Quotas, NothingOverflows) {
  const auto huge = QuotasOf(kMost, kMost, kMost);
  EXPECT_EQ(huge.channels, 1008U);
  EXPECT_GT(huge.bar1_bytes, kMost / 32 * 30);
}

TEST(Quotas, ViewsTakeWholePages) {
  EXPECT_EQ(Bar1Bytes(0, 1, 4096), 4096U);
  EXPECT_EQ(Bar1Bytes(4095, 2, 4096), 8192U);
  EXPECT_EQ(Bar1Bytes(0x1ff000, 0x2000, 2 * kMib), 4 * kMib);
  EXPECT_EQ(Bar1Bytes(0, 0, 4096), 0U);
  EXPECT_EQ(Bar1Bytes(5, kMost - 4, 4096), kMost);
  EXPECT_EQ(Bar1Bytes(0, kMost, 4096), kMost);
}

TEST_F(BoundaryTest, ViewsOfGpuMemoryAreBoundedByTheSlicesPartOfBar1) {
  MakeSubdevice();
  boundary_->SetSizes(0, {0, 0, 64 * kMib});  // 62 MiB without the driver's own
  EXPECT_EQ(AllocMemory(0x20, 64 * kMib), rm::NV_OK);
  rm::NV_MEMORY_ALLOCATION_PARAMS system{};
  system.size = 64 * kMib;
  EXPECT_EQ(Alloc(kDevice, 0x21, rm::NV01_MEMORY_SYSTEM, memory_.Lend(system)), rm::NV_OK);
  const auto map = [&](std::uint32_t memory, std::uint64_t bytes, std::uint64_t address) {
    rm::nv_ioctl_nvos33_parameters_with_fd params{};
    params.params = {kClient, kDevice, memory, 0, bytes, address, 0, 0};
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_MAP_MEMORY, params, call), 0);
    call.fd->file = File{FileKind::kGpu, 0, true};
    Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      (void)Execute(call, decision);
    }
    return StatusOf(call).value();
  };
  EXPECT_EQ(map(0x99, kMib, 1), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(map(0x20, 64 * kMib, 1), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(map(0x21, 64 * kMib, 1), rm::NV_OK) << "not through BAR1";
  EXPECT_EQ(map(0x20, 61 * kMib, 1), rm::NV_OK);
  EXPECT_EQ(ledger_->Bar1Used(0), 62 * kMib) << "in the memory's own pages of 2 MiB";
  EXPECT_EQ(map(0x20, 4096, 2), rm::NV_ERR_NO_MEMORY);
  rm::NVOS56_PARAMETERS update{kClient, kDevice, 0x20, 1, 7, 0};
  Call moved;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, update, moved), 0);
  EXPECT_TRUE(moved.ChangesState());
  Decision decision = boundary_->Decide(moved);
  (void)Execute(moved, decision);
  rm::NVOS34_PARAMETERS unmap{kClient, kDevice, 0x20, 7, 0, 0};
  Call unmapped;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_UNMAP_MEMORY, unmap, unmapped), 0);
  decision = boundary_->Decide(unmapped);
  (void)Execute(unmapped, decision);
  EXPECT_EQ(ledger_->Bar1Used(0), 0U);
  EXPECT_EQ(map(0x20, 4096, 2), rm::NV_OK);
}

}  // namespace
}  // namespace cgpu::boundary
