// Tells which files in /dev belong to the machine alone: disks, memory, buses, its console.
#ifndef CGPU_SANDBOX_MACHINE_DEVICES_H_
#define CGPU_SANDBOX_MACHINE_DEVICES_H_

#include <sys/stat.h>

#include <set>
#include <string_view>

namespace cgpu {

// Returns true if a slice must not have the file at `path` (relative to /dev). Container engines
// admit seven devices by name (github.com/moby/moby oci/defaults.go; opencontainers/runtime-spec
// config-linux.md "Default Devices"). A slice works with the machine's files and keeps what the
// machine gives to users, so the rule looks at what a device is. It excludes
// * block devices;
// * character devices that their mode keeps for root, except fuse and tun, which need capabilities
//   to do harm, and `terminals`;
// * devices that lead to disks, memory or buses, whatever their mode: mem, kmem, port, kmsg, nvram,
//   flash, raw, tapes, SCSI and NVMe pass-through, uio, dax, vfio, cpu/*, consoles' contents.
[[nodiscard]] bool IsMachineDevice(std::string_view path, const struct stat& st,
                                   const std::set<dev_t>& terminals);

// Returns the terminals that this process has as standard input, output or error. A console belongs
// to the machine, unless somebody works at it.
[[nodiscard]] std::set<dev_t> OwnTerminals();

}  // namespace cgpu

#endif  // CGPU_SANDBOX_MACHINE_DEVICES_H_
