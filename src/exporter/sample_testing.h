// A slice for tests of what the exporter shows.
#ifndef CGPU_EXPORTER_SAMPLE_TESTING_H_
#define CGPU_EXPORTER_SAMPLE_TESTING_H_

#include "protocol/admin.h"

namespace cgpu::exporter {

inline constexpr char kGpu[] = "GPU-1";

inline GpuStatus SampleSlice() {
  GpuStatus slice;
  slice.uuid = kGpu;
  slice.limit_bytes = 4'294'967'296;
  slice.used_bytes = 16'945'053'695;  // exact, however many digits
  slice.peak_bytes = 3;
  slice.denied = 7;
  return slice;
}

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_SAMPLE_TESTING_H_
