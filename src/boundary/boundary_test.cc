#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "boundary/testing.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

TEST_F(BoundaryTest, ChargesMemoryUpToTheLimitAndGivesItBack) {
  MakeSubdevice();
  EXPECT_EQ(AllocMemory(0x20, 1000 * kMib), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 1000 * kMib);
  EXPECT_EQ(AllocMemory(0x21, 26 * kMib), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(AllocMemory(0x22, 24 * kMib), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 1024 * kMib);
  rm::NVOS00_PARAMETERS free{kClient, kDevice, 0x20, 0};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_FREE, free, call), 0);
  Decision decision = boundary_->Decide(call);
  (void)Execute(call, decision);
  EXPECT_EQ(ledger_->Used(0), 24 * kMib);
  EXPECT_EQ(ledger_->Used(1), 0U);
}

TEST_F(BoundaryTest, LetsNobodyChooseAClientHandleThatTheDriverGivesOut) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT_CLIENT;
  for (const std::uint32_t chosen : {0xc1d00000U, 0xc1d00017U, 0xc1efffffU}) {
    alloc.hRoot = chosen;
    Call call;
    ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
    EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
    EXPECT_EQ(StatusOf(call), rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  }
  for (const std::uint32_t chosen : {0U, 1U, 0xc1cfffffU, 0xc1f00000U}) {
    alloc.hRoot = chosen;
    Call call;
    ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
    Decision decision = boundary_->Decide(call);
    EXPECT_EQ(decision.action, Decision::Action::kExecute);
    ledger_->Cancel(decision.reservation);
  }
}

TEST_F(BoundaryTest, ADriverErrorChargesNothing) {
  MakeSubdevice();
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = kMib;
  Call call = CopyAlloc(kDevice, 0x20, rm::NV01_MEMORY_LOCAL_USER, memory_.Lend(params));
  Decision decision = boundary_->Decide(call);
  SetStatus(call, rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_FALSE(boundary_->Account(call, decision, 0).has_value());
  EXPECT_EQ(ledger_->Used(0) + ledger_->Reserved(0), 0U);
}

TEST_F(BoundaryTest, MoreThanReservedIsTakenBack) {
  MakeSubdevice();
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.size = 1024 * kMib;
  Call call = CopyAlloc(kDevice, 0x20, rm::NV01_MEMORY_LOCAL_USER, memory_.Lend(params));
  Decision decision = boundary_->Decide(call);
  SetStatus(call, rm::NV_OK);
  params.size = 1026 * kMib;  // the driver rounded differently
  Store(call.nested[0].bytes, params);
  const auto undo = boundary_->Account(call, decision, 0);
  ASSERT_TRUE(undo.has_value());
  EXPECT_EQ(undo->object, 0x20U);
  boundary_->Undone(call, decision);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(ledger_->Used(0) + ledger_->Reserved(0), 0U);
}

TEST_F(BoundaryTest, RefusesOtherGpusForeignClientsAndUnknownThings) {
  MakeSubdevice();
  rm::NV0080_ALLOC_PARAMETERS other{};
  other.deviceId = 1;  // exists on the host, is not granted
  EXPECT_EQ(Alloc(kClient, 0x30, rm::NV01_DEVICE_0, memory_.Lend(other)), rm::NV_ERR_INVALID_CLASS);
  EXPECT_EQ(Alloc(0xc1d00002, 0x30, rm::NV01_DEVICE_0, 0, 0xc1d00002),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  std::array<std::uint32_t, 64> zeros{};
  const std::uint64_t params = memory_.Lend(zeros);
  EXPECT_EQ(Alloc(kDevice, 0x30, rm::NV01_MEMORY_LOCAL_PHYSICAL, params), rm::NV_ERR_INVALID_CLASS);
  EXPECT_EQ(Alloc(kDevice, 0x30, rm::NV01_MEMORY_LOCAL_USER), rm::NV_ERR_INVALID_ARGUMENT);
  rm::NVOS55_PARAMETERS dup{kClient, kDevice, 0x31, 0xc1d00002, 0x20, 0, 0};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_DUP_OBJECT, dup, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_OBJECT_HANDLE);
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS disable{};
  Decision decision;
  call = Control(kSubdevice, 0x2080110b, disable, decision);
  EXPECT_EQ(decision.action, Decision::Action::kExecute) << "of no channel";
  disable.numChannels = 1;
  disable.hClientList[0] = 0xc1d00002;
  call = Control(kSubdevice, 0x2080110b, disable, decision);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_CLIENT);
  EXPECT_FALSE(boundary_->refused().empty());
}

