#include "sim/cuda/status.h"

#include <algorithm>
#include <iterator>

namespace cgpu::sim::cuda {
namespace {

struct Row {
  Status status;
  const char* name;
  const char* words;
};
constexpr Row kRows[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "there is no GPU"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no such GPU"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "this is no text of PTX"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "this target is too old"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "there is no such context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "there is no such thing"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "there is nothing of this name"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "it has not ended"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel accessed an illegal address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "the simulated node's CUDA cannot do this"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"}};

const Row* Find(Status status) {
  const auto* const row =
      std::find_if(std::begin(kRows), std::end(kRows),
                   [status](const Row& candidate) { return candidate.status == status; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

const char* NameOf(Status status) {
  const Row* const row = Find(status);
  return row == nullptr ? nullptr : row->name;
}

const char* WordsOf(Status status) {
  const Row* const row = Find(status);
  return row == nullptr ? nullptr : row->words;
}

Status StatusOf(const Error& error) {
  return error.code == Code::kExhausted                                     ? kOutOfMemory
         : error.code == Code::kNotFound || error.code == Code::kPermission ? kNoDevice
                                                                            : kUnknown;
}

}  // namespace cgpu::sim::cuda
