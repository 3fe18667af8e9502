// Tests of what the GPU's clients can ask: what it is, and what the others do.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_escape.h"
#include "sim/driver/more_controls.h"
#include "sim/tests/process.h"

namespace cgpu::sim {
namespace {

class Queries : public testing::Test {
 protected:
  rm::NvU32 GrInfo(Process& process, rm::NvU32 index) {
    rm::NV2080_CTRL_GR_INFO info{index, 0};
    rm::NV2080_CTRL_GR_GET_INFO_PARAMS params{};
    params.grInfoListSize = 1;
    params.grInfoList = reinterpret_cast<rm::NvP64>(&info);
    EXPECT_EQ(rm::NV_OK,
              process.Control(process.subdevice, rm::NV2080_CTRL_CMD_GR_GET_INFO, params));
    return info.data;
  }

  std::unique_ptr<Driver> driver = MakeDriver("h100,t4");
  Process mine{*driver, 100};
  Process other{*driver, 101};
};

TEST_F(Queries, UnitsAreThoseOfTheGpu) {
  EXPECT_EQ(66U, GrInfo(mine, 0x09));  // TPCs: 132 SMs
  EXPECT_EQ(0x900U, GrInfo(mine, 0x0C));
  EXPECT_EQ(64U, GrInfo(mine, 0x0D));
  rm::NvU32 tpcs = 0;
  for (rm::NvU32 gpc = 0; gpc < 8; ++gpc) {
    NV2080_CTRL_GR_GET_NUM_TPCS_FOR_GPC_PARAMS params{gpc, 0};
    EXPECT_EQ(rm::NV_OK,
              mine.Control(mine.subdevice, NV2080_CTRL_CMD_GR_GET_NUM_TPCS_FOR_GPC, params));
    EXPECT_GE(9U, params.numTpcs);
    tpcs += params.numTpcs;
  }
  EXPECT_EQ(66U, tpcs);
  NV2080_CTRL_GR_GET_GPC_MASK_PARAMS mask{};
  EXPECT_EQ(rm::NV_OK, mine.Control(mine.subdevice, NV2080_CTRL_CMD_GR_GET_GPC_MASK, mask));
  EXPECT_EQ(0xFFU, mask.gpcMask);
  Process on_t4(*driver, 102, 1);
  EXPECT_EQ(0x705U, GrInfo(on_t4, 0x0C));
  EXPECT_EQ(32U, GrInfo(on_t4, 0x0D));
}

TEST_F(Queries, MemoryErrorsAreThoseOfTheGpu) {
  driver->AddEccErrors(0, {40, 0});
  driver->AddEccErrors(0, {2, 3});
  struct {
    rm::NvU64 first;  // enabled, scrubbed, supported
    rm::NvU64 dbe, dbe_kept, sbe, sbe_kept;
    rm::NvU8 rest[984];
  } params{};
  static_assert(sizeof(params) == 1024);  // of 550
  EXPECT_EQ(rm::NV_OK,
            mine.Control(mine.subdevice, rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, params));
  EXPECT_EQ(0x010101U, params.first & 0xFFFFFFU);
  EXPECT_EQ(3U, params.dbe);
  EXPECT_EQ(42U, params.sbe);
  Process on_t4(*driver, 102, 1);
  EXPECT_EQ(rm::NV_OK,
            on_t4.Control(on_t4.subdevice, rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, params));
  EXPECT_EQ(0U, params.dbe + params.sbe);
}

TEST_F(Queries, ErrorsReachThoseThatWait) {
  constexpr rm::NvU32 kFd = 7;
  struct {
    rm::NvU32 event, action, state, info32, info16;
  } notification{rm::NV2080_NOTIFIERS_RC_ERROR, 1 /* once */, 0, 0, 0};
  const auto set = [&] {
    return mine.Control(mine.subdevice, rm::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION, notification);
  };
  EXPECT_EQ(rm::NV_ERR_INVALID_STATE, set());  // there is no event
  rm::nv_ioctl_alloc_os_event_t os_event{mine.client, mine.device, kFd, 0};
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_ALLOC_OS_EVENT, os_event));
  const rm::NvHandle event =
      mine.Alloc(mine.subdevice, rm::NV01_EVENT_OS_EVENT,
                 rm::NV0005_ALLOC_PARAMETERS{mine.client, mine.subdevice, rm::NV01_EVENT_OS_EVENT,
                                             rm::NV2080_NOTIFIERS_RC_ERROR, kFd});
  EXPECT_TRUE(driver->RaiseError(0, 13).empty());  // not asked for yet
  EXPECT_EQ(rm::NV_OK, set());
  EXPECT_EQ(rm::NV_ERR_INVALID_STATE, set());
  EXPECT_TRUE(driver->RaiseError(1, 79).empty());
  EXPECT_EQ(0, driver->PollFile(mine.gpu_file));
  EXPECT_EQ((std::set<FileId>{mine.gpu_file}), driver->RaiseError(0, 48));
  EXPECT_TRUE(driver->RaiseError(0, 48).empty());
  EXPECT_EQ(POLLIN | POLLPRI, driver->PollFile(mine.gpu_file));
  rm::NvUnixEvent told{};
  rm::NVOS41_PARAMETERS params{reinterpret_cast<rm::NvP64>(&told), 1, 0};
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_RM_GET_EVENT_DATA, params));
  EXPECT_EQ(rm::NV_OK, params.status);
  EXPECT_EQ(0U, params.MoreEvents);
  EXPECT_EQ(event, told.hObject);
  EXPECT_EQ(48U, told.info32);
  EXPECT_EQ(0, mine.Ioctl(mine.gpu_file, rm::NV_ESC_RM_GET_EVENT_DATA, params));
  EXPECT_EQ(rm::NV_ERR_OPERATING_SYSTEM, params.status);
  driver->SetLost(0, true);
  EXPECT_EQ(POLLHUP, driver->PollFile(mine.gpu_file));
}

