// Controls that tell one client of the GPU about the others: who is there, who runs, how much.
#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "sim/driver/control.h"
#include "sim/driver/more_controls.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU32 kEveryClass = rm::NV20_SUBDEVICE_0;
constexpr rm::NvU32 kVideoDecoder = 0x13;  // NV2080_ENGINE_TYPE_NVDEC0 in class/cl2080.h

int GpuWithId(const DriverModel& model, rm::NvU32 gpu_id) {
  for (const Gpu& gpu : model.Gpus()) {
    if (gpu.gpu_id == gpu_id) {
      return static_cast<int>(gpu.index);
    }
  }
  return -1;
}

// How long an engine was busy in one stretch of time, and with whom at its end.
struct EngineUse {
  rm::NvU64 busy_ns = 0;
  std::uint32_t pid = NV2080_GPUMON_PID_INVALID;
};

struct Use {
  rm::NvU64 length_ns = 0;
  EngineUse graphics, decoder;
};

// By the time of their ends in ns, at most `most`, the newest.
std::map<rm::NvU64, Use> UsesOf(const DriverModel& model, int gpu, std::size_t most) {
  std::map<rm::NvU64, Use> uses;
  if (model.Engines() == nullptr) {
    return uses;
  }
  const Accounting accounting = model.GetAccounting();
  const std::vector<GroupAccounting>& groups =
      accounting.gpus[static_cast<std::size_t>(gpu)].groups;
  for (const GpuSample& sample : model.Engines()->Samples(gpu)) {
    const auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&sample](const GroupAccounting& g) { return g.key == sample.group; });
    if (group == groups.end() || (group->engine_type != rm::NV2080_ENGINE_TYPE_GRAPHICS &&
                                  group->engine_type != kVideoDecoder)) {
      continue;
    }
    Use& use = uses[sample.end_ns];
    use.length_ns = sample.length_ns;
    EngineUse& engine = group->engine_type == kVideoDecoder ? use.decoder : use.graphics;
    engine.busy_ns += sample.busy_ns;
    if (sample.active) {
      engine.pid = group->pid;
    }
  }
  while (uses.size() > most) {
    uses.erase(uses.begin());
  }
  return uses;
}

// kern_perf_ctrl.c subdeviceCtrlCmdPerfGetGpumonPerfmonUtilSamplesV2_KERNEL(), ctrl2080perf.h: per
// sample and engine how much of it was used, and the process that was active when it was taken, as
// the caller's pid namespace has it; others' become 0. A sample is 8 bytes and four engines (550:
// six) of 116 bytes, from 570 on 128. The ring is told from its oldest on.
NvStatus UtilSamples(ControlCall& call) {
  constexpr std::size_t kHead = 16;
  constexpr std::size_t kSamples = 72;  // NV2080_CTRL_PERF_GPUMON_SAMPLE_COUNT_PERFMON_UTIL
  constexpr std::size_t kShortEngine = 116;
  constexpr std::size_t kLongEngine = 128;
  constexpr std::size_t kGraphics = 1;  // after fb
  constexpr std::size_t kDecoder = 3;   // after nvenc
  constexpr rm::NvU64 kFull = 10000;    // percent times 100
  if (call.params.size() <= kHead) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const std::size_t sample = (call.params.size() - kHead) / kSamples;
  const std::size_t engine =
      (sample - sizeof(rm::NvU64)) % kShortEngine == 0 ? kShortEngine : kLongEngine;
  std::fill(call.params.begin() + kHead, call.params.end(), std::byte{0});
  const auto uses = UsesOf(call.model, call.object.gpu, kSamples);
  std::map<std::uint32_t, std::uint32_t> seen_as;
  std::size_t next = 0;
  for (const auto& [end_ns, use] : uses) {
    const auto at = call.params.subspan(kHead + next++ * sample);
    Store(at, end_ns);
    const auto engines = (sample - sizeof(rm::NvU64)) / engine;
    for (std::size_t i = 0; i < engines; ++i) {
      const EngineUse of = i == kGraphics  ? use.graphics
                           : i == kDecoder ? use.decoder
                                           : EngineUse{};
      const auto here = at.subspan(sizeof(rm::NvU64) + i * engine);
      Store(here, static_cast<rm::NvU32>(std::min(kFull, of.busy_ns * kFull / use.length_ns)));
      std::uint32_t pid = of.pid;
      if (pid != NV2080_GPUMON_PID_INVALID) {
        const auto known = seen_as.find(pid);
        pid = known != seen_as.end() ? known->second : call.caller.PidAsSeen(pid).value_or(0);
        seen_as[of.pid] = pid;
      }
      Store(here.subspan(2 * sizeof(rm::NvU32)), pid);
    }
  }
  constexpr std::size_t kCount = 8;  // type, bufSize, count, tracker
  Store(call.params.subspan(kCount), static_cast<rm::NvU32>(uses.size()));
  Store(call.params.subspan(kCount + sizeof(rm::NvU32)),
        static_cast<rm::NvU32>(uses.size() % kSamples));
  return rm::NV_OK;
}

