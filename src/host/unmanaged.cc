#include "host/unmanaged.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "host/admin.h"
#include "os/process.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

std::string ProcPath(unsigned pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// Returns a namespace's own number; nothing where the descriptor is none.
std::optional<ino_t> NumberOf(int fd) {
  struct stat st{};
  return fd >= 0 && fstat(fd, &st) == 0 ? std::optional(st.st_ino) : std::nullopt;
}

UniqueFd OpenNamespace(unsigned pid, const char* kind) {
  return UniqueFd(open(ProcPath(pid, std::string("ns/") + kind).c_str(), O_RDONLY | O_CLOEXEC));
}

// The containers' namespaces, without those that are the host's.
struct Slices {
  std::set<ino_t> mounts;
  std::set<ino_t> pids;
  std::set<unsigned> shim_users;
};

void Add(unsigned pid, const char* kind, std::set<ino_t>& numbers) {
  const auto own = NumberOf(OpenNamespace(static_cast<unsigned>(getpid()), kind).get());
  const auto number = NumberOf(OpenNamespace(pid, kind).get());
  if (number && number != own) {
    numbers.insert(*number);
  }
}

Result<Slices> FindSlices(const Registry& registry) {
  Slices slices;
  CGPU_ASSIGN_OR_RETURN(const auto containers, ListContainers(registry));
  for (const ContainerStatus& container : containers) {
    if (container.pid != 0) {
      Add(container.pid, "mnt", slices.mounts);
      Add(container.pid, "pid", slices.pids);
    }
  }
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  for (const Reservation& reservation : live) {
    slices.shim_users.insert(reservation.shim_uid);
  }
  return slices;
}

// Returns whether the process is in a container. A tenant may make namespaces of its own, but a pid
// namespace stays below the one that it was made in.
bool IsInside(unsigned pid, const Slices& slices) {
  const auto mounts = NumberOf(OpenNamespace(pid, "mnt").get());
  if (mounts && slices.mounts.contains(*mounts)) {
    return true;
  }
  UniqueFd pids = OpenNamespace(pid, "pid");
  for (auto number = NumberOf(pids.get()); number; number = NumberOf(pids.get())) {
    if (slices.pids.contains(*number)) {
      return true;
    }
    pids = UniqueFd(ioctl(pids.get(), NS_GET_PARENT));
  }
  return false;
}

// Returns the name of the node's file behind a link of /proc/PID/fd; "" if it is none.
std::string NameOf(const std::string& link, const Node& node) {
  const UniqueFd fd(open(link.c_str(), O_PATH | O_CLOEXEC));
  const auto identity = os::Identify(fd.get());
  if (!identity.ok()) {
    return {};
  }
  for (const NodeDevice& device : node.devices) {
    if (device.file.Is(identity->dev, identity->ino, identity->rdev)) {
      return device.name;
    }
  }
  return {};
}

std::vector<std::string> FilesOf(unsigned pid, const Node& node) {
  std::set<std::string> names;
  for (const std::string& fd : NamesIn(ProcPath(pid, "fd")).value_or({})) {
    names.insert(NameOf(ProcPath(pid, "fd/" + fd), node));
  }
  names.erase("");
  return {names.begin(), names.end()};
}

unsigned UserOf(unsigned pid) {
  struct stat st{};
  return stat(ProcPath(pid, "").c_str(), &st) == 0 ? st.st_uid : 0;
}

std::string CommandOf(unsigned pid) {
  std::string command = ReadFile(ProcPath(pid, "comm")).value_or("");
  std::erase(command, '\n');
  return command;
}

// Returns the numbers of all processes, in order.
Result<std::set<unsigned>> AllProcesses() {
  CGPU_ASSIGN_OR_RETURN(const auto names, NamesIn("/proc"));
  std::set<unsigned> pids;
  for (const std::string& name : names) {
    if (unsigned pid = 0; ToUnsigned(name, pid)) {
      pids.insert(pid);
    }
  }
  return pids;
}

}  // namespace

Result<std::vector<UnmanagedProcess>> ListUnmanaged(const Registry& registry, const Node& node) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root sees which files other users have open",
                 "run it with sudo"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto slices, FindSlices(registry));
  CGPU_ASSIGN_OR_RETURN(const auto pids, AllProcesses());
  std::vector<UnmanagedProcess> list;
  for (const unsigned pid : pids) {
    std::vector<std::string> files = FilesOf(pid, node);
    const unsigned user = UserOf(pid);
    if (!files.empty() && !slices.shim_users.contains(user) && !IsInside(pid, slices)) {
      list.push_back({pid, user, CommandOf(pid), std::move(files)});
    }
  }
  return list;
}

}  // namespace cgpu
