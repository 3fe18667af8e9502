#include "rmclient/readings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "rm/control_table.h"
#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::rmclient {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

template <class Params>
Result<Params> Ask(Client& client, const Card& card, rm::NvU32 command, const char* what) {
  Params params = {};
  const Outcome outcome = client.Control(card.subdevice, command, &params, sizeof(params));
  if (!outcome.ok()) {
    return CallError(outcome, std::string("asking for the ") + what + " of card " + card.bdf);
  }
  return params;
}

template <std::size_t N>
Result<std::array<std::uint32_t, N>> AskFbInfos(Client& client, const Card& card,
                                                const std::array<rm::NvU32, N>& indices) {
  // The list is fixed in length, and its length differs between branches; the head is the same.
  rm::NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580 params = {};
  params.fbInfoListSize = N;
  for (std::size_t i = 0; i < N; ++i) {
    params.fbInfoList[i].index = indices[i];
  }
  const Outcome outcome =
      client.Control(card.subdevice, rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, &params,
                     rm::ControlSize(client.abi(), rm::NV2080_CTRL_CMD_FB_GET_INFO_V2));
  if (!outcome.ok()) {
    return CallError(outcome, "asking for the memory of card " + card.bdf);
  }
  std::array<std::uint32_t, N> data{};
  for (std::size_t i = 0; i < N; ++i) {
    data[i] = params.fbInfoList[i].data;
  }
  return data;
}