TEST_F(Queries, AccountingListsEverybody) {
  const auto params = std::make_unique<NV0000_CTRL_GPUACCT_GET_ACCOUNTING_PIDS_PARAMS>();
  params->gpuId = driver->Gpus()[0].gpu_id;
  EXPECT_EQ(rm::NV_OK,
            mine.Control(mine.client, NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS, *params));
  const rm::NvU32* const begin = params->pidTbl;
  const rm::NvU32* const end = begin + params->pidCount;
  EXPECT_NE(end, std::find(begin, end, 101U));
  other.AllocVidmem(8 * kMiB);
  NV0000_CTRL_GPUACCT_GET_PROC_ACCOUNTING_INFO_PARAMS info{};
  info.gpuId = params->gpuId;
  info.pid = 101;
  EXPECT_EQ(rm::NV_OK,
            mine.Control(mine.client, NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO, info));
  EXPECT_EQ(8 * kMiB, info.maxFbUsage);
}

TEST_F(Queries, TheResidentChannelIsAnybodys) {
  const rm::NvHandle group = other.AllocGroup();
  other.AllocChannel(group, rm::HOPPER_CHANNEL_GPFIFO_A);
  struct {
    rm::NvU32 channel = ~0U;
    rm::NvU32 rest[5] = {};
  } params;
  EXPECT_EQ(rm::NV_ERR_INVALID_STATE,
            mine.Control(mine.subdevice, NV2080_CTRL_CMD_GR_GET_CURRENT_RESIDENT_CHANNEL, params));
  rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 schedule{};
  schedule.bEnable = 1;
  EXPECT_EQ(rm::NV_OK, other.Control(group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, schedule));
  EXPECT_EQ(rm::NV_OK,
            mine.Control(mine.subdevice, NV2080_CTRL_CMD_GR_GET_CURRENT_RESIDENT_CHANNEL, params));
  EXPECT_EQ(0U, params.channel);
}

