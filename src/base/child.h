// Parts of starting a process.
#ifndef CGPU_BASE_CHILD_H_
#define CGPU_BASE_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

struct Pipe {
  UniqueFd from;
  UniqueFd to;
};

// Both ends are closed by execve(2).
[[nodiscard]] Result<Pipe> MakePipe();

// As fork(2): 0 in the child.
[[nodiscard]] Result<pid_t> Fork();

// Returns pointers to the words with a null at the end, as execve(2) wants them; they last as long
// as `words`.
[[nodiscard]] std::vector<char*> PointersTo(const std::vector<std::string>& words);

}  // namespace cgpu

#endif  // CGPU_BASE_CHILD_H_
