// Controls that the driver hands to the GPU's firmware unseen, their counting by the boundary, and
// the escapes of an older interface.
#include <gtest/gtest.h>

#include <array>

#include "boundary/testing.h"
#include "rm/control_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_ctrl_board.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t kBinary = 0x12;

template <std::size_t kSize>
using Params = std::array<std::byte, kSize>;

class FirmwareTest : public BoundaryTest {
 protected:
  using BoundaryTest::BoundaryTest;

  void SetUp() override {
    MakeSubdevice();
    ASSERT_EQ(Alloc(kSubdevice, kBinary, rm::NV2081_BINAPI), rm::NV_OK);
  }

  // On 580, whose sizes are on record, the ledger's objects stay those of SetUp().
  template <class T>
  std::uint32_t Ask(std::uint32_t object, std::uint32_t command, T& params,
                    std::uint32_t answer = rm::NV_OK) {
    Decision decision;
    Call call = Control(object, command, params, decision);
    executed_ = decision.action == Decision::Action::kExecute;
    if (executed_) {
      SetStatus(call, answer);
      (void)boundary_->Account(call, decision, 0);
    }
    last_ = call;
    return StatusOf(call).value();
  }
  template <std::size_t kSize>
  std::uint32_t Ask(std::uint32_t object, std::uint32_t command) {
    Params<kSize> params{};
    return Ask(object, command, params);
  }

  bool executed_ = false;
  Call last_;
};

class FirmwareTest580 : public FirmwareTest {
 protected:
  FirmwareTest580() : FirmwareTest(rm::Branch::k580) {}
};

