// The control socket of a node's server: accounting, sync, faults, stop.
#ifndef CGPU_SIM_NODE_CONTROL_SERVER_H_
#define CGPU_SIM_NODE_CONTROL_SERVER_H_

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "sim/driver/driver.h"
#include "sim/fuse/server.h"
#include "sim/node/node_dir.h"

namespace cgpu::sim {

// Answers each connection on a thread of its own. Lives until the process ends.
class ControlServer {
 public:
  // All outlive it.
  ControlServer(Driver& driver, FuseServer& files, GpuLink& engines, const NodeDir& dir)
      : driver_(driver), files_(files), engines_(engines), dir_(dir) {}

  [[nodiscard]] Result<> Listen();
  // Serves for ever.
  [[noreturn]] void Run();
  // Takes the node away and ends the process.
  [[noreturn]] void Stop();

 private:
  void Serve(const UniqueFd& connection);
  // Returns the reply's line.
  [[nodiscard]] std::string Answer(const std::string& line);
  [[nodiscard]] std::string AccountingReply(std::uint64_t starts_from, bool mappings);
  [[nodiscard]] std::string AddFault(const std::string& line);
  [[nodiscard]] std::string HurtGpu(unsigned index, const std::string& effect, std::uint32_t value);

  Driver& driver_;
  FuseServer& files_;
  GpuLink& engines_;
  const NodeDir dir_;
  UniqueFd socket_;
};

// Returns the node's description, as node.json holds it.
[[nodiscard]] std::string DescribeNode(const Driver& driver, const FuseServer& files,
                                       const NodeDir& dir, bool caps);

// Returns the same for container engines: the Container Device Interface specification of
// "nvidia.com/gpu", as NVIDIA's toolkit writes one of a real node. Device files are files here,
// which are mounted.
[[nodiscard]] std::string DescribeForCdi(const Driver& driver, const FuseServer& files,
                                         const NodeDir& dir);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_CONTROL_SERVER_H_
