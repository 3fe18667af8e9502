#include "rmclient/readings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "rm/control_table.h"
#include "rm/fb_info.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_ctrl_board.h"

namespace cgpu::rmclient {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

// Sends the parameters with the command, and returns what the driver made of them.
template <class Params>
Result<Params> Ask(Client& client, const Gpu& gpu, rm::NvU32 command, const char* what,
                   Params params = {}) {
  CGPU_TRY(Checked(client.Control(gpu.subdevice, command, &params, sizeof(params)),
                   std::string("asking for the ") + what + " of GPU " + gpu.bdf));
  return params;
}

template <std::size_t N>
Result<std::array<std::uint32_t, N>> AskFbInfos(Client& client, const Gpu& gpu,
                                                const std::array<rm::NvU32, N>& indices) {
  // The list is fixed in length, and its length differs between branches; the head is the same.
  rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580 params = {};
  params.fbInfoListSize = N;
  for (std::size_t i = 0; i < N; ++i) {
    params.fbInfoList[i].index = indices[i];
  }
  CGPU_TRY(
      Checked(client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, &params,
                             rm::ControlSize(client.abi(), rm::NV2080_CTRL_CMD_FB_GET_INFO_V2)),
              "asking for the memory of GPU " + gpu.bdf));
  std::array<std::uint32_t, N> data{};
  for (std::size_t i = 0; i < N; ++i) {
    data[i] = params.fbInfoList[i].data;
  }
  return data;
}

// Asks for a size and the part of it that is free, which the driver tells in KiB.
Result<FbInfo> AskFbSize(Client& client, const Gpu& gpu, rm::NvU32 total, rm::NvU32 free) {
  CGPU_ASSIGN_OR_RETURN(const auto kib, AskFbInfos(client, gpu, std::array{total, free}));
  return FbInfo{std::uint64_t{kib[0]} << 10, std::uint64_t{kib[1]} << 10};
}

Result<std::uint32_t> AskGrInfo(Client& client, const Gpu& gpu, rm::NvU32 index) {
  rm::NV2080_CTRL_GR_INFO info = {};
  info.index = index;
  rm::NV2080_CTRL_GR_GET_INFO_PARAMS params = {};
  params.grInfoListSize = 1;
  params.grInfoList = reinterpret_cast<std::uintptr_t>(&info);
  CGPU_TRY(Ask(client, gpu, rm::NV2080_CTRL_CMD_GR_GET_INFO, "graphics engine", params));
  return info.data;
}

// Classes of all generations end alike (class/cla0c0.h to clcec0.h, cla097.h to clce97.h in
// src/common/sdk/nvidia/inc).
bool IsComputeClass(rm::NvU32 cls) {
  return (cls & 0xFFU) == 0xC0 && cls >= 0xA0C0;
}
bool IsGraphicsClass(rm::NvU32 cls) {
  return (cls & 0xFFU) == 0x97 && cls >= 0xA097;
}

Result<std::vector<rm::NvU32>> ReadClasses(Client& client, const Gpu& gpu) {
  constexpr auto kCommand = rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
  std::vector<rm::NvU32> words(rm::ControlSize(client.abi(), kCommand) / sizeof(rm::NvU32));
  CGPU_TRY(
      Checked(client.Control(gpu.device, kCommand, words.data(), words.size() * sizeof(rm::NvU32)),
              "asking for the classes of GPU " + gpu.bdf));
  const auto count = std::min<std::size_t>(words[0], words.size() - 1);
  return std::vector<rm::NvU32>(words.begin() + 1,
                                words.begin() + 1 + static_cast<std::ptrdiff_t>(count));
}

Result<std::vector<std::uint32_t>> ReadPidsOf(Client& client, const Gpu& gpu, rm::NvU32 cls) {
  auto params = std::make_unique<rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS>();
  params->idType = rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS;
  params->id = cls;
  CGPU_TRY(Checked(client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS, params.get(),
                                  sizeof(*params)),
                   "asking for the processes on GPU " + gpu.bdf));
  const auto count = std::min<std::size_t>(params->pidTblCount, std::size(params->pidTbl));
  return std::vector<std::uint32_t>(params->pidTbl, params->pidTbl + count);
}

std::uint64_t NowOf(clockid_t clock) {
  std::timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecondNs +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Returns what to add to the times of samples for times since 1970. The driver's header says no
// more of its clock than nanoseconds. The host's two clocks are decades apart, so a sample of the
// last seconds tells which one it is.
std::uint64_t Behind1970(std::uint64_t newest_ns) {
  const std::uint64_t apart = NowOf(CLOCK_REALTIME) - NowOf(CLOCK_MONOTONIC);
  return newest_ns < apart ? apart : 0;
}

void Add(Use& use, const Utilisation& sample, double weight) {
  use.graphics += weight * sample.busy;
  use.memory += weight * sample.memory;
  use.encoder += weight * sample.encoder;
  use.decoder += weight * sample.decoder;
  use.newest_ns = std::max(use.newest_ns, sample.time_ns);
}

}  // namespace

