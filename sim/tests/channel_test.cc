// Channel groups and channels: what others may do to them, and the pool they come from.
#include <gtest/gtest.h>

#include <memory>

#include "rm/nv_controls.h"
#include "sim/driver/more_controls.h"
#include "sim/tests/process.h"

namespace cgpu::sim {
namespace {

class Channels : public testing::Test {
 protected:
  std::unique_ptr<Driver> driver = MakeDriver("a10");
  Process mine{*driver, 100};
  Process other{*driver, 101};
};

TEST_F(Channels, AnybodyDisablesAnybodysChannels) {
  const rm::NvHandle channel = mine.AllocChannel(mine.AllocGroup(), rm::AMPERE_CHANNEL_GPFIFO_A);
  EXPECT_EQ(rm::NV_OK, other.SwitchChannel(other.subdevice, mine.client, channel, false));
  EXPECT_TRUE(mine.GetAccounting().gpus[0].channels.at(0).disabled);
  EXPECT_EQ(rm::NV_OK, other.SwitchChannel(other.subdevice, mine.client, channel, true));
  EXPECT_FALSE(mine.GetAccounting().gpus[0].channels.at(0).disabled);
}

TEST_F(Channels, GroupsKeepWhatTheControlsSet) {
  const rm::NvHandle group = mine.AllocGroup();
  mine.AllocChannel(group, rm::AMPERE_CHANNEL_GPFIFO_A);
  rm::NVA06C_CTRL_TIMESLICE_PARAMS slice{777};
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, slice));
  rm::NVA06C_CTRL_PREEMPT_PARAMS preempt{};
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, preempt));
  rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS level{2};
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
            mine.Control(group, rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, level));
  mine.caller.nice = true;
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, level));
  rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 schedule{};
  schedule.bEnable = 1;
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, schedule));
  const GpuAccounting accounting = mine.GetAccounting().gpus[0];
  EXPECT_EQ(777U, accounting.groups.at(0).timeslice_us);
  EXPECT_EQ(1U, accounting.groups.at(0).preemptions);
  EXPECT_EQ(2U, accounting.groups.at(0).interleave);
  EXPECT_TRUE(accounting.groups.at(0).scheduled);
  EXPECT_TRUE(accounting.channels.at(0).scheduled);
}

TEST_F(Channels, AStoppedChannelIsSeenInTheAccounting) {
  const rm::NvHandle channel = mine.AllocChannel(mine.AllocGroup(), rm::AMPERE_CHANNEL_GPFIFO_A);
  rm::NvU8 immediate = 1;
  EXPECT_EQ(rm::NV_OK, mine.Control(channel, NVA06F_CTRL_CMD_STOP_CHANNEL, immediate));
  EXPECT_TRUE(mine.GetAccounting().gpus[0].channels.at(0).stopped);
}

TEST_F(Channels, OneTenantCanTakeAllNumbersOfARunlist) {
  const rm::NvHandle group = mine.AllocGroup();
  for (unsigned i = 0; i < ChannelIds::kPerRunlist; ++i) {
    ASSERT_NE(0U, mine.AllocChannel(group, rm::AMPERE_CHANNEL_GPFIFO_A));
  }
  const rm::NvHandle theirs = other.AllocGroup();
  rm::NV_CHANNEL_ALLOC_PARAMS_V570 params{};
  rm::NvHandle handle = 0;
  EXPECT_EQ(rm::NV_ERR_NO_MEMORY,
            other.TryAlloc(theirs, rm::AMPERE_CHANNEL_GPFIFO_A, params, &handle));
  EXPECT_EQ(rm::NV_OK, mine.Free(group));
  EXPECT_NE(0U, other.AllocChannel(theirs, rm::AMPERE_CHANNEL_GPFIFO_A));
}

TEST_F(Channels, OneTenantCanTakeAllNumbersOfGroups) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
  params.engineType = rm::NV2080_ENGINE_TYPE_COPY0;  // takes nothing of the GPU
  rm::NvHandle handle = 0;
  for (unsigned i = 0; i < ChannelIds::kPerRunlist; ++i) {
    handle = 0;
    ASSERT_EQ(rm::NV_OK, mine.TryAlloc(mine.device, rm::KEPLER_CHANNEL_GROUP_A, params, &handle));
  }
  rm::NvHandle theirs = 0;
  EXPECT_EQ(rm::NV_ERR_NO_FREE_FIFOS,
            other.TryAlloc(other.device, rm::KEPLER_CHANNEL_GROUP_A, params, &theirs));
  EXPECT_NE(0U, other.AllocGroup()) << "another engine has a runlist of its own";
  EXPECT_EQ(rm::NV_OK, mine.Free(handle));
  EXPECT_EQ(rm::NV_OK, other.TryAlloc(other.device, rm::KEPLER_CHANNEL_GROUP_A, params, &theirs));
}

TEST_F(Channels, IdlingIsForOnesOwnClient) {
  const rm::NvHandle channel = mine.AllocChannel(mine.AllocGroup(), rm::AMPERE_CHANNEL_GPFIFO_A);
  rm::NVOS30_PARAMETERS api{};
  api.hClient = mine.client;
  api.hDevice = mine.device;
  api.hChannel = channel;
  api.numChannels = 1;
  api.flags = 1U << 4;  // a single channel
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_IDLE_CHANNELS, api));
  EXPECT_EQ(rm::NV_OK, api.status);
  EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_IDLE_CHANNELS, api));
  EXPECT_EQ(rm::NV_ERR_INVALID_CLIENT, api.status);
  rm::NvHandle clients[1] = {mine.client};
  api.hClient = other.client;
  api.flags = 0;
  api.phClients = reinterpret_cast<rm::NvP64>(clients);
  EXPECT_EQ(0, other.Ioctl(other.ctl, rm::NV_ESC_RM_IDLE_CHANNELS, api));
  EXPECT_EQ(rm::NV_ERR_INSUFFICIENT_PERMISSIONS, api.status);
}

}  // namespace
}  // namespace cgpu::sim
