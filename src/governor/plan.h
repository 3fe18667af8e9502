// Plans what each container on a GPU does so that the GPU's policy holds: its standing orders.
// Pure: takes members and rules, returns orders. Orders hold until others come, even if cgpud is
// away meanwhile.
//
// There are four means, all of the GPU's own (NVIDIA's channel RAM documentation for Ampere,
// open-gpu-doc manuals/ampere/ga100/dev_ram.ref.txt, and the driver's controls on channel groups):
//
// * A time slice per channel group. The GPU runs the groups that have work in turn, each for its
//   time slice. So time slices in proportion give time in proportion among those that have work,
//   and the others get what one leaves. It costs nothing but the switches between them.
// * A duty cycle: the shim takes a container's channels off the GPU and puts them back by the
//   clock. That caps the container whatever others do. Windows of containers that are capped
//   together do not overlap, so that each finds the GPU free in its own.
// * An idle group: a channel group of cgpu's own takes a time slice in each round and does nothing
//   in it. That caps containers where their channels may not be taken off. Its time slice is
//   corrected by what they get (idle_control.h).
// * An interleave level: on the GPU's list the channel groups of a container of high priority come
//   between every two of the others', whose time slices are short meanwhile. So it waits for one of
//   them.
#ifndef CGPU_GOVERNOR_PLAN_H_
#define CGPU_GOVERNOR_PLAN_H_

#include <cstdint>
#include <vector>

#include "governor/card.h"
#include "governor/order.h"
#include "governor/policy.h"
#include "grant/request.h"

namespace cgpu::governor {

struct Rules {
  Policy policy = Policy::kPreempt;
  unsigned max_inst = kDefaultMaxInst;
  unsigned prio_ratio = kDefaultPrioRatio;  // share in percent
  // Means of kFair and kFixed, and of maxima. Without any, they share by time slices: idle time is
  // then lent, not kept.
  Capping capping = Capping::kNone;
  // Time that a window loses to the switch to its owner, as far as the GPU has shown (Card). The
  // window is longer by that where there is room.
  std::uint32_t switch_us = 0;
};

struct Member {
  ComputeRequest request;
  // kFair: the place of the GPU that is this member's own; no two members have the same. There are
  // `max_inst` places, or one for each member where that is more.
  unsigned place = 0;
};

// Returns one order for each of `members`, in their order. For any members, no time slice is 0
// except under kNative, and no window is empty or longer than its period.
[[nodiscard]] std::vector<Order> Plan(const Rules& rules, const std::vector<Member>& members);

// Returns the most that each may have by these rules, 0 to 1, where an idle group holds them to it
// (Capping::kIdleGroup). Empty: nobody has a cap, and no such group is needed. 1: it has none.
[[nodiscard]] std::vector<double> Caps(const Rules& rules, const std::vector<Member>& members);

// Returns the share of the GPU that each is promised when all have more work than they get: 0 to 1,
// together 1 at the most. Shares are judged by this.
[[nodiscard]] std::vector<double> Shares(const Rules& rules, const std::vector<Member>& members);

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_PLAN_H_
