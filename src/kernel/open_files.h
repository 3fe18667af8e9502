// Which process has which open file: the comparisons the kernel offers (kcmp), for files of which
// the caller has a descriptor of its own.
#ifndef CGPU_KERNEL_OPEN_FILES_H_
#define CGPU_KERNEL_OPEN_FILES_H_

#include <sys/types.h>

#include <vector>

#include "base/fd.h"
#include "kernel/process.h"

namespace cgpu::kernel {

// A further descriptor of the open file behind `fd`.
[[nodiscard]] UniqueFd Duplicate(int fd);

// Are two descriptors of this process the same open file?
[[nodiscard]] bool SameOpenFile(int one, int other);

// Does `process` have the open file behind our descriptor `file` under its number `number`?
[[nodiscard]] bool HasFileAt(const Process& process, int number, int file);

// The threads of process `pid` that have not been waited for; the first may have ended before
// others.
[[nodiscard]] std::vector<pid_t> Threads(int proc, pid_t pid);

// Does process `pid`, looked up by number in `proc`, have the open file behind `file`? So also
// where its first thread has ended, or a thread has descriptors of its own.
[[nodiscard]] bool HasFile(int proc, pid_t pid, int file);

// The process and all below it, as `proc` shows them; empty for pid 0. One that is made or adopted
// meanwhile can be missed.
[[nodiscard]] std::vector<pid_t> Descendants(int proc, pid_t pid);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_OPEN_FILES_H_
