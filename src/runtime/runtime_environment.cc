#include "runtime/runtime_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace cgpu {
namespace {

constexpr std::array<std::string_view, 9> kNeeded = {
    "HOME",                      // a runtime that finds none sets the container's
    "USER",                      // runc: whether it is rootless
    "XDG_RUNTIME_DIR",           // where a user's containers are known; also the user's systemd
    "DBUS_SESSION_BUS_ADDRESS",  // the same
    "NOTIFY_SOCKET",             // sd_notify(3), handed on to the container
    "LISTEN_FDS",                // sd_listen_fds(3), the same
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "TMPDIR",
};
// podman and crun to each other: the user namespace that a rootless container is made in.
constexpr std::string_view kOfPodman = "_CONTAINERS_";

std::string AbsoluteOf(std::string_view path) {
  std::string kept;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string_view folder = path.substr(0, end);
    if (folder.starts_with('/')) {
      kept += (kept.empty() ? "" : ":") + std::string(folder);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return kept;
}

}  // namespace

std::vector<std::string> RuntimeEnvironment(const std::vector<std::string>& environment) {
  std::string path;
  std::vector<std::string> kept;
  for (const std::string& one : environment) {
    const std::size_t equals = one.find('=');
    const std::string_view name = std::string_view(one).substr(0, equals);
    if (equals == std::string::npos) {
      continue;
    }
    if (name == "PATH") {
      path = AbsoluteOf(std::string_view(one).substr(equals + 1));
    } else if (name.starts_with(kOfPodman) || std::ranges::find(kNeeded, name) != kNeeded.end()) {
      kept.push_back(one);
    }
  }
  kept.insert(kept.begin(), path.empty() ? kPlainPath : "PATH=" + path);
  return kept;
}

}  // namespace cgpu