TEST_F(FirmwareTest, TakesWhatIsListedOnTheObjectOfItsClass) {
  EXPECT_EQ(Ask<332>(kSubdevice, rm::GSS_LEGACY_8159), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(Ask<1>(kSubdevice, rm::GSS_LEGACY_8162), rm::NV_OK);
  EXPECT_EQ(Ask<992>(kBinary, rm::BINAPI_0108), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(Ask<332>(kDevice, rm::GSS_LEGACY_8159), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<332>(kBinary, rm::GSS_LEGACY_8159), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<332>(0x99, rm::GSS_LEGACY_8159), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Ask<8>(0x99, rm::GSS_LEGACY_8159), rm::NV_ERR_OBJECT_NOT_FOUND) << "before its size";
  EXPECT_EQ(Ask<992>(kSubdevice, rm::BINAPI_0108), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_FALSE(executed_);
}

// The driver looks at the object alone and hands on every command that is sent to it.
TEST_F(FirmwareTest, LetsNothingElseReachTheFirmwareByTheObject) {
  EXPECT_EQ(Ask<4>(kBinary, rm::NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<536>(kBinary, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<444>(kBinary, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<4>(kBinary, 0x20810109), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_FALSE(executed_);
}

TEST_F(FirmwareTest, RefusesOtherNumbersWithNumberAndSize) {
  EXPECT_EQ(Ask<24>(kSubdevice, 0x2080a0ff), rm::NV_ERR_NOT_SUPPORTED);
  const auto& refused = boundary_->refused();
  EXPECT_TRUE(
      refused.contains("control-0x2080a0ff (24 bytes): a control of the GPU's firmware that "
                       "is not listed; please report it with this line, and see cgpu doctor"));
  EXPECT_EQ(Ask<8>(kSubdevice, 0x2080c001), rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  EXPECT_EQ(Ask<8>(kDevice, 0x0080c001), rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  EXPECT_EQ(Ask<8>(kDevice, 0x00808159), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<2024>(kSubdevice, rm::GSS_LEGACY_A0D1), rm::NV_ERR_NOT_SUPPORTED)
      << "shows the whole card's load";
}

// The driver looks there by the object's class before it looks at the size.
TEST_F(FirmwareTest, CommandsOfAnObjectOfTheirOwnAreUnknownToOthers) {
  EXPECT_EQ(Ask<2>(kSubdevice, rm::BINAPI_0107), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<rm::kMaxFirmwareBytes + 1>(kSubdevice, rm::BINAPI_0107), rm::NV_ERR_NOT_SUPPORTED);
}

TEST_F(FirmwareTest, RefusesOtherSizes) {
  EXPECT_EQ(Ask<331>(kSubdevice, rm::GSS_LEGACY_8159), rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Ask<333>(kSubdevice, rm::GSS_LEGACY_8159), rm::NV_ERR_INVALID_ARGUMENT);
  // Not on record on any branch: any size up to the limit.
  EXPECT_EQ(Ask<1>(kSubdevice, rm::GSS_LEGACY_A612), rm::NV_OK);
  EXPECT_EQ(Ask<rm::kMaxFirmwareBytes>(kSubdevice, rm::GSS_LEGACY_A612), rm::NV_OK);
  EXPECT_EQ(Ask<rm::kMaxFirmwareBytes + 1>(kSubdevice, rm::GSS_LEGACY_A612),
            rm::NV_ERR_INVALID_ARGUMENT);
}

TEST_F(FirmwareTest, NamesASizeThatIsNotOnRecord) {
  EXPECT_EQ(Ask<1064>(kSubdevice, rm::GSS_LEGACY_A026), rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_FALSE(last_.nested.at(0).copy_out) << "the tenant's memory stays as it is";
  EXPECT_TRUE(boundary_->refused().contains(
      "control-0x2080a026 (1064 bytes): a control of the GPU's firmware in a size that is not on "
      "record; please report it with this line, and see cgpu doctor"));
}

TEST_F(FirmwareTest, LetsPassWhatRootAllowsInThatSizeAlone) {
  hands_over_ = false;  // a shim's configuration has these, and not the boundary's state
  boundary_->AllowFirmware(0x2080a0ff, 24);
  boundary_->AllowFirmware(rm::GSS_LEGACY_8513, 8);
  boundary_->AllowFirmware(rm::GSS_LEGACY_A026, 1064);
  boundary_->AllowFirmware(0x20810109, 4);
  EXPECT_EQ(Ask<24>(kSubdevice, 0x2080a0ff), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_TRUE(last_.nested.at(0).copy_out);
  EXPECT_EQ(last_.pointers.at(0).target, 0) << "the driver gets the shim's copy";
  EXPECT_EQ(Ask<8>(kSubdevice, rm::GSS_LEGACY_8513), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(Ask<1064>(kSubdevice, rm::GSS_LEGACY_A026), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(Ask<532>(kSubdevice, rm::GSS_LEGACY_A026), rm::NV_OK) << "as ever";
  EXPECT_EQ(Ask<4>(kBinary, 0x20810109), rm::NV_OK);
  EXPECT_TRUE(executed_);

  EXPECT_EQ(Ask<23>(kSubdevice, 0x2080a0ff), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(Ask<9>(kSubdevice, rm::GSS_LEGACY_8513), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<1065>(kSubdevice, rm::GSS_LEGACY_A026), rm::NV_ERR_INVALID_ARGUMENT);
  for (const std::uint32_t object : {kDevice, kBinary, kClient}) {
    EXPECT_EQ(Ask<24>(object, 0x2080a0ff), rm::NV_ERR_NOT_SUPPORTED) << object;
    EXPECT_FALSE(executed_);
  }
  EXPECT_EQ(Ask<4>(kSubdevice, 0x20810109), rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<24>(0x99, 0x2080a0ff), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_FALSE(executed_);
}

TEST_F(FirmwareTest580, RefusesByNameWhateverRootAllows) {
  hands_over_ = false;
  constexpr std::uint32_t kEncoder = rm::GSS_LEGACY_8163_TAKE_ENCODER;
  for (const std::uint32_t command :
       {std::uint32_t{rm::GSS_LEGACY_8539}, 0x2080c001U, 0x00808159U, kEncoder,
        std::uint32_t{rm::NV2080_CTRL_CMD_GPU_EXEC_REG_OPS}}) {
    boundary_->AllowFirmware(command, 12);
    EXPECT_NE(Ask<12>(kSubdevice, command), rm::NV_OK) << std::hex << command;
    EXPECT_FALSE(executed_) << std::hex << command;
  }
  boundary_->AllowFirmware(0x2080a0ff, rm::kMaxFirmwareBytes + 1);
  EXPECT_NE(Ask<rm::kMaxFirmwareBytes + 1>(kSubdevice, 0x2080a0ff), rm::NV_OK);
  EXPECT_FALSE(executed_);
}

TEST_F(FirmwareTest, RefusesParametersInAnotherEncoding) {
  Params<332> params{};
  rm::NVOS54_PARAMETERS control{};
  control.hClient = kClient;
  control.hObject = kSubdevice;
  control.cmd = rm::GSS_LEGACY_8159;
  control.flags = rm::NVOS54_FLAGS_FINN_SERIALIZED;
  control.params = memory_.Lend(params);
  control.paramsSize = sizeof(params);
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_CONTROL, control, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_LIB_RM_VERSION_MISMATCH);
  rm::NVOS64_PARAMETERS alloc{};
  alloc.hRoot = kClient;
  alloc.hObjectParent = kSubdevice;
  alloc.hObjectNew = 0x13;
  alloc.hClass = rm::NV2081_BINAPI;
  alloc.flags = rm::NVOS64_FLAGS_FINN_SERIALIZED;
  call = {};
  ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_LIB_RM_VERSION_MISMATCH);
}

// The grant is the whole GPU, so there are eight.
TEST_F(FirmwareTest, CountsEncoderSessions) {
  const auto take = [&](std::uint32_t answer = rm::NV_OK) {
    Params<4> params{};
    return Ask(kSubdevice, rm::GSS_LEGACY_8163_TAKE_ENCODER, params, answer);
  };
  const auto give = [&] { return Ask<4>(kSubdevice, rm::GSS_LEGACY_8164_GIVE_ENCODER); };
  EXPECT_EQ(give(), rm::NV_ERR_INVALID_ARGUMENT) << "somebody else's, perhaps";
  EXPECT_FALSE(executed_);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(take(rm::NV_ERR_MAX_SESSION_LIMIT_REACHED), rm::NV_ERR_MAX_SESSION_LIMIT_REACHED);
    EXPECT_TRUE(executed_) << "those that the driver refuses are not counted";
    EXPECT_EQ(take(), rm::NV_OK);
  }
  EXPECT_EQ(take(), rm::NV_ERR_MAX_SESSION_LIMIT_REACHED);
  EXPECT_FALSE(executed_);
  EXPECT_EQ(give(), rm::NV_OK);
  EXPECT_EQ(take(), rm::NV_OK);
  EXPECT_EQ(take(), rm::NV_ERR_MAX_SESSION_LIMIT_REACHED);
  // They end with their client.
  ASSERT_EQ(Free(kClient), rm::NV_OK);
  SetUp();
  EXPECT_EQ(give(), rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(take(), rm::NV_OK);
}

// The firmware may refuse to take one back, and another client may ask meanwhile.
TEST_F(FirmwareTest, KeepsAnEncoderSessionCountedUntilItIsGivenBack) {
  const auto take = [&] { return Ask<4>(kSubdevice, rm::GSS_LEGACY_8163_TAKE_ENCODER); };
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(take(), rm::NV_OK);
  }
  hands_over_ = false;  // a call is under way
  for (const std::uint32_t answer : {rm::NV_ERR_INVALID_STATE, rm::NV_OK}) {
    Params<4> params{};
    Decision decision;
    Call give = Control(kSubdevice, rm::GSS_LEGACY_8164_GIVE_ENCODER, params, decision);
    ASSERT_EQ(decision.action, Decision::Action::kExecute);
    EXPECT_EQ(take(), rm::NV_ERR_MAX_SESSION_LIMIT_REACHED) << "it is not given back yet";
    SetStatus(give, answer);
    (void)boundary_->Account(give, decision, 0);
    EXPECT_EQ(take(), answer == rm::NV_OK ? rm::NV_OK : rm::NV_ERR_MAX_SESSION_LIMIT_REACHED);
  }
}

TEST_F(FirmwareTest580, LetsThermalInstructionsReadAlone) {
  using List = rm::NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS;
  for (const std::uint32_t opcode : {0x100U, 0x540U, 0x1500U, 0x1501U, 0x2500U}) {
    for (const std::size_t place : {0U, 31U}) {
      List list{};
      list.instructionListSize = 1;
      list.instructionList[place].opcode = opcode;
      const bool reads = opcode <= 0x1500U;
      EXPECT_EQ(Ask(kSubdevice, rm::NV2080_CTRL_CMD_THERMAL_SYSTEM_EXECUTE_V2, list),
                reads ? rm::NV_OK : rm::NV_ERR_NOT_SUPPORTED)
          << opcode << " at " << place;
      EXPECT_EQ(executed_, reads);
    }
  }
}

TEST_F(FirmwareTest, PassesOnFinerPreemptionAlone) {
  using Mode = rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS;
  constexpr std::uint32_t kCommand = rm::NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE;
  for (const std::uint32_t compute : {0U, 1U, 2U, 3U}) {
    for (const std::uint32_t flags : {0U, 1U, 2U, 3U}) {
      Mode mode{flags, 0x20, 1, compute, {}};
      EXPECT_EQ(Ask(kSubdevice, kCommand, mode), rm::NV_OK);
      const bool finer = (flags & 1U) != 0 && (compute == 1 || compute == 2);
      EXPECT_EQ(executed_, finer) << flags << " " << compute;
      EXPECT_EQ(Load<Mode>(last_.nested[0].bytes).flags, flags) << "the tenant sees its own";
    }
  }
  Mode mode{3, 0x20, 1, 2, {}};
  Decision decision;
  Call call = Control(kSubdevice, kCommand, mode, decision);
  EXPECT_EQ(Load<Mode>(call.nested[0].bytes).flags, 1U) << "the driver is asked for compute alone";
}

// The third is tinygrad's.
TEST_F(FirmwareTest, FlushesNoCacheOfAllTenants) {
  using Flush = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS;
  constexpr std::uint32_t kWriteBack = 1U << 2U;
  constexpr std::uint32_t kInvalidate = 1U << 3U;
  constexpr std::uint32_t kWhole = 1U << 4U;
  constexpr std::uint32_t kFbFlush = 1U << 5U;
  constexpr std::uint32_t kHost = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_SYSTEM_MEMORY;
  const auto ask = [&](std::uint32_t flags, std::uint32_t object = kSubdevice) {
    Flush flush{};
    flush.flags = flags;
    const std::uint32_t status = Ask(object, rm::NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE, flush);
    EXPECT_FALSE(executed_) << flags;
    return status;
  };
  EXPECT_EQ(ask(0), rm::NV_OK) << "nothing is asked for";
  EXPECT_EQ(ask(kInvalidate | kWhole), rm::NV_OK);
  EXPECT_EQ(ask(kWriteBack | kInvalidate | kWhole), rm::NV_OK);
  for (const std::uint32_t flags :
       {kWriteBack, kWriteBack | kWhole, kInvalidate, kFbFlush, kInvalidate | kWhole | kFbFlush,
        kHost | kWriteBack | kInvalidate | kWhole, kHost | kInvalidate | kWhole}) {
    EXPECT_EQ(ask(flags), rm::NV_ERR_NOT_SUPPORTED) << flags;
  }
  EXPECT_EQ(ask(kWriteBack | kInvalidate | kWhole, kDevice), rm::NV_ERR_NOT_SUPPORTED)
      << "on another object";
}

TEST_F(FirmwareTest, DisablesTheContainersOwnChannelsAlone) {
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  constexpr std::uint32_t kCommand = rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS;
  params.numChannels = 2;
  params.hClientList[0] = params.hClientList[1] = kClient;
  params.hChannelList[0] = kSubdevice;
  params.hChannelList[1] = 0x99;
  EXPECT_EQ(Ask(kSubdevice, kCommand, params), rm::NV_ERR_INVALID_CLIENT);
  params.hChannelList[1] = kDevice;
  EXPECT_EQ(Ask(kSubdevice, kCommand, params), rm::NV_OK);
  params.hClientList[1] = 0xc1d00077;
  EXPECT_EQ(Ask(kSubdevice, kCommand, params), rm::NV_ERR_INVALID_CLIENT);
  params.hClientList[1] = kClient;
  params.pRunlistPreemptEvent = 8;
  EXPECT_EQ(Ask(kSubdevice, kCommand, params), rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  params.pRunlistPreemptEvent = 0;
  params.numChannels = 65;
  EXPECT_EQ(Ask(kSubdevice, kCommand, params), rm::NV_ERR_INVALID_ARGUMENT);
}

TEST_F(FirmwareTest, AnswersTheCudaLimitAndTheFabricWithoutTheDriver) {
  EXPECT_EQ(Ask<1>(kDevice, rm::NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL), rm::NV_OK);
  EXPECT_FALSE(executed_);
  Params<4> status{};
  EXPECT_EQ(Ask(kClient, rm::NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS, status), rm::NV_OK);
  EXPECT_EQ(Load<std::uint32_t>(last_.nested[0].bytes), 1U) << "there is none to wait for";
}

TEST_F(FirmwareTest, MasksTheExceptionsOfItsOwnDebuggerAlone) {
  MakeDebugger(0x60);
  EXPECT_EQ(Ask<4>(0x60, rm::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK), rm::NV_OK);
  EXPECT_TRUE(executed_);
  EXPECT_EQ(Ask<4>(kSubdevice, rm::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK),
            rm::NV_ERR_NOT_SUPPORTED);
  EXPECT_EQ(Ask<4>(0x99, rm::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK),
            rm::NV_ERR_OBJECT_NOT_FOUND);
  Params<4824> states{};
  states[0] = std::byte{0x99};
  EXPECT_EQ(Ask(0x60, rm::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, states),
            rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Ask<4>(0x60, rm::NV83DE_CTRL_CMD_DEBUG_SET_MODE_MMU_DEBUG), rm::NV_ERR_NOT_SUPPORTED);
}

// --- The older interface.

class LegacyTest : public BoundaryTest {
 protected:
  void SetUp() override { MakeSubdevice(); }

  std::uint32_t AllocLegacy(std::uint32_t cls, std::uint32_t handle, std::uint32_t flags = 1U << 30,
                            std::uint32_t client = kClient) {
    rm::nv_ioctl_nvos02_parameters_with_fd alloc{};
    alloc.params.hRoot = client;
    alloc.params.hObjectParent = kDevice;
    alloc.params.hObjectNew = handle;
    alloc.params.hClass = cls;
    alloc.params.flags = flags;
    alloc.params.limit = ~std::uint64_t{0};
    alloc.fd = -1;
    call_ = {};
    call_.file.kind = FileKind::kGpu;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_ALLOC_MEMORY, alloc, call_), 0);
    Decision decision = boundary_->Decide(call_);
    if (decision.action == Decision::Action::kExecute) {
      EXPECT_FALSE(Execute(call_, decision).has_value());
    }
    return StatusOf(call_).value();
  }
  [[nodiscard]] std::optional<ledger::ObjectInfo> Find(std::uint32_t handle) const {
    return ledger_->Find(ledger_->FindClient(kClient)->ref, handle);
  }

  Call call_;
};

TEST_F(LegacyTest, MemoryIsChargedAsWhatItIs) {
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_SYSTEM, 0x20), rm::NV_OK);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_LOCAL_PRIVILEGED, 0x21, 1U << 16), rm::NV_OK);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_LOCAL_USER, 0x22), rm::NV_OK);
  EXPECT_EQ(Load<rm::NVOS02_PARAMETERS>(call_.image).limit, 1024 * kMib - 1) << "of the slice";
  ASSERT_TRUE(Find(0x22).has_value());
  EXPECT_EQ(Find(0x22)->cls, rm::NV01_MEMORY_VIRTUAL) << "an object without memory";
  EXPECT_EQ(ledger_->Used(0), 0U);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_LIST_FBMEM, 0x23), rm::NV_ERR_INVALID_CLASS);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_SYSTEM, 0), rm::NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_SYSTEM, 0x24, 1U << 30, 0xc1d00077),
            rm::NV_ERR_INVALID_CLIENT);
  EXPECT_EQ(AllocLegacy(rm::NV01_MEMORY_SYSTEM, 0x24, 0), rm::NV_ERR_INVALID_ARGUMENT)
      << "mapped onto no file of ours";
}