TEST_F(BoundaryTest, ARefusalHasAReasonAndACallAKind) {
  MakeSubdevice();
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  const auto reason = [&](std::uint32_t command) {
    Decision decision;
    EXPECT_EQ(Control(kSubdevice, command, params, decision).Kind(), CallKind::kControl);
    return decision.refused;
  };
  EXPECT_EQ(reason(0x2080110b), std::nullopt);
  params.numChannels = 1;
  EXPECT_EQ(reason(0x2080110b), Reason::kInvalid) << "nobody's channel";
  EXPECT_EQ(reason(0xb0cc0101), Reason::kNotAllowed) << "a profiler's";
  EXPECT_EQ(reason(0x20800ff0), Reason::kNotKnown);
  rm::NVOS55_PARAMETERS dup{kClient, kDevice, 0x31, 0xc1d00002, 0x20, 0, 0};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_DUP_OBJECT, dup, call), 0);
  EXPECT_EQ(call.Kind(), CallKind::kDup);
  EXPECT_EQ(boundary_->Decide(call).refused, Reason::kInvalid);
  rm::NVOS32_PARAMETERS heap{};
  for (const auto& [function, kind] : {std::pair(rm::NVOS32_FUNCTION_ALLOC_SIZE, CallKind::kAlloc),
                                       std::pair(rm::NVOS32_FUNCTION_FREE, CallKind::kFree)}) {
    heap.function = function;
    Call either;
    ASSERT_EQ(Copy(rm::NV_ESC_RM_VID_HEAP_CONTROL, heap, either), 0);
    EXPECT_EQ(either.Kind(), kind);
  }
}

// Otherwise it would be attached to the one that the GPU has for all clients.
TEST_F(BoundaryTest, GivesADeviceAnAddressSpaceOfItsOwn) {
  ASSERT_EQ(Alloc(0, kClient, rm::NV01_ROOT, 0, 0), rm::NV_OK);
  rm::NV0080_ALLOC_PARAMETERS device{};
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = kClient;
  alloc.hObjectParent = kClient;
  alloc.hObjectNew = kDevice;
  alloc.hClass = rm::NV01_DEVICE_0;
  for (const std::uint64_t params : {memory_.Lend(device), std::uint64_t{0}}) {
    alloc.pAllocParms = params;
    alloc.hObjectNew++;
    Call call;
    ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
    Decision decision = boundary_->Decide(call);
    ASSERT_NE(AllocParameters(call), nullptr);
    EXPECT_EQ(Load<rm::NV0080_ALLOC_PARAMETERS>(*AllocParameters(call)).hClientShare, kClient);
    PointInside(call, -1);
    EXPECT_NE(Load<rm::NVOS21_PARAMETERS>(call.image).pAllocParms, 0U) << "for the driver";
    PointBack(call);
    EXPECT_FALSE(Execute(call, decision).has_value());
    EXPECT_EQ(Load<rm::NVOS21_PARAMETERS>(call.image).pAllocParms, params);
    EXPECT_EQ(Load<rm::NV0080_ALLOC_PARAMETERS>(*AllocParameters(call)).hClientShare, 0U);
    EXPECT_EQ(call.nested.back().copy_out, params != 0);
  }
}

TEST_F(BoundaryTest, RefusesTheGpusOwnAddressSpaces) {
  MakeSubdevice();
  std::uint32_t handle = 0x40;
  for (std::uint32_t index = 0; index < 8; ++index) {
    rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
    space.index = index;
    const bool own = index == rm::NV_VASPACE_ALLOCATION_INDEX_GPU_NEW ||
                     index == rm::NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE;
    EXPECT_EQ(Alloc(kDevice, handle++, rm::FERMI_VASPACE_A, memory_.Lend(space)),
              own ? rm::NV_OK : rm::NV_ERR_INVALID_ARGUMENT)
        << index;
  }
}

