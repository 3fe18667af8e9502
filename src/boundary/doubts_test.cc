// Calls that use what a tenant's own call may have made, or may have made elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "boundary/testing.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t kDoubtPinned = 0x71;
constexpr std::uint32_t kDoubtGroup = 0x60;
constexpr std::uint32_t kDoubtPeers = 0x61;
constexpr std::uint32_t kDoubtRange = 0x62;

class DoubtfulTest : public BoundaryTest {
 protected:
  // A call of the tenant's, with the decision on it.
  struct Decided {
    Call call;
    Decision decision;
  };
  using Ask = std::function<Decided()>;

  void SetUp() override {
    MakeSubdevice();
    ASSERT_EQ(Alloc(kDevice, kDoubtGroup, rm::KEPLER_CHANNEL_GROUP_A, memory_.Lend(group_)),
              rm::NV_OK);
    ASSERT_EQ(Alloc(kSubdevice, kDoubtPeers, rm::NV50_THIRD_PARTY_P2P, memory_.Lend(flags_)),
              rm::NV_OK);
    ASSERT_EQ(Alloc(kDevice, kDoubtRange, rm::NV01_MEMORY_VIRTUAL, memory_.Lend(range_)),
              rm::NV_OK);
  }

  template <class T>
  Decided Make(std::uint32_t nr, T& params, FileKind kind = FileKind::kControl) {
    Decided made;
    made.call.process = 1;
    made.call.file.kind = kind;
    EXPECT_EQ(Copy(nr, params, made.call), 0);
    if (made.call.fd) {
      made.call.fd->file = File{FileKind::kControl, 255, true};
    }
    made.decision = boundary_->Decide(made.call);
    return made;
  }
  Decided Pin(std::uint32_t handle = kDoubtPinned) {
    rm::nv_ioctl_nvos02_parameters_with_fd pin{};
    pin.params.hRoot = kClient;
    pin.params.hObjectParent = kDevice;
    pin.params.hObjectNew = handle;
    pin.params.hClass = rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
    return Make(rm::NV_ESC_RM_ALLOC_MEMORY, pin, FileKind::kGpu);
  }
  template <class T>
  Decided MakeObject(std::uint32_t cls, T params, std::uint32_t parent = kDevice) {
    Decided made;
    made.call = CopyAlloc(parent, 0x90, cls, memory_.Lend(params));
    made.decision = boundary_->Decide(made.call);
    return made;
  }
  template <class T>
  Decided MakeControl(std::uint32_t object, std::uint32_t command, T params,
                      std::optional<ledger::FileKey> tag = std::nullopt) {
    Decided made;
    made.call = Control(object, command, params, made.decision, tag);
    return made;
  }
  [[nodiscard]] std::uint32_t Handles() const { return ledger_->Count().handles; }
  using Named = std::vector<std::pair<std::string, Ask>>;
  Named ChannelUses();
  Named OtherAllocs();
  Named OtherUses();
  Named Uses();

  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group_{};
  std::uint32_t flags_ = 0;
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS range_{};
};

// The following return calls that use it, each in a parameter of its own.
DoubtfulTest::Named DoubtfulTest::ChannelUses() {
  return {
      {"error notifiers",
       [this] {
         rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
         params.hObjectError = kDoubtPinned;
         return MakeObject(rm::VOLTA_CHANNEL_GPFIFO_A, params);
       }},
      {"USERD",
       [this] {
         rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
         params.hUserdMemory[7] = kDoubtPinned;
         return MakeObject(rm::VOLTA_CHANNEL_GPFIFO_A, params);
       }},
      {"a channel's address space",
       [this] {
         rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
         params.hVASpace = kDoubtPinned;
         return MakeObject(rm::VOLTA_CHANNEL_GPFIFO_A, params);
       }},
      {"a group's error notifiers",
       [this] {
         rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
         params.hObjectEccError = kDoubtPinned;
         return MakeObject(rm::KEPLER_CHANNEL_GROUP_A, params);
       }},
      {"a group's address space",
       [this] {
         rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
         params.hVASpace = kDoubtPinned;
         return MakeObject(rm::KEPLER_CHANNEL_GROUP_A, params);
       }},
      {"a context share's address space",
       [this] {
         rm::NV_CTXSHARE_ALLOCATION_PARAMETERS params{};
         params.hVASpace = kDoubtPinned;
         return MakeObject(rm::FERMI_CONTEXT_SHARE_A, params, kDoubtGroup);
       }},
  };
}

