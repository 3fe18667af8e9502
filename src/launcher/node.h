// The node a container is to run on: the machine's own NVIDIA driver, or a simulated one.
#ifndef CGPU_LAUNCHER_NODE_H_
#define CGPU_LAUNCHER_NODE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "kernel/mount_tree.h"
#include "registry/config.h"

namespace cgpu {

struct NodeDevice {
  NodeFile file;
  std::string name;    // in /dev
  std::string folder;  // of a simulated one: the folder that holds it alone
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

// The simulated node `name`; for an empty name the machine's driver, or without one the simulated
// node "default". kUnsupported for a driver of an unknown release. Looks at the files and asks the
// driver; changes nothing.
[[nodiscard]] Result<Node> FindNode(const std::string& name);

// The mounts with only `grant`'s cards of `node`.
[[nodiscard]] GpuTree TreeFor(const Node& node, const Grant& grant, std::vector<std::string> hide);

// Fills in what a shim is told of `node`: driver, files, watches and cards.
void Describe(const Node& node, const Grant& grant, ShimConfig& config);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_NODE_H_
