// Tells the kubelet about the devices of one resource: the gRPC service v1beta1.DevicePlugin at a
// socket of its own.
#ifndef CGPU_KUBELET_RESOURCE_SERVER_H_
#define CGPU_KUBELET_RESOURCE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kubelet/devices.h"

namespace cgpu::kubelet {

// Thread-safe.
class ResourceServer {
 public:
  // Serves at `socket` until it is destroyed; a socket that is there already is replaced.
  // kUnavailable: it cannot listen there.
  [[nodiscard]] static Result<std::unique_ptr<ResourceServer>> Start(const std::string& socket,
                                                                     std::vector<Device> devices);
  ResourceServer(const ResourceServer&) = delete;
  ResourceServer& operator=(const ResourceServer&) = delete;
  ~ResourceServer();

  // Changes the devices; a kubelet that watches is told.
  void Set(std::vector<Device> devices);

 private:
  class Service;
  struct Served;
  explicit ResourceServer(std::unique_ptr<Served> served);

  std::unique_ptr<Served> served_;
};

// Tells the kubelet, whose socket is in `folder`, of the resource that is served at the socket
// `endpoint` there. The kubelet connects to that socket before it answers. kUnavailable: it does
// not answer in a few seconds, or refuses.
[[nodiscard]] Result<> Register(const std::string& folder, const std::string& endpoint,
                                const std::string& resource);

}  // namespace cgpu::kubelet

#endif  // CGPU_KUBELET_RESOURCE_SERVER_H_
