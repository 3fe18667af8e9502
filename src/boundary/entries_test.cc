// Quotas of what the driver keeps for clients in the kernel's memory: each entry counts as long as
// the driver has it, and a hand-over does not forget it.
#include <gtest/gtest.h>

#include <array>

#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "boundary/testing.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t kOther = 0xc1d00002;
constexpr std::uint32_t kThirdParty = 0x12;

class EntriesTest : public BoundaryTest {
 protected:
  void SetUp() override {
    MakeSubdevice();
    ASSERT_EQ(Alloc(0, kOther, rm::NV01_ROOT, 0, 0), rm::NV_OK);
    hands_over_ = false;  // too slow for so many calls
  }

  // Returns the driver's status, if the driver is asked.
  template <class T>
  std::uint32_t Ask(std::uint32_t nr, T params, std::uint32_t answer = rm::NV_OK) {
    FakeMemory memory;
    memory.Lend(params);
    Call call;
    call.process = 1;
    EXPECT_EQ(Decode(abi_, rm::EscapeRequest(static_cast<rm::NvU8>(nr), sizeof(T)),
                     std::bit_cast<std::uint64_t>(&params), memory, call),
              0);
    CopyInRest(memory, call);
    Decision decision = boundary_->Decide(call);
    if (decision.action == Decision::Action::kExecute) {
      SetStatus(call, answer);
      EXPECT_FALSE(boundary_->Account(call, decision, 0).has_value());
    }
    return StatusOf(call).value();
  }

  std::uint32_t TakeEvent(std::uint32_t client, std::uint32_t fd,
                          std::uint32_t answer = rm::NV_OK) {
    return Ask(rm::NV_ESC_ALLOC_OS_EVENT, rm::nv_ioctl_alloc_os_event_t{client, kDevice, fd, 0},
               answer);
  }
  std::uint32_t FreeEvent(std::uint32_t fd, std::uint32_t answer = rm::NV_OK) {
    return Ask(rm::NV_ESC_FREE_OS_EVENT, rm::nv_ioctl_free_os_event_t{kClient, kDevice, fd, 0},
               answer);
  }

  std::uint32_t Share(std::uint32_t owner, std::uint32_t target, std::uint8_t action = 0,
                      std::uint16_t type = rm::RS_SHARE_TYPE_CLIENT) {
    rm::NVOS57_PARAMETERS share{};
    share.hClient = owner;
    share.hObject = owner;
    share.sharePolicy.target = target;
    share.sharePolicy.type = type;
    share.sharePolicy.action = action;
    return Ask(rm::NV_ESC_RM_SHARE, share);
  }
  std::uint32_t Inherit(std::uint32_t target) {
    rm::RS_SHARE_POLICY policy{};
    policy.type = rm::RS_SHARE_TYPE_CLIENT;
    policy.target = target;
    return Command(kClient, rm::NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, policy);
  }
  template <class T>
  std::uint32_t Command(std::uint32_t object, std::uint32_t command, T params) {
    Decision decision;
    Call call = Control(object, command, params, decision);
    if (decision.action == Decision::Action::kExecute) {
      EXPECT_FALSE(Execute(call, decision).has_value());
    }
    return StatusOf(call).value();
  }

  void Fill(std::uint32_t owner, std::uint32_t target, std::uint64_t leave = 0) {
    for (std::uint64_t i = 0; i < kMaxEntries - leave; ++i) {
      ASSERT_EQ(Share(owner, target), rm::NV_OK) << i;
    }
  }
  void EndClient(std::uint32_t client) {
    ASSERT_TRUE(ledger_->RemoveClient(ledger_->FindClient(client)->ref));
  }
};

TEST_F(EntriesTest, EventsOfTheSystemAreBounded) {
  for (std::uint32_t fd = 0; fd < kMaxOsEvents; ++fd) {
    ASSERT_EQ(TakeEvent(fd % 2 == 0 ? kClient : kOther, fd), rm::NV_OK) << fd;
  }
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  HandOver(abi_, kQuotas, ledger_, boundary_);
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(TakeEvent(kClient, 0), rm::NV_OK) << "of a file that was closed: none is added";
  EXPECT_EQ(FreeEvent(1, rm::NV_ERR_INVALID_EVENT), rm::NV_ERR_INVALID_EVENT);
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_ERR_INSUFFICIENT_RESOURCES) << "it was the other's";
  EXPECT_EQ(FreeEvent(0), rm::NV_OK);
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_OK);
  EXPECT_EQ(TakeEvent(kClient, 7001), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(FreeEvent(2, rm::NV_ERR_INVALID_EVENT), rm::NV_ERR_INVALID_EVENT);
  EXPECT_EQ(TakeEvent(kClient, 7001), rm::NV_OK) << "the driver had none any more";
}

