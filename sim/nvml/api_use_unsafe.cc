// Use of the GPUs: memory, engines, processes.
#include <ctime>
#include <string>
#include <vector>

#include "rmclient/readings.h"
#include "sim/nvml/state.h"

namespace cgpu::sim::nvml {
namespace {

namespace rmc = cgpu::rmclient;

constexpr std::uint64_t kNsPerUs = 1000;

bool IsComputeWorker(const rmc::Worker& worker) {
  return worker.compute;
}
bool IsGraphicsWorker(const rmc::Worker& worker) {
  return worker.graphics;
}

// Gives the processes that `is_it` accepts, as `Info`: the structure of the caller's version.
template <class Info>
nvmlReturn_t Processes(nvmlDevice_t device, unsigned* count, Info* infos,
                       bool (*is_it)(const rmc::Worker&)) {
  return WithGpu(device, [&](rmc::Client& client, const rmc::Gpu& gpu) -> nvmlReturn_t {
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto workers = rmc::ReadWorkers(client, gpu);
    if (!workers.ok()) {
      return ReturnOf(workers.error());
    }
    std::vector<Info> list;
    for (const rmc::Worker& worker : *workers) {
      if (!is_it(worker)) {
        continue;
      }
      Info info = {};
      info.pid = worker.pid;
      info.usedGpuMemory = worker.bytes;
      if constexpr (requires { info.gpuInstanceId; }) {
        info.gpuInstanceId = info.computeInstanceId = kNoInstance;
      }
      list.push_back(info);
    }
    return PutList(list, count, infos);
  });
}

// There is no MPS server here, so it has no processes.
template <class Info>
nvmlReturn_t NoProcesses(nvmlDevice_t device, unsigned* count, Info* infos) {
  return Processes(device, count, infos, [](const rmc::Worker&) { return false; });
}

// How busy one engine was, and the length of the driver's ring of samples in us.
nvmlReturn_t EngineUse(nvmlDevice_t device, unsigned* percent, unsigned* period_us,
                       double rmc::Use::* engine) {
  const void* const out = percent == nullptr ? nullptr : period_us;
  return Answer(device, out, rmc::ReadUse, [&](const rmc::Use& use) {
    *percent = Percent(use.*engine);
    *period_us = static_cast<unsigned>(rmc::kUsePeriod.count() / kNsPerUs);
  });
}

double rmc::Utilisation::* EngineOf(unsigned type) {
  switch (type) {
    case NVML_GPU_UTILIZATION_SAMPLES:
      return &rmc::Utilisation::busy;
    case NVML_MEMORY_UTILIZATION_SAMPLES:
      return &rmc::Utilisation::memory;
    case NVML_ENC_UTILIZATION_SAMPLES:
      return &rmc::Utilisation::encoder;
    case NVML_DEC_UTILIZATION_SAMPLES:
      return &rmc::Utilisation::decoder;
    default:
      return nullptr;
  }
}

nvmlReturn_t Samples(nvmlDevice_t device, double rmc::Utilisation::* engine, std::uint64_t since_us,
                     unsigned* count, nvmlSample_t* out) {
  return WithGpu(device, [&](rmc::Client& client, const rmc::Gpu& gpu) -> nvmlReturn_t {
    const auto samples = rmc::ReadSamples(client, gpu);
    if (!samples.ok()) {
      return ReturnOf(samples.error());
    }
    std::vector<nvmlSample_t> list;
    for (const rmc::Utilisation& sample : *samples) {
      if (sample.time_ns / kNsPerUs > since_us) {
        nvmlSample_t one = {sample.time_ns / kNsPerUs, {}};
        one.sampleValue.uiVal = Percent(sample.*engine);
        list.push_back(one);
      }
    }
    if (list.empty()) {
      return NVML_ERROR_NOT_FOUND;
    }
    if (out == nullptr) {
      *count = static_cast<unsigned>(list.size());
      return NVML_SUCCESS;
    }
    return PutList(list, count, out);
  });
}

std::uint64_t NowUs() {
  constexpr std::uint64_t kUsPerSecond = 1'000'000;
  std::timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kUsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec) / kNsPerUs;
}

}  // namespace
}  // namespace cgpu::sim::nvml

namespace nvml = cgpu::sim::nvml;
namespace rmc = cgpu::rmclient;

// NOLINTBEGIN(readability-identifier-naming): NVML's names
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return nvml::Answer(device, memory, rmc::ReadFbInfo, [&](const rmc::FbInfo& found) {
    *memory = {found.total, found.free, found.used()};
  });
}

