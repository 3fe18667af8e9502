// Errors of the GPUs' memory.
#include "rmclient/readings.h"
#include "sim/nvml/state.h"

namespace nvml = cgpu::sim::nvml;
namespace rmc = cgpu::rmclient;

// NOLINTBEGIN(readability-identifier-naming): NVML's names
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned* current,
                                                unsigned* pending) {
  return nvml::WithGpu(device, [&](rmc::Client& client, const rmc::Gpu& gpu) -> nvmlReturn_t {
    if (current == nullptr || pending == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto now = rmc::ReadEcc(client, gpu);
    const auto setting = rmc::ReadEccSetting(client, gpu);
    if (!now.ok() || !setting.ok()) {
      return nvml::ReturnOf(now.ok() ? setting.error() : now.error());
    }
    *current = now->enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    *pending = setting->next ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, unsigned* mode) {
  return nvml::Answer(device, mode, rmc::ReadEccSetting, [&](const rmc::EccSetting& setting) {
    *mode = setting.factory ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  });
}

// The driver tells of errors since it began. The counters of the board's whole life are NVML's from
// a place that is not published.
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type,
                                                       unsigned counter,
                                                       unsigned long long* count) {
  if (type > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter > NVML_AGGREGATE_ECC) {
    return nvml::With([](nvml::State&) { return NVML_ERROR_INVALID_ARGUMENT; });
  }
  if (counter == NVML_AGGREGATE_ECC) {
    return nvml::WithGpu(device,
                         [](rmc::Client&, const rmc::Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });
  }
  return nvml::Answer(device, count, rmc::ReadEcc, [&](const rmc::Ecc& ecc) {
    *count = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? ecc.uncorrected : ecc.corrected;
  });
}
// NOLINTEND(readability-identifier-naming)
