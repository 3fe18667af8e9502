// A call on its way through the pipeline.
#ifndef CGPU_SHIM_PENDING_H_
#define CGPU_SHIM_PENDING_H_

#include <memory>

#include "base/fd.h"
#include "boundary/call.h"
#include "os/notify.h"
#include "os/process.h"
#include "shim/admission.h"
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
  boundary::Call call;
  Claim claim;
  bool proceed = false;  // the caller executes the call itself
  bool waited = false;   // was parked: check that its caller still waits
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_PENDING_H_
