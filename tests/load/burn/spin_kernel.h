// The kernel that cgpu-burn launches on a real GPU, as text that the driver translates for it.
//
// It counts. A clock would not do: a GPU's clocks go on while a group is off it, so a kernel that
// waits for a time has less to do the more often it is preempted. Each step needs the one before,
// so a step takes as long as the GPU's arithmetic does, whatever else runs on it.
//
// PTX ISA 6.0 is the first that knows sm_70 (docs.nvidia.com/cuda/parallel-thread-execution,
// "Release Notes"); the driver translates upwards for every later GPU.
#ifndef CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_
#define CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_

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

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_SPIN_KERNEL_H_