TEST_F(BoundaryTest, SharesWithItsOwnClientsAlone) {
  MakeSubdevice();
  rm::NVOS57_PARAMETERS share{};
  share.hClient = kClient;
  share.hObject = kDevice;
  share.sharePolicy.type = rm::RS_SHARE_TYPE_CLIENT;
  share.sharePolicy.target = kClient;
  Call own;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_SHARE, share, own), 0);
  EXPECT_EQ(boundary_->Decide(own).action, Decision::Action::kExecute);
  share.sharePolicy.target = 0xc1d00002;
  Call foreign;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_SHARE, share, foreign), 0);
  EXPECT_EQ(boundary_->Decide(foreign).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(foreign), rm::NV_ERR_INVALID_OBJECT_HANDLE);
}

TEST_F(BoundaryTest, AClientClassBehindAnyFileIsBounded) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(Alloc(0, kClient + i, rm::NV01_ROOT, 0, 0), rm::NV_OK);
  }
  EXPECT_EQ(Alloc(0, kClient + 8, rm::NV01_ROOT, 0, 0), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(BoundaryTest, ChargesAContextPerChannelGroup) {
  MakeSubdevice();
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  EXPECT_EQ(Alloc(kDevice, 0x40, rm::KEPLER_CHANNEL_GROUP_A, memory_.Lend(group)), rm::NV_OK);
  EXPECT_EQ(ledger_->Used(0), 64 * kMib);
  EXPECT_EQ(AllocMemory(0x20, 961 * kMib), rm::NV_ERR_NO_MEMORY);
  EXPECT_EQ(AllocMemory(0x20, 960 * kMib), rm::NV_OK);
}

TEST_F(BoundaryTest, ShowsTheSlice) {
  MakeSubdevice();
  ASSERT_EQ(AllocMemory(0x20, 100 * kMib), rm::NV_OK);
  rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550 info{};
  info.fbInfoListSize = 4;
  info.fbInfoList[0].index = 0x08;
  info.fbInfoList[1].index = 0x16;
  info.fbInfoList[2].index = 0x0b;  // bus width: passes
  info.fbInfoList[2].data = 4096;
  info.fbInfoList[3].index = 0x11;  // where the heap begins
  info.fbInfoList[3].data = 512;
  Decision decision;
  Call call = Control(kSubdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, info, decision);
  (void)Execute(call, decision);
  const auto seen = Load<rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550>(call.nested[0].bytes);
  EXPECT_EQ(seen.fbInfoList[0].data, 1024U * 1024);
  EXPECT_EQ(seen.fbInfoList[1].data, 924U * 1024);
  EXPECT_EQ(seen.fbInfoList[2].data, 4096U);
  EXPECT_EQ(seen.fbInfoList[3].data, 0U);
}

TEST_F(BoundaryTest, ShowsOnlyGrantedGpus) {
  MakeSubdevice();
  rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS ids{};
  std::fill(std::begin(ids.gpuIds), std::end(ids.gpuIds), rm::NV0000_CTRL_GPU_INVALID_ID);
  ids.gpuIds[0] = 0x100;
  ids.gpuIds[1] = 0x200;
  ids.gpuIds[2] = 0x300;
  ids.gpuIds[3] = 0x400;
  Decision decision;
  Call call = Control(kClient, rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids, decision);
  (void)Execute(call, decision);
  const auto seen = Load<rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS>(call.nested[0].bytes);
  EXPECT_EQ(seen.gpuIds[0], 0x100U);
  EXPECT_EQ(seen.gpuIds[1], 0x400U);
  EXPECT_EQ(seen.gpuIds[2], rm::NV0000_CTRL_GPU_INVALID_ID);
  rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS info{};
  info.gpuId = 0x200;
  call = Control(kClient, rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, info, decision);
  EXPECT_EQ(decision.action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_ARGUMENT);
}

TEST_F(BoundaryTest, KnowsOnlyGrantedGpusByTheirPlace) {
  for (const rm::NvU8 bus :
       std::array<rm::NvU8, 3>{1, 2, 4}) {  // 2 exists on the host, is not granted
    rm::nv_ioctl_status_code_t place{};
    place.bus = bus;
    Call call;
    ASSERT_EQ(Copy(rm::NV_ESC_STATUS_CODE, place, call), 0);
    const Decision decision = boundary_->Decide(call);
    EXPECT_EQ(decision.action, bus == 2 ? Decision::Action::kFail : Decision::Action::kExecute);
    EXPECT_EQ(decision.error, bus == 2 ? EINVAL : 0);
    place.domain = 1;
    Call elsewhere;
    ASSERT_EQ(Copy(rm::NV_ESC_STATUS_CODE, place, elsewhere), 0);
    EXPECT_EQ(boundary_->Decide(elsewhere).action, Decision::Action::kFail);
  }
}

TEST_F(BoundaryTest, ListsProcessesByTheClassTheyUse) {
  MakeSubdevice();
  const auto count = [this](std::uint32_t cls) {
    rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS pids{};
    pids.id = cls;
    return AskOfProcesses(rm::NV2080_CTRL_CMD_GPU_GET_PIDS, pids).pidTblCount;
  };
  EXPECT_EQ(count(rm::NV20_SUBDEVICE_0), 1U);
  EXPECT_EQ(count(rm::VOLTA_COMPUTE_A), 0U);
  std::array<std::uint32_t, 256> zeros{};
  const std::uint64_t params = memory_.Lend(zeros);
  ASSERT_EQ(Alloc(kDevice, 0x20, rm::VOLTA_CHANNEL_GPFIFO_A, params), rm::NV_OK);
  ASSERT_EQ(Alloc(0x20, 0x21, rm::VOLTA_COMPUTE_A, params), rm::NV_OK);
  EXPECT_EQ(count(rm::VOLTA_COMPUTE_A), 1U);
  ASSERT_EQ(AllocMemory(0x22, kMib), rm::NV_OK);
  EXPECT_EQ(count(rm::NV01_MEMORY_LOCAL_USER), 0U);
}

// The driver frees without checking the parent, and describes the heap only to a caller that asks.
TEST_F(BoundaryTest, HeapFreesAsTheDriverDoes) {
  MakeSubdevice();
  ASSERT_EQ(AllocMemory(0x20, kMib), rm::NV_OK);
  const auto heap = [this](std::uint32_t function, std::uint32_t parent) {
    rm::NVOS32_PARAMETERS params{};
    params.hRoot = kClient;
    params.hObjectParent = parent;
    params.function = function;
    if (function == rm::NVOS32_FUNCTION_FREE) {
      params.data.Free.hMemory = 0x20;
      params.data.Free.flags = 1;
    }
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_VID_HEAP_CONTROL, params, call), 0);
    Decision decision = boundary_->Decide(call);
    if (function == rm::NVOS32_FUNCTION_INFO) {  // the driver's answer: for the whole GPU
      params.data.Info = {0, 7000 * kMib, 9000 * kMib, kMib};
      Store(call.image, params);
    }
    (void)Execute(call, decision);
    return Load<rm::NVOS32_PARAMETERS>(call.image);
  };
  const auto info = heap(rm::NVOS32_FUNCTION_INFO, kDevice);
  EXPECT_EQ(info.total, 1024 * kMib);
  EXPECT_EQ(info.free, 1023 * kMib);
  EXPECT_EQ(info.data.Info.size, 1023 * kMib);
  EXPECT_EQ(info.data.Info.offset, 0U);
  EXPECT_EQ(info.data.Info.base, 0U);
  const auto freed = heap(rm::NVOS32_FUNCTION_FREE, 0xdead);
  EXPECT_EQ(freed.status, rm::NV_OK);
  EXPECT_EQ(freed.total, 0U);
  EXPECT_EQ(ledger_->Used(0), 0U);
}

