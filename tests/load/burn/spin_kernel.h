// The kernel that cgpu-burn launches on a real GPU, as text that the driver translates for it.
//
// It counts. A clock would not do: a GPU's clocks go on while a group is off it, so a kernel that
// waits for a time has less to do the more often it is preempted. Each step needs the one before,
// so a step takes as long as the GPU's arithmetic does, whatever else runs on it.
//
// PTX ISA 6.0 is the first that knows sm_70, and 6.3 the first that knows sm_75
// (docs.nvidia.com/cuda/parallel-thread-execution, "Release Notes"). The driver translates upwards
// for every later GPU: that of CUDA 13.0, whose compilers know no sm_70 any more, has translated
// the text for an H200 (docs/hardware/h200-580.159.04/burn-solo.txt). The text for sm_75 is for a
// driver that refuses the first one; no GPU has needed it yet.
#ifndef CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_
#define CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_

#include <string>
#include <string_view>

#include "load/burn/cuda.h"

namespace cgpu::burn {

// One parameter: steps, 64 bits, at least 1.
inline constexpr const char* kSpinKernelName = "cgpu_spin";
inline constexpr const char* kSpinKernel = R"(.version 6.0
.target sm_70
.address_size 64

.visible .global .align 4 .u32 cgpu_sink;

.visible .entry cgpu_spin(.param .u64 steps)
{
  .reg .pred %again;
  .reg .b32 %value;
  .reg .b64 %left;

  ld.param.u64 %left, [steps];
  mov.u32 %value, %tid.x;
next:
  mad.lo.u32 %value, %value, 1664525, 1013904223;
  sub.u64 %left, %left, 1;
  setp.ne.u64 %again, %left, 0;
  @%again bra next;
  st.global.u32 [cgpu_sink], %value;
  ret;
}
)";

inline constexpr std::string_view kSpinTarget = ".version 6.0\n.target sm_70\n";
inline constexpr std::string_view kLaterSpinTarget = ".version 6.3\n.target sm_75\n";
static_assert(std::string_view(kSpinKernel).starts_with(kSpinTarget));

// Has the driver translate the kernel, in the second form if it refuses the first. Returns CUDA's
// answer; where both are refused, that to the first.
inline CudaStatus LoadSpinKernel(const Cuda& cuda, CudaHandle* module) {
  const CudaStatus status = cuda.cuModuleLoadData(module, kSpinKernel);
  if (status == kCudaSuccess) {
    return status;
  }
  const std::string later =
      std::string(kLaterSpinTarget) + std::string(kSpinKernel).substr(kSpinTarget.size());
  return cuda.cuModuleLoadData(module, later.c_str()) == kCudaSuccess ? kCudaSuccess : status;
}

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_