Result<PciIds> ReadPciIds(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto params, Ask<rm::NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS>(
                                               client, gpu, rm::NV2080_CTRL_CMD_BUS_GET_PCI_INFO,
                                               "PCI identification"));
  return PciIds{params.pciDeviceId, params.pciSubSystemId};
}

Result<FbInfo> ReadFbInfo(Client& client, const Gpu& gpu) {
  return AskFbSize(client, gpu, rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE,
                   rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
}

Result<FbInfo> ReadBar1(Client& client, const Gpu& gpu) {
  return AskFbSize(client, gpu, rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE,
                   rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE);
}

Result<ComputeCapability> ReadComputeCapability(Client& client, const Gpu& gpu) {
  constexpr rm::NvU32 kSmVersion = 0x0C;  // NV0080_CTRL_GR_INFO_INDEX_SM_VERSION
  CGPU_ASSIGN_OR_RETURN(const auto version, AskGrInfo(client, gpu, kSmVersion));
  return ComputeCapability{version >> 8, version & 0xFFU};  // ..._SM_VERSION_7_05 is 0x705
}

Result<Architecture> ReadArchitecture(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto params,
                        Ask<rm::NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS>(
                            client, gpu, rm::NV2080_CTRL_CMD_MC_GET_ARCH_INFO, "architecture"));
  return Architecture{params.architecture, params.implementation};
}

Result<std::uint32_t> ReadCores(Client& client, const Gpu& gpu) {
  constexpr rm::NvU32 kCores = 0x1D;  // NV0080_CTRL_GR_INFO_INDEX_GPU_CORE_COUNT
  return AskGrInfo(client, gpu, kCores);
}

Result<std::uint32_t> ReadBusWidth(Client& client, const Gpu& gpu) {
  constexpr rm::NvU32 kBusWidth = 0x0B;  // NV2080_CTRL_FB_INFO_INDEX_BUS_WIDTH
  CGPU_ASSIGN_OR_RETURN(const auto bits, AskFbInfos(client, gpu, std::array{kBusWidth}));
  return bits[0];
}

Result<std::string> ReadBiosVersion(Client& client, const Gpu& gpu) {
  std::array<rm::NV2080_CTRL_BIOS_INFO, 2> infos{};
  infos[0].index = rm::NV2080_CTRL_BIOS_INFO_INDEX_REVISION;
  infos[1].index = rm::NV2080_CTRL_BIOS_INFO_INDEX_OEM_REVISION;
  rm::NV2080_CTRL_BIOS_GET_INFO_PARAMS params = {};
  params.biosInfoListSize = infos.size();
  params.biosInfoList = reinterpret_cast<std::uintptr_t>(infos.data());
  CGPU_TRY(Ask(client, gpu, rm::NV2080_CTRL_CMD_BIOS_GET_INFO, "VBIOS", params));
  const rm::NvU32 revision = infos[0].data;
  char text[sizeof("FF.FF.FF.FF.FFFFFFFF")];
  std::snprintf(text, sizeof(text), "%02X.%02X.%02X.%02X.%02X", revision >> 24,
                revision >> 16 & 0xFF, revision >> 8 & 0xFF, revision & 0xFF, infos[1].data);
  return std::string(text);
}

Result<std::string> ReadInforomImage(Client& client, const Gpu& gpu) {
  using Params = rm::NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS;
  CGPU_ASSIGN_OR_RETURN(
      const auto params,
      Ask<Params>(client, gpu, rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_IMAGE_VERSION, "InfoROM"));
  return std::string(std::begin(params.version), std::ranges::find(params.version, 0));
}

Result<std::string> ReadInforomObject(Client& client, const Gpu& gpu, std::string_view object) {
  rm::NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS asked = {};
  object.copy(asked.objectType, sizeof(asked.objectType));
  CGPU_ASSIGN_OR_RETURN(
      const auto params,
      Ask(client, gpu, rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION, "InfoROM", asked));
  return std::to_string(params.version) + "." + std::to_string(params.subversion);
}

Result<unsigned> ReadPerformanceState(Client& client, const Gpu& gpu) {
  using Params = rm::NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS;
  CGPU_ASSIGN_OR_RETURN(
      const auto params,
      Ask<Params>(client, gpu, rm::NV2080_CTRL_CMD_PERF_GET_CURRENT_PSTATE, "performance state"));
  if (!std::has_single_bit(params.currPstate)) {
    return Error{
        Code::kUnsupported, 0, "the driver tells no performance state of GPU " + gpu.bdf, {}};
  }
  return static_cast<unsigned>(std::countr_zero(params.currPstate));
}