TEST_F(BoundaryTest, ShowsTheContainersProcessesByItsOwnNumbers) {
  MakeSubdevice();
  ASSERT_EQ(AllocMemory(0x20, 100 * kMib), rm::NV_OK);
  rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS pids{};
  pids.id = rm::NV20_SUBDEVICE_0;
  pids.pidTblCount = 2;
  pids.pidTbl[0] = 4711;  // the shim and a neighbour, as the driver sees them
  pids.pidTbl[1] = 4712;
  const auto seen = AskOfProcesses(rm::NV2080_CTRL_CMD_GPU_GET_PIDS, pids);
  EXPECT_EQ(seen.pidTblCount, 1U);
  EXPECT_EQ(seen.pidTbl[0], 17U);
  EXPECT_EQ(seen.pidTbl[1], 0U);
  rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS info{};
  info.pidInfoListCount = 1;
  info.pidInfoList[0].pid = 17;
  const auto usage = AskOfProcesses(rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info);
  EXPECT_EQ(usage.pidInfoList[0].data.vidMemUsage.memPrivate, 100 * kMib);
}

// The driver would hold its lock while it looks at all clients of the host.
TEST_F(BoundaryTest, AnswersForProcessesAsTheDriverWould) {
  MakeSubdevice();
  rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS info{};
  info.pidInfoListCount = 2;
  info.pidInfoList[0].pid = 4711;  // a neighbour
  info.pidInfoList[0].data.vidMemUsage.memPrivate = kMib;
  info.pidInfoList[1].index = 1;
  const auto told = AskOfProcesses(rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info);
  EXPECT_EQ(told.pidInfoList[0].result, rm::NV_OK);
  EXPECT_EQ(told.pidInfoList[0].data.vidMemUsage.memPrivate, 0U);
  EXPECT_EQ(told.pidInfoList[0].smcSubscription.gpuInstanceId, 0xffffffffU);
  EXPECT_EQ(told.pidInfoList[1].result, rm::NV_ERR_INVALID_ARGUMENT);
  const auto status = [this](std::uint32_t object, std::uint32_t command, auto& params) {
    Decision decision;
    const Call call = Control(object, command, params, decision);
    EXPECT_EQ(decision.action, Decision::Action::kAnswer);
    EXPECT_FALSE(decision.effects.lists_processes);
    return StatusOf(call).value();
  };
  for (const std::uint32_t count : {0U, 201U, ~0U}) {
    info.pidInfoListCount = count;
    EXPECT_EQ(status(kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info),
              rm::NV_ERR_INVALID_ARGUMENT);
  }
  info.pidInfoListCount = 1;
  EXPECT_EQ(status(0x99, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(status(kDevice, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, info), rm::NV_ERR_NOT_SUPPORTED);
  rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS pids{};
  pids.id = rm::NV20_SUBDEVICE_0;
  pids.idType = rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_VGPU_GUEST;
  EXPECT_EQ(AskOfProcesses(rm::NV2080_CTRL_CMD_GPU_GET_PIDS, pids).pidTblCount, 0U);
  pids.idType = 2;
  EXPECT_EQ(status(kSubdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, pids),
            rm::NV_ERR_INVALID_ARGUMENT);
}

TEST_F(BoundaryTest, TheTenantsPointersNeverReachTheDriver) {
  rm::NVOS64_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT;
  alloc.pAllocParms = 0xdead0000;       // no parameters in our table: must become null
  alloc.pRightsRequested = 0xdead1000;  // unreadable
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_ADDRESS);
  rm::NVOS54_PARAMETERS control{};
  control.cmd = rm::NV2080_CTRL_CMD_FB_GET_INFO_V2;
  control.params = 0xdead0000;
  control.paramsSize = 12;  // not the size of that control: nothing is read
  Call other;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_CONTROL, control, other), 0);
  PointInside(other, -1);
  EXPECT_EQ(Load<rm::NVOS54_PARAMETERS>(other.image).params, 0U);
  PointBack(other);
  EXPECT_EQ(Load<rm::NVOS54_PARAMETERS>(other.image).params, 0xdead0000U);
}

