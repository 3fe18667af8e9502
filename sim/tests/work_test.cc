// Tests of the driver's messages to the engines: which channels there are, what their addresses
// lead to, and what a call waits for.
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_events.h"
#include "sim/driver/more_controls.h"
#include "sim/tests/uvm_process.h"

namespace cgpu::sim {
namespace {

// Engines that note what they are told, and answer what the test wants.
class NotedGpu final : public GpuPort {
 public:
  std::vector<GpuGroupSetup> groups;
  std::vector<GpuChannelSetup> channels;
  std::vector<GpuKey> removed;
  std::vector<rm::NvU64> invalidated;
  std::vector<std::pair<std::vector<GpuKey>, bool>> scheduled;
  std::vector<std::pair<std::vector<GpuKey>, bool>> disabled;
  std::vector<std::pair<GpuKey, rm::NvU64>> slices;
  std::vector<std::pair<GpuTicket, rm::NvU64>> awaited;
  std::vector<GpuSample> samples;
  std::vector<GpuEventBuffer> events;
  Waited answer = Waited::kDone;

  void AddGroup(const GpuGroupSetup& group) override { groups.push_back(group); }
  void RemoveGroup(GpuKey group) override { removed.push_back(group); }
  void SetTimeslice(GpuKey group, rm::NvU64 us) override { slices.emplace_back(group, us); }
  void SetInterleave(GpuKey /*group*/, rm::NvU32 /*level*/) override {}
  void AddChannel(const GpuChannelSetup& channel) override { channels.push_back(channel); }
  void RemoveChannel(GpuKey channel) override { removed.push_back(channel); }
  void SetEventBuffer(const GpuEventBuffer& buffer) override { events.push_back(buffer); }
  void RemoveEventBuffer(GpuKey buffer) override { removed.push_back(buffer); }
  GpuTicket Schedule(std::span<const GpuKey> keys, bool on) override {
    scheduled.emplace_back(std::vector(keys.begin(), keys.end()), on);
    return 1;
  }
  GpuTicket Disable(std::span<const GpuKey> keys, bool off, bool /*only_scheduling*/) override {
    disabled.emplace_back(std::vector(keys.begin(), keys.end()), off);
    return 2;
  }
  GpuTicket Preempt(GpuKey /*group*/) override { return 3; }
  GpuTicket Restart(GpuKey /*channel*/) override { return 5; }
  GpuTicket Stop(GpuKey /*channel*/) override { return 4; }
  Waited Await(GpuTicket ticket, rm::NvU64 timeout_us) override {
    awaited.emplace_back(ticket, timeout_us);
    return answer;
  }
  void Invalidate(rm::NvU64 space) override { invalidated.push_back(space); }
  std::vector<GpuSample> Samples(int /*GPU*/) override { return samples; }
};

constexpr rm::NvU64 kBig = 0x200000;
constexpr rm::NvU64 kWorkBase = 0x7f0000000000;

class Work : public testing::Test {
 protected:
  NotedGpu gpu;
  std::unique_ptr<Driver> driver = Made();
  UvmProcess mine{*driver, 100};