TEST_F(EntriesTest, EventsGoWithTheirClient) {
  for (std::uint32_t fd = 0; fd < kMaxOsEvents; ++fd) {
    ASSERT_EQ(TakeEvent(kOther, fd), rm::NV_OK) << fd;
  }
  EndClient(kOther);
  for (std::uint32_t fd = 0; fd < kMaxOsEvents; ++fd) {
    ASSERT_EQ(TakeEvent(kClient, fd), rm::NV_OK) << fd;
  }
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(EntriesTest, WhatTheDriverRefusedMayBeThereAlready) {
  for (std::uint32_t fd = 0; fd < kMaxOsEvents; ++fd) {
    ASSERT_EQ(TakeEvent(kClient, fd, rm::NV_ERR_INVALID_ARGUMENT), rm::NV_ERR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(TakeEvent(kClient, 7000), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(EntriesTest, SharesWithClientsAreBounded) {
  Fill(kClient, kOther);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(Share(kOther, kClient), rm::NV_ERR_INSUFFICIENT_RESOURCES) << "all have one quota";
  EXPECT_EQ(Inherit(kOther), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(Share(kClient, 0, 0, rm::RS_SHARE_TYPE_ALL), rm::NV_OK) << "merged";
  EXPECT_EQ(Share(kClient, 0, 0, rm::RS_SHARE_TYPE_PID), rm::NV_OK);
  HandOver(abi_, kQuotas, ledger_, boundary_);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EndClient(kOther);
  ASSERT_EQ(Alloc(0, kOther, rm::NV01_ROOT, 0, 0), rm::NV_OK);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_OK) << "they were in the list of the one that is gone";
}

TEST_F(EntriesTest, APolicyThatOutlivesItsClientCountsForItsOwnerToo) {
  Fill(kClient, kOther, 4);
  EXPECT_EQ(Share(kClient, kOther, rm::RS_SHARE_ACTION_FLAG_REQUIRE), rm::NV_OK);
  EXPECT_EQ(Inherit(kOther), rm::NV_OK);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_OK);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EndClient(kOther);
  ASSERT_EQ(Alloc(0, kOther, rm::NV01_ROOT, 0, 0), rm::NV_OK);
  Fill(kClient, kOther, 1);
  EXPECT_EQ(Share(kClient, kOther), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(EntriesTest, SpacesRegisteredForThirdPartiesAreBounded) {
  const std::array<rm::NvU32, 4> space{};  // NV503C_CTRL_REGISTER_VA_SPACE_PARAMS
  rm::NvU32 flags = 1;
  ASSERT_EQ(Alloc(kSubdevice, kThirdParty, rm::NV50_THIRD_PARTY_P2P, memory_.Lend(flags)),
            rm::NV_OK)
      << "cuInit fails without one";
  Fill(kOther, kClient, 1);
  EXPECT_EQ(Command(kThirdParty, rm::NV503C_CTRL_CMD_REGISTER_VA_SPACE, space), rm::NV_OK);
  EXPECT_EQ(Command(kThirdParty, rm::NV503C_CTRL_CMD_REGISTER_VA_SPACE, space),
            rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(EntriesTest, SessionsOfEncodersAreBounded) {
  rm::NVA0BC_ALLOC_PARAMETERS session{};
  const std::uint64_t lent = memory_.Lend(session);
  for (std::uint32_t i = 0; i < kQuotas.debuggers; ++i) {
    EXPECT_EQ(Alloc(kSubdevice, 0x40 + i, rm::NVENC_SW_SESSION, lent), rm::NV_OK);
  }
  EXPECT_EQ(Alloc(kSubdevice, 0x80, rm::NVENC_SW_SESSION, lent), rm::NV_ERR_INSUFFICIENT_RESOURCES);
}

TEST_F(EntriesTest, ASessionKeepsHostMemoryAlone) {
  rm::NVA0BC_ALLOC_PARAMETERS session{};
  session.version = rm::NVA0BC_ALLOC_PARAMS_VER_1;
  rm::NV_MEMORY_ALLOCATION_PARAMS memory{};
  memory.size = 65536;
  ASSERT_EQ(Alloc(kDevice, 0x30, rm::NV01_MEMORY_LOCAL_USER, memory_.Lend(memory)), rm::NV_OK);
  ASSERT_EQ(Alloc(kDevice, 0x31, rm::NV01_MEMORY_SYSTEM, memory_.Lend(memory)), rm::NV_OK);
  session.hMem = 0x30;
  EXPECT_EQ(Alloc(kSubdevice, 0x40, rm::NVENC_SW_SESSION, memory_.Lend(session)),
            rm::NV_ERR_NOT_SUPPORTED);
  session.hMem = 0x31;
  EXPECT_EQ(Alloc(kSubdevice, 0x40, rm::NVENC_SW_SESSION, memory_.Lend(session)), rm::NV_OK);
}

TEST_F(EntriesTest, AMappersQueueIsBoundedAndSoAreMappers) {
  rm::NvU32 params[6] = {0, kMaxMapperQueue + 1};
  const std::uint64_t lent = memory_.Lend(params);
  EXPECT_EQ(Alloc(kSubdevice, 0x40, rm::NV_MEMORY_MAPPER, lent), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  params[1] = ~0U;
  EXPECT_EQ(Alloc(kSubdevice, 0x40, rm::NV_MEMORY_MAPPER, lent), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  params[1] = kMaxMapperQueue;
  for (std::uint32_t i = 0; i < kQuotas.debuggers; ++i) {
    EXPECT_EQ(Alloc(kSubdevice, 0x40 + i, rm::NV_MEMORY_MAPPER, lent), rm::NV_OK);
  }
  EXPECT_EQ(Alloc(kSubdevice, 0x80, rm::NV_MEMORY_MAPPER, lent), rm::NV_ERR_INSUFFICIENT_RESOURCES);
  EXPECT_EQ(Free(0x40), rm::NV_OK);
  EXPECT_EQ(Alloc(kSubdevice, 0x80, rm::NV_MEMORY_MAPPER, lent), rm::NV_OK);
}

}  // namespace
}  // namespace cgpu::boundary
