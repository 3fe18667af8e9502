// The NVML state of a process: the client of the driver and the GPUs it opened. One lock for all.
#ifndef CGPU_SIM_NVML_STATE_H_
#define CGPU_SIM_NVML_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/error_events.h"
#include "rmclient/gpus.h"
#include "sim/nvml/nvml.h"

namespace cgpu::sim::nvml {

// A GPU that the driver lists. One that could not be opened keeps its place, and the reason.
struct Device {
  unsigned index;
  rmclient::ListedGpu listed;
  Result<rmclient::Gpu> gpu;
};

// Events that a program waits for.
struct EventSet {
  std::map<Device*, rmclient::ErrorEvents> errors;
};

struct State {
  unsigned users = 0;  // calls of nvmlInit without their nvmlShutdown
  std::optional<rmclient::Client> client;
  std::vector<std::unique_ptr<Device>> devices;  // at addresses that stay: they are the handles

  std::vector<std::unique_ptr<EventSet>> sets;  // likewise; gone before the client is

  // Opens the client and the GPUs. Leaves out GPUs whose files this process does not have, as those
  // that a container was not given.
  [[nodiscard]] nvmlReturn_t Start();
  void Stop();
  [[nodiscard]] Device* Find(nvmlDevice_t handle) const;
};

// Keeps the state behind its lock.
struct GuardedState {
  Mutex mutex;
  State state CGPU_GUARDED_BY(mutex);
};

// Returns the state of this process. Never destroyed: threads may use it at the process's end.
GuardedState& TheState();

// Returns the number that tells a program of this error.
[[nodiscard]] nvmlReturn_t ReturnOf(const Error& error);

// Copies the text and its end into the caller's buffer.
[[nodiscard]] nvmlReturn_t PutText(const std::string& text, char* buffer, unsigned length);

// Runs `body` on the state, if nvmlInit was called.
template <class Body>
nvmlReturn_t With(Body body) {
  GuardedState& guarded = TheState();
  const MutexLock lock(guarded.mutex);
  return guarded.state.users != 0 ? body(guarded.state) : NVML_ERROR_UNINITIALIZED;
}

// Runs `body` on the client and the GPU of a handle.
template <class Body>
nvmlReturn_t WithGpu(nvmlDevice_t handle, Body body) {
  return With([&](State& state) -> nvmlReturn_t {
    Device* const device = state.Find(handle);
    if (device == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    return device->gpu.ok() ? body(*state.client, *device->gpu) : ReturnOf(device->gpu.error());
  });
}

// Runs `body` on the state and the event set of a handle.
template <class Body>
nvmlReturn_t WithSet(nvmlEventSet_t handle, Body body) {
  return With([&](State& state) -> nvmlReturn_t {
    for (const auto& set : state.sets) {
      if (static_cast<void*>(set.get()) == static_cast<void*>(handle)) {
        return body(state, *set);
      }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
  });
}

// Runs `read(client, gpu)`, a Result, and `put` on what it returns. A null `out` is an error.
template <class Read, class Put>
nvmlReturn_t Answer(nvmlDevice_t handle, const void* out, Read read, Put put) {
  return WithGpu(handle, [&](rmclient::Client& client, const rmclient::Gpu& gpu) -> nvmlReturn_t {
    if (out == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto found = read(client, gpu);
    if (!found.ok()) {
      return ReturnOf(found.error());
    }
    put(*found);
    return NVML_SUCCESS;
  });
}

// Copies a list, as NVML returns lists: `*count` is the room in, and the length out. Without room
// for all, copies nothing.
template <class T>
nvmlReturn_t PutList(const std::vector<T>& list, unsigned* count, T* out) {
  const bool fits = list.size() <= *count && (out != nullptr || list.empty());
  *count = static_cast<unsigned>(list.size());
  if (!fits) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    out[i] = list[i];
  }
  return NVML_SUCCESS;
}

// Returns a part of 1 as whole percent.
[[nodiscard]] unsigned Percent(double part);

}  // namespace cgpu::sim::nvml

#endif  // CGPU_SIM_NVML_STATE_H_
