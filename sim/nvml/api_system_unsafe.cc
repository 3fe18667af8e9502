// libnvidia-ml.so.1 of a simulated node: begin and end, versions, errors in words.
#include <array>
#include <cstring>
#include <string>

#include "base/file.h"
#include "rmclient/readings.h"
#include "sim/nvml/state.h"

namespace cgpu::sim::nvml {
namespace {

struct Words {
  nvmlReturn_t number;
  const char* text;
};
constexpr auto kWords = std::to_array<Words>({
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {NVML_ERROR_TIMEOUT, "Timeout"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument Version Mismatch"},
});

nvmlReturn_t Begin() {
  GuardedState& guarded = TheState();
  const MutexLock lock(guarded.mutex);
  if (guarded.state.users == 0) {
    if (const nvmlReturn_t started = guarded.state.Start(); started != NVML_SUCCESS) {
      guarded.state.Stop();
      return started;
    }
  }
  ++guarded.state.users;
  return NVML_SUCCESS;
}

// The CUDA version of the driver belongs to the driver's release; the library of CUDA is not asked.
nvmlReturn_t CudaVersion(int* version) {
  return With([&](State& state) -> nvmlReturn_t {
    if (version == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto known = rmclient::CudaVersionOf(state.client->driver_version());
    *version = known.value_or(0);
    return known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
  });
}

}  // namespace
}  // namespace cgpu::sim::nvml

using cgpu::sim::nvml::PutText;
using cgpu::sim::nvml::State;
using cgpu::sim::nvml::With;
namespace nvml = cgpu::sim::nvml;

// NOLINTBEGIN(readability-identifier-naming): NVML's names
CGPU_NVML_API nvmlReturn_t nvmlInit_v2() {
  return nvml::Begin();
}

CGPU_NVML_API nvmlReturn_t nvmlInit() {
  return nvml::Begin();
}

// The flags say what may be absent (no GPUs) or not opened; here neither is an error.
CGPU_NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned /*flags*/) {
  return nvml::Begin();
}

CGPU_NVML_API nvmlReturn_t nvmlShutdown() {
  return With([](State& state) {
    if (--state.users == 0) {
      state.Stop();
    }
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API const char* nvmlErrorString(nvmlReturn_t result) {
  for (const auto& words : nvml::kWords) {
    if (words.number == result) {
      return words.text;
    }
  }
  return "Unknown Error";
}

CGPU_NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return With(
      [&](State& state) { return PutText(state.client->driver_version(), version, length); });
}

// NVML's own version is the driver's, behind the major version of CUDA.
CGPU_NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return With([&](State& state) {
    constexpr int kMajor = 1000;
    const std::string& driver = state.client->driver_version();
    const auto cuda = cgpu::rmclient::CudaVersionOf(driver);
    return PutText(cuda ? std::to_string(*cuda / kMajor) + "." + driver : driver, version, length);
  });
}

CGPU_NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvml::CudaVersion(version);
}

CGPU_NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvml::CudaVersion(version);
}

CGPU_NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return With([&](State&) -> nvmlReturn_t {
    if (name == nullptr || length == 0) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto line = cgpu::ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
    if (!line.ok()) {
      return NVML_ERROR_NOT_FOUND;
    }
    // The command's first word; what does not fit is cut off.
    const std::string word = line->substr(0, line->find('\0'));
    return PutText(word.substr(0, length - 1), name, length);
  });
}
// NOLINTEND(readability-identifier-naming)
