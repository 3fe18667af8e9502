// CUresult, docs.nvidia.com/cuda/cuda-driver-api.
#ifndef CGPU_SIM_CUDA_STATUS_H_
#define CGPU_SIM_CUDA_STATUS_H_

#include "base/result.h"

namespace cgpu::sim::cuda {

enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kUnknown = 999,
};
const char* NameOf(Status status);
const char* WordsOf(Status status);
// Translates an error of the driver's.
Status StatusOf(const Error& error);
template <class T>
Status StatusOf(const Result<T>& result) {
  return result.ok() ? kSuccess : StatusOf(result.error());
}

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_STATUS_H_
