// libcuda.so.1 of a simulated node: the functions of CUDA's driver API that our own programs call,
// by the names and with the arguments of docs.nvidia.com/cuda/cuda-driver-api; those of memory are
// in api_memory_unsafe.cc. It knows two kernels, by their names:
//
//   cgpu_spin(steps)   runs for a nanosecond a step
//   cgpu_fault()       accesses an address at which nothing is
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "rmclient/readings.h"
#include "sim/cuda/state.h"

namespace cgpu::sim::cuda {
namespace {

constexpr int kAttributeMultiprocessors = 16;
constexpr int kMultiprocessors = 100;
constexpr int kApiVersion = 12020;  // CUDA 12.2, that of branch 535
constexpr std::uint64_t kNobodysAddress = 0x10;
constexpr std::uint64_t kFaultNs = 1000;

Status MakeContext(State& state, void** handle, int device) {
  std::unique_ptr<Context> context;
  const Status status = Context::Make(static_cast<std::size_t>(device), &context);
  if (status == kSuccess) {
    *handle = state.contexts.Add(std::move(context));
  }
  return status;
}

bool IsGpu(const State& state, int device) {
  return device >= 0 && static_cast<std::size_t>(device) < state.gpus.size();
}

// The number in ".target sm_NN" of a text; 0 if there is none.
int TargetOf(const std::string& text) {
  constexpr std::string_view kTarget = ".target sm_";
  const std::size_t at = text.find(kTarget);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + kTarget.size());
}

// The oldest target that this library translates, as CGPU_SIM_LEAST_TARGET of the environment has
// it: a test plays a later driver.
int LeastTarget() {
  const char* const least = std::getenv("CGPU_SIM_LEAST_TARGET");  // NOLINT(concurrency-mt-unsafe)
  return least == nullptr ? 0 : std::atoi(least);
}

// The end of so many launches, and what that gives back.
Status Settle(Context& context, std::uint64_t launch) {
  const Status status = context.Wait(launch);
  return status == kSuccess && context.Query(context.launched()) == kSuccess
             ? context.memory().Settle()
             : status;
}

}  // namespace
}  // namespace cgpu::sim::cuda

using cgpu::sim::cuda::Context;
using cgpu::sim::cuda::Entry;
using cgpu::sim::cuda::Event;
using cgpu::sim::cuda::FindStream;
using cgpu::sim::cuda::Function;
using cgpu::sim::cuda::Graph;
using cgpu::sim::cuda::IsGpu;
using cgpu::sim::cuda::Kernel;
using cgpu::sim::cuda::MakeContext;
using cgpu::sim::cuda::Module;
using cgpu::sim::cuda::Settle;
using cgpu::sim::cuda::State;
using cgpu::sim::cuda::Status;
using cgpu::sim::cuda::Stream;
using cgpu::sim::cuda::Submit;
using cgpu::sim::cuda::With;
using cgpu::sim::cuda::WithContext;
namespace cuda = cgpu::sim::cuda;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
CGPU_CUDA_API int cuGetErrorName(int error, const char** name) {
  *name = cuda::NameOf(static_cast<Status>(error));
  return *name == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}

CGPU_CUDA_API int cuGetErrorString(int error, const char** words) {
  *words = cuda::WordsOf(static_cast<Status>(error));
  return *words == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}

CGPU_CUDA_API int cuInit(unsigned flags) {
  cuda::GuardedState& guarded = cuda::TheState();
  const cgpu::MutexLock lock(guarded.mutex);
  State& state = guarded.state;
  if (flags != 0 || state.ready) {
    return flags != 0 ? cuda::kInvalidValue : cuda::kSuccess;
  }
  auto client = cgpu::rmclient::Client::Open();
  if (!client.ok()) {
    return cuda::StatusOf(client.error());
  }
  state.client.emplace(std::move(*client));
  auto gpus = cgpu::rmclient::OpenGpus(*state.client);
  if (!gpus.ok() || gpus->empty()) {
    return cuda::kNoDevice;
  }
  state.gpus = std::move(*gpus);
  state.ready = true;
  return cuda::kSuccess;
}

CGPU_CUDA_API int cuDriverGetVersion(int* version) {
  *version = cuda::kApiVersion;
  return cuda::kSuccess;
}

