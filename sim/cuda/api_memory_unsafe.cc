// The functions of CUDA's driver API for memory; sim/cuda/api_unsafe.cc has the others.
#include <cstring>

#include "sim/cuda/state.h"

namespace cgpu::sim::cuda {
namespace {

constexpr int kPinned = 1;            // CU_MEM_ALLOCATION_TYPE_PINNED
constexpr int kDevice = 1;            // CU_MEM_LOCATION_TYPE_DEVICE
constexpr int kPosixFd = 1;           // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr int kReleaseThreshold = 4;  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

struct Properties {  // CUmemAllocationProp
  int type;
  int handle_types;
  int location[2];
  void* win32;
  unsigned char flags[8];
};

bool IsGpusMemory(const Properties& properties) {
  return properties.type == kPinned && (properties.handle_types & ~kPosixFd) == 0 &&
         properties.location[0] == kDevice;
}

bool IsCaptured(State& state, void* stream) {
  const Stream* const in = state.streams.Find(stream);
  return in != nullptr && in->capture != nullptr;
}

}  // namespace
}  // namespace cgpu::sim::cuda

using cgpu::sim::cuda::Context;
using cgpu::sim::cuda::FindStream;
using cgpu::sim::cuda::IpcHandle;
using cgpu::sim::cuda::IsCaptured;
using cgpu::sim::cuda::IsGpusMemory;
using cgpu::sim::cuda::Memory;
using cgpu::sim::cuda::Properties;
using cgpu::sim::cuda::State;
using cgpu::sim::cuda::Status;
using cgpu::sim::cuda::Stream;
using cgpu::sim::cuda::Submit;
using cgpu::sim::cuda::With;
using cgpu::sim::cuda::WithContext;
namespace cuda = cgpu::sim::cuda;

namespace {

template <class Body>
int WithMemory(Body body) {
  return WithContext([&](Context& context) { return body(context.memory()); });
}

// After what was launched.
template <class Body>
int AfterAll(Body body) {
  return WithContext([&](Context& context) {
    const Status status = context.WaitForAll();
    return status == cuda::kSuccess ? body(context.memory()) : status;
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
CGPU_CUDA_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return WithMemory([&](Memory& memory) {
    std::uint64_t left = 0;
    std::uint64_t all = 0;
    const Status status = memory.Info(&left, &all);
    *free = left;
    *total = all;
    return status;
  });
}

CGPU_CUDA_API int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  return WithMemory([&](Memory& memory) { return memory.Allocate(bytes, address); });
}

CGPU_CUDA_API int cuMemAllocManaged(std::uint64_t* address, std::size_t bytes, unsigned /*flags*/) {
  return WithMemory([&](Memory& memory) { return memory.AllocateManaged(bytes, address); });
}

CGPU_CUDA_API int cuMemFree_v2(std::uint64_t address) {
  return AfterAll([&](Memory& memory) { return memory.Free(address); });
}

CGPU_CUDA_API int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  return AfterAll([&](Memory& memory) {
    return memory.Write(to, static_cast<const unsigned char*>(from), bytes);
  });
}

CGPU_CUDA_API int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  return AfterAll(
      [&](Memory& memory) { return memory.Read(static_cast<unsigned char*>(to), from, bytes); });
}

CGPU_CUDA_API int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes,
                                       void* stream) {
  return With([&](State& state) { return Submit(state, stream, cuda::Copy{to, from, bytes}); });
}

CGPU_CUDA_API int cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t bytes,
                                  void* stream) {
  return With(
      [&](State& state) { return Submit(state, stream, cuda::Fill{address, value, bytes}); });
}