// gpu_acct.c: accounting counts as enabled, and every process of the GPU is on record.
NvStatus AccountingState(ControlCall& call) {
  auto params = call.Get<NV0000_CTRL_GPUACCT_GET_ACCOUNTING_STATE_PARAMS>();
  if (GpuWithId(call.model, params.gpuId) < 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.state = 0;  // NV0000_CTRL_GPU_ACCOUNTING_STATE_ENABLED
  call.Put(params);
  return rm::NV_OK;
}

NvStatus AccountingPids(ControlCall& call) {
  auto params = call.Get<NV0000_CTRL_GPUACCT_GET_ACCOUNTING_PIDS_PARAMS>();
  const int gpu = GpuWithId(call.model, params.gpuId);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.pidCount = 0;
  for (const std::uint32_t tgid : call.model.ProcessesOn(gpu, kEveryClass)) {
    if (params.pidCount < std::size(params.pidTbl)) {
      params.pidTbl[params.pidCount++] = tgid;
    }
  }
  call.Put(params);
  return rm::NV_OK;
}

NvStatus AccountingOfProcess(ControlCall& call) {
  auto params = call.Get<NV0000_CTRL_GPUACCT_GET_PROC_ACCOUNTING_INFO_PARAMS>();
  const int gpu = GpuWithId(call.model, params.gpuId);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const std::vector<std::uint32_t> pids = call.model.ProcessesOn(gpu, kEveryClass);
  if (std::find(pids.begin(), pids.end(), params.pid) == pids.end()) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const MemoryUse use = call.model.UseOf(params.pid, gpu);
  params.maxFbUsage = use.memory_private + use.shared_owned;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus ResidentChannel(ControlCall& call) {
  const auto channel = call.model.ResidentChannel(call.object.gpu);
  Store(call.params, channel.value_or(0));
  return channel ? rm::NV_OK : rm::NV_ERR_INVALID_STATE;
}

// ctrl83dedebug.h: of whatever context is on the GPU, whichever channel is named. Which one it was
// is told in place of its errors.
NvStatus SmErrors(ControlCall& call) {
  constexpr std::size_t kFirstState = 2 * sizeof(rm::NvU32);
  constexpr rm::NvU32 kSome = 1U << 31;
  if (const auto channel = call.model.ResidentChannel(call.object.gpu)) {
    Store(call.params.subspan(kFirstState), kSome | *channel);
  }
  return rm::NV_OK;
}

// Switches of a channel, which the caller names in its own client.
NvStatus SwitchStatistics(ControlCall& call) {
  auto params = call.Get<NV2080_CTRL_GR_GET_CTXSW_STATS_PARAMS>();
  const Object* object = DriverModel::FindObject(call.client, params.hChannel);
  if (object == nullptr ||
      (object->kind != ObjectKind::kChannel && object->kind != ObjectKind::kChannelGroup)) {
    return rm::NV_ERR_INVALID_CHANNEL;
  }
  params.saveCnt = 0;
  params.restoreCnt = 0;
  call.Put(params);
  return rm::NV_OK;
}

// p2p_caps.c: which of the node's GPUs can reach each other; any GPU of the node may be named.
NvStatus P2pCaps(ControlCall& call) {
  constexpr std::size_t kGpus = 32;
  constexpr std::size_t kCount = kGpus * sizeof(rm::NvU32);
  const auto count = Load<rm::NvU32>(call.params.subspan(std::min(kCount, call.params.size())));
  if (count == 0 || count > kGpus || call.params.size() < kCount + 2 * sizeof(rm::NvU32)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < count; ++i) {
    if (GpuWithId(call.model, Load<rm::NvU32>(call.params.subspan(i * sizeof(rm::NvU32)))) < 0) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
  }
  // Reads and writes over PCIe: bits 0 and 1 of NV0000_CTRL_SYSTEM_GET_P2P_CAPS_*_SUPPORTED.
  Store(call.params.subspan(kCount + sizeof(rm::NvU32)), rm::NvU32{count > 1 ? 3U : 0U});
  return rm::NV_OK;
}

// cliresCtrlCmdSystemGetP2pCapsMatrix_IMPL(): {counts of A and B, ids of A, ids of B, ...}. Between
// GPUs nothing but PCIe, which these capabilities do not tell of.
NvStatus P2pCapsMatrix(ControlCall& call) {
  constexpr rm::NvU32 kGroup = 8;
  const auto at = [&call](rm::NvU32 word) {
    return Load<rm::NvU32>(call.params.subspan(word * sizeof(rm::NvU32)));
  };
  if (at(0) == 0 || at(0) > kGroup || at(1) > kGroup) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < at(0) + at(1); ++i) {
    const rm::NvU32 word = 2 + (i < at(0) ? i : kGroup + i - at(0));
    if (GpuWithId(call.model, at(word)) < 0) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
  }
  return rm::NV_OK;
}

// third_party_p2p.c CliAddThirdPartyP2PVASpace(): under any number, each once.
NvStatus RegisterVaSpace(ControlCall& call) {
  if (call.object.cls != rm::NV50_THIRD_PARTY_P2P) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  constexpr rm::NvU64 kFirstToken = 0xfe00;
  if (!call.object.registered.insert(call.Get<rm::NvHandle>()).second) {
    return rm::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  Store(call.params.subspan(sizeof(rm::NvU64)), kFirstToken);
  return rm::NV_OK;
}

// third_party_p2p.c thirdpartyp2pCtrlCmdRegisterVidmem_IMPL(): names memory of the client's on a
// GPU. It keeps an entry for each, which goes with the memory; there is none here.
NvStatus RegisterVidmem(ControlCall& call) {
  if (call.object.cls != rm::NV50_THIRD_PARTY_P2P) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  const Object* memory = DriverModel::FindObject(call.client, call.Get<rm::NvHandle>());
  if (memory == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (memory->kind != ObjectKind::kMemory) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  return memory->block != nullptr && memory->block->gpu >= 0 ? rm::NV_OK : rm::NV_ERR_NOT_SUPPORTED;
}

using enum ObjectKind;
constexpr ControlEntry kTenantEntries[] = {
    {NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, kSubdevice, UtilSamples},
    {NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE, kClient, AccountingState},
    {NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO, kClient, AccountingOfProcess},
    {NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS, kClient, AccountingPids},
    {NV2080_CTRL_CMD_GR_GET_CURRENT_RESIDENT_CHANNEL, kSubdevice, ResidentChannel},
    {NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, ObjectKind::kDebugger, SmErrors},
    {NV2080_CTRL_CMD_GR_GET_CTXSW_STATS, kSubdevice, SwitchStatistics},
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS, kClient, P2pCaps},
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2, kClient, P2pCaps},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX, kClient, P2pCapsMatrix},
    {rm::NV503C_CTRL_CMD_REGISTER_VA_SPACE, ObjectKind::kOther, RegisterVaSpace},
    {rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, ObjectKind::kOther, RegisterVidmem},
    {rm::NV503C_CTRL_CMD_UNREGISTER_VIDMEM, ObjectKind::kOther, Accept},
    // Answered with success by an H200 with 580.159.04; what they answered was not recorded.
    {rm::NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO, kSubdevice, Accept},
    {rm::NV90E6_CTRL_CMD_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK, ObjectKind::kOther,
     Accept},
};

}  // namespace

std::span<const ControlEntry> TenantControls() {
  return kTenantEntries;
}

}  // namespace cgpu::sim
