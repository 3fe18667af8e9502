#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "rm/class_table.h"
#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/fb_info.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::rm {
namespace {

const Abi& kOn550 = GetAbi(Branch::k550);
const Abi& kOn580 = GetAbi(Branch::k580);

TEST(Escapes, EachIsFoundByItsNumberAndOnlyThose) {
  std::set<unsigned> known;
  for (const EscapeRow& row : EscapeRows()) {
    EXPECT_EQ(FindEscape(row.nr), &row) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
    known.insert(row.nr);
  }
  EXPECT_EQ(known.size(), EscapeRows().size());
  for (unsigned nr = 0; nr < 256; ++nr) {
    EXPECT_EQ(FindEscape(static_cast<NvU8>(nr)) != nullptr, known.contains(nr)) << nr;
  }
}

TEST(Escapes, SizesByBranch) {
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_RM_ALLOC, 32));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_RM_ALLOC, 48));
  EXPECT_FALSE(EscapeAcceptsSize(kOn550, NV_ESC_RM_ALLOC, 40));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_RM_MAP_MEMORY_DMA, 56));
  EXPECT_FALSE(EscapeAcceptsSize(kOn550, NV_ESC_RM_MAP_MEMORY_DMA, 64));
  EXPECT_TRUE(EscapeAcceptsSize(kOn580, NV_ESC_RM_MAP_MEMORY_DMA, 64));
  EXPECT_FALSE(EscapeAcceptsSize(kOn580, NV_ESC_RM_MAP_MEMORY_DMA, 56));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_CARD_INFO, 72 * 32));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_CARD_INFO, 1));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_ATTACH_GPUS_TO_FD, 12));
  EXPECT_FALSE(EscapeAcceptsSize(kOn550, NV_ESC_ATTACH_GPUS_TO_FD, 0));
  EXPECT_FALSE(EscapeAcceptsSize(kOn550, NV_ESC_ATTACH_GPUS_TO_FD, 6));
  EXPECT_TRUE(EscapeAcceptsSize(kOn550, NV_ESC_WAIT_OPEN_COMPLETE, 0));
  EXPECT_FALSE(EscapeAcceptsSize(kOn580, NV_ESC_WAIT_OPEN_COMPLETE, 0));
  EXPECT_FALSE(EscapeAcceptsSize(kOn550, 0x01, 16));
}

TEST(AnyDriverAccepts, IgnoresTypeAndDirection) {
  for (NvU32 direction = 0; direction < 4; ++direction) {
    for (NvU32 type = 0; type < 256; ++type) {
      const NvU32 request = (direction << 30) | (48U << 16) | (type << 8) | NV_ESC_RM_ALLOC;
      EXPECT_TRUE(AnyDriverAccepts(request)) << std::hex << request;
    }
  }
  EXPECT_TRUE(AnyDriverAccepts(0xC030472B));
}

TEST(AnyDriverAccepts, TakesTheSizesOfEveryBranch) {
  EXPECT_TRUE(AnyDriverAccepts(EscapeRequest(NV_ESC_RM_MAP_MEMORY_DMA, 56)));
  EXPECT_TRUE(AnyDriverAccepts(EscapeRequest(NV_ESC_RM_MAP_MEMORY_DMA, 64)));
  EXPECT_FALSE(AnyDriverAccepts(EscapeRequest(NV_ESC_RM_MAP_MEMORY_DMA, 60)));
  EXPECT_FALSE(AnyDriverAccepts(EscapeRequest(NV_ESC_RM_ALLOC, 31)));
}

TEST(AnyDriverAccepts, LeavesOtherPeoplesNumbersAlone) {
  constexpr NvU32 kTcgets = 0x5401;
  constexpr NvU32 kFibmap = 1;
  constexpr NvU32 kFigetbsz = 2;
  constexpr NvU32 kFionread = 0x541B;
  constexpr NvU32 kTiocgptn = 0x80045430;
  for (const NvU32 request : {kTcgets, kFibmap, kFigetbsz, kFionread, kTiocgptn}) {
    EXPECT_FALSE(AnyDriverAccepts(request)) << std::hex << request;
  }
}

TEST(AnyDriverAccepts, KnowsTheWholeNumbersOfUvm) {
  for (const UvmRow& row : UvmRows()) {
    EXPECT_TRUE(AnyDriverAccepts(row.request)) << row.name;
    EXPECT_EQ(FindUvm(row.request), &row);
  }
  EXPECT_TRUE(AnyDriverAccepts(UVM_INITIALIZE));
  EXPECT_TRUE(AnyDriverAccepts(kUvmTestFirst));
  EXPECT_EQ(FindUvm(32), nullptr);
  EXPECT_EQ(UvmParamSize(Branch::k570, 80), 0U);
  EXPECT_EQ(UvmParamSize(Branch::k580, 80), 32U);
}

