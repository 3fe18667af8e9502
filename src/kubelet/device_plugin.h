// A device plugin of the kubelet: serves cgpu's resources in the kubelet's folder, and tells the
// kubelet of them whenever one starts there. A kubelet that starts removes all other sockets from
// its folder and makes its own again (k8s.io/kubernetes v1.37.2,
// pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Start()).
#ifndef CGPU_KUBELET_DEVICE_PLUGIN_H_
#define CGPU_KUBELET_DEVICE_PLUGIN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "kube/stop.h"
#include "kubelet/devices.h"
#include "kubelet/resource_server.h"

namespace cgpu::kubelet {

// The folder is the same whatever the kubelet's --root-dir is (k8s.io/kubelet v0.37.2,
// pkg/apis/deviceplugin/v1beta1/constants.go).
inline constexpr char kKubeletFolder[] = "/var/lib/kubelet/device-plugins";
inline constexpr char kKubeletSocket[] = "kubelet.sock";

// Thread-safe. It has a thread of its own, which ends with it.
class DevicePlugin {
 public:
  using Log = std::function<void(const std::string& sentence)>;

  // Makes the folder where it is missing: the kubelet may start later. kUnavailable: the folder
  // cannot be made or watched. `log` is called on the plugin's own thread.
  [[nodiscard]] static Result<std::unique_ptr<DevicePlugin>> Start(const std::string& folder,
                                                                   Resources resources, Log log);
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;
  ~DevicePlugin();

  // Changes the devices. The names of the resources are those of the start.
  void Set(const Resources& resources);

 private:
  DevicePlugin(std::string folder, Resources resources, Log log, UniqueFd changes, kube::Stop end);
  void Run();
  [[nodiscard]] Result<> Renew();
  [[nodiscard]] Result<> Serve(const std::string& resource, const std::string& endpoint);

  const std::string folder_;
  const Log log_;
  const UniqueFd changes_;  // inotify, of the folder
  kube::Stop end_;          // the thread is to end
  Mutex mutex_;
  Resources resources_ CGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<ResourceServer>> servers_ CGPU_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace cgpu::kubelet

#endif  // CGPU_KUBELET_DEVICE_PLUGIN_H_