Result<std::uint32_t> ReadComputeMode(Client& client, const Gpu& gpu) {
  return Ask<rm::NvU32>(client, gpu, rm::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES,
                        "compute mode");
}

Result<bool> ReadPersistence(Client& client, const Gpu& gpu) {
  constexpr rm::NvU32 kEnabled = 0;  // NV0080_CTRL_GPU_SW_STATE_PERSISTENCE_ENABLED
  rm::NvU32 state = 0;
  CGPU_TRY(Checked(client.Control(gpu.device, rm::NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE,
                                  &state, sizeof(state)),
                   "asking for the persistence mode of GPU " + gpu.bdf));
  return state == kEnabled;
}

Result<bool> ReadMig(Client& client, const Gpu& gpu) {
  // NV2080_CTRL_GPU_GET_INFO_V2_PARAMS (ctrl2080gpu.h): a count, then pairs of index and value.
  constexpr rm::NvU32 kIndex = 0x2A;  // NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE
  constexpr auto kCommand = rm::NV2080_CTRL_CMD_GPU_GET_INFO_V2;
  enum : rm::NvU32 { kUnsupported = 0, kEnabled = 1, kDisablePending = 4 };
  std::vector<rm::NvU32> words(rm::ControlSize(client.abi(), kCommand) / sizeof(rm::NvU32));
  words[0] = 1;
  words[1] = kIndex;
  CGPU_TRY(Checked(
      client.Control(gpu.subdevice, kCommand, words.data(), words.size() * sizeof(rm::NvU32)),
      "asking for the MIG mode of GPU " + gpu.bdf));
  if (words[2] == kUnsupported) {
    return Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " cannot be divided", {}};
  }
  return words[2] == kEnabled || words[2] == kDisablePending;
}

Result<Ecc> ReadEcc(Client& client, const Gpu& gpu) {
  // NV2080_CTRL_GPU_QUERY_ECC_STATUS_PARAMS (ctrl2080gpu.h): units, and a tail of 24 bytes. Their
  // number differs between branches.
  struct Unit {  // NV2080_CTRL_GPU_QUERY_ECC_UNIT_STATUS
    rm::NvBool enabled;
    rm::NvBool scrubComplete;
    rm::NvBool supported;
    rm::NvU64 dbe;
    rm::NvU64 dbeNonResettable;
    rm::NvU64 sbe;
    rm::NvU64 sbeNonResettable;
  };
  static_assert(sizeof(Unit) == 40);
  constexpr std::size_t kTail = 24;
  constexpr auto kCommand = rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS;
  std::vector<unsigned char> params(rm::ControlSize(client.abi(), kCommand));
  CGPU_TRY(Checked(client.Control(gpu.subdevice, kCommand, params.data(), params.size()),
                   "asking for the memory errors of GPU " + gpu.bdf));
  Ecc ecc;
  bool supported = false;
  for (std::size_t at = 0; at + sizeof(Unit) + kTail <= params.size(); at += sizeof(Unit)) {
    Unit unit = {};
    std::memcpy(&unit, params.data() + at, sizeof(unit));
    supported = supported || unit.supported != 0;
    ecc.enabled = ecc.enabled || unit.enabled != 0;
    ecc.corrected += unit.sbe;
    ecc.uncorrected += unit.dbe;
  }
  return supported ? Result<Ecc>(ecc)
                   : Error{Code::kUnsupported, 0, "GPU " + gpu.bdf + " has no ECC", {}};
}

Result<EccSetting> ReadEccSetting(Client& client, const Gpu& gpu) {
  using Params = std::array<rm::NvU32, 2>;  // NV2080_CTRL_GPU_QUERY_ECC_CONFIGURATION_PARAMS
  CGPU_ASSIGN_OR_RETURN(
      const auto params,
      Ask<Params>(client, gpu, rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_CONFIGURATION, "ECC setting"));
  return EccSetting{params[0] != 0, params[1] != 0};
}

Result<std::vector<ProcessUse>> ReadProcesses(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto pids, ReadPidsOf(client, gpu, rm::NV20_SUBDEVICE_0));
  std::vector<ProcessUse> processes;
  auto infos = std::make_unique<rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS>();
  for (std::size_t first = 0; first < pids.size();) {
    const std::size_t batch = std::min(pids.size() - first, std::size(infos->pidInfoList));
    *infos = {};
    infos->pidInfoListCount = static_cast<rm::NvU32>(batch);
    for (std::size_t i = 0; i < batch; ++i) {
      infos->pidInfoList[i].pid = pids[first + i];
      infos->pidInfoList[i].index = rm::NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE;
    }
    CGPU_TRY(Checked(client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO,
                                    infos.get(), sizeof(*infos)),
                     "asking for the processes on GPU " + gpu.bdf));
    for (std::size_t i = 0; i < batch; ++i) {
      const rm::NV2080_CTRL_GPU_PID_INFO& info = infos->pidInfoList[i];
      if (info.result == rm::NV_OK) {
        const auto& use = info.data.vidMemUsage;
        processes.push_back({info.pid, use.memPrivate + use.memSharedOwned + use.memSharedDuped});
      }
    }
    first += batch;
  }
  std::ranges::sort(processes, {}, &ProcessUse::pid);
  return processes;
}

