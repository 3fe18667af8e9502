// Descriptors that `cgpu run` was started with: its command gets them, and none of cgpu's own.
#ifndef CGPU_RUN_DESCRIPTORS_H_
#define CGPU_RUN_DESCRIPTORS_H_

#include <vector>

#include "base/result.h"

namespace cgpu {

// Fills closed standard descriptors with /dev/null (O_CLOEXEC, so that they are closed again for
// the command), so that nothing opened later takes their place; then lists what is open. Call first
// of all.
[[nodiscard]] Result<std::vector<int>> TakeInheritedDescriptors();

// Closes every descriptor that is not in `keep`.
void CloseAllBut(std::vector<int> keep);

// Gives up the inherited descriptors, so that a pipe's other end sees its end when the command is
// done with it: standard input and output become /dev/null, standard error stays, the rest is
// closed.
void ReleaseInherited(const std::vector<int>& inherited);

}  // namespace cgpu

#endif  // CGPU_RUN_DESCRIPTORS_H_
