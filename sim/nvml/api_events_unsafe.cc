// Sets of events that programs wait for: errors of the GPUs (Xid).
#include <poll.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "rmclient/error_events.h"
#include "sim/nvml/state.h"

namespace cgpu::sim::nvml {
namespace {

constexpr unsigned long long kXid = 0x8;         // nvmlEventTypeXidCriticalError
constexpr unsigned long long kUnknownXid = 999;  // NVML API reference, nvmlEventData_t

// Registers a GPU's errors, once. Events of other kinds are not told here.
nvmlReturn_t Register(State& state, Device& device, unsigned long long types, EventSet& set) {
  if ((types & ~kXid) != 0) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  if (types == 0 || set.errors.contains(&device)) {
    return NVML_SUCCESS;
  }
  auto events = rmclient::ErrorEvents::Make(*state.client, *device.gpu);
  if (!events.ok()) {
    return ReturnOf(events.error());
  }
  set.errors.emplace(&device, *std::move(events));
  return NVML_SUCCESS;
}

nvmlReturn_t Take(EventSet& set, const std::vector<std::pair<Device*, pollfd>>& files,
                  nvmlEventData_t* data) {
  for (const auto& [device, file] : files) {
    if ((file.revents & POLLHUP) != 0) {
      return NVML_ERROR_GPU_IS_LOST;
    }
    const auto events = set.errors.find(device);
    if ((file.revents & POLLIN) == 0 || events == set.errors.end()) {
      continue;
    }
    if (const auto xid = events->second.Read()) {
      *data = {reinterpret_cast<nvmlDevice_t>(device), kXid, *xid == 0 ? kUnknownXid : *xid,
               kNoInstance, kNoInstance};
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_TIMEOUT;
}

// Waits without the lock, so that other threads go on.
nvmlReturn_t Wait(nvmlEventSet_t handle, nvmlEventData_t* data, unsigned timeout_ms) {
  std::vector<std::pair<Device*, pollfd>> files;
  const nvmlReturn_t found = WithSet(handle, [&](State&, EventSet& set) -> nvmlReturn_t {
    for (const auto& [device, events] : set.errors) {
      files.emplace_back(device, pollfd{events.fd(), POLLIN, 0});
    }
    return data == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
  });
  if (found != NVML_SUCCESS) {
    return found;
  }
  std::vector<pollfd> polled;
  polled.reserve(files.size());
  for (const auto& [device, file] : files) {
    polled.push_back(file);
  }
  constexpr unsigned kForever = 0x7FFFFFFF;
  const int timeout = timeout_ms > kForever ? -1 : static_cast<int>(timeout_ms);
  if (poll(polled.data(), polled.size(), timeout) <= 0) {
    return NVML_ERROR_TIMEOUT;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].second = polled[i];
  }
  return WithSet(handle,
                 [&](State&, EventSet& set) -> nvmlReturn_t { return Take(set, files, data); });
}

}  // namespace
}  // namespace cgpu::sim::nvml

namespace nvml = cgpu::sim::nvml;

// NOLINTBEGIN(readability-identifier-naming): NVML's names
CGPU_NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return nvml::With([&](nvml::State& state) -> nvmlReturn_t {
    if (set == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    state.sets.push_back(std::make_unique<nvml::EventSet>());
    *set = reinterpret_cast<nvmlEventSet_t>(state.sets.back().get());
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return nvml::WithSet(set, [](nvml::State& state, nvml::EventSet& found) -> nvmlReturn_t {
    std::erase_if(state.sets, [&found](const auto& one) { return one.get() == &found; });
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                            unsigned long long* types) {
  return nvml::WithGpu(device,
                       [&](cgpu::rmclient::Client&, const cgpu::rmclient::Gpu&) -> nvmlReturn_t {
                         if (types == nullptr) {
                           return NVML_ERROR_INVALID_ARGUMENT;
                         }
                         *types = nvml::kXid;
                         return NVML_SUCCESS;
                       });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                    nvmlEventSet_t set) {
  return nvml::WithSet(set, [&](nvml::State& state, nvml::EventSet& found) -> nvmlReturn_t {
    nvml::Device* const known = state.Find(device);
    if (known == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    return known->gpu.ok() ? nvml::Register(state, *known, types, found)
                           : nvml::ReturnOf(known->gpu.error());
  });
}

CGPU_NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                               unsigned timeout_ms) {
  return nvml::Wait(set, data, timeout_ms);
}

// The first version does not tell of parts of a divided GPU.
CGPU_NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data,
                                            unsigned timeout_ms) {
  return nvml::Wait(set, data, timeout_ms);
}
// NOLINTEND(readability-identifier-naming)
