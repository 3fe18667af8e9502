// Which process has which open file: the comparisons the kernel offers (kcmp), for files of which
// the caller has a descriptor of its own.
#ifndef CGPU_KERNEL_OPEN_FILES_H_
#define CGPU_KERNEL_OPEN_FILES_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "kernel/process.h"

namespace cgpu::kernel {

// A further descriptor of the open file behind `fd`.
[[nodiscard]] UniqueFd Duplicate(int fd);

// Does `process` have the open file behind our descriptor `file` under its number `number`?
[[nodiscard]] bool HasFileAt(const Process& process, int number, int file);

// Where two descriptors' open files stand in an order of the kernel's own, which holds for all
// processes while both are open: negative, 0 for the same one, positive. Ours alone can always be
// compared.
[[nodiscard]] int Compare(int one, int other);

// The threads of process `pid` that have not been waited for; the first may have ended before
// others.
[[nodiscard]] std::vector<pid_t> Threads(int proc, pid_t pid);

// The processes that `proc` shows, and the descriptors of one of its threads; none where the caller
// may not look.
[[nodiscard]] std::vector<pid_t> Processes(int proc);
[[nodiscard]] std::vector<int> Descriptors(int proc, pid_t thread);

// Which of our descriptors `files` lead to open files that one of the processes `pids`, looked up
// by number in `proc`, has; in their order. So also where its first thread has ended, or a thread
// has descriptors of its own. One look at each descriptor of theirs, however many files there are:
// its inode says of almost all that they are none of these. May take long; stops when `enough` says
// so, and then returns nothing.
[[nodiscard]] std::optional<std::vector<bool>> FindHeld(int proc, const std::vector<pid_t>& pids,
                                                        const std::vector<int>& files,
                                                        const std::function<bool()>& enough);

// The process and all below it, as `proc` shows them; empty for pid 0. One that is made or adopted
// meanwhile can be missed.
[[nodiscard]] std::vector<pid_t> Descendants(int proc, pid_t pid);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_OPEN_FILES_H_
