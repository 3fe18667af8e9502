// Finds which process has which open file, by the comparisons that the kernel offers (kcmp). The
// caller has a descriptor of its own for each file that it asks about.
#ifndef CGPU_OS_OPEN_FILES_H_
#define CGPU_OS_OPEN_FILES_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "os/process.h"

namespace cgpu::os {

// Returns a further descriptor of the open file behind `fd`.
[[nodiscard]] UniqueFd Duplicate(int fd);

// Returns true if `process` has the open file behind our descriptor `file` under its number
// `number`.
[[nodiscard]] bool HasFileAt(const Process& process, int number, int file);

// Orders the open files of two descriptors of this process, as the kernel orders them: negative, 0
// for the same file, positive. The order holds for all processes while both files are open. The
// kernel always compares a process's own descriptors.
[[nodiscard]] int Compare(int one, int other);

// Returns the threads of process `pid` that have not been waited for. The first may have ended
// before others.
[[nodiscard]] std::vector<pid_t> Threads(int proc, pid_t pid);

// Returns the processes that `proc` shows, and the descriptors of one of its threads; nothing where
// the caller may not look.
[[nodiscard]] std::vector<pid_t> Processes(int proc);
[[nodiscard]] std::vector<int> Descriptors(int proc, pid_t thread);

// A thread and its number of an open file.
struct Holder {
  pid_t thread = 0;  // 0: nobody has it
  int number = -1;
};

// Tells for each of our descriptors `files`, in order, which of the processes `pids`, looked up by
// number in `proc`, has its open file. Finds it even where the process's first thread has ended, or
// where a thread has descriptors of its own. Looks once at each of their descriptors, however many
// files are asked about: the inode excludes almost all of them. May take long. Stops when `enough`
// returns true, and then returns nothing; likewise where this machine has no room for the look.
[[nodiscard]] std::optional<std::vector<Holder>> FindHeld(int proc, const std::vector<pid_t>& pids,
                                                          const std::vector<int>& files,
                                                          const std::function<bool()>& enough);

// Returns true if a message with files waits in a socket of one of the processes `pids` for
// somebody to receive it; false on kernels that do not tell (net/unix/af_unix.c
// unix_show_fdinfo(); Linux 6.18 does). May take long. Stops when
// `enough` returns true, and then returns true; likewise where this machine has no room for the
// look.
[[nodiscard]] bool HasFilesInFlight(int proc, const std::vector<pid_t>& pids,
                                    const std::function<bool()>& enough);

// Returns the process and all below it, as `proc` shows them; nothing for pid 0. Can miss a process
// that is made or adopted meanwhile.
[[nodiscard]] std::vector<pid_t> Descendants(int proc, pid_t pid);

}  // namespace cgpu::os

#endif  // CGPU_OS_OPEN_FILES_H_
