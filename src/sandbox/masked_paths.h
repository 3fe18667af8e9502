// Masks paths of /proc and /sys in a slice that otherwise sees the machine's own files: those that
// container engines mask in a container by default.
#ifndef CGPU_SANDBOX_MASKED_PATHS_H_
#define CGPU_SANDBOX_MASKED_PATHS_H_

#include "base/result.h"

namespace cgpu {

// Masks the paths. The lists are those of github.com/moby/moby oci/defaults.go (containerd's
// oci/spec.go and podman have the same), with additions for files that container engines
// mount in no container. The caller is as for MountGpuTree(), and /dev is already the final one.
// * /proc/{bus,fs,irq,sys,sysrq-trigger} and all of /sys, with every mount below, are read-only;
// * kcore, keys, latency_stats, sched_debug, scsi, timer_* and others of /proc are empty, as are
//   /sys/firmware and /sys/devices/virtual/powercap, and debugfs, tracefs and bpf wherever mounted;
// * where else the machine mounts a proc, sysfs or devtmpfs, as for a chroot, it becomes this one;
//   other file systems that control the kernel (control groups, security, configfs, ...) are
//   read-only.
//
// Skips files and mounts that a machine does not have.
//
// A process without CAP_SYS_ADMIN in the user namespace that owns this mount namespace cannot undo
// any of it, not even in a user namespace of its own. There, mounts that a mount namespace inherits
// from one of more privilege cannot be taken off, uncovered or made writable (mount_namespaces(7),
// "Restrictions on mount namespaces"), and a proc or sysfs can be mounted again only where the
// whole of one is visible.
[[nodiscard]] Result<> MaskMachine();

}  // namespace cgpu

#endif  // CGPU_SANDBOX_MASKED_PATHS_H_
