// How the boundary treats each effect that the policy has for a control (policy.h): one handler per
// effect, in one table (control.cc). A family of controls has one file here.
//
// A step that a handler does not have is null.
#ifndef CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_
#define CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_

#include <cstdint>
#include <optional>

#include "boundary/call.h"
#include "boundary/calls/handler.h"
#include "boundary/container.h"
#include "boundary/decision.h"
#include "boundary/policy.h"

namespace cgpu::boundary {

struct ControlHandler {
  ControlEffect effect{};
  // Decides a control on an object of the container's. The parameters are in nested[0]. Null: the
  // call is executed as it is.
  Decision (*decide)(Container& container, Call& call, Decision decision,
                     const ControlRule& rule) = nullptr;
  bool changes_state = false;  // see Call::ChangesState()
  // As in Handler.
  void (*settle)(Container& container, Call& call, const Decision& decision,
                 const Outcome& outcome) = nullptr;
  std::optional<Undo> (*account)(Container& container, Call& call, Decision& decision) = nullptr;
};

// --- For steps of several families.

// Refuses by the command's name and a sentence, so that a reader of the log knows what to do.
[[nodiscard]] Decision RefuseControl(Container& container, Call& call, std::uint32_t status);
// Answers success without the driver; the parameters stay as they are in the call.
[[nodiscard]] Decision Succeed(Call& call);

// channels.cc
Decision DecidePassed(Container& container, Call& call, Decision decision, const ControlRule& rule);
Decision DecideDisableChannels(Container& container, Call& call, Decision decision,
                               const ControlRule& rule);
Decision DecidePreemption(Container& container, Call& call, Decision decision,
                          const ControlRule& rule);
void SettlePreemption(Container& container, Call& call, const Decision& decision,
                      const Outcome& outcome);
Decision DecideSmErrors(Container& container, Call& call, Decision decision,
                        const ControlRule& rule);

// encoders.cc
Decision DecideTakeEncoder(Container& container, Call& call, Decision decision,
                           const ControlRule& rule);
void SettleTakeEncoder(Container& container, Call& call, const Decision& decision,
                       const Outcome& outcome);
Decision DecideGiveEncoder(Container& container, Call& call, Decision decision,
                           const ControlRule& rule);
std::optional<Undo> AccountGiveEncoder(Container& container, Call& call, Decision& decision);

// named.cc
Decision DecideGpuId(Container& container, Call& call, Decision decision, const ControlRule& rule);
Decision DecideGpuIdList(Container& container, Call& call, Decision decision,
                         const ControlRule& rule);
Decision DecidePeerCaps(Container& container, Call& call, Decision decision,
                        const ControlRule& rule);
Decision DecideNamedClient(Container& container, Call& call, Decision decision,
                           const ControlRule& rule);
Decision DecideOwnMemory(Container& container, Call& call, Decision decision,
                         const ControlRule& rule);

// processes.cc
Decision DecideProcesses(Container& container, Call& call, Decision decision,
                         const ControlRule& rule);

// share.cc
Decision DecideSharePolicy(Container& container, Call& call, Decision decision,
                           const ControlRule& rule);

// transfer.cc
void DecodeTransfer(Call& call);
Decision DecideTransfer(Container& container, Call& call, Decision decision,
                        const ControlRule& rule);
std::optional<Undo> AccountExport(Container& container, Call& call, Decision& decision);
std::optional<Undo> AccountImport(Container& container, Call& call, Decision& decision);
std::optional<Undo> AccountExportMany(Container& container, Call& call, Decision& decision);
void SettleImportMany(Container& container, Call& call, const Decision& decision,
                      const Outcome& outcome);
std::optional<Undo> AccountImportMany(Container& container, Call& call, Decision& decision);

// view.cc
Decision DecideView(Container& container, Call& call, Decision decision, const ControlRule& rule);
std::optional<Undo> AccountView(Container& container, Call& call, Decision& decision);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_