TEST_F(LegacyTest, RegistersAreMappedByNobody) {
  ASSERT_EQ(AllocLegacy(rm::NV01_MEMORY_LOCAL_PRIVILEGED, 0x21, 1U << 16), rm::NV_OK);
  rm::nv_ioctl_nvos33_parameters_with_fd map{};
  map.params.hClient = kClient;
  map.params.hDevice = kDevice;
  map.params.hMemory = 0x21;
  map.params.length = 4096;
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_MAP_MEMORY, map, call), 0);
  call.fd->file = File{FileKind::kGpu, 0, true};
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_PROTECTION_FAULT);
}

TEST_F(LegacyTest, ContextsForDmaAreOfOwnMemory) {
  ASSERT_EQ(AllocMemory(0x20, kMib), rm::NV_OK);
  const auto make = [&](std::uint32_t memory, std::uint32_t cls = rm::NV01_CONTEXT_DMA) {
    rm::NVOS39_PARAMETERS params{};
    params.hObjectParent = kClient;
    params.hObjectNew = 0x30;
    params.hClass = cls;
    params.hMemory = memory;
    Call call;
    EXPECT_EQ(Copy(rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2, params, call), 0);
    Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      EXPECT_FALSE(Execute(call, decision).has_value());
    }
    return StatusOf(call).value();
  };
  EXPECT_EQ(make(0x99), rm::NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(make(0x20, rm::NV01_MEMORY_LOCAL_USER), rm::NV_ERR_INVALID_CLASS);
  EXPECT_EQ(make(0x20), rm::NV_OK);
  EXPECT_TRUE(Find(0x30).has_value());
  ASSERT_EQ(Free(0x20), rm::NV_OK);
  EXPECT_FALSE(Find(0x30).has_value()) << "goes with its memory";
}

