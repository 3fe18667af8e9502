// The folder of a simulated node:
// /run/cgpu-sim/NAME/{mnt,control.sock,node.json,cdi,cards,lock,log}.
#ifndef CGPU_SIM_NODE_NODE_DIR_H_
#define CGPU_SIM_NODE_NODE_DIR_H_

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::sim {

class NodeDir {
 public:
  // Returns the folder. kInvalid when `name` cannot be the name of a folder.
  [[nodiscard]] static Result<NodeDir> Of(const std::string& name);

  [[nodiscard]] const std::string& Name() const { return name_; }
  [[nodiscard]] std::string Path() const;
  [[nodiscard]] std::string Mount() const { return Path() + "/mnt"; }
  [[nodiscard]] std::string ControlSocket() const { return Path() + "/control.sock"; }
  [[nodiscard]] std::string Description() const { return Path() + "/node.json"; }
  [[nodiscard]] std::string CdiFolder() const { return Path() + "/cdi"; }
  [[nodiscard]] std::string CdiFile() const { return CdiFolder() + "/nvidia.json"; }
  // Folder of what `cgpu calibrate` found out of its GPUs (host/node.h).
  [[nodiscard]] std::string Cards() const { return Path() + "/cards"; }
  [[nodiscard]] std::string Log() const { return Path() + "/log"; }

  // Makes the folder and takes its lock, which the node's server holds as long as it lives.
  // kConflict when a node of that name runs.
  [[nodiscard]] Result<UniqueFd> MakeAndLock() const;
  // Takes the lock of a folder that is there. kConflict when a server holds it; kNotFound when
  // there is no such node.
  [[nodiscard]] Result<UniqueFd> Lock() const;
  // Takes away what a server left behind: mounts, socket, description, folder. The caller holds the
  // lock.
  [[nodiscard]] Result<> Remove() const;

 private:
  explicit NodeDir(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] Result<UniqueFd> TakeLock(int flags) const;

  std::string name_;
};

// Returns the error for a name that no node has.
[[nodiscard]] Error NoSuchNode(const std::string& name);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_NODE_DIR_H_
