#include "kubelet/device_plugin.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/file.h"

namespace cgpu::kubelet {
namespace {

// A kubelet that is there but does not answer, or refuses, is asked again after so long.
constexpr std::chrono::milliseconds kAgain{10'000};

// Returns the name of a resource's socket: no slash, and nobody else's.
std::string EndpointOf(std::string resource) {
  std::replace(resource.begin(), resource.end(), '/', '_');
  return "cgpu-" + resource + ".sock";
}

// Tells one kubelet's socket from that of the next, which may have the same inode.
struct Socket {
  ino_t inode = 0;
  timespec changed{};

  bool operator==(const Socket& other) const {
    return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

std::optional<Socket> SocketAt(const std::string& path) {
  struct stat st{};
  return stat(path.c_str(), &st) == 0 ? std::optional(Socket{st.st_ino, st.st_ctim}) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<DevicePlugin>> DevicePlugin::Start(const std::string& folder,
                                                          Resources resources, Log log) {
  CGPU_TRY(MakeDirectories(folder, 0750));  // as the kubelet does
  UniqueFd changes(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!changes.valid() ||
      inotify_add_watch(changes.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch " + folder);
  }
  kube::Stop end;
  if (end.fd() < 0) {
    return ErrnoError(Code::kUnavailable, errno, "eventfd");
  }
  return std::unique_ptr<DevicePlugin>(new DevicePlugin(
      folder, std::move(resources), std::move(log), std::move(changes), std::move(end)));
}

DevicePlugin::DevicePlugin(std::string folder, Resources resources, Log log, UniqueFd changes,
                           kube::Stop end)
    : folder_(std::move(folder)),
      log_(std::move(log)),
      changes_(std::move(changes)),
      end_(std::move(end)),
      resources_(std::move(resources)) {
  thread_ = std::thread([this] { Run(); });
}

DevicePlugin::~DevicePlugin() {
  end_.Set();
  thread_.join();
}

void DevicePlugin::Set(const Resources& resources) {
  const MutexLock lock(mutex_);
  resources_ = resources;
  for (const auto& [name, server] : servers_) {
    server->Set(resources_.at(name));
  }
}

void DevicePlugin::Run() {
  std::array<pollfd, 2> events{{{changes_.get(), POLLIN, 0}, {end_.fd(), POLLIN, 0}}};
  std::optional<Socket> told;
  while ((events[1].revents & POLLIN) == 0) {
    const auto socket = SocketAt(folder_ + "/" + kKubeletSocket);
    if (socket && socket != told) {
      const Result<> done = Renew();
      log_(done.ok() ? "the kubelet counts the GPUs" : done.error().what);
      told = done.ok() ? socket : std::nullopt;
    }
    const bool again = socket && socket != told;
    (void)poll(events.data(), events.size(), again ? static_cast<int>(kAgain.count()) : -1);
    std::array<char, 4096> ignored{};
    while (read(changes_.get(), ignored.data(), ignored.size()) > 0) {
    }
  }
}

// Serves all resources at new sockets and tells the kubelet of them.
Result<> DevicePlugin::Renew() {
  Resources resources;
  {
    const MutexLock lock(mutex_);
    servers_.clear();  // also closes what the last kubelet watched
    resources = resources_;
  }
  for (const auto& [resource, devices] : resources) {
    const std::string endpoint = EndpointOf(resource);
    CGPU_TRY(Serve(resource, endpoint));
    CGPU_TRY(Register(folder_, endpoint, resource));
  }
  return {};
}

Result<> DevicePlugin::Serve(const std::string& resource, const std::string& endpoint) {
  const MutexLock lock(mutex_);
  CGPU_ASSIGN_OR_RETURN(auto server,
                        ResourceServer::Start(folder_ + "/" + endpoint, resources_.at(resource)));
  servers_[resource] = std::move(server);
  return {};
}

}  // namespace cgpu::kubelet