TEST_F(BoundaryTest, AWrappedCallIsTheInnerCall) {
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hClass = rm::NV01_ROOT;
  memory_.Lend(alloc);
  rm::nv_ioctl_xfer_t xfer{rm::NV_ESC_RM_ALLOC, sizeof(alloc),
                           std::bit_cast<std::uint64_t>(&alloc)};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_IOCTL_XFER_CMD, xfer, call), 0);
  EXPECT_EQ(call.nr, rm::NV_ESC_RM_ALLOC);
  EXPECT_EQ(call.address, std::bit_cast<std::uint64_t>(&alloc));
  for (const std::uint32_t size : {0U, 31U, 20000U, 0xffffffffU}) {
    rm::nv_ioctl_xfer_t bad{rm::NV_ESC_RM_ALLOC, size, std::bit_cast<std::uint64_t>(&alloc)};
    Call none;
    EXPECT_EQ(Copy(rm::NV_ESC_IOCTL_XFER_CMD, bad, none), EINVAL) << size;
  }
  rm::nv_ioctl_xfer_t beyond{rm::NV_ESC_RM_ALLOC, sizeof(alloc) + 1,
                             std::bit_cast<std::uint64_t>(&alloc)};
  Call fault;
  EXPECT_EQ(Copy(rm::NV_ESC_IOCTL_XFER_CMD, beyond, fault), EFAULT);
  rm::nv_ioctl_xfer_t nested{rm::NV_ESC_IOCTL_XFER_CMD, sizeof(xfer),
                             std::bit_cast<std::uint64_t>(&xfer)};
  Call none;
  EXPECT_EQ(Copy(rm::NV_ESC_IOCTL_XFER_CMD, nested, none), EINVAL);
}

