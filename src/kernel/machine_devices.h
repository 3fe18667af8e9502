// Which files in /dev are the machine's own business: disks, memory, buses, its console.
#ifndef CGPU_KERNEL_MACHINE_DEVICES_H_
#define CGPU_KERNEL_MACHINE_DEVICES_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <set>
#include <string_view>

namespace cgpu {

// Whether the file at `path` (relative to /dev) is none for a slice. Container engines let in seven
// devices by name (github.com/moby/moby oci/defaults.go; opencontainers/runtime-spec
// config-linux.md "Default Devices"). A slice works with the machine's files and keeps what the
// machine gives to users, so it goes by what a device is:
// * no block device;
// * no character device that its mode keeps for root, apart from fuse and tun, which need
//   capabilities to do harm, and `terminals`;
// * none that leads to disks, memory or buses, whoever may open it: mem, kmem, port, kmsg, nvram,
//   flash, raw, tapes, SCSI and NVMe pass-through, uio, dax, vfio, cpu/*, consoles' contents.
[[nodiscard]] bool IsMachineDevice(std::string_view path, const struct stat& st,
                                   const std::set<dev_t>& terminals);

// The terminals that this process has as standard input, output or error: a console is the
// machine's, unless one is working at it.
[[nodiscard]] std::set<dev_t> OwnTerminals();

}  // namespace cgpu

#endif  // CGPU_KERNEL_MACHINE_DEVICES_H_
