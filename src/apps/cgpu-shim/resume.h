// The work of a shim of another version at a hot upgrade (shim/handover.h). First, as a process of
// its own, it says whether it can take over a state. Then, as the container's shim, it does.
#ifndef CGPU_APPS_CGPU_SHIM_RESUME_H_
#define CGPU_APPS_CGPU_SHIM_RESUME_H_

#include "base/result.h"

namespace cgpu::shim {

// Checks the state in fd 0. Opens nothing that the state names.
[[nodiscard]] Result<> CheckHandover();

// Goes on serving the container from the state in kStateFd until the container ends. Returns only
// an error.
[[nodiscard]] Result<> ResumeServing();

}  // namespace cgpu::shim

#endif  // CGPU_APPS_CGPU_SHIM_RESUME_H_