// The pool of the current context, by the context's handle.
CGPU_CUDA_API int cuDeviceGetDefaultMemPool(void** pool, int /*device*/) {
  return WithContext([&](Context& /*context*/) {
    *pool = cuda::Current();
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  return With([&](State& state) {
    Context* const context = state.contexts.Find(pool);
    if (context == nullptr || attribute != cuda::kReleaseThreshold) {
      return context == nullptr ? cuda::kInvalidValue : cuda::kNotSupported;
    }
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, value, sizeof(bytes));
    context->memory().Keep(bytes);
    return cuda::kSuccess;
  });
}

CGPU_CUDA_API int cuMemPoolTrimTo(void* pool, std::size_t keep) {
  return With([&](State& state) {
    Context* const context = state.contexts.Find(pool);
    const Status status = context == nullptr ? cuda::kInvalidValue : context->WaitForAll();
    return status == cuda::kSuccess ? context->memory().Trim(keep) : status;
  });
}

CGPU_CUDA_API int cuMemAllocAsync(std::uint64_t* address, std::size_t bytes, void* stream) {
  return With([&](State& state) {
    Context* context = nullptr;
    Stream* in = nullptr;
    Status status = FindStream(state, stream, &context, &in);
    if (status == cuda::kSuccess && IsCaptured(state, stream)) {
      status = context->memory().Reserve(bytes, address);
      return status == cuda::kSuccess ? Submit(state, stream, cuda::Back{*address}) : status;
    }
    return status == cuda::kSuccess ? context->memory().Take(bytes, address) : status;
  });
}

CGPU_CUDA_API int cuMemFreeAsync(std::uint64_t address, void* stream) {
  return With([&](State& state) {
    Context* context = nullptr;
    Stream* in = nullptr;
    const Status status = FindStream(state, stream, &context, &in);
    return status != cuda::kSuccess || IsCaptured(state, stream) ? status
                                                                 : context->memory().Give(address);
  });
}

CGPU_CUDA_API int cuMemGetAllocationGranularity(std::size_t* bytes, const void* properties,
                                                int /*option*/) {
  *bytes = cuda::AddressSpace::kGranularity;
  return IsGpusMemory(*static_cast<const Properties*>(properties)) ? cuda::kSuccess
                                                                   : cuda::kNotSupported;
}

CGPU_CUDA_API int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const void* properties,
                              unsigned long long /*flags*/) {
  return WithMemory([&](Memory& memory) {
    return IsGpusMemory(*static_cast<const Properties*>(properties)) ? memory.Create(bytes, handle)
                                                                     : cuda::kNotSupported;
  });
}

CGPU_CUDA_API int cuMemRelease(std::uint64_t handle) {
  return WithMemory([&](Memory& memory) { return memory.Release(handle); });
}

CGPU_CUDA_API int cuMemAddressReserve(std::uint64_t* address, std::size_t bytes,
                                      std::size_t /*alignment*/, std::uint64_t /*hint*/,
                                      unsigned long long /*flags*/) {
  return WithMemory([&](Memory& memory) { return memory.Reserve(bytes, address); });
}

CGPU_CUDA_API int cuMemAddressFree(std::uint64_t address, std::size_t bytes) {
  return WithMemory([&](Memory& memory) { return memory.FreeAddresses(address, bytes); });
}

CGPU_CUDA_API int cuMemMap(std::uint64_t address, std::size_t bytes, std::size_t offset,
                           std::uint64_t handle, unsigned long long /*flags*/) {
  return WithMemory([&](Memory& memory) {
    return offset == 0 ? memory.Map(address, bytes, handle) : cuda::kNotSupported;
  });
}

// For the current context's GPU.
CGPU_CUDA_API int cuMemSetAccess(std::uint64_t address, std::size_t bytes, const void* /*access*/,
                                 std::size_t count) {
  return WithMemory([&](Memory& memory) {
    return count == 1 ? memory.SetAccess(address, bytes) : cuda::kNotSupported;
  });
}

CGPU_CUDA_API int cuMemUnmap(std::uint64_t address, std::size_t bytes) {
  return AfterAll([&](Memory& memory) { return memory.Unmap(address, bytes); });
}

CGPU_CUDA_API int cuMemExportToShareableHandle(void* to, std::uint64_t handle, int type,
                                               unsigned long long /*flags*/) {
  return WithMemory([&](Memory& memory) {
    return type == cuda::kPosixFd ? memory.Export(handle, static_cast<int*>(to))
                                  : cuda::kNotSupported;
  });
}

// A descriptor comes in place of a pointer.
CGPU_CUDA_API int cuMemImportFromShareableHandle(std::uint64_t* handle, void* from, int type) {
  return WithMemory([&](Memory& memory) {
    return type == cuda::kPosixFd
               ? memory.Import(static_cast<int>(reinterpret_cast<std::uintptr_t>(from)), handle)
               : cuda::kNotSupported;
  });
}

CGPU_CUDA_API int cuIpcGetMemHandle(IpcHandle* handle, std::uint64_t address) {
  return WithMemory([&](Memory& memory) { return memory.Share(address, handle); });
}

CGPU_CUDA_API int cuIpcOpenMemHandle_v2(std::uint64_t* address, IpcHandle handle,
                                        unsigned /*flags*/) {
  return WithMemory([&](Memory& memory) { return memory.OpenShared(handle, address); });
}

CGPU_CUDA_API int cuIpcCloseMemHandle(std::uint64_t address) {
  return AfterAll([&](Memory& memory) { return memory.CloseShared(address); });
}
// NOLINTEND(readability-identifier-naming)
