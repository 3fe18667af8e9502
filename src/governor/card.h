// How a GPU with its driver takes orders: what it showed when it was asked
// (calibration/calibrate.h). Pure data.
#ifndef CGPU_GOVERNOR_CARD_H_
#define CGPU_GOVERNOR_CARD_H_

#include <cstdint>
#include <string_view>

#include "governor/order.h"

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
  // A group that waits for a semaphore without giving up its time slice keeps others off the GPU
  // for that time (rmclient/idle_group.h).
  bool holds = false;
  // Time from one group of copies to another. A switch between groups of kernels takes longer. 0:
  // not seen.
  std::uint32_t copy_switch_us = 0;

  bool operator==(const Card&) const = default;
};

// Returns what the shim does after it has set a time slice. kNone, too, where nothing helps.
[[nodiscard]] constexpr Trigger TriggerOf(Effect slices) {
  switch (slices) {
    case Effect::kRestart:
      return Trigger::kRestart;
    case Effect::kSchedule:
      return Trigger::kSchedule;
    case Effect::kPreempt:
      return Trigger::kPreempt;
    case Effect::kUnknown:
    case Effect::kAtOnce:
    case Effect::kNone:
      break;
  }
  return Trigger::kNone;
}
// Returns whether time slices take effect that are set while programs run, as far as it was seen.
[[nodiscard]] constexpr bool TakesSlices(Effect slices) {
  return slices == Effect::kAtOnce || TriggerOf(slices) != Trigger::kNone;
}

// Means by which a container is held to a part of the GPU's time, whatever others do.
enum class Capping : std::uint8_t {
  kNone,       // none: a percentage is a share
  kDutyCycle,  // its channels are taken off and put back by the clock
  kIdleGroup,  // a channel group of cgpu's own takes what nobody may have
};

// Returns "none", "duty-cycle" or "idle-group".
[[nodiscard]] constexpr std::string_view NameOf(Capping capping) {
  switch (capping) {
    case Capping::kDutyCycle:
      return "duty-cycle";
    case Capping::kIdleGroup:
      return "idle-group";
    case Capping::kNone:
      break;
  }
  return "none";
}

// Returns the means for a GPU. `starts_seen`: programs were seen to start there while their
// channels are taken off and put back. No calibration shows that: its work is made before (on an
// H200 it could not be relied on, docs/hardware/h200-580.159.04.md).
[[nodiscard]] constexpr Capping CappingBy(const Card& card, bool starts_seen) {
  if (starts_seen && (card.off == Effect::kUnknown || card.off == Effect::kAtOnce)) {
    return Capping::kDutyCycle;
  }
  return TakesSlices(card.slices) && card.holds && card.switches ? Capping::kIdleGroup
                                                                 : Capping::kNone;
}

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_CARD_H_