Result<std::vector<Worker>> ReadWorkers(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto classes, ReadClasses(client, gpu));
  std::map<std::uint32_t, Worker> workers;
  for (const rm::NvU32 cls : classes) {
    if (!IsComputeClass(cls) && !IsGraphicsClass(cls)) {
      continue;
    }
    CGPU_ASSIGN_OR_RETURN(const auto pids, ReadPidsOf(client, gpu, cls));
    for (const std::uint32_t pid : pids) {
      Worker& worker = workers[pid];
      worker.pid = pid;
      worker.compute = worker.compute || IsComputeClass(cls);
      worker.graphics = worker.graphics || IsGraphicsClass(cls);
    }
  }
  CGPU_ASSIGN_OR_RETURN(const auto uses, ReadProcesses(client, gpu));
  std::vector<Worker> found;
  for (const ProcessUse& use : uses) {
    if (const auto worker = workers.find(use.pid); worker != workers.end()) {
      worker->second.bytes = use.bytes;
      found.push_back(worker->second);
    }
  }
  return found;
}

Use UseOf(const std::vector<Utilisation>& samples, std::uint64_t now_ns,
          std::chrono::nanoseconds period) {
  Use use;
  if (samples.empty()) {
    return use;
  }
  const auto length = static_cast<std::uint64_t>(period.count());
  const std::uint64_t newest = samples.back().time_ns;
  const std::uint64_t end = now_ns < newest + 2 * samples.back().length_ns ? newest : now_ns;
  const std::uint64_t begin = end - std::min(end, length);
  for (const Utilisation& sample : samples) {
    const std::uint64_t from =
        std::max(begin, sample.time_ns - std::min(sample.time_ns, sample.length_ns));
    const std::uint64_t to = std::min(end, sample.time_ns);
    const std::uint64_t counted = to > from ? to - from : 0;
    Add(use, sample, static_cast<double>(counted) / static_cast<double>(length));
  }
  return use;
}

std::map<std::uint32_t, Use> UseByProcess(const std::vector<Utilisation>& samples,
                                          std::uint64_t since_ns) {
  std::map<std::uint32_t, Use> uses;
  double count = 0;
  double all = 0;
  double known = 0;  // of those whose process is known
  for (const Utilisation& sample : samples) {
    if (sample.time_ns > since_ns) {
      count += 1;
      all += sample.busy;
      known += sample.pid != 0 ? sample.busy : 0;
    }
  }
  const double weight = known > 0 ? all / known / count : 0;
  for (const Utilisation& sample : samples) {
    if (sample.time_ns > since_ns && sample.pid != 0) {
      Add(uses[sample.pid], sample, weight);
    }
  }
  return uses;
}

Result<std::vector<Utilisation>> ReadSamples(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(auto samples, ReadUtilisation(client, gpu));
  const std::uint64_t behind = samples.empty() ? 0 : Behind1970(samples.back().time_ns);
  for (Utilisation& sample : samples) {
    sample.time_ns += behind;
  }
  return samples;
}

Result<Use> ReadUse(Client& client, const Gpu& gpu) {
  CGPU_ASSIGN_OR_RETURN(const auto samples, ReadSamples(client, gpu));
  return UseOf(samples, NowOf(CLOCK_REALTIME), kUsePeriod);
}

Result<std::map<std::uint32_t, Use>> ReadUseByProcess(Client& client, const Gpu& gpu,
                                                      std::uint64_t since_ns) {
  CGPU_ASSIGN_OR_RETURN(const auto samples, ReadSamples(client, gpu));
  return UseByProcess(samples, since_ns);
}

std::optional<int> CudaVersionOf(std::string_view driver_version) {
  // Branches whose first release of CUDA's own: 535.54.03, 550.54.14, 570.26, 580.65.06, 590.44.01.
  constexpr std::array<std::pair<unsigned, int>, 5> kVersions = {
      {{535, 12020}, {550, 12040}, {570, 12080}, {580, 13000}, {590, 13010}}};
  unsigned branch = 0;
  const auto end = driver_version.data() + driver_version.size();
  if (std::from_chars(driver_version.data(), end, branch).ec != std::errc()) {
    return std::nullopt;
  }
  const auto row = std::ranges::find(kVersions, branch, &std::pair<unsigned, int>::first);
  return row == kVersions.end() ? std::nullopt : std::optional<int>(row->second);
}

}  // namespace cgpu::rmclient