TEST_F(Queries, CommandsForRootAskWhoCallsNow) {
  constexpr rm::NvU32 kForRoot = 0x20801110;  // FIFO_CONFIG_CTXSW_TIMEOUT
  std::array<rm::NvU32, 2> params{};
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, mine.Control(mine.subdevice, kForRoot, params));
  mine.caller.admin = true;
  EXPECT_EQ(rm::NV_OK, mine.Control(mine.subdevice, kForRoot, params));
  constexpr rm::NvU32 kForTheKernel = 0x20801117;  // FIFO_DISABLE_USERMODE_CHANNELS
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            mine.Control(mine.subdevice, kForTheKernel, params));
  constexpr rm::NvU32 kUnknown = 0x2080FFF1;
  EXPECT_EQ(rm::NV_ERR_NOT_SUPPORTED, mine.Control(mine.subdevice, kUnknown, params));
}

TEST_F(Queries, SharedDataShowsTheWholeGpuToEverybody) {
  rm::NV00DE_ALLOC_PARAMETERS params{};
  const rm::NvHandle page = mine.Alloc(mine.subdevice, rm::RM_USER_SHARED_DATA, params);
  rm::nv_ioctl_nvos33_parameters_with_fd api{};
  api.params.hClient = mine.client;
  api.params.hDevice = mine.subdevice;
  api.params.hMemory = page;
  api.params.length = 4096;
  constexpr int kMapFd = 9;
  const FileId file = driver->Open(FileKind::kCtl, 255);
  mine.caller.fds[kMapFd] = file;
  api.fd = kMapFd;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY, api));
  EXPECT_EQ(rm::NV_OK, api.params.status);
  const auto context = driver->MapContextOf(file);
  ASSERT_TRUE(context);
  EXPECT_FALSE(context->writable);
  EXPECT_EQ(0, context->block.lock()->shared_data_of);
  const std::uint64_t version = driver->SharedDataVersion();
  other.AllocVidmem(64 * kMiB);
  EXPECT_NE(version, driver->SharedDataVersion());
  const std::vector<std::byte> bytes = driver->SharedData(0);
  rm::NvU64 total = 0;
  rm::NvU64 free = 0;
  std::memcpy(&total, bytes.data() + 16, sizeof(total));
  std::memcpy(&free, bytes.data() + 24, sizeof(free));
  EXPECT_EQ(81559 * kMiB, total);
  EXPECT_EQ(81495 * kMiB, free);
}

// A client's own policy is that of all its objects: who may duplicate them.
TEST_F(Queries, ClientsPolicyIsInherited) {
  const rm::NvHandle memory = mine.AllocVidmem(1 << 20);
  const auto duplicate = [&] {
    rm::NVOS55_PARAMETERS params{};
    params.hClient = other.client;
    params.hParent = other.device;
    params.hClientSrc = mine.client;
    params.hObjectSrc = memory;
    EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_DUP_OBJECT, params));
    return params.status;
  };
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, duplicate());
  rm::RS_SHARE_POLICY anybody{};
  anybody.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  anybody.type = rm::RS_SHARE_TYPE_ALL;
  EXPECT_EQ(
      rm::NV_OK,
      mine.Control(mine.client, rm::NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, anybody));
  EXPECT_EQ(rm::NV_OK, duplicate());
}

TEST_F(Queries, WhereMemoryLies) {
  struct {
    rm::NvHandle object;
    rm::NvU32 flags;
    rm::NvU32 type;
  } params{mine.AllocVidmem(1 << 20), 0, 0};
  const auto ask = [&] {
    return mine.Control(mine.client, rm::NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE, params);
  };
  EXPECT_EQ(rm::NV_OK, ask());
  EXPECT_EQ(2U, params.type);
  rm::NV00DE_ALLOC_PARAMETERS none{};
  params.object = mine.Alloc(mine.subdevice, rm::RM_USER_SHARED_DATA, none);
  EXPECT_EQ(rm::NV_OK, ask());
  EXPECT_EQ(1U, params.type);
  params.object = mine.client;
  EXPECT_EQ(rm::NV_ERR_INVALID_OBJECT, ask());
  params.object = 0xBAD;
  EXPECT_EQ(rm::NV_ERR_OBJECT_NOT_FOUND, ask());
}

}  // namespace
}  // namespace cgpu::sim
