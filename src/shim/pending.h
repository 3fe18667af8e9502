// A call on its way through the pipeline: handled by a thread, or parked until its turn.
#ifndef CGPU_SHIM_PENDING_H_
#define CGPU_SHIM_PENDING_H_

#include <memory>

#include "base/fd.h"
#include "boundary/call.h"
#include "os/notify.h"
#include "os/process.h"
#include "shim/admission.h"
#include "shim/byte_budget.h"
#include "shim/kept_files.h"
#include "shim/source.h"

namespace cgpu::shim {

struct Pending {
  std::shared_ptr<Source> source;  // where the notification came from
  os::Notification notification;
  std::shared_ptr<const os::Caller> caller;
  UniqueFd file;                  // the tenant's, taken for this call
  UniqueFd argument;              // the file of a descriptor inside the parameters
  std::shared_ptr<KeptFile> uvm;  // for a call on nvidia-uvm's file: the space it belongs to
  std::shared_ptr<KeptFile> client_file;  // of the client that the call names, if it is kept
  ByteBudget::Share rest;                 // for what `call` holds of CopyInRest()
  boundary::Call call;
  bool proceed = false;  // the caller executes the call itself
};

// A call that waits for its turn without a thread. A container may have thousands, and the host
// pays for them: so it keeps the notification alone. What the caller's memory and files say is
// looked up anew when the turn has come (Receiver::CopyIn()), and counts only then.
struct ParkedCall {
  std::shared_ptr<Source> source;
  os::Notification notification;
  Claim claim;
  int changes = 0;  // how often its claim was another when its turn came
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_PENDING_H_
