// Reads control groups as sets of processes, and kills such a set.
#ifndef CGPU_OS_CGROUPS_H_
#define CGPU_OS_CGROUPS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::os {

// Returns the text of /proc/PID/cgroup: the group of the process in every hierarchy.
[[nodiscard]] Result<std::string> CgroupsOf(unsigned pid);

// Returns true if a process in the groups `cgroups` is in each of `others` or below it. Both are
// texts of CgroupsOf(). Pure.
[[nodiscard]] bool IsIn(std::string_view cgroups, std::string_view others);

// Returns true if one of the groups is named after the container that a container engine knows by
// `id`: ID itself, or a systemd scope like docker-ID.scope. Pure.
[[nodiscard]] bool IsCalledAfter(std::string_view cgroups, std::string_view id);

// Kills every process in these groups for which `may` returns true, and processes that they start
// meanwhile, but never the caller. Gives up on processes that fork faster than it looks. Returns
// how many it killed.
int KillAllIn(const std::string& cgroups, const std::function<bool(pid_t)>& may);

}  // namespace cgpu::os

#endif  // CGPU_OS_CGROUPS_H_
