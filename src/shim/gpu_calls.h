// The one way from the shim into the driver. Tests put a driver of their own in its place.
#ifndef CGPU_SHIM_GPU_CALLS_H_
#define CGPU_SHIM_GPU_CALLS_H_

namespace cgpu::shim {

// Thread-safe.
class GpuCalls {
 public:
  virtual ~GpuCalls() = default;
  // Makes the ioctl on `file`, whose parameters are at `params`. Returns its errno, or 0.
  [[nodiscard]] virtual int Call(int file, unsigned long request, void* params) = 0;
};

// Returns the kernel's.
[[nodiscard]] GpuCalls& KernelGpuCalls();

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_GPU_CALLS_H_
