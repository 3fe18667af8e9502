// Calls that the driver lets reach beyond the caller, as a slice may use them.
#include <gtest/gtest.h>

#include <array>

#include "boundary/testing.h"
#include "rm/control_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

class ControlsTest : public BoundaryTest {
 protected:
  void SetUp() override { MakeSubdevice(); }

  template <class T>
  std::uint32_t Ask(std::uint32_t object, std::uint32_t command, T& params) {
    Decision decision;
    last_ = Control(object, command, params, decision);
    executed_ = decision.action == Decision::Action::kExecute;
    if (executed_) {
      EXPECT_FALSE(Execute(last_, decision).has_value());
    }
    return StatusOf(last_).value();
  }

  bool executed_ = false;
  Call last_;
};

TEST_F(ControlsTest, LeadToNoMoreThanTheLimit) {
  for (const rm::ControlRow& row : rm::ControlRows()) {
    EXPECT_LE(rm::EmbeddedPointers(row.cmd).size() * rm::kMaxEmbeddedBytes, kMaxRest) << row.name;
  }
}

// Holds for both ways to give the list.
TEST_F(ControlsTest, ResetsNoCounterOfTheBus) {
  struct Pair {
    std::uint32_t index = 0;
    std::uint32_t data = 0;
  };
  for (std::uint32_t index = 0; index < 0x40; ++index) {
    struct {
      std::uint32_t count = 2;
      std::array<Pair, 52> list{};
    } in_place;
    static_assert(sizeof(in_place) == 420);
    in_place.list[1].index = index;
    std::array<Pair, 2> elsewhere{Pair{}, Pair{index, 0}};
    struct {
      std::uint32_t count = 2;
      std::uint32_t unused = 0;
      std::uint64_t list = 0;
    } pointer;
    pointer.list = memory_.Lend(elsewhere);
    const bool resets = index == 0x11 || index == 0x12 || index == 0x15 ||
                        (index >= 0x20 && index <= 0x23) || (index >= 0x28 && index <= 0x2b);
    const std::uint32_t expected = resets ? rm::NV_ERR_INSUFFICIENT_PERMISSIONS : rm::NV_OK;
    EXPECT_EQ(Ask(kSubdevice, rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2, in_place), expected) << index;
    EXPECT_NE(executed_, resets);
    EXPECT_EQ(Ask(kSubdevice, rm::NV2080_CTRL_CMD_BUS_GET_INFO, pointer), expected) << index;
    EXPECT_NE(executed_, resets);
    in_place.count = 1;
    EXPECT_EQ(Ask(kSubdevice, rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2, in_place), rm::NV_OK)
        << "what is not in the list is not asked";
    in_place.count = ~0U;
    EXPECT_EQ(Ask(kSubdevice, rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2, in_place), expected)
        << "the driver says what is wrong with the length";
  }
}

TEST_F(ControlsTest, TellsOfNoErrorsOfTheContextOnTheGpu) {
  MakeDebugger(0x60);
  std::array<std::uint32_t, 4824 / 4> states{};
  for (const std::uint32_t channel : {0U, kDevice}) {
    states.fill(7);
    states[0] = channel;
    EXPECT_EQ(Ask(0x60, rm::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, states), rm::NV_OK);
    EXPECT_FALSE(executed_);
    auto expected = states;
    std::fill(expected.begin() + 2, expected.end() - 1, 0U);
    EXPECT_EQ((Load<decltype(states)>(last_.nested[0].bytes)), expected);
    std::array<std::uint32_t, 2> cleared{channel, 0};
    EXPECT_EQ(Ask(0x60, rm::NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES, cleared), rm::NV_OK);
    EXPECT_FALSE(executed_);
  }
}

