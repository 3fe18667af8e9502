// What each container on a card is to do so that the card's policy holds: its standing orders.
// Pure: members and rules in, orders out. Orders hold until others come, whoever is away meanwhile.
//
// Three means, all of the card's own (NVIDIA's channel RAM documentation for Ampere,
// open-gpu-doc manuals/ampere/ga100/dev_ram.ref.txt, and the driver's controls on channel groups):
//
// * A time slice per channel group. The card runs the groups that have work in turn, each for its
//   slice: so slices in proportion give time in proportion among those that have work, and what
//   one leaves the others get. It costs nothing but the switches between them.
// * A duty cycle: a container's channels are taken off the card and put back by the clock. That
//   caps it whatever others do. Windows of containers that are capped together do not overlap, so
//   that each finds the card free in its own.
// * A level: on the card's list the groups of a container of high priority come between every two
//   of the others', whose slices are short meanwhile. So it waits for one of them.
#ifndef CGPU_GOVERNOR_PLAN_H_
#define CGPU_GOVERNOR_PLAN_H_

#include <vector>

#include "governor/order.h"
#include "governor/policy.h"
#include "grant/request.h"

namespace cgpu::governor {

struct Rules {
  Policy policy = Policy::kPreempt;
  unsigned max_inst = kDefaultMaxInst;
  unsigned prio_ratio = kDefaultPrioRatio;  // percent
  // Whether taking channels off this card with this driver was seen to do no harm. Without, kFair
  // and kFixed share by slices: idle time is then lent, not kept.
  bool can_suspend = false;
};

struct Member {
  ComputeRequest request;
  // kFair: which of the card's places is its own, each member's another. There are `max_inst`, or
  // one for each member where that is more.
  unsigned place = 0;
};

// One order for each of `members`, in their order. Whatever they are, no slice is 0 but under
// kNative, and no window is empty or longer than its period.
[[nodiscard]] std::vector<Order> Plan(const Rules& rules, const std::vector<Member>& members);

// What part of the card each is promised when all have more work than they get: 0 to 1, together 1
// at the most. By this shares are judged.
[[nodiscard]] std::vector<double> Shares(const Rules& rules, const std::vector<Member>& members);

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_PLAN_H_