Result<std::uint32_t> AskGrInfo(Client& client, const Card& card, rm::NvU32 index) {
  rm::NV2080_CTRL_GR_INFO info = {};
  info.index = index;
  rm::NV2080_CTRL_GR_GET_INFO_PARAMS params = {};
  params.grInfoListSize = 1;
  params.grInfoList = reinterpret_cast<std::uintptr_t>(&info);
  const Outcome outcome =
      client.Control(card.subdevice, rm::NV2080_CTRL_CMD_GR_GET_INFO, &params, sizeof(params));
  if (!outcome.ok()) {
    return CallError(outcome, "asking for the graphics engine of card " + card.bdf);
  }
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

Result<std::vector<rm::NvU32>> ReadClasses(Client& client, const Card& card) {
  constexpr auto kCommand = rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
  std::vector<rm::NvU32> words(rm::ControlSize(client.abi(), kCommand) / sizeof(rm::NvU32));
  const Outcome outcome =
      client.Control(card.device, kCommand, words.data(), words.size() * sizeof(rm::NvU32));
  if (!outcome.ok()) {
    return CallError(outcome, "asking for the classes of card " + card.bdf);
  }
  const auto count = std::min<std::size_t>(words[0], words.size() - 1);
  return std::vector<rm::NvU32>(words.begin() + 1,
                                words.begin() + 1 + static_cast<std::ptrdiff_t>(count));
}

Result<std::vector<std::uint32_t>> ReadPidsOf(Client& client, const Card& card, rm::NvU32 cls) {
  auto params = std::make_unique<rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS>();
  params->idType = rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS;
  params->id = cls;
  const Outcome outcome = client.Control(card.subdevice, rm::NV2080_CTRL_CMD_GPU_GET_PIDS,
                                         params.get(), sizeof(*params));
  if (!outcome.ok()) {
    return CallError(outcome, "asking for the processes on card " + card.bdf);
  }
  const auto count = std::min<std::size_t>(params->pidTblCount, std::size(params->pidTbl));
  return std::vector<std::uint32_t>(params->pidTbl, params->pidTbl + count);
}

std::uint64_t NowOf(clockid_t clock) {
  std::timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecondNs +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Returns the present by the clock of the samples. The driver's header says no more of it than
// nanoseconds; the host's two clocks are decades apart, so a sample of the last seconds tells which
// one it is.
std::uint64_t NowOfSamples(std::uint64_t newest_ns) {
  const std::uint64_t since_boot = NowOf(CLOCK_MONOTONIC);
  const std::uint64_t since_1970 = NowOf(CLOCK_REALTIME);
  return newest_ns > since_boot + (since_1970 - since_boot) / 2 ? since_1970 : since_boot;
}

void Add(Use& use, const Utilisation& sample, double weight) {
  use.graphics += weight * sample.busy;
  use.memory += weight * sample.memory;
  use.encoder += weight * sample.encoder;
  use.decoder += weight * sample.decoder;
  use.newest_ns = std::max(use.newest_ns, sample.time_ns);
}

}  // namespace

Result<PciIds> ReadPciIds(Client& client, const Card& card) {
  CGPU_ASSIGN_OR_RETURN(const auto params, Ask<rm::NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS>(
                                               client, card, rm::NV2080_CTRL_CMD_BUS_GET_PCI_INFO,
                                               "PCI identification"));
  return PciIds{params.pciDeviceId, params.pciSubSystemId};
}

Result<FbInfo> ReadBar1(Client& client, const Card& card) {
  constexpr std::array<rm::NvU32, 2> kIndices = {rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE,
                                                 rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE};
  CGPU_ASSIGN_OR_RETURN(const auto kib, AskFbInfos(client, card, kIndices));
  return FbInfo{std::uint64_t{kib[0]} << 10, std::uint64_t{kib[1]} << 10};
}

Result<ComputeCapability> ReadComputeCapability(Client& client, const Card& card) {
  constexpr rm::NvU32 kSmVersion = 0x0C;  // NV0080_CTRL_GR_INFO_INDEX_SM_VERSION
  CGPU_ASSIGN_OR_RETURN(const auto version, AskGrInfo(client, card, kSmVersion));
  return ComputeCapability{version >> 8, version & 0xFFU};  // ..._SM_VERSION_7_05 is 0x705
}

Result<Architecture> ReadArchitecture(Client& client, const Card& card) {
  CGPU_ASSIGN_OR_RETURN(const auto params,
                        Ask<rm::NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS>(
                            client, card, rm::NV2080_CTRL_CMD_MC_GET_ARCH_INFO, "architecture"));
  return Architecture{params.architecture, params.implementation};
}

Result<std::uint32_t> ReadCores(Client& client, const Card& card) {
  constexpr rm::NvU32 kCores = 0x1D;  // NV0080_CTRL_GR_INFO_INDEX_GPU_CORE_COUNT
  return AskGrInfo(client, card, kCores);
}

Result<std::uint32_t> ReadBusWidth(Client& client, const Card& card) {
  constexpr rm::NvU32 kBusWidth = 0x0B;  // NV2080_CTRL_FB_INFO_INDEX_BUS_WIDTH
  CGPU_ASSIGN_OR_RETURN(const auto bits,
                        AskFbInfos(client, card, std::array<rm::NvU32, 1>{kBusWidth}));
  return bits[0];
}

Result<std::uint32_t> ReadComputeMode(Client& client, const Card& card) {
  return Ask<rm::NvU32>(client, card, rm::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES,
                        "compute mode");
}

Result<std::vector<Worker>> ReadWorkers(Client& client, const Card& card) {
  CGPU_ASSIGN_OR_RETURN(const auto classes, ReadClasses(client, card));
  std::map<std::uint32_t, Worker> workers;
  for (const rm::NvU32 cls : classes) {
    if (!IsComputeClass(cls) && !IsGraphicsClass(cls)) {
      continue;
    }
    CGPU_ASSIGN_OR_RETURN(const auto pids, ReadPidsOf(client, card, cls));
    for (const std::uint32_t pid : pids) {
      Worker& worker = workers[pid];
      worker.pid = pid;
      worker.compute = worker.compute || IsComputeClass(cls);
      worker.graphics = worker.graphics || IsGraphicsClass(cls);
    }
  }
  CGPU_ASSIGN_OR_RETURN(const auto uses, ReadProcesses(client, card));
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
  const std::uint64_t end = now_ns < newest + 2 * kSampleNs ? newest : now_ns;
  const std::uint64_t begin = end - std::min(end, length);
  for (const Utilisation& sample : samples) {
    const std::uint64_t from =
        std::max(begin, sample.time_ns - std::min(sample.time_ns, kSampleNs));
    const std::uint64_t to = std::min(end, sample.time_ns);
    const std::uint64_t counted = to > from ? to - from : 0;
    Add(use, sample, static_cast<double>(counted) / static_cast<double>(length));
  }
  return use;
}

std::map<std::uint32_t, Use> UseByProcess(const std::vector<Utilisation>& samples,
                                          std::uint64_t since_ns) {
  std::map<std::uint32_t, Use> uses;
  std::size_t count = 0;
  for (const Utilisation& sample : samples) {
    count += sample.time_ns > since_ns ? 1 : 0;
  }
  for (const Utilisation& sample : samples) {
    if (sample.time_ns > since_ns && sample.pid != 0) {
      Add(uses[sample.pid], sample, 1.0 / static_cast<double>(count));
    }
  }
  return uses;
}

Result<Use> ReadUse(Client& client, const Card& card) {
  CGPU_ASSIGN_OR_RETURN(const auto samples, ReadUtilisation(client, card));
  return UseOf(samples, samples.empty() ? 0 : NowOfSamples(samples.back().time_ns), kUsePeriod);
}

Result<std::map<std::uint32_t, Use>> ReadUseByProcess(Client& client, const Card& card,
                                                      std::uint64_t since_ns) {
  CGPU_ASSIGN_OR_RETURN(const auto samples, ReadUtilisation(client, card));
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
