// Controls that let channels run, take them off the GPU or say how they leave it.
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "boundary/calls/control_handler.h"
#include "boundary/calls/handler.h"
#include "boundary/names.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {

// Passes a control as it is. Two of them let channels run.
Decision DecidePassed(Container& /*container*/, Call& call, Decision decision,
                      const ControlRule& /*rule*/) {
  decision.effects.schedules_channels = call.command == rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE ||
                                        call.command == rm::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE;
  return decision;
}

// Checks the owners, because the driver takes any pair of a client and a channel
// (kernel_fifo_ctrl.c subdeviceCtrlCmdFifoDisableChannels_IMPL()).
Decision DecideDisableChannels(Container& container, Call& call, Decision decision,
                               const ControlRule& /*rule*/) {
  const auto params = Load<rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS>(call.nested[0].bytes);
  if (params.pRunlistPreemptEvent != 0) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Reason::kNotAllowed,
                            ControlName(call.command) + " with an event of the kernel's");
  }
  if (params.numChannels > std::size(params.hChannelList)) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            ControlName(call.command) + " (count)");
  }
  for (std::uint32_t i = 0; i < params.numChannels; ++i) {
    const auto client = container.ledger.FindClient(params.hClientList[i]);
    if (!client || !container.ledger.Find(client->ref, params.hChannelList[i])) {
      return container.Answer(call, rm::NV_ERR_INVALID_CLIENT, Reason::kInvalid,
                              ControlName(call.command) + " of a foreign channel");
    }
  }
  decision.effects.switches_channels = true;
  return decision;
}

// Passes on a mode that lets the context be taken off the GPU at a finer grain. A mode that waits
// longer, and the modes of graphics, are answered as hardware does: the parameters stay as they
// are.
Decision DecidePreemption(Container& /*container*/, Call& call, Decision decision,
                          const ControlRule& /*rule*/) {
  auto params = Load<rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS>(call.nested[0].bytes);
  const bool finer =
      (params.flags & rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP) != 0 &&
      (params.cilpPreemptMode == rm::NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CTA ||
       params.cilpPreemptMode == rm::NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CILP);
  if (!finer) {
    return Succeed(call);
  }
  decision.given_flags = params.flags;
  params.flags = rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP;
  Store(call.nested[0].bytes, params);
  return decision;
}

void SettlePreemption(Container& /*container*/, Call& call, const Decision& decision,
                      const Outcome& /*outcome*/) {
  Store(call.nested[0].bytes, static_cast<std::uint32_t>(decision.given_flags));
}

// Answers no error. The firmware reads or clears the error registers of whatever context is on the
// GPU (ctrl83dedebug.h), so nothing of them is reported. The caller's values lie in the first two
// words and the last.
Decision DecideSmErrors(Container& container, Call& call, Decision decision,
                        const ControlRule& rule) {
  Bytes& params = call.nested[0].bytes;
  const auto channel = Load<std::uint32_t>(params, rule.argument);
  if (channel != 0 && !container.ledger.Find(decision.client, channel)) {
    return container.Answer(call, rule.no_such, Reason::kInvalid,
                            ControlName(call.command) + " of an unknown channel");
  }
  constexpr std::ptrdiff_t kWord = sizeof(std::uint32_t);
  if (std::ssize(params) > 3 * kWord) {
    std::fill(params.begin() + 2 * kWord, params.end() - kWord, std::byte{0});
  }
  return Succeed(call);
}

}  // namespace cgpu::boundary