// {count, -, pointer}: NV0080_CTRL_CMD_GPU_GET_CLASSLIST.
struct ClassList {
  std::uint32_t count = 0;
  std::uint32_t unused = 0;
  std::uint64_t pointer = 0;
};

TEST_F(BoundaryTest, PointersInsideParametersLeadIntoCopiesOfTheTablesSizes) {
  MakeSubdevice();
  std::array<std::uint32_t, 4> classes{1, 2, 3, 4};
  ClassList list{4, 0, memory_.Lend(classes)};
  Decision decision;
  Call call = Control(kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list, decision);
  EXPECT_EQ(decision.action, Decision::Action::kExecute);
  ASSERT_EQ(call.nested.size(), 2U);
  EXPECT_EQ(call.nested[1].bytes.size(), sizeof(classes));
  PointInside(call, -1);
  EXPECT_EQ(Load<ClassList>(call.nested[0].bytes).pointer,
            std::bit_cast<std::uint64_t>(call.nested[1].bytes.data()));
  PointBack(call);
  EXPECT_EQ(Load<ClassList>(call.nested[0].bytes).pointer, list.pointer);
}

TEST_F(BoundaryTest, RoomIsMadeBehindEveryCopy) {
  MakeSubdevice();
  std::array<std::uint32_t, 4> classes{};
  ClassList list{4, 0, memory_.Lend(classes)};
  Decision decision;
  Call call = Control(kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list, decision);
  ASSERT_EQ(call.nested.size(), 2U);
  const Bytes before = call.nested[0].bytes;
  MakeRoom(call);
  EXPECT_EQ(call.nested[0].bytes, before);
  for (const Bytes* bytes : {&call.image, &call.nested[0].bytes, &call.nested[1].bytes}) {
    EXPECT_GE(bytes->capacity(), bytes->size() + kRoomBehind);
  }
}

TEST_F(BoundaryTest, CountsThatOverflowOrPassTheDriversBoundAreRefused) {
  MakeSubdevice();
  std::array<std::uint32_t, 4> classes{};
  for (const std::uint32_t count : {0x40000001U, 0xffffffffU, 262145U}) {
    ClassList list{count, 0, memory_.Lend(classes)};
    Decision decision;
    const Call call = Control(kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list, decision);
    EXPECT_EQ(decision.action, Decision::Action::kAnswer) << count;
    EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_ARGUMENT) << count;
  }
}

TEST_F(BoundaryTest, AListThatLeavesTheTenantsMemoryIsAFault) {
  MakeSubdevice();
  std::array<std::uint32_t, 4> classes{};
  ClassList list{5, 0, memory_.Lend(classes)};  // one more than exists
  rm::NVOS54_PARAMETERS control{
      kClient,      kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, 0, memory_.Lend(list),
      sizeof(list), 0};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_CONTROL, control, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_ADDRESS);
  EXPECT_FALSE(call.nested.at(0).copy_out) << "what the driver does not write either";
}