// The driver would keep an uncharged copy of a GPU's memory.
TEST_F(ControlsTest, KeepsStatisticsOfEncryptionInOwnHostMemoryAlone) {
  std::array<std::uint32_t, 256> zeros{};
  ASSERT_EQ(Alloc(kDevice, 0x20, rm::HOPPER_CHANNEL_GPFIFO_A, memory_.Lend(zeros)), rm::NV_OK);
  ASSERT_EQ(AllocMemory(0x21, kMib), rm::NV_OK);
  rm::NV_MEMORY_ALLOCATION_PARAMS memory{};
  memory.size = kMib;
  ASSERT_EQ(Alloc(kDevice, 0x22, rm::NV01_MEMORY_SYSTEM, memory_.Lend(memory)), rm::NV_OK);
  constexpr std::pair<std::uint32_t, bool> kCases[] = {
      {0, true}, {0x22, true}, {0x21, false}, {0x99, false}};
  for (const auto& [handle, allowed] : kCases) {
    std::array<std::uint32_t, 32> kmb{};
    kmb[31] = handle;
    EXPECT_EQ(Ask(0x20, rm::NVC56F_CTRL_CMD_GET_KMB, kmb),
              allowed ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_HANDLE)
        << handle;
    EXPECT_EQ(executed_, allowed);
  }
}

TEST_F(ControlsTest, TellsThatAChannelOfTheGpuFailedAndNotHow) {
  for (const bool error : {true, false}) {
    rm::NvUnixEvent event{};
    rm::NVOS41_PARAMETERS params{};
    params.pEvent = memory_.Lend(event);
    Call call;
    ASSERT_EQ(Copy(rm::NV_ESC_RM_GET_EVENT_DATA, params, call), 0);
    Decision decision = boundary_->Decide(call);
    const rm::NvU32 index = error ? rm::NV2080_NOTIFIERS_RC_ERROR : 35U;
    Store(call.nested[0].bytes, rm::NvUnixEvent{0x30, index, 31, 2});
    (void)Execute(call, decision);
    const auto seen = Load<rm::NvUnixEvent>(call.nested[0].bytes);
    EXPECT_EQ(seen.hObject, 0x30U);
    EXPECT_EQ(seen.NotifyIndex, index);
    EXPECT_EQ(seen.info32, error ? 0U : 31U);
    EXPECT_EQ(seen.info16, error ? 0U : 2U);
  }
}

TEST_F(ControlsTest, GivesNobodyAVideoEngineForHimself) {
  std::array<std::uint32_t, 256> zeros{};
  ASSERT_EQ(Alloc(kDevice, 0x20, rm::TURING_CHANNEL_GPFIFO_A, memory_.Lend(zeros)), rm::NV_OK);
  rm::NVOS21_PARAMETERS alloc{};
  alloc.hRoot = kClient;
  alloc.hObjectParent = 0x20;
  alloc.hObjectNew = 0x30;
  for (const std::uint32_t cls : {rm::NVC4B0_VIDEO_DECODER, rm::NVC4B7_VIDEO_ENCODER,
                                  rm::NVC4D1_VIDEO_NVJPG, rm::NVC6FA_VIDEO_OFA}) {
    for (const std::uint32_t flag : {0U, 1U, ~0U}) {
      const std::array<std::uint32_t, 3> given{12, flag, 2};
      std::array<std::uint32_t, 3> params = given;
      alloc.hObjectNew++;
      alloc.hClass = cls;
      alloc.pAllocParms = memory_.Lend(params);
      Call call;
      ASSERT_EQ(Copy(rm::NV_ESC_RM_ALLOC, alloc, call), 0);
      Decision decision = boundary_->Decide(call);
      ASSERT_NE(AllocParameters(call), nullptr);
      using Params = std::array<std::uint32_t, 3>;
      EXPECT_EQ(Load<Params>(*AllocParameters(call)), (Params{12, 0, 2})) << "for the driver";
      EXPECT_FALSE(Execute(call, decision).has_value());
      EXPECT_EQ(Load<Params>(*AllocParameters(call)), given) << "the tenant sees its own";
    }
    EXPECT_EQ(Alloc(0x20, ++alloc.hObjectNew, cls), rm::NV_OK) << "without parameters";
  }
}

}  // namespace
}  // namespace cgpu::boundary
