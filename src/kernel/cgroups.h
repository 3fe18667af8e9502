// Control groups as the sets of processes that they are.
#ifndef CGPU_KERNEL_CGROUPS_H_
#define CGPU_KERNEL_CGROUPS_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::kernel {

// /proc/PID/cgroup: the group of the process in every hierarchy.
[[nodiscard]] Result<std::string> CgroupsOf(unsigned pid);

// Whether a process in the groups `cgroups` is in each of `others` or below it. Both are texts of
// CgroupsOf(). Pure.
[[nodiscard]] bool IsIn(std::string_view cgroups, std::string_view others);

// Kills every process that is in these groups, also those that they start meanwhile, but not the
// caller. Returns how many.
int KillAllIn(const std::string& cgroups);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_CGROUPS_H_
