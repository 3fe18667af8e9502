// Tells processes apart that have had the same number.
#ifndef CGPU_OS_START_TIME_H_
#define CGPU_OS_START_TIME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cgpu::os {

// Returns when the process of the number `pid` began, in clock ticks since the machine did
// (proc_pid_stat(5), starttime). With the number it names the process for good, unless all numbers
// are used again within one tick (10 ms). Nothing: there is no such process. `proc_fd`: an open
// /proc. Safe on any thread.
[[nodiscard]] std::optional<std::uint64_t> StartTime(int proc_fd, pid_t pid);

// Returns the same from the text of /proc/PID/stat. Pure.
[[nodiscard]] std::optional<std::uint64_t> StartTimeIn(std::string_view stat);

}  // namespace cgpu::os

#endif  // CGPU_OS_START_TIME_H_