TEST_F(LegacyTest, IdleChannelsWaitsForNothingAndForNobodyElse) {
  std::array<std::uint32_t, 2> clients{kClient, kClient};
  std::array<std::uint32_t, 2> handles{kDevice, kDevice};
  rm::NVOS30_PARAMETERS params{};
  params.hClient = kClient;
  params.numChannels = 2;
  params.phClients = memory_.Lend(clients);
  params.phDevices = params.phChannels = memory_.Lend(handles);
  params.timeout = 1000;
  Call call;
  ASSERT_EQ(Copy(rm::NV_ESC_RM_IDLE_CHANNELS, params, call), 0);
  Decision decision = boundary_->Decide(call);
  ASSERT_EQ(decision.action, Decision::Action::kExecute);
  EXPECT_EQ(Load<rm::NVOS30_PARAMETERS>(call.image).timeout, 0U);
  EXPECT_FALSE(Execute(call, decision).has_value());
  EXPECT_EQ(Load<rm::NVOS30_PARAMETERS>(call.image).timeout, 1000U);
  clients[1] = 0xc1d00077;
  call = {};
  ASSERT_EQ(Copy(rm::NV_ESC_RM_IDLE_CHANNELS, params, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  params.numChannels = 1U << 30;
  call = {};
  ASSERT_EQ(Copy(rm::NV_ESC_RM_IDLE_CHANNELS, params, call), 0);
  EXPECT_EQ(boundary_->Decide(call).action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(call), rm::NV_ERR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cgpu::boundary
