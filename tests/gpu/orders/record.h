// The calls that this process makes of the driver by ioctl(), without cgpu: lines as those of
// `cgpu run --record` (shim/recorder.h), on stdout, but for what another name stands for there.
#ifndef CGPU_TESTS_GPU_ORDERS_RECORD_H_
#define CGPU_TESTS_GPU_ORDERS_RECORD_H_

namespace cgpu::orders {

// From now on; any thread.
void BeginRecord();
// After a call, for `ioctl`; nothing before BeginRecord().
void Record(int fd, unsigned long request, const void* argument, int error);

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_RECORD_H_