DoubtfulTest::Named DoubtfulTest::OtherAllocs() {
  return {
      {"parent",
       [this] {
         return MakeObject(rm::NV01_MEMORY_SYSTEM, rm::NV_MEMORY_ALLOCATION_PARAMS{}, kDoubtPinned);
       }},
      {"context DMA",
       [this] {
         rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS params{};
         params.hMemory = kDoubtPinned;
         return MakeObject(rm::NV01_CONTEXT_DMA, params);
       }},
      {"semaphores",
       [this] {
         const std::array<std::uint32_t, 4> params{kDoubtPinned};
         return MakeObject(rm::NV_SEMAPHORE_SURFACE, params);
       }},
      {"older context DMA",
       [this] {
         rm::NVOS39_PARAMETERS params{};
         params.hObjectParent = kClient;
         params.hObjectNew = 0x90;
         params.hClass = rm::NV01_CONTEXT_DMA;
         params.hMemory = kDoubtPinned;
         return Make(rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2, params);
       }},
  };
}

DoubtfulTest::Named DoubtfulTest::OtherUses() {
  return {
      {"copy",
       [this] {
         rm::NVOS55_PARAMETERS params{};
         params.hClient = params.hClientSrc = kClient;
         params.hParent = kDevice;
         params.hObject = 0x90;
         params.hObjectSrc = kDoubtPinned;
         return Make(rm::NV_ESC_RM_DUP_OBJECT, params);
       }},
      {"share",
       [this] {
         rm::NVOS57_PARAMETERS params{};
         params.hClient = kClient;
         params.hObject = kDoubtPinned;
         return Make(rm::NV_ESC_RM_SHARE, params);
       }},
      {"view",
       [this] {
         rm::nv_ioctl_nvos33_parameters_with_fd params{};
         params.params.hClient = kClient;
         params.params.hDevice = kDevice;
         params.params.hMemory = kDoubtPinned;
         params.params.length = 4096;
         return Make(rm::NV_ESC_RM_MAP_MEMORY, params);
       }},
      {"mapping",
       [this] {
         rm::NVOS46_PARAMETERS_V535 params{};
         params.hClient = kClient;
         params.hDevice = kDevice;
         params.hDma = kDoubtRange;
         params.hMemory = kDoubtPinned;
         params.length = 4096;
         return Make(rm::NV_ESC_RM_MAP_MEMORY_DMA, params);
       }},
      {"control",
       [this] {
         return MakeControl(kDoubtPinned, rm::NV0041_CTRL_CMD_GET_SURFACE_INFO,
                            std::array<std::uint64_t, 2>{});
       }},
      {"third parties' memory",
       [this] {
         const std::array<std::uint64_t, 4> params{kDoubtPinned};
         return MakeControl(kDoubtPeers, rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, params);
       }},
      {"export",
       [this] {
         rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params{};
         params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
         params.object.data.rmObject.hObject = kDoubtPinned;
         return MakeControl(kClient, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, params, 7);
       }},
      {"pinned again", [this] { return Pin(); }},
  };
}

DoubtfulTest::Named DoubtfulTest::Uses() {
  Named all = ChannelUses();
  for (Named more : {OtherAllocs(), OtherUses()}) {
    std::ranges::move(more, std::back_inserter(all));
  }
  return all;
}

TEST_F(DoubtfulTest, EveryUseAsksFirst) {
  for (const auto& [what, ask] : Uses()) {
    SCOPED_TRACE(what);
    ASSERT_EQ(Pin().decision.action, Decision::Action::kContinue);
    const std::uint32_t handles = Handles();
    Decided made = ask();
    ASSERT_EQ(made.decision.action, Decision::Action::kAsk);
    ASSERT_EQ(made.decision.doubts.size(), 1U);
    const ledger::Doubt doubt = made.decision.doubts[0];
    EXPECT_EQ(doubt.client.handle, kClient);
    EXPECT_EQ(doubt.object.handle, kDoubtPinned);
    EXPECT_EQ(doubt.parent, kDevice);
    EXPECT_EQ(doubt.cls, rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR);
    boundary_->Settle(doubt, true);
    made = ask();
    EXPECT_NE(made.decision.action, Decision::Action::kAsk);
    EXPECT_NE(made.decision.action, Decision::Action::kAnswer) << StatusOf(made.call).value_or(0);
    if (made.decision.action == Decision::Action::kExecute) {
      (void)boundary_->Account(made.call, made.decision, EIO);
      EXPECT_EQ(Handles(), handles);
    }
    ASSERT_EQ(Free(kDoubtPinned), rm::NV_OK);
  }
}