  std::unique_ptr<Driver> Made() {
    auto made = MakeDriver("a10");
    made->SetEngines(&gpu);
    return made;
  }
  // A channel with a ring, in the address space of its group.
  rm::NvHandle AllocWorker(rm::NvHandle group, rm::NvHandle memory) {
    return AllocWorker(mine, group, memory);
  }
  static rm::NvHandle AllocWorker(UvmProcess& of, rm::NvHandle group, rm::NvHandle memory) {
    rm::NV_CHANNEL_ALLOC_PARAMS_V570 params{};
    params.v535.gpFifoOffset = 0x1234000;
    params.v535.gpFifoEntries = 64;
    params.v535.hUserdMemory[0] = memory;
    params.v535.userdOffset[0] = 0x2000;
    return of.Alloc(group, rm::AMPERE_CHANNEL_GPFIFO_A, params);
  }
  void Schedule(rm::NvHandle group, bool on) { Schedule(mine, group, on); }
  static void Schedule(UvmProcess& of, rm::NvHandle group, bool on) {
    rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 params{};
    params.bEnable = on ? 1 : 0;
    EXPECT_EQ(rm::NV_OK, of.Control(group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params));
  }
  // Where an address of a space leads to: the block and the offset in it, of the address.
  std::optional<std::pair<rm::NvU64, rm::NvU64>> Translate(rm::NvU64 space, rm::NvU64 address) {
    std::optional<std::pair<rm::NvU64, rm::NvU64>> found;
    const bool leads = driver->Translate(space, address, [&](const GpuPlace& place) {
      EXPECT_LT(address - place.start, place.length);
      found.emplace(place.block->id, place.offset + (address - place.start));
    });
    EXPECT_EQ(leads, found.has_value());
    return found;
  }
};

TEST_F(Work, EnginesHearOfAChannelWhenItIsScheduled) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const rm::NvHandle group = mine.AllocGroup();
  const rm::NvHandle channel = AllocWorker(group, memory);
  EXPECT_TRUE(gpu.groups.empty());
  EXPECT_TRUE(gpu.channels.empty());
  Schedule(group, true);
  ASSERT_EQ(1U, gpu.groups.size());
  ASSERT_EQ(1U, gpu.channels.size());
  EXPECT_EQ(gpu.groups[0].key, gpu.channels[0].group);
  EXPECT_EQ(0x1234000U, gpu.channels[0].gpfifo);
  EXPECT_EQ(64U, gpu.channels[0].entries);
  EXPECT_EQ(0x2000U, gpu.channels[0].userd_offset);
  EXPECT_FALSE(gpu.channels[0].userd.expired());
  EXPECT_NE(0U, gpu.channels[0].space);
  Schedule(group, false);
  Schedule(group, true);
  EXPECT_EQ(1U, gpu.channels.size()) << "they are told once";
  EXPECT_EQ(3U, gpu.scheduled.size());
  EXPECT_EQ(rm::NV_OK, mine.Free(channel));
  EXPECT_EQ(rm::NV_OK, mine.Free(group));
  EXPECT_EQ((std::vector<GpuKey>{gpu.channels[0].key, gpu.groups[0].key}), gpu.removed);
}

TEST_F(Work, ADuplicateOfAGroupSchedulesItsChannels) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const rm::NvHandle group = mine.AllocGroup();
  (void)AllocWorker(group, memory);
  rm::NVOS55_PARAMETERS dup{};
  dup.hClient = dup.hClientSrc = mine.client;
  dup.hParent = mine.device;
  dup.hObject = 0xD0B1E;
  dup.hObjectSrc = group;
  ASSERT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_DUP_OBJECT, dup));
  ASSERT_EQ(rm::NV_OK, dup.status);
  Schedule(dup.hObject, true);
  ASSERT_EQ(1U, gpu.channels.size());
  ASSERT_EQ(1U, gpu.scheduled.size());
  EXPECT_EQ(std::vector<GpuKey>{gpu.channels[0].key}, gpu.scheduled[0].first);
}

TEST_F(Work, AnEventBufferIsBoundToTheSwitches) {
  const auto memory = [&](rm::NvU64 size, bool read_only) {
    rm::NV_MEMORY_ALLOCATION_PARAMS params{};
    params.size = size;
    params.attr = rm::NVOS32_ATTR_LOCATION.Set(0, rm::NVOS32_ATTR_LOCATION_PCI);
    params.attr2 = rm::NVOS32_ATTR2_PROTECTION_USER.Set(0, read_only ? 1 : 0);
    return mine.Alloc(mine.device, rm::NV01_MEMORY_SYSTEM, params);
  };
  rm::NV_EVENT_BUFFER_ALLOC_PARAMETERS params{};
  params.recordSize = 32;
  params.recordCount = 128;
  params.hSubDevice = mine.subdevice;
  params.hBufferHeader = memory(4096, true);
  params.hRecordBuffer = memory(4096, false);
  const auto made = [&] {
    rm::NvHandle handle = 0;
    return std::pair(mine.TryAlloc(mine.client, rm::NV_EVENT_BUFFER, params, &handle), handle);
  };
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, made().first) << "its reader could write it";
  params.hRecordBuffer = memory(4096, true);
  params.recordCount = 129;
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, made().first) << "it is larger than its memory";
  params.recordCount = 128;
  const auto [status, buffer] = made();
  ASSERT_EQ(rm::NV_OK, status);

  rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS enable{1, 2};
  EXPECT_EQ(rm::NV_OK, mine.Control(buffer, rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS, enable));
  rm::NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS bind{};
  bind.hEventBuffer = buffer;
  bind.recordSize = 24;
  bind.bAllUsers = 1;
  const auto command = rm::NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID_V2;
  EXPECT_EQ(rm::NV_OK, mine.Control(mine.subdevice, command, bind));
  rm::NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET_PARAMS get{128, 0};
  const auto update = rm::NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET;
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, mine.Control(buffer, update, get));
  get.recordBufferGet = 127;
  EXPECT_EQ(rm::NV_OK, mine.Control(buffer, update, get));
  ASSERT_EQ(3U, gpu.events.size());
  const GpuEventBuffer& told = gpu.events.back();
  EXPECT_EQ(std::tuple(0, true, true, 127U, true),
            std::tuple(told.gpu, told.enabled, told.keep_newest, told.get, told.all_users));
  EXPECT_EQ(rm::NV_OK, mine.Free(params.hRecordBuffer)) << "takes the buffer with it";
  EXPECT_EQ(std::vector<GpuKey>{told.key}, gpu.removed);
}

