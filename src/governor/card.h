// How a GPU with its driver takes orders: what it showed when it was asked
// (calibration/calibrate.h). Pure data.
#ifndef CGPU_GOVERNOR_CARD_H_
#define CGPU_GOVERNOR_CARD_H_

#include <cstdint>

namespace cgpu::governor {

// Names that which makes an order take effect on channels that run.
enum class Effect : std::uint8_t {
  kUnknown,   // nobody has asked
  kAtOnce,    // nothing more than the order
  kSchedule,  // GPFIFO_SCHEDULE of the group once more
  kPreempt,   // PREEMPT of the group
  kRestart,   // RESTART_RUNLIST, which needs CAP_SYS_NICE
  kNone,      // none of these
};

struct Card {
  Effect slices = Effect::kUnknown;  // SET_TIMESLICE
  // Whether a time slice takes effect that is set before its group is first scheduled.
  bool slices_at_start = false;
  // FIFO_DISABLE_CHANNELS: channels go off, come back, and their work is whole. kAtOnce, kRestart
  // or kNone.
  Effect off = Effect::kUnknown;
  bool levels = false;    // SET_INTERLEAVE_LEVEL is taken
  bool switches = false;  // the list of context switches names processes
  // Time from one group of copies to another. A switch between groups of kernels takes longer. 0:
  // not seen.
  std::uint32_t copy_switch_us = 0;

  bool operator==(const Card&) const = default;
};

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_CARD_H_
