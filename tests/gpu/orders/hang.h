// Asks which order about channels makes a program hang that is making a context: each question has
// a program of its own. Beside it, in the same process, another program keeps the GPU busy.
#ifndef CGPU_TESTS_GPU_ORDERS_HANG_H_
#define CGPU_TESTS_GPU_ORDERS_HANG_H_

#include <string>
#include <vector>

#include "load/burn/load.h"

namespace cgpu::orders {

// The names of the questions:
//   none         no order at all
//   unscheduled  a channel is disabled before it is first scheduled
//   mixed        a list names a channel that runs and one that is not scheduled yet
//   gone         a list names a channel that is scheduled and one that was freed
//   rescheduled  a group is scheduled while its channels are disabled
//   copies       a list names channels of copy engines beside one that runs
//   enabled      a channel is enabled that was not disabled
//   cycle        all channels, as they are made, are disabled for 4 ms of every 6
//   kept         the same, but only scheduled channels are named, and a group that is scheduled has
//                none that is disabled: as cgpu does it (src/shim/scheduler.cc, SwitchOff())
[[nodiscard]] const std::vector<std::string>& HangQuestions();

// Says one line of JSON. The new program has so many seconds to compute something. If it has not,
// its channels are enabled, and it has two more. Exit status: 0; 1 with a sentence.
int AskHang(const burn::Shape& shape, const std::string& question, double seconds);

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_HANG_H_