TEST_F(Work, AChannelWithoutARingIsNothingToThem) {
  const rm::NvHandle group = mine.AllocGroup();
  mine.AllocChannel(group, rm::AMPERE_CHANNEL_GPFIFO_A);
  Schedule(group, true);
  EXPECT_TRUE(gpu.channels.empty());
  EXPECT_TRUE(mine.GetAccounting().gpus[0].channels.at(0).scheduled);
}

// Returns the rule alone.
HangRules Only(const char* rule) {
  return *ParseHangRules(rule);
}

TEST_F(Work, WhatWasSetBeforeIsTold) {
  driver->SetHangRules(Only("none"));
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const rm::NvHandle group = mine.AllocGroup();
  const rm::NvHandle channel = AllocWorker(group, memory);
  rm::NVA06C_CTRL_TIMESLICE_PARAMS slice{777};
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, slice));
  EXPECT_EQ(rm::NV_OK, mine.SwitchChannel(mine.subdevice, mine.client, channel, false));
  EXPECT_TRUE(gpu.slices.empty() && gpu.disabled.empty());
  Schedule(group, true);
  EXPECT_EQ(777U, gpu.groups.at(0).timeslice_us);
  ASSERT_EQ(1U, gpu.disabled.size());
  EXPECT_EQ(std::vector<GpuKey>{gpu.channels.at(0).key}, gpu.disabled[0].first);
  slice.timesliceUs = 888;
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, slice));
  EXPECT_EQ((std::pair<GpuKey, rm::NvU64>(gpu.groups[0].key, 888)), gpu.slices.at(0));
}

TEST_F(Work, RulesOfHangingAreParsed) {
  EXPECT_TRUE(Only("all").enabled && Only("all").unscheduled && Only("copies,mixed").mixed);
  EXPECT_FALSE(Only("none").enabled || Only("copies,mixed").rescheduled);
  for (const char* wrong : {"", "copies,", "all,none", "other"}) {
    EXPECT_FALSE(ParseHangRules(wrong).ok()) << wrong;
  }
}