TEST(Controls, SizesByBranch) {
  EXPECT_EQ(ControlSize(kOn550, NV2080_CTRL_CMD_FB_GET_INFO_V2), 444U);
  EXPECT_EQ(ControlSize(kOn580, NV2080_CTRL_CMD_FB_GET_INFO_V2), 1028U);
  EXPECT_EQ(ControlSize(kOn550, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE), 2U);
  EXPECT_EQ(ControlSize(kOn580, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE), 3U);
  EXPECT_EQ(ControlSize(kOn550, 0x20801FFF), 0U);
  EXPECT_EQ(FindControl(0), nullptr);
  EXPECT_TRUE(FindControl(NV2080_CTRL_CMD_FB_GET_INFO)->embedded_pointers);
  for (const ControlRow& row : ControlRows()) {
    EXPECT_EQ(FindControl(row.cmd), &row) << row.name;
    EXPECT_TRUE(std::any_of(kBranches.begin(), kBranches.end(), [&](Branch branch) {
      return row.Known(branch);
    })) << row.name;
  }
}

TEST(Controls, OfTheFirmwareHaveTheSizeOnRecordOrABound) {
  EXPECT_EQ(ControlSize(kOn580, GSS_LEGACY_8159), 332U);
  EXPECT_TRUE(ControlTakes(kOn580, GSS_LEGACY_8159, 332));
  EXPECT_FALSE(ControlTakes(kOn580, GSS_LEGACY_8159, 331));
  EXPECT_FALSE(ControlTakes(kOn580, GSS_LEGACY_8159, 333));
  EXPECT_FALSE(ControlTakes(kOn580, GSS_LEGACY_8159, 0));
  const Abi& on595 = GetAbi(Branch::k595);
  EXPECT_EQ(ControlSize(on595, GSS_LEGACY_8159), 0U);
  EXPECT_TRUE(ControlKnown(on595, GSS_LEGACY_8159));
  EXPECT_FALSE(ControlTakes(on595, GSS_LEGACY_8159, 0));
  EXPECT_TRUE(ControlTakes(on595, GSS_LEGACY_8159, 1));
  EXPECT_TRUE(ControlTakes(on595, GSS_LEGACY_8159, kMaxFirmwareBytes));
  EXPECT_FALSE(ControlTakes(on595, GSS_LEGACY_8159, kMaxFirmwareBytes + 1));
  EXPECT_FALSE(ControlTakes(on595, 0x20808fff, 1)) << "not on record";
  for (const ControlRow& row : ControlRows()) {
    const ControlRoute route = RouteOf(row.cmd, row.cmd >> 16U);
    const bool firmware =
        route == ControlRoute::kFirmware || route == ControlRoute::kFirmwareByObject;
    EXPECT_EQ(row.most_bytes != 0, firmware) << row.name;
  }
}

TEST(Controls, AreRoutedAsTheDriverDoes) {
  EXPECT_EQ(RouteOf(0x20800000, NV20_SUBDEVICE_0), ControlRoute::kNothing);
  EXPECT_EQ(RouteOf(NV2080_CTRL_CMD_FB_GET_INFO_V2, NV20_SUBDEVICE_0), ControlRoute::kTable);
  EXPECT_EQ(RouteOf(NV2080_CTRL_CMD_FB_GET_INFO_V2, NV2081_BINAPI),
            ControlRoute::kFirmwareByObject);
  EXPECT_EQ(RouteOf(0x20808159, NV20_SUBDEVICE_0), ControlRoute::kFirmware);
  EXPECT_EQ(RouteOf(0xa06f8103, TURING_CHANNEL_GPFIFO_A), ControlRoute::kFirmware);
  EXPECT_EQ(RouteOf(0x2080c001, NV20_SUBDEVICE_0), ControlRoute::kFirmwarePrivileged);
  EXPECT_EQ(RouteOf(0x20808159, NV2081_BINAPI), ControlRoute::kFirmware);
}

TEST(Controls, SomeHaveNoParameters) {
  EXPECT_TRUE(ControlKnown(kOn550, NV2080_CTRL_CMD_GPU_QUERY_INFOROM_ECC_SUPPORT));
  EXPECT_EQ(ControlSize(kOn550, NV2080_CTRL_CMD_GPU_QUERY_INFOROM_ECC_SUPPORT), 0U);
  EXPECT_FALSE(ControlKnown(kOn550, 0x20800000));
  EXPECT_FALSE(ControlKnown(GetAbi(Branch::k535), NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS));
  EXPECT_TRUE(ControlKnown(kOn550, NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS));
}

