// The part of CUDA's driver API that cgpu-burn calls, found in the machine's libcuda.so.1.
//
// Names, arguments and numbers: docs.nvidia.com/cuda/cuda-driver-api. Functions are called by their
// names in the library (that of cuMemAlloc is cuMemAlloc_v2). All of them are there since CUDA
// 11.4, so in every driver of branch 535 and later. cgpu-burn links nothing of CUDA and needs no
// header of it: without a library Load() returns an error.
#ifndef CGPU_TESTS_LOAD_BURN_CUDA_H_
#define CGPU_TESTS_LOAD_BURN_CUDA_H_

#include <cstddef>
#include <string>
#include <type_traits>

#include "base/result.h"

namespace cgpu::burn {

// CUresult: 0, or the reason of a failure.
using CudaStatus = int;
inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr CudaStatus kCudaOutOfMemory = 2;
inline constexpr CudaStatus kCudaNotReady = 600;

inline constexpr int kCudaMultiprocessors = 16;     // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr unsigned kCudaNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kCudaNoTiming = 2;        // CU_EVENT_DISABLE_TIMING
inline constexpr int kCudaCaptureOfThisThread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// A handle of the library's: a pointer that is opaque to us.
using CudaHandle = void*;

// (name, type)
#define CGPU_CUDA_FUNCTIONS(X)                                                              \
  X(cuGetErrorName, CudaStatus(CudaStatus, const char**))                                   \
  X(cuGetErrorString, CudaStatus(CudaStatus, const char**))                                 \
  X(cuInit, CudaStatus(unsigned flags))                                                     \
  X(cuDeviceGetCount, CudaStatus(int*))                                                     \
  X(cuDeviceGet, CudaStatus(int* device, int ordinal))                                      \
  X(cuDeviceGetAttribute, CudaStatus(int* value, int attribute, int device))                \
  X(cuDevicePrimaryCtxRetain, CudaStatus(CudaHandle* context, int device))                  \
  X(cuCtxSetCurrent, CudaStatus(CudaHandle context))                                        \
  X(cuModuleLoadData, CudaStatus(CudaHandle* module, const void* image))                    \
  X(cuModuleGetFunction, CudaStatus(CudaHandle* function, CudaHandle module, const char*))  \
  X(cuStreamCreate, CudaStatus(CudaHandle* stream, unsigned flags))                         \
  X(cuStreamQuery, CudaStatus(CudaHandle stream))                                           \
  X(cuStreamBeginCapture_v2, CudaStatus(CudaHandle stream, int mode))                       \
  X(cuStreamEndCapture, CudaStatus(CudaHandle stream, CudaHandle* graph))                   \
  X(cuGraphInstantiateWithFlags,                                                            \
    CudaStatus(CudaHandle* executable, CudaHandle graph, unsigned long long flags))         \
  X(cuGraphLaunch, CudaStatus(CudaHandle executable, CudaHandle stream))                    \
  X(cuEventCreate, CudaStatus(CudaHandle* event, unsigned flags))                           \
  X(cuEventRecord, CudaStatus(CudaHandle event, CudaHandle stream))                         \
  X(cuEventQuery, CudaStatus(CudaHandle event))                                             \
  X(cuLaunchKernel,                                                                         \
    CudaStatus(CudaHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
               CudaHandle stream, void** arguments, void** extra))

struct Cuda {
#define CGPU_CUDA_POINTER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  CGPU_CUDA_FUNCTIONS(CGPU_CUDA_POINTER)
#undef CGPU_CUDA_POINTER

  // Loads the library, which stays loaded. kNotFound: there is no library, or it lacks a function.
  [[nodiscard]] static Result<Cuda> Load();

  // Returns "WHAT: WHY (CUDA_ERROR_..., error N)", in the library's words. `status` is no success.
  [[nodiscard]] Error MakeError(CudaStatus status, const std::string& what) const;
};

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_CUDA_H_