// Breaks each rule, under this rule alone.
TEST_F(Work, AChannelThatBreaksARuleNeverRuns) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const auto hung = [&](rm::NvHandle channel) {
    Driver::Counts counts;
    const Accounting all = driver->GetAccounting(&counts);
    return std::ranges::any_of(all.gpus[0].channels,
                               [&](const auto& one) { return one.handle == channel && one.hung; });
  };
  const auto disable = [&](rm::NvHandle first, rm::NvHandle second, bool off) {
    rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
    params.bDisable = off ? 1 : 0;
    params.numChannels = second == 0 ? 1 : 2;
    params.hClientList[0] = params.hClientList[1] = mine.client;
    params.hChannelList[0] = first;
    params.hChannelList[1] = second;
    EXPECT_EQ(rm::NV_OK,
              mine.Control(mine.subdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params));
  };
  for (const char* rule : {"none", "unscheduled", "mixed", "rescheduled", "copies", "enabled"}) {
    driver->SetHangRules(Only(rule));
    const auto is = [&](const char* name) { return std::string_view(rule) == name; };
    const rm::NvHandle group = mine.AllocGroup();
    const rm::NvHandle runs = AllocWorker(group, memory);
    Schedule(group, true);
    const rm::NvHandle late = AllocWorker(group, memory);
    disable(runs, 0, true);
    disable(runs, 0, false);
    EXPECT_FALSE(hung(runs)) << rule << ": nothing is wrong with that";
    disable(runs, late, true);
    EXPECT_EQ(hung(runs), is("mixed")) << rule;
    EXPECT_EQ(hung(late), is("mixed") || is("unscheduled")) << rule;
    Schedule(group, true);
    EXPECT_EQ(hung(runs), is("mixed") || is("rescheduled")) << rule;

    const rm::NvHandle other = mine.AllocGroup();
    const rm::NvHandle on = AllocWorker(other, memory);
    Schedule(other, true);
    disable(on, 0, false);
    EXPECT_EQ(hung(on), is("enabled")) << rule;

    const rm::NvHandle copies = mine.AllocGroup(rm::NV2080_ENGINE_TYPE_COPY0);
    const rm::NvHandle copy = AllocWorker(copies, memory);
    Schedule(copies, true);
    disable(copy, 0, true);
    EXPECT_EQ(hung(copy), is("copies")) << rule;
  }
}

TEST_F(Work, AddressesOfTheDriversOwnTablesLeadToMemory) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS virtual_params{};
  const rm::NvHandle range = mine.Alloc(mine.device, rm::NV01_MEMORY_VIRTUAL, virtual_params);
  const rm::NvHandle group = mine.AllocGroup();
  AllocWorker(group, memory);
  Schedule(group, true);
  const rm::NvU64 space = gpu.channels.at(0).space;
  rm::NVOS46_PARAMETERS_V535 map{};
  map.hClient = mine.client;
  map.hDevice = mine.device;
  map.hDma = range;
  map.hMemory = memory;
  map.offset = 0x10000;
  map.length = 0x20000;
  EXPECT_EQ(0, mine.Ioctl(mine.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, map));
  ASSERT_EQ(rm::NV_OK, map.status);
  const auto found = Translate(space, map.dmaOffset + 0x8001);
  ASSERT_TRUE(found);
  EXPECT_EQ(0x18001U, found->second);
  EXPECT_EQ(gpu.channels[0].userd.lock()->id, found->first);
  EXPECT_FALSE(Translate(space, map.dmaOffset + map.length));
  EXPECT_FALSE(Translate(space, map.dmaOffset - 1));
  EXPECT_FALSE(Translate(space + 1, map.dmaOffset));
  gpu.invalidated.clear();
  EXPECT_EQ(rm::NV_OK, mine.Free(memory));
  EXPECT_EQ(std::vector<rm::NvU64>{space}, gpu.invalidated);
  EXPECT_FALSE(Translate(space, map.dmaOffset));
}

TEST_F(Work, AddressesOfASpaceOfUvmLeadWhereItsRangesDo) {
  ASSERT_EQ(rm::NV_OK, mine.Initialize());
  ASSERT_EQ(rm::NV_OK, mine.RegisterGpu());
  const rm::NvHandle vaspace = mine.AllocVaSpace();
  ASSERT_EQ(rm::NV_OK, mine.RegisterVaSpace(mine.client, vaspace));
  const rm::NvHandle memory = mine.AllocVidmem(4 * kBig);
  const rm::NvHandle group = mine.AllocGroup(rm::NV2080_ENGINE_TYPE_GRAPHICS, vaspace);
  AllocWorker(group, memory);
  Schedule(group, true);
  const rm::NvU64 space = gpu.channels.at(0).space;
  ASSERT_EQ(rm::NV_OK, mine.CreateRange(kWorkBase, 4 * kBig));
  ASSERT_EQ(rm::NV_OK, mine.Map(kWorkBase, 3 * kBig, kBig, memory));
  EXPECT_EQ(kBig + 5, Translate(space, kWorkBase + 5).value().second);
  EXPECT_FALSE(Translate(space, kWorkBase + 3 * kBig));
  EXPECT_TRUE(gpu.invalidated.empty());
  // Cut in the middle: what is left keeps its place in the memory.
  ASSERT_EQ(rm::NV_OK, mine.Unmap(kWorkBase + kBig, kBig));
  EXPECT_EQ(std::vector<rm::NvU64>{space}, gpu.invalidated);
  EXPECT_EQ(kBig + 5, Translate(space, kWorkBase + 5).value().second);
  EXPECT_FALSE(Translate(space, kWorkBase + kBig));
  EXPECT_EQ(3 * kBig + 7, Translate(space, kWorkBase + 2 * kBig + 7).value().second);
  ASSERT_EQ(rm::NV_OK, mine.FreeRange(kWorkBase, 4 * kBig));
  EXPECT_EQ(2U, gpu.invalidated.size());
  EXPECT_FALSE(Translate(space, kWorkBase));
}

