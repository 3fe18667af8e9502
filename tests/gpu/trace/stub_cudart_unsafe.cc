// A libcudart.so of two functions, which asks libcuda.so.1: for tests of tests/gpu/kit/start.py.
#include <dlfcn.h>

namespace {

constexpr int kInitializationError = 3;  // cudaErrorInitializationError

template <class... Words>
int Ask(const char* name, Words... words) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  return function == nullptr ? kInitializationError
                             : reinterpret_cast<int (*)(Words...)>(function)(words...);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
extern "C" __attribute__((visibility("default"))) int cudaGetDeviceCount(int* count) {
  return Ask("cuInit", 0U) == 0 && Ask("cuDeviceGetCount", count) == 0 ? 0 : kInitializationError;
}

extern "C" __attribute__((visibility("default"))) int cudaDeviceGetAttribute(int* value,
                                                                             int attribute,
                                                                             int device) {
  return Ask("cuDeviceGetAttribute", value, attribute, device);
}
// NOLINTEND(readability-identifier-naming)