TEST_F(BoundaryTest, OverlappingPointersGetCopiesOfTheirOwn) {
  MakeSubdevice();
  ClassList list{2, 0, 0};
  list.pointer = std::bit_cast<std::uint64_t>(&list);  // onto the parameters themselves
  Decision decision;
  Call call = Control(kDevice, rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list, decision);
  ASSERT_EQ(call.nested.size(), 2U);
  EXPECT_NE(call.nested[0].bytes.data(), call.nested[1].bytes.data());
}

// Peers name other GPUs by their ids.
TEST_F(BoundaryTest, TellsOfPeersAmongGrantedGpusAlone) {
  MakeSubdevice();
  std::array<std::byte, 8348> caps{};  // NV0000_CTRL_SYSTEM_GET_P2P_CAPS_V2_PARAMS of 550
  const auto ask = [&](std::uint32_t first, std::uint32_t second) {
    const std::array<std::uint32_t, 2> ids{first, second};
    std::memcpy(caps.data(), ids.data(), sizeof(ids));
    const std::uint32_t count = 2;
    std::memcpy(caps.data() + 128, &count, sizeof(count));
    Decision decision;
    (void)Control(kClient, rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2, caps, decision);
    return decision.action;
  };
  EXPECT_EQ(ask(0x100, 0x400), Decision::Action::kExecute);
  EXPECT_EQ(ask(0x100, 0x200), Decision::Action::kAnswer);
}

TEST_F(BoundaryTest, SwallowsAndBlanksWithoutTheDriver) {
  MakeSubdevice();
  std::array<std::byte, 2244> groups{};
  groups.fill(std::byte{0xff});
  Decision decision;
  Call call = Control(kClient, rm::NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, groups, decision);
  EXPECT_EQ(decision.action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_OK);
  EXPECT_EQ(Load<std::uint32_t>(call.nested[0].bytes), 0U);
  call = Control(0x30, rm::NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, groups, decision);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_OBJECT_NOT_FOUND);
}

// It runs in its caller, so the ledger must know its object before; in an XFER it may not run.
TEST_F(BoundaryTest, OsDescriptorsRunInTheirCaller) {
  MakeSubdevice();
  rm::nv_ioctl_nvos02_parameters_with_fd alloc{};
  alloc.params.hRoot = kClient;
  alloc.params.hObjectParent = kDevice;
  alloc.params.hObjectNew = 0x71;
  alloc.params.hClass = rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
  Call call;
  EXPECT_EQ(Copy(rm::NV_ESC_RM_ALLOC_MEMORY, alloc, call), EINVAL) << "on the control file";
  call = {};
  call.file.kind = FileKind::kGpu;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC_MEMORY, alloc, call), 0);
  Call wrapped = call;
  wrapped.wrapped = true;
  EXPECT_EQ(boundary_->Decide(wrapped).action, Decision::Action::kAnswer);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kContinue);
  const auto client = ledger_->FindClient(kClient);
  EXPECT_TRUE(ledger_->Find(client->ref, 0x71).has_value());
  // The call may have failed: what the driver then makes under the handle is charged.
  ASSERT_EQ(AllocMemory(0x71, kMib), rm::NV_OK);
  EXPECT_GE(ledger_->Used(0), kMib);
  // The charge stays when a descriptor claims its handle.
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kContinue);
  EXPECT_GE(ledger_->Used(0), kMib);
  call.command = rm::NV01_MEMORY_LIST_FBMEM;
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
}

TEST_F(BoundaryTest, DebuggersAreForOwnContextsAndBounded) {
  MakeSubdevice();
  struct {
    std::uint32_t obsolete = 0;
    std::uint32_t client = 0xc1d00099;
    std::uint32_t object = 0x99;
  } params;
  const std::uint64_t address = memory_.Lend(params);
  EXPECT_EQ(Alloc(kDevice, 0x60, rm::GT200_DEBUGGER, address), rm::NV_ERR_INVALID_OBJECT_HANDLE);
  params.client = kClient;
  for (std::uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(Alloc(kDevice, 0x60 + i, rm::GT200_DEBUGGER, address), rm::NV_OK);
  }
  EXPECT_EQ(Alloc(kDevice, 0x80, rm::GT200_DEBUGGER, address), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

}  // namespace
}  // namespace cgpu::boundary