// The driver's total leaves out what it reserves, so nothing of that total is reserved.
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
                                                      nvmlMemory_v2_t* memory) {
  constexpr unsigned kVersion = StructVersion<nvmlMemory_v2_t>(2);
  if (memory != nullptr && memory->version != kVersion) {
    return nvml::With([](nvml::State&) { return NVML_ERROR_ARGUMENT_VERSION_MISMATCH; });
  }
  return nvml::Answer(device, memory, rmc::ReadFbInfo, [&](const rmc::FbInfo& found) {
    *memory = {kVersion, found.total, 0, found.free, found.used()};
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device,
                                                       nvmlBAR1Memory_t* memory) {
  return nvml::Answer(device, memory, rmc::ReadBar1, [&](const rmc::FbInfo& found) {
    *memory = {found.total, found.free, found.used()};
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                         nvmlUtilization_t* rates) {
  return nvml::Answer(device, rates, rmc::ReadUse, [&](const rmc::Use& use) {
    *rates = {nvml::Percent(use.graphics), nvml::Percent(use.memory)};
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned* percent,
                                                           unsigned* period_us) {
  return nvml::EngineUse(device, percent, period_us, &rmc::Use::encoder);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned* percent,
                                                           unsigned* period_us) {
  return nvml::EngineUse(device, percent, period_us, &rmc::Use::decoder);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned type,
                                                unsigned long long since_us, unsigned* value_type,
                                                unsigned* count, nvmlSample_t* samples) {
  double rmc::Utilisation::* const engine = nvml::EngineOf(type);
  if (value_type == nullptr || count == nullptr || engine == nullptr) {
    const auto status = value_type == nullptr || count == nullptr ? NVML_ERROR_INVALID_ARGUMENT
                                                                  : NVML_ERROR_NOT_SUPPORTED;
    return nvml::With([status](nvml::State&) { return status; });
  }
  *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
  return nvml::Samples(device, engine, since_us, count, samples);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                           nvmlProcessUtilizationSample_t* samples,
                                                           unsigned* count,
                                                           unsigned long long since_us) {
  return nvml::WithGpu(device, [&](rmc::Client& client, const rmc::Gpu& gpu) -> nvmlReturn_t {
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto uses = rmc::ReadUseByProcess(client, gpu, since_us * nvml::kNsPerUs);
    if (!uses.ok()) {
      return nvml::ReturnOf(uses.error());
    }
    std::vector<nvmlProcessUtilizationSample_t> list;
    for (const auto& [pid, use] : *uses) {
      list.push_back({pid, use.newest_ns / nvml::kNsPerUs, nvml::Percent(use.graphics),
                      nvml::Percent(use.memory), nvml::Percent(use.encoder),
                      nvml::Percent(use.decoder)});
    }
    return list.empty() ? NVML_ERROR_NOT_FOUND : nvml::PutList(list, count, samples);
  });
}

// Answers each field for itself. None is known here.
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                    nvmlFieldValue_t* values) {
  return nvml::WithGpu(device, [&](rmc::Client&, const rmc::Gpu&) -> nvmlReturn_t {
    if (count <= 0 || values == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < count; ++i) {
      values[i].timestamp = static_cast<long long>(nvml::NowUs());
      values[i].latencyUsec = 0;
      values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
  });
}

// Define the three versions of each list of processes.
#define CGPU_NVML_PROCESSES(name, body)                                      \
  CGPU_NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned* count,      \
                                  nvmlProcessInfo_v1_t* infos) {             \
    return body;                                                             \
  }                                                                          \
  CGPU_NVML_API nvmlReturn_t name##_v2(nvmlDevice_t device, unsigned* count, \
                                       nvmlProcessInfo_t* infos) {           \
    return body;                                                             \
  }                                                                          \
  CGPU_NVML_API nvmlReturn_t name##_v3(nvmlDevice_t device, unsigned* count, \
                                       nvmlProcessInfo_t* infos) {           \
    return body;                                                             \
  }
CGPU_NVML_PROCESSES(nvmlDeviceGetComputeRunningProcesses,
                    nvml::Processes(device, count, infos, nvml::IsComputeWorker))
CGPU_NVML_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses,
                    nvml::Processes(device, count, infos, nvml::IsGraphicsWorker))
CGPU_NVML_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses,
                    nvml::NoProcesses(device, count, infos))
#undef CGPU_NVML_PROCESSES
// NOLINTEND(readability-identifier-naming)