TEST(EmbeddedPointers, LieInsideTheParametersAndAreBounded) {
  unsigned described = 0;
  for (const ControlRow& row : ControlRows()) {
    for (const EmbeddedPointer& pointer : EmbeddedPointers(row.cmd)) {
      ++described;
      EXPECT_TRUE(row.embedded_pointers) << row.name;
      EXPECT_EQ(pointer.pointer_offset % sizeof(NvP64), 0U) << row.name;
      for (const Branch branch : kBranches) {
        if (row.Known(branch) && branch >= pointer.since) {
          EXPECT_LE(pointer.pointer_offset + sizeof(NvP64), row.Size(branch)) << row.name;
          EXPECT_LE(pointer.count_offset + sizeof(NvU32), row.Size(branch)) << row.name;
        }
      }
      if (pointer.shape == PointerShape::kIgnored) {
        EXPECT_EQ(pointer.Bytes(~NvU32{0}), 0U);
        continue;
      }
      EXPECT_EQ(pointer.Bytes(0), 0U);
      EXPECT_EQ(pointer.Bytes(1), pointer.stride);
      EXPECT_EQ(pointer.Bytes(~NvU32{0}), std::nullopt);
    }
  }
  EXPECT_GT(described, 20U);
  const auto strings = EmbeddedPointers(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION);
  ASSERT_EQ(strings.size(), 3U);
  EXPECT_EQ(strings[0].Bytes(kMaxEmbeddedBytes), kMaxEmbeddedBytes);
  EXPECT_EQ(strings[0].Bytes(kMaxEmbeddedBytes + 1), std::nullopt);
  const auto peers = EmbeddedPointers(NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS);
  ASSERT_EQ(peers.size(), 2U);
  EXPECT_EQ(peers[0].Bytes(8), 8U * 8U * 4U);
  EXPECT_EQ(peers[1].since, Branch::k550);
  EXPECT_TRUE(EmbeddedPointers(NV2080_CTRL_CMD_FB_GET_INFO_V2).empty());
}

TEST(Classes, ParametersByBranch) {
  EXPECT_EQ(ClassParamSize(kOn550, NV01_MEMORY_LOCAL_USER), 128U);
  EXPECT_EQ(ClassParamSize(kOn550, NV01_ROOT), 4U);
  EXPECT_EQ(ClassParamSize(kOn550, VOLTA_CHANNEL_GPFIFO_A), 360U);
  EXPECT_EQ(ClassParamSize(kOn580, TURING_CHANNEL_GPFIFO_A), 368U);
  EXPECT_EQ(ClassParamSize(kOn550, 0xDEAD), 0U);
  EXPECT_EQ(FindClass(NV01_DEVICE_0)->params, ClassParams::kOptional);
  EXPECT_EQ(FindClass(KEPLER_CHANNEL_GROUP_A)->params, ClassParams::kRequired);
  EXPECT_FALSE(ClassKnown(kOn550, BLACKWELL_CHANNEL_GPFIFO_B));
  EXPECT_TRUE(ClassKnown(GetAbi(Branch::k570), BLACKWELL_CHANNEL_GPFIFO_B));
  EXPECT_TRUE(ClassKnown(kOn580, VOLTA_CHANNEL_GPFIFO_A));
  EXPECT_FALSE(ClassKnown(kOn550, 0xDEAD));
  EXPECT_EQ(FindClass(NV01_MEMORY_LOCAL_PHYSICAL)->access, ClassAccess::kRoot);
  EXPECT_TRUE(IsChannelClass(AMPERE_CHANNEL_GPFIFO_A));
  EXPECT_FALSE(IsChannelClass(KEPLER_CHANNEL_GROUP_A));
  for (const ClassRow& row : ClassRows()) {
    EXPECT_EQ(FindClass(row.number), &row) << row.name;
    for (const Branch branch : kBranches) {
      EXPECT_EQ(row.Size(branch) == 0, row.params == ClassParams::kNone || !row.Known(branch))
          << row.name << " on " << GetAbi(branch).name;
    }
  }
}

TEST(Names, OfStatuses) {
  EXPECT_STREQ(StatusName(NV_ERR_NO_MEMORY), "NV_ERR_NO_MEMORY");
  EXPECT_EQ(NV_ERR_NO_MEMORY, 0x51U);
  EXPECT_EQ(NV_ERR_NOT_SUPPORTED, 0x56U);
  EXPECT_EQ(StatusName(0xABCDEF), nullptr);
}

TEST(BitFields, ReadAndWrite) {
  EXPECT_EQ(NVOS32_ATTR_LOCATION.Mask(), 0x06000000U);
  EXPECT_EQ(NVOS32_ATTR_LOCATION.Get(0x02000000), NVOS32_ATTR_LOCATION_PCI);
  EXPECT_EQ(NVOS32_ATTR_COHERENCY.Set(0xFFFFFFFF, 0), 0x1FFFFFFFU);
}

}  // namespace
}  // namespace cgpu::rm
