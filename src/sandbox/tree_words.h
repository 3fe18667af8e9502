// Encodes a GpuTree as words, in an argument list or a message, for another process to mount. Pure.
#ifndef CGPU_SANDBOX_TREE_WORDS_H_
#define CGPU_SANDBOX_TREE_WORDS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/mount_tree.h"

namespace cgpu {

// Convert the tree to plain ASCII, whatever bytes its paths have, and back. `mask_machine` is not
// encoded. kInvalid: the words are no tree.
[[nodiscard]] std::vector<std::string> TreeWords(const GpuTree& tree);
[[nodiscard]] Result<GpuTree> TreeFromWords(const std::vector<std::string>& words);

}  // namespace cgpu

#endif  // CGPU_SANDBOX_TREE_WORDS_H_
