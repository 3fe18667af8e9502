// The host's own NVIDIA driver as a node: its version, its device files and its GPUs.
#ifndef CGPU_HOST_MACHINE_NODE_H_
#define CGPU_HOST_MACHINE_NODE_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/node.h"
#include "rmclient/raw.h"

namespace cgpu {

// A driver's answer about itself.
struct DriverAnswer {
  std::string version;
  std::vector<Gpu> gpus;  // in order of bus address; index counts them from 0
};
using AskDriver = std::function<Result<DriverAnswer>(const rmclient::DevicePaths&)>;

// Opens the control file and every GPU that this process may open, and asks. Leaves out a GPU that
// it may not open and a GPU that is gone or does not answer. kNotFound: no driver is behind the
// control file. kPermission: the control file may not be opened. kUnsupported: a release that
// src/rm does not know.
[[nodiscard]] Result<DriverAnswer> AskThroughFiles(const rmclient::DevicePaths& paths);

// Place of the files, and the function that asks the driver. Tests give another folder and other
// answers.
struct Machine {
  std::string root;  // prefix of /dev, /proc/driver/nvidia, /sys: empty for the host
  AskDriver ask = AskThroughFiles;
};

// Returns the first word of a driver's version text that is a version number: in
//   NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025
//   NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build  (...)
// (/proc/driver/nvidia/version, kernel-open/nvidia/nv-procfs.c) and in the bare 550.163.01 of
// /sys/module/nvidia/version. Returns "" where no word is one.
[[nodiscard]] std::string VersionIn(std::string_view text);

// Finds the host's node. Returns nullopt when no NVIDIA driver is loaded, that is, neither version
// file is there. Errors mean that one is loaded but cannot be used, and say what to do:
//   kUnsupported  its release is not known, or says nothing that is a version
//   kUnavailable  the device files are not there or are not device files, or no driver answers
//   kPermission   this user may not open the files
//   kNotFound     it has no GPUs
// The node's devices are nvidiactl, every nvidia<N>, granted or not, and nvidia-uvm and
// nvidia-uvm-tools if they exist now: where they are loaded later, they stay out of containers that
// already run. A GPU's minor is its file's, not its index. Asking opens the GPUs for a moment,
// which wakes them up. Changes nothing.
[[nodiscard]] Result<std::optional<Node>> FindMachineNode(const Machine& machine = {});

// Checks that root's shims can open the files: they run under users of their own, in no group.
// kPermission unless everyone may open the control file and the files of `grant`'s GPUs. Simulated
// files are open to all.
[[nodiscard]] Result<> CheckOpenToShims(const Node& node, const Grant& grant);

}  // namespace cgpu

#endif  // CGPU_HOST_MACHINE_NODE_H_
