#include <dlfcn.h>

#include "load/burn/cuda.h"

namespace cgpu::burn {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// Returns the loader's last error. It is the calling thread's.
std::string LoaderError() {
  const char* const words = dlerror();  // NOLINT(concurrency-mt-unsafe): see above
  return words == nullptr ? "no reason given" : words;
}

template <class T>
bool Find(void* library, const char* name, T* function) {
  *function = reinterpret_cast<T>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Result<Cuda> Cuda::Load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{Code::kNotFound, 0, "CUDA's library cannot be loaded: " + LoaderError(),
                 "it comes with the driver; a container gets it from its engine's NVIDIA runtime, "
                 "or by mounting libcuda.so.1 of the driver's version"};
  }
  Cuda cuda;
  std::string missing;
  const auto find = [library, &missing](const char* name, auto* function) {
    if (!Find(library, name, function)) {
      missing = name;
    }
  };
#define CGPU_CUDA_FIND(name, ...) find(#name, &cuda.name);
  CGPU_CUDA_FUNCTIONS(CGPU_CUDA_FIND)
#undef CGPU_CUDA_FIND
  if (!missing.empty()) {
    return Error{Code::kUnsupported, 0, std::string(kLibrary) + " has no " + missing,
                 "cgpu-burn needs a driver of branch 535 or later"};
  }
  return cuda;
}

Error Cuda::MakeError(CudaStatus status, const std::string& what) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (cuGetErrorName(status, &name) != kCudaSuccess || name == nullptr) {
    name = "of no name";
  }
  if (cuGetErrorString(status, &words) != kCudaSuccess || words == nullptr) {
    words = "unknown error";
  }
  const bool full = status == kCudaOutOfMemory;
  return Error{full ? Code::kExhausted : Code::kUnavailable, 0,
               what + ": " + words + " (" + name + ", CUDA's error " + std::to_string(status) + ")",
               full ? "a context takes some hundred MiB: give the slice more" : ""};
}

}  // namespace cgpu::burn
