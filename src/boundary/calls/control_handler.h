// How the boundary treats each effect that the policy has for a control (policy.h): one handler per
// effect, in one table (control.cc). A family of controls has one file here.
//
// A step that a handler does not have is null.
#ifndef CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_
#define CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_

#include <cstdint>

#include "boundary/call.h"
#include "boundary/calls/handler.h"
#include "boundary/container.h"
#include "boundary/decision.h"
#include "boundary/policy.h"

namespace cgpu::boundary {

using ControlStep = Decision(Container& container, Call& call, Decision decision,
                             const ControlRule& rule);

struct ControlHandler {
  ControlEffect effect{};
  // Decides a control on an object of the container's. The parameters are in nested[0]. Null: the
  // call is executed as it is.
  ControlStep* decide = nullptr;
  bool changes_state = false;  // see Call::ChangesState()
  // As in Handler.
  SettleStep* settle = nullptr;
  AccountStep* account = nullptr;
};

// --- For steps of several families.

// Refuses by the command's name and a sentence, so that a reader of the log knows what to do.
[[nodiscard]] Decision RefuseControl(Container& container, Call& call, std::uint32_t status);
// Answers success without the driver; the parameters stay as they are in the call.
[[nodiscard]] Decision Succeed(Call& call);

// channels.cc
ControlStep DecidePassed;
ControlStep DecideDisableChannels;
ControlStep DecidePreemption;
SettleStep SettlePreemption;
ControlStep DecideSmErrors;

// encoders.cc
ControlStep DecideTakeEncoder;
SettleStep SettleTakeEncoder;
ControlStep DecideGiveEncoder;
AccountStep AccountGiveEncoder;

// named.cc
ControlStep DecideGpuId;
ControlStep DecideGpuIdList;
ControlStep DecidePeerCaps;
ControlStep DecideNamedClient;
ControlStep DecideMemory;
ControlStep DecideOwnMemory;

// processes.cc
ControlStep DecideProcesses;

// share.cc
ControlStep DecideSharePolicy;

// transfer.cc
void DecodeTransfer(Call& call);
ControlStep DecideTransfer;
AccountStep AccountExport;
AccountStep AccountImport;
AccountStep AccountExportMany;
SettleStep SettleImportMany;
AccountStep AccountImportMany;

// view.cc
ControlStep DecideView;
AccountStep AccountView;

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALLS_CONTROL_HANDLER_H_
