// Finds the node that a container runs on: the host's own NVIDIA driver, or a simulated node.
#ifndef CGPU_HOST_NODE_H_
#define CGPU_HOST_NODE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "protocol/config.h"
#include "rmclient/raw.h"
#include "sandbox/mount_tree.h"

namespace cgpu {

struct Machine;  // machine_node.h

struct NodeDevice {
  NodeFile file;
  std::string name;    // name in /dev
  std::string folder;  // for a simulated file: the folder that holds it alone; else empty
};

struct Node {
  std::string name;  // name of a simulated node; empty for the host's own driver
  std::string driver;
  std::vector<Gpu> gpus;
  std::vector<NodeDevice> devices;
  std::string proc_source;
  std::string pci_source;
  std::string libraries;  // folder of a simulated node's library of NVML; empty: none
  // Whether programs are known to start while their channels are taken off and put back. False of
  // the host's GPUs: on an H200, programs that started so hung (docs/hardware/h200-580.159.04.md).
  // capping.h says what caps a percentage then.
  bool caps = false;
};

// Folder where simulated nodes keep their files: <folder>/<name>/node.json.
inline constexpr char kSimulatedNodes[] = "/run/cgpu-sim";
inline constexpr char kDefaultNode[] = "default";

// Returns the simulated node `name`. kNotFound: it is not running. kInvalid: `name` cannot be a
// node's name, for example because it is empty.
[[nodiscard]] Result<Node> FindSimulatedNode(const std::string& name);

// Returns the simulated node `name`; for an empty name the host's driver, or without one the
// simulated node "default". A driver that is loaded but cannot be used is an error, see
// FindMachineNode(): nobody gets a simulated node for a real one unasked. kUnsupported: the
// driver's release is unknown. Looks at the files and asks the driver; changes nothing.
[[nodiscard]] Result<Node> FindNode(const std::string& name);
[[nodiscard]] Result<Node> FindNode(const std::string& name, const Machine& machine);

// Returns the folder of what its GPUs showed when they were asked (calibration/record.h). That of a
// simulated node goes with it.
[[nodiscard]] std::string CardsOf(const Node& node);

// Returns the paths of its files as programs outside of every slice see them.
[[nodiscard]] rmclient::DevicePaths PathsOf(const Node& node);

// Returns the mounts that have only `grant`'s GPUs of `node`.
[[nodiscard]] GpuTree TreeFor(const Node& node, const Grant& grant, std::vector<std::string> hide);

// Fills in what a shim is told of `node`: driver, files, watches and GPUs.
//
// A watch tells of closes of one inode, wherever it is bound to: of the host's own /dev/nvidiactl
// and of that of every container that `cgpu run` makes, as those are binds of it. It does not tell
// of another device file with the same number, such as a container runtime makes in a /dev of its
// own (in `cgpu run` no process has CAP_MKNOD). The shim still recognises such a file by its device
// number. It then learns of closes in two other ways: when a process of the container ends, and
// when a call would be refused for lack of memory, it asks the driver which clients are left.
void Describe(const Node& node, const Grant& grant, ShimConfig& config);

}  // namespace cgpu

#endif  // CGPU_HOST_NODE_H_
