// What a shim of another version does at a hot upgrade (shim/handover.h): first, as a process of
// its own, say whether it can take over a state; then, as the container's shim, do it.
#ifndef CGPU_APPS_CGPU_SHIM_RESUME_H_
#define CGPU_APPS_CGPU_SHIM_RESUME_H_

#include "base/result.h"

namespace cgpu::shim {

// Of the state in fd 0. Opens nothing that the state names.
[[nodiscard]] Result<> CheckHandover();

// Serves the container on from the state in kStateFd until it ends. Returns only an error.
[[nodiscard]] Result<> ResumeServing();

}  // namespace cgpu::shim

#endif  // CGPU_APPS_CGPU_SHIM_RESUME_H_