TEST_F(Work, CallsWaitForTheEngines) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const rm::NvHandle group = mine.AllocGroup();
  const rm::NvHandle channel = AllocWorker(group, memory);
  Schedule(group, true);
  gpu.awaited.clear();
  rm::NVA06C_CTRL_PREEMPT_PARAMS preempt{};
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, preempt));
  EXPECT_TRUE(gpu.awaited.empty()) << "without bWait it does not";
  preempt.bWait = 1;
  preempt.bManualTimeout = 1;
  preempt.timeoutUs = 500;
  EXPECT_EQ(rm::NV_OK, mine.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, preempt));
  EXPECT_EQ((std::pair<GpuTicket, rm::NvU64>(3, 500)), gpu.awaited.at(0));
  gpu.answer = GpuPort::Waited::kTimeout;
  EXPECT_EQ(rm::NV_ERR_TIMEOUT, mine.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, preempt));
  preempt.timeoutUs = 1000001;
  EXPECT_EQ(rm::NV_ERR_INVALID_ARGUMENT, mine.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, preempt));
  gpu.answer = GpuPort::Waited::kDead;
  rm::NvU8 immediate = 1;
  EXPECT_EQ(rm::NV_ERR_GPU_IS_LOST, mine.Control(channel, NVA06F_CTRL_CMD_STOP_CHANNEL, immediate));
}

TEST_F(Work, SamplesAreOfTheTimeOnTheEngines) {
  const rm::NvHandle memory = mine.AllocVidmem(kBig);
  const rm::NvHandle group = mine.AllocGroup();
  AllocWorker(group, memory);
  Schedule(group, true);
  UvmProcess other(*driver, 101);
  const rm::NvHandle theirs = other.AllocGroup();
  AllocWorker(other, theirs, other.AllocVidmem(kBig));
  Schedule(other, theirs, true);
  constexpr rm::NvU64 kLength = 10'000'000'000 / 72;
  for (rm::NvU64 i = 1; i <= 100; ++i) {
    gpu.samples.push_back(
        {i * kLength, kLength, gpu.groups.at(i == 100 ? 1 : 0).key, kLength / 2, i % 2 == 0});
  }
  struct Params {
    std::array<rm::NvU32, 50704 / sizeof(rm::NvU32)> words;
  };
  const auto params = std::make_unique<Params>();
  EXPECT_EQ(rm::NV_OK,
            mine.Control(mine.subdevice, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2,
                         *params));
  EXPECT_EQ(72U, params->words[2]);
  constexpr std::size_t kSample = (50704 - 16) / 72;
  const auto word = [&](std::size_t sample, std::size_t at) {
    return params->words.at((16 + sample * kSample + at) / sizeof(rm::NvU32));
  };
  EXPECT_EQ(0U, params->words[3]) << "the oldest";
  const auto time = [&](std::size_t sample) {
    return word(sample, 0) | rm::NvU64{word(sample, 4)} << 32;
  };
  EXPECT_EQ(29 * kLength, time(0)) << "the oldest that is kept, in nanoseconds";
  EXPECT_EQ(100 * kLength, time(71));
  EXPECT_EQ(5000U, word(71, 8 + 116));
  EXPECT_EQ(101U, word(71, 8 + 116 + 8));
  EXPECT_EQ(5000U, word(70, 8 + 116));
  EXPECT_EQ(NV2080_GPUMON_PID_INVALID, word(70, 8 + 116 + 8)) << "when it was taken nobody ran";
  EXPECT_EQ(100U, word(69, 8 + 116 + 8));
  EXPECT_EQ(NV2080_GPUMON_PID_INVALID, word(71, 8 + 3 * 116 + 8)) << "no video";
}

}  // namespace
}  // namespace cgpu::sim
