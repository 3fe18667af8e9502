// Builds the files through which a process finds its GPUs, as a mount tree of its own: /dev,
// /proc/driver/nvidia and /sys/bus/pci. Of NVIDIA's files they hold only those that are given here.
#ifndef CGPU_SANDBOX_MOUNT_TREE_H_
#define CGPU_SANDBOX_MOUNT_TREE_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Path of GpuTree::prover in a container.
inline constexpr char kProver[] = "/dev/.nvidia/cgpu-prove";

struct DeviceFile {
  std::string name;    // in /dev: "nvidiactl", "nvidia0"
  std::string source;  // the device node; with via_folder, the folder that holds a file `name`
  // Binds the folder to /dev/.nvidia/<its last component> and makes /dev/<name> a link into it, so
  // that every open is a lookup in the folder's own file system.
  bool via_folder = false;
};

struct GpuTree {
  std::vector<DeviceFile> devices;
  std::string proc_source;        // a tree shaped like /proc/driver/nvidia; empty: leave /proc
  std::string pci_source;         // a tree shaped like /sys/bus/pci; empty: leave /sys
  std::vector<std::string> bdfs;  // the only ones shown of both: "0000:01:00.0"
  std::vector<std::string> hide;  // folders to cover with an empty read-only tmpfs, if there
  // Folders of the host that a container must not have, whatever it mounts (own_folders.h). Used by
  // MountGpuTreeAt() alone; need not exist.
  std::vector<std::string> own;
  // Program that a container runs to show that its filter is cgpu's (proof.h). It is bound to
  // kProver, read-only. Used by MountGpuTreeAt() alone; empty: none.
  std::string prover;
  // Takes away the machine's own devices (machine_devices.h) and controls (masked_paths.h) too.
  bool mask_machine = false;
};

// Mounts the tree. The caller is a process with one thread in a fresh private mount namespace (see
// namespaces.h), has CAP_SYS_ADMIN in its user namespace, and its /proc is already the final one.
//
// * /dev becomes a tmpfs that holds what it held, as binds and links, without any nvidia*, dri or
//   other character device of an NVIDIA driver, plus `devices`. Folders in it that hold something
//   to leave out are made again; the others are bound.
// * /proc/driver/nvidia becomes a read-only copy of version, params and gpus/<bdf>/* of
//   proc_source; /sys/bus/pci becomes one of devices/<bdf> of pci_source. Where the machine has no
//   such folder, the folder above it is mirrored to make room for it.
// * Other places that show the machine's GPUs are empty: /proc/driver/nvidia-*, /proc/bus/pci,
//   /sys/class/{drm,nvidia*} and, where pci_source has links to them, the devices themselves.
//
// A working directory or descriptor in one of the covered folders still shows what is underneath:
// the caller must change to its working directory again. After an error the tree is half made:
// leave the namespace.
[[nodiscard]] Result<> MountGpuTree(const GpuTree& tree);

// Mounts the tree in the root file system of a container that an OCI runtime makes, before the
// container goes there (a createContainer hook: opencontainers/runtime-spec config.md,
// "POSIX-platform Hooks"). The caller is a process with one thread in the container's mount
// namespace, with CAP_SYS_ADMIN and CAP_SYS_CHROOT in the user namespace that owns it. The sources
// of `tree` are the host's. Afterwards the process stays in the container's root and has nothing
// more to do: it cannot reach the host any more.
//
// The image is its author's: links in it lead only into it, no folder is made in it, and the mounts
// show in no other mount namespace, whatever the container's mounts are shared with.
//
// * /dev must be a tmpfs that the runtime made for this container; devices with via_folder are
//   added to it. The runtime makes the others: they must be there with their source's numbers.
//   Anything else of NVIDIA's in /dev is refused.
// * /proc/driver/nvidia, /sys/bus/pci and other files that show GPUs are as above, where /proc is a
//   procfs and /sys a sysfs; where they are not, nothing shows GPUs.
// * `own` is covered wherever the container has it, or a part of it. Refuses a mount of a single
//   file of it, a root that is in it, and an overlay with a layer of it or of a folder above.
// * `hide` names folders of the container; they need not exist. `mask_machine` is ignored: of the
//   rest of the machine the container has what its container engine gives it.
//
// kConflict when /dev or a mount is not as it must be. After an error the tree is half made: the
// container must not start.
[[nodiscard]] Result<> MountGpuTreeAt(const GpuTree& tree, const std::string& rootfs);

}  // namespace cgpu

#endif  // CGPU_SANDBOX_MOUNT_TREE_H_
