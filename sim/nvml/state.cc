#include "sim/nvml/state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace cgpu::sim::nvml {

nvmlReturn_t State::Start() {
  auto opened = rmclient::Client::Open();
  if (!opened.ok()) {
    return opened.error().code == Code::kNotFound ? NVML_ERROR_DRIVER_NOT_LOADED
                                                  : ReturnOf(opened.error());
  }
  const auto listed = rmclient::ListGpus(*opened);
  if (!listed.ok()) {
    return ReturnOf(listed.error());
  }
  for (const rmclient::ListedGpu& one : *listed) {
    auto gpu = rmclient::OpenGpu(*opened, one.minor);
    if (gpu.ok() || gpu.error().code != Code::kNotFound) {
      const auto index = static_cast<unsigned>(devices.size());
      devices.push_back(std::make_unique<Device>(Device{index, one, std::move(gpu)}));
    }
  }
  client.emplace(*std::move(opened));
  return NVML_SUCCESS;
}

void State::Stop() {
  sets.clear();
  devices.clear();
  client.reset();
}

Device* State::Find(nvmlDevice_t handle) const {
  const auto found = std::ranges::find_if(devices, [handle](const auto& device) {
    return static_cast<void*>(device.get()) == static_cast<void*>(handle);
  });
  return found == devices.end() ? nullptr : found->get();
}

GuardedState& TheState() {
  static GuardedState* const state = new GuardedState;
  return *state;
}

nvmlReturn_t ReturnOf(const Error& error) {
  switch (error.code) {
    case Code::kUnsupported:
      return NVML_ERROR_NOT_SUPPORTED;
    case Code::kPermission:
      return NVML_ERROR_NO_PERMISSION;
    case Code::kNotFound:
      return NVML_ERROR_NOT_FOUND;
    case Code::kUnavailable:  // a status of the driver: NV_ERR_GPU_IS_LOST
      return error.sys_errno == 0 ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_UNKNOWN;
    default:
      return NVML_ERROR_UNKNOWN;
  }
}

nvmlReturn_t PutText(const std::string& text, char* buffer, unsigned length) {
  if (buffer == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (text.size() >= length) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

unsigned Percent(double part) {
  return static_cast<unsigned>(std::lround(100 * std::clamp(part, 0.0, 1.0)));
}

}  // namespace cgpu::sim::nvml