TEST_F(DoubtfulTest, WhatTheDriverDoesNotHaveIsUnknown) {
  for (const auto& [what, ask] : Uses()) {
    SCOPED_TRACE(what);
    ASSERT_EQ(Pin().decision.action, Decision::Action::kContinue);
    Decided made = ask();
    ASSERT_EQ(made.decision.action, Decision::Action::kAsk);
    boundary_->Settle(made.decision.doubts.at(0), false);
    const std::uint32_t handles = Handles();
    made = ask();
    EXPECT_EQ(made.decision.action,
              what == "pinned again" ? Decision::Action::kContinue : Decision::Action::kAnswer);
    EXPECT_EQ(Handles(), handles + (what == "pinned again" ? 1 : 0));
  }
}

// The driver has it in any case, or it has nothing: what goes is certain afterwards.
TEST_F(DoubtfulTest, AFreeAsksNothing) {
  ASSERT_EQ(Pin().decision.action, Decision::Action::kContinue);
  const std::uint32_t handles = Handles();
  ASSERT_EQ(Free(kDoubtPinned), rm::NV_OK);
  EXPECT_EQ(Handles(), handles - 1);
  ASSERT_EQ(Pin().decision.action, Decision::Action::kContinue);
  ASSERT_EQ(Free(kDevice), rm::NV_OK);
  EXPECT_EQ(Handles(), 1U) << "it may lie below something else";
}

TEST_F(DoubtfulTest, ObjectsHaveAQuotaHoweverTheyAreMade) {
  for (std::uint32_t i = Handles(); i < kQuotas.handles; ++i) {
    ASSERT_EQ(Pin(i % 3 == 0   ? 0
                  : i % 3 == 1 ? kDoubtGroup
                               : 0x1000 + i)
                  .decision.action,
              Decision::Action::kContinue);
  }
  const Decided more = Pin(0x9999);
  EXPECT_EQ(more.decision.action, Decision::Action::kAnswer);
  EXPECT_EQ(StatusOf(more.call), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

// The driver looks for the memory by the group's handle when the channel is made.
TEST_F(DoubtfulTest, AChannelOfAGroupWhoseMemoryIsGoneIsRefused) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.hObjectError = kDoubtPinned;
  ASSERT_EQ(AllocMemory(kDoubtPinned, kMib), rm::NV_OK);
  ASSERT_EQ(Alloc(kDevice, 0x63, rm::KEPLER_CHANNEL_GROUP_A, memory_.Lend(group)), rm::NV_OK);
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 channel{};
  const std::uint64_t params = memory_.Lend(channel);
  ASSERT_EQ(Free(kDoubtPinned), rm::NV_OK);
  EXPECT_EQ(Alloc(0x63, 0x64, rm::VOLTA_CHANNEL_GPFIFO_A, params),
            rm::NV_ERR_INVALID_OBJECT_HANDLE);
  ASSERT_EQ(AllocMemory(kDoubtPinned, kMib), rm::NV_OK);
  EXPECT_EQ(Alloc(0x63, 0x64, rm::VOLTA_CHANNEL_GPFIFO_A, params), rm::NV_OK);
}

// Their states have no word of doubts or strays.
TEST_F(DoubtfulTest, EarlierVersionsTookThemAsCertain) {
  enum Tag : StateTag { kSerial = 1, kGpu = 2, kClientRow = 4, kObject = 5 };
  StateWriter writer;
  writer.Begin(1);
  writer.Row(kSerial, 9);
  writer.Row(kGpu, kMib, 0, 0);
  writer.Row(kGpu, kMib, 0, 0);
  writer.Row(kClientRow, 1, kClient, 1, 1);
  writer.Row(kObject, 2, kClient, kDevice, kClient, rm::NV01_DEVICE_0, 1, 0);
  writer.Row(kObject, 3, kClient, kDoubtPinned, kDevice, rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, 1,
             0);
  writer.End();
  writer.Begin(2);
  Boundary(abi_, boundary_->gpus(), *ledger_).Save(writer);
  writer.End();
  const std::vector<GpuIds> gpus = boundary_->gpus();
  boundary_.reset();
  ledger_ = std::make_unique<ledger::Ledger>(std::vector<std::uint64_t>{1, 1}, kQuotas);
  boundary_ = std::make_unique<Boundary>(abi_, gpus, *ledger_);
  ASSERT_TRUE(LoadBoth(writer.Take(), *ledger_, *boundary_).ok());
  const ledger::ClientRef client{kClient, 1};
  EXPECT_TRUE(ledger_->Look(client, kDoubtPinned)->doubtful);
  EXPECT_FALSE(ledger_->Look(client, kDevice)->doubtful);
}

}  // namespace
}  // namespace cgpu::boundary
