// RM_USER_SHARED_DATA: the driver's page, which all tenants of a GPU and the host read.
#include <gtest/gtest.h>

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

// Neither does the driver poll for a tenant, nor does a tenant learn that it was not asked to.
TEST_F(BoundaryTest, TheDriversPageIsMadeWithoutPolledFigures) {
  MakeSubdevice();
  rm::NV00DE_ALLOC_PARAMETERS params{~0ULL};
  Call call = CopyAlloc(kSubdevice, 0x30, rm::RM_USER_SHARED_DATA, memory_.Lend(params));
  Decision decision = boundary_->Decide(call);
  ASSERT_EQ(decision.action, Decision::Action::kExecute);
  EXPECT_EQ(Load<rm::NV00DE_ALLOC_PARAMETERS>(call.nested[0].bytes).polledDataMask, 0U);
  EXPECT_FALSE(Execute(call, decision).has_value());
  EXPECT_EQ(Load<rm::NV00DE_ALLOC_PARAMETERS>(call.nested[0].bytes).polledDataMask, ~0ULL);
  params.polledDataMask = 1;
  call = Control(0x30, rm::NV00DE_CTRL_CMD_REQUEST_DATA_POLL, params, decision);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_NOT_SUPPORTED);
}

// All tenants and the host read this page: nothing that a tenant asks for may write to it.
TEST_F(BoundaryTest, TheDriversPageIsMappedToReadItAlone) {
  MakeSubdevice();
  constexpr std::uint32_t kPage = 0x30;
  rm::NV00DE_ALLOC_PARAMETERS none{};
  ASSERT_EQ(Alloc(kSubdevice, kPage, rm::RM_USER_SHARED_DATA, memory_.Lend(none)), rm::NV_OK);
  const auto map = [&](std::uint32_t flags) {
    rm::nv_ioctl_nvos33_parameters_with_fd request{};
    request.params.hClient = kClient;
    request.params.hDevice = kSubdevice;
    request.params.hMemory = kPage;
    request.params.length = 0xa30;
    request.params.flags = flags;
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_MAP_MEMORY, request, call), 0);
    call.fd->file = File{FileKind::kControl, 255, true};
    const Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      SetStatus(call, rm::NV_OK);
    }
    return StatusOf(call);
  };
  EXPECT_EQ(map(0), rm::NV_ERR_PROTECTION_FAULT) << "read and write";
  EXPECT_EQ(map(2), rm::NV_ERR_PROTECTION_FAULT) << "write";
  EXPECT_EQ(map(0x80001), rm::NV_OK) << "as libcuda maps it";
}

TEST_F(BoundaryTest, NothingNamesTheDriversPage) {
  MakeSubdevice();
  constexpr std::uint32_t kPage = 0x30;
  rm::NV00DE_ALLOC_PARAMETERS none{};
  ASSERT_EQ(Alloc(kSubdevice, kPage, rm::RM_USER_SHARED_DATA, memory_.Lend(none)), rm::NV_OK);
  rm::NVOS55_PARAMETERS dup{kClient, kSubdevice, 0x31, kClient, kPage, 0, 0};
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_DUP_OBJECT, dup, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.hObjectError = kPage;
  EXPECT_EQ(Alloc(kDevice, 0x32, rm::KEPLER_CHANNEL_GROUP_A, memory_.Lend(group)),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 channel{};
  channel.hUserdMemory[0] = kPage;
  EXPECT_EQ(Alloc(kDevice, 0x33, rm::AMPERE_CHANNEL_GPFIFO_A, memory_.Lend(channel)),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS dma{};
  dma.hMemory = kPage;
  EXPECT_EQ(Alloc(kDevice, 0x34, rm::NV01_CONTEXT_DMA, memory_.Lend(dma)),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  rm::NVOS39_PARAMETERS legacy{};
  legacy.hObjectParent = kClient;
  legacy.hObjectNew = 0x35;
  legacy.hClass = rm::NV01_CONTEXT_DMA;
  legacy.hMemory = kPage;
  Call older;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2, legacy, older), 0);
  EXPECT_EQ(boundary_->Decide(older).action, Decision::Action::kAnswer);
  struct {
    std::uint32_t semaphores = kPage;
    std::uint32_t most = 0;
    std::uint64_t flags = 0;
  } surface;
  EXPECT_EQ(Alloc(kDevice, 0x36, rm::NV_SEMAPHORE_SURFACE, memory_.Lend(surface)),
            rm::NV_ERR_NOT_SUPPORTED);
  Decision decision;
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS exported{};
  exported.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  exported.object.data.rmObject.hDevice = kDevice;
  exported.object.data.rmObject.hParent = kSubdevice;
  exported.object.data.rmObject.hObject = kPage;
  call = Control(kClient, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, exported, decision, 7);
  EXPECT_EQ(decision.action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_OBJECT_NOT_FOUND);
}

TEST_F(BoundaryTest, TheDriversPageIsNoMemoryForOtherGpus) {
  MakeSubdevice();
  constexpr std::uint32_t kPage = 0x30;
  constexpr std::uint32_t kMemory = 0x31;
  constexpr std::uint32_t kPeers = 0x32;
  rm::NV00DE_ALLOC_PARAMETERS none{};
  ASSERT_EQ(Alloc(kSubdevice, kPage, rm::RM_USER_SHARED_DATA, memory_.Lend(none)), rm::NV_OK);
  ASSERT_EQ(AllocMemory(kMemory, kMib), rm::NV_OK);
  std::uint32_t flags = 0;
  ASSERT_EQ(Alloc(kSubdevice, kPeers, rm::NV50_THIRD_PARTY_P2P, memory_.Lend(flags)), rm::NV_OK);
  struct {  // NV503C_CTRL_REGISTER_VIDMEM_PARAMS
    std::uint32_t memory = kPage;
    std::uint64_t address = 0;
    std::uint64_t size = kMib;
    std::uint64_t offset = 0;
  } params;
  Decision decision;
  const Call call = Control(kPeers, rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, params, decision);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_NOT_SUPPORTED);
  params.memory = kMemory;
  Control(kPeers, rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, params, decision);
  EXPECT_EQ(decision.action, Decision::Action::kExecute);
}

}  // namespace
}  // namespace cgpu::boundary
