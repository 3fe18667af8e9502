// The node a container is to run on: the machine's own NVIDIA driver, or a simulated one.
#ifndef CGPU_LAUNCHER_NODE_H_
#define CGPU_LAUNCHER_NODE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "kernel/mount_tree.h"
#include "registry/config.h"
#include "rmclient/raw.h"

namespace cgpu {

struct Machine;  // machine_node.h

struct NodeDevice {
  NodeFile file;
  std::string name;    // in /dev
  std::string folder;  // of a simulated one: the folder that holds it alone; else empty
};

struct Node {
  std::string name;  // of a simulated node; empty for the machine's own driver
  std::string driver;
  std::vector<Card> cards;
  std::vector<NodeDevice> devices;
  std::string proc_source;
  std::string pci_source;
};

// Where simulated nodes keep their files: <folder>/<name>/node.json.
inline constexpr char kSimulatedNodes[] = "/run/cgpu-sim";
inline constexpr char kDefaultNode[] = "default";

// kNotFound when it is not running; kInvalid for what cannot be a node's name, as an empty one.
[[nodiscard]] Result<Node> FindSimulatedNode(const std::string& name);

// The simulated node `name`; for an empty name the machine's driver, or without one the simulated
// node "default". A driver that is loaded but cannot be used is an error, see FindMachineNode():
// nobody gets a simulated node for a real one unasked. kUnsupported for a driver of an unknown
// release. Looks at the files and asks the driver; changes nothing.
[[nodiscard]] Result<Node> FindNode(const std::string& name);
[[nodiscard]] Result<Node> FindNode(const std::string& name, const Machine& machine);

// Its files as they are seen from outside of every slice.
[[nodiscard]] rmclient::DevicePaths PathsOf(const Node& node);

// The mounts with only `grant`'s cards of `node`.
[[nodiscard]] GpuTree TreeFor(const Node& node, const Grant& grant, std::vector<std::string> hide);

// Fills in what a shim is told of `node`: driver, files, watches and cards.
//
// A watch tells of closes of one inode, wherever it is bound to: of the machine's own
// /dev/nvidiactl and of every container's that `cgpu run` makes, as those are binds of it. It tells
// nothing of another node with the same device number, as a container runtime makes in a /dev of
// its own (in `cgpu run` nobody has CAP_MKNOD). The shim still recognises such a file, by its
// device number, and then learns of closes when a process of the container ends and when a call
// would be refused for lack of memory: it asks the driver which clients are left.
void Describe(const Node& node, const Grant& grant, ShimConfig& config);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_NODE_H_