CGPU_CUDA_API int cuDeviceGetCount(int* count) {
  return With([&](State& state) {
    *count = static_cast<int>(state.gpus.size());
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuDeviceGet(int* device, int ordinal) {
  return With([&](State& state) {
    *device = ordinal;
    return IsGpu(state, ordinal) ? cuda::kSuccess : cuda::kInvalidDevice;
  });
}

CGPU_CUDA_API int cuDeviceGetName(char* name, int length, int device) {
  return With([&](State& state) {
    if (!IsGpu(state, device) || length < 1) {
      return cuda::kInvalidDevice;
    }
    const std::string& is = state.gpus[static_cast<std::size_t>(device)].name;
    name[is.copy(name, static_cast<std::size_t>(length - 1))] = '\0';
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return With([&](State& state) {
    *value = cuda::kMultiprocessors;
    return !IsGpu(state, device)                          ? cuda::kInvalidDevice
           : attribute == cuda::kAttributeMultiprocessors ? cuda::kSuccess
                                                          : cuda::kNotSupported;
  });
}

CGPU_CUDA_API int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return With([&](State& state) {
    if (!IsGpu(state, device)) {
      return cuda::kInvalidDevice;
    }
    const auto info =
        cgpu::rmclient::ReadFbInfo(*state.client, state.gpus[static_cast<std::size_t>(device)]);
    *bytes = info.ok() ? info->total : 0;
    return info.ok() ? cuda::kSuccess : cuda::StatusOf(info.error());
  });
}

CGPU_CUDA_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  return With([&](State& state) {
    void*& primary = state.primary[static_cast<std::size_t>(device)];
    const Status status =
        primary != nullptr ? cuda::kSuccess : MakeContext(state, &primary, device);
    *context = primary;
    return status;
  });
}

CGPU_CUDA_API int cuCtxCreate_v2(void** context, unsigned /*flags*/, int device) {
  return With([&](State& state) {
    const Status status = MakeContext(state, context, device);
    cuda::Current() = status == cuda::kSuccess ? *context : cuda::Current();
    return status;
  });
}

CGPU_CUDA_API int cuCtxDestroy_v2(void* context) {
  return With([&](State& state) {
    cuda::Current() = cuda::Current() == context ? nullptr : cuda::Current();
    return state.contexts.Remove(context) ? cuda::kSuccess : cuda::kInvalidContext;
  });
}

CGPU_CUDA_API int cuCtxSetCurrent(void* context) {
  return With([&](State& state) {
    if (context != nullptr && state.contexts.Find(context) == nullptr) {
      return cuda::kInvalidContext;
    }
    cuda::Current() = context;
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuCtxSynchronize() {
  return WithContext([](Context& context) { return Settle(context, context.launched()); });
}

CGPU_CUDA_API int cuModuleLoadData(void** module, const void* image) {
  return With([&](State& state) {
    auto made = std::make_unique<Module>(Module{static_cast<const char*>(image)});
    if (made->text.find(".version") == std::string::npos) {
      return cuda::kInvalidImage;
    }
    if (cuda::TargetOf(made->text) < cuda::LeastTarget()) {
      return cuda::kUnsupportedPtxVersion;
    }
    *module = state.modules.Add(std::move(made));
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  return With([&](State& state) {
    const Module* const found = state.modules.Find(module);
    if (found == nullptr) {
      return cuda::kInvalidHandle;
    }
    if (found->text.find(std::string(".entry ") + name + "(") == std::string::npos) {
      return cuda::kNotFound;
    }
    const bool spin = std::strcmp(name, "cgpu_spin") == 0;
    if (!spin && std::strcmp(name, "cgpu_fault") != 0) {
      return cuda::kNotSupported;
    }
    *function = state.functions.Add(
        std::make_unique<Function>(Function{spin ? Entry::kSpin : Entry::kFault}));
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuLaunchKernel(void* function, unsigned /*grid_x*/, unsigned /*grid_y*/,
                                 unsigned /*grid_z*/, unsigned /*block_x*/, unsigned /*block_y*/,
                                 unsigned /*block_z*/, unsigned /*shared_bytes*/, void* stream,
                                 void** arguments, void** /*extra*/) {
  return With([&](State& state) {
    const Function* const found = state.functions.Find(function);
    if (found == nullptr) {
      return cuda::kInvalidHandle;
    }
    Kernel kernel;
    if (found->entry == Entry::kSpin) {
      std::memcpy(&kernel.duration_ns, arguments[0], sizeof(kernel.duration_ns));
    } else {
      kernel.flags = Kernel::kAccesses;
      kernel.address = cuda::kNobodysAddress;
      kernel.duration_ns = cuda::kFaultNs;
    }
    return Submit(state, stream, kernel);
  });
}

CGPU_CUDA_API int cuStreamCreate(void** stream, unsigned /*flags*/) {
  return With([&](State& state) {
    Context* const context = state.contexts.Find(cuda::Current());
    if (context == nullptr) {
      return cuda::kInvalidContext;
    }
    *stream = state.streams.Add(std::make_unique<Stream>(Stream{context, 0, nullptr}));
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuStreamQuery(void* stream) {
  return With([&](State& state) {
    Context* context = nullptr;
    Stream* in = nullptr;
    const Status status = FindStream(state, stream, &context, &in);
    return status != cuda::kSuccess
               ? status
               : context->Query(in == nullptr ? context->launched() : in->last);
  });
}

CGPU_CUDA_API int cuStreamSynchronize(void* stream) {
  return With([&](State& state) {
    Context* context = nullptr;
    Stream* in = nullptr;
    const Status status = FindStream(state, stream, &context, &in);
    return status != cuda::kSuccess
               ? status
               : Settle(*context, in == nullptr ? context->launched() : in->last);
  });
}

CGPU_CUDA_API int cuStreamBeginCapture_v2(void* stream, int /*mode*/) {
  return With([&](State& state) {
    Stream* const in = state.streams.Find(stream);
    if (in == nullptr || in->capture != nullptr) {
      return cuda::kInvalidHandle;
    }
    in->capture = std::make_unique<Graph>();
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuStreamEndCapture(void* stream, void** graph) {
  return With([&](State& state) {
    Stream* const in = state.streams.Find(stream);
    if (in == nullptr || in->capture == nullptr) {
      return cuda::kInvalidHandle;
    }
    *graph = state.graphs.Add(std::move(in->capture));
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuGraphInstantiateWithFlags(void** executable, void* graph,
                                              unsigned long long /*flags*/) {
  return With([&](State& state) {
    const Graph* const found = state.graphs.Find(graph);
    if (found == nullptr) {
      return cuda::kInvalidHandle;
    }
    *executable = state.graphs.Add(std::make_unique<Graph>(*found));
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuGraphLaunch(void* executable, void* stream) {
  return With([&](State& state) {
    const Graph* const graph = state.graphs.Find(executable);
    Status status = graph == nullptr ? cuda::kInvalidHandle : cuda::kSuccess;
    for (std::size_t i = 0; status == cuda::kSuccess && i < graph->steps.size(); ++i) {
      status = Submit(state, stream, graph->steps[i]);
    }
    return status;
  });
}

CGPU_CUDA_API int cuEventCreate(void** event, unsigned /*flags*/) {
  return With([&](State& state) {
    *event = state.events.Add(std::make_unique<Event>());
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuEventRecord(void* event, void* stream) {
  return With([&](State& state) {
    Event* const found = state.events.Find(event);
    Context* context = nullptr;
    Stream* in = nullptr;
    const Status status =
        found == nullptr ? cuda::kInvalidHandle : FindStream(state, stream, &context, &in);
    if (status == cuda::kSuccess) {
      *found = Event{context, in == nullptr ? context->launched() : in->last};
    }
    return status;
  });
}

CGPU_CUDA_API int cuEventQuery(void* event) {
  return With([&](State& state) {
    const Event* const found = state.events.Find(event);
    return found == nullptr            ? cuda::kInvalidHandle
           : found->context == nullptr ? cuda::kSuccess
                                       : found->context->Query(found->launch);
  });
}

CGPU_CUDA_API int cuEventSynchronize(void* event) {
  return With([&](State& state) {
    const Event* const found = state.events.Find(event);
    return found == nullptr            ? cuda::kInvalidHandle
           : found->context == nullptr ? cuda::kSuccess
                                       : found->context->Wait(found->launch);
  });
}
// NOLINTEND(readability-identifier-naming)
