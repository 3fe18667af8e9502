// Control groups as the sets of processes that they are.
#ifndef CGPU_KERNEL_CGROUPS_H_
#define CGPU_KERNEL_CGROUPS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::kernel {

// /proc/PID/cgroup: the group of the process in every hierarchy.
[[nodiscard]] Result<std::string> CgroupsOf(unsigned pid);

// Whether a process in the groups `cgroups` is in each of `others` or below it. Both are texts of
// CgroupsOf(). Pure.
[[nodiscard]] bool IsIn(std::string_view cgroups, std::string_view others);

// Whether one of the groups is called after the container that an engine knows by `id`: ID itself,
// or as a systemd scope like docker-ID.scope. Pure.
[[nodiscard]] bool IsCalledAfter(std::string_view cgroups, std::string_view id);

// Kills every process that is in these groups, also those that they start meanwhile, but not the
// caller, and only those of which `may` says so. Returns how many.
int KillAllIn(const std::string& cgroups, const std::function<bool(pid_t)>& may);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_CGROUPS_H_
