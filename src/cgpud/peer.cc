#include "cgpud/peer.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "host/registry.h"

namespace cgpu {
namespace {

constexpr char kGroups[] = "/etc/group";

std::optional<ucred> CredentialsOf(int connection) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  const bool told = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0;
  return told ? std::optional(credentials) : std::nullopt;
}

// Returns the peer's groups beside its first, as it had them when it connected (socket(7),
// SO_PEERGROUPS).
std::vector<gid_t> GroupsOf(int connection) {
  std::vector<gid_t> groups(64);
  for (;;) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int got = getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    groups.resize(size / sizeof(gid_t));
    if (got == 0) {
      return groups;
    }
    if (errno != ERANGE) {
      return {};
    }
  }
}

Result<> CheckMember(int connection, gid_t first, const std::string& group) {
  const auto wanted = FindGroup(group);
  const std::vector<gid_t> groups = GroupsOf(connection);
  const bool member =
      wanted.ok() && (first == *wanted || std::ranges::find(groups, *wanted) != groups.end());
  return member ? Result<>() : NotAMember(group);
}

// Returns the process that connected, even if another process has its number now (Linux 6.5).
// Before, the number has to do.
UniqueFd ProcessOf(int connection, pid_t number) {
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, asm-generic/socket.h
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(connection, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0) {
    return UniqueFd(pidfd);
  }
  if (errno != ENOPROTOOPT) {
    return {};
  }
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, number, 0)));
}

// Returns `uid`, or the user who made the namespace that a process has its users from: the
// outermost one below this process's own. Nothing where the process has ended.
std::optional<unsigned> OwnerOf(pid_t number, int process, unsigned uid) {
  const auto users_of = [](const std::string& pid) {
    return UniqueFd(open(("/proc/" + pid + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  };
  const UniqueFd own = users_of("self");
  UniqueFd users = users_of(std::to_string(number));
  struct stat ours{};
  struct stat theirs{};
  if (!users.valid() || fstat(own.get(), &ours) != 0 ||
      syscall(SYS_pidfd_send_signal, process, 0, nullptr, 0) != 0) {
    return std::nullopt;  // another process may have its number now
  }
  while (fstat(users.get(), &theirs) == 0 && theirs.st_ino != ours.st_ino) {
    UniqueFd parent(ioctl(users.get(), NS_GET_PARENT));
    if (!parent.valid() || ioctl(users.get(), NS_GET_OWNER_UID, &uid) != 0) {
      return std::nullopt;
    }
    users = std::move(parent);
  }
  return uid;
}

}  // namespace

Result<unsigned> FindGroup(const std::string& group) {
  const auto text = ReadFile(kGroups);
  return text.ok() ? GroupIn(*text, group) : Result<unsigned>(text.error());
}

Result<unsigned> GroupIn(std::string_view text, std::string_view group) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(group) || line.substr(group.size(), 1) != ":") {
      continue;
    }
    line.remove_prefix(std::min(line.find(':', group.size() + 1), line.size()));  // the password
    unsigned number = 0;
    if (line.size() > 1 &&
        std::from_chars(line.data() + 1, line.data() + line.size(), number).ec == std::errc()) {
      return number;
    }
  }
  return Error{Code::kNotFound, 0, "there is no group " + std::string(group), {}};
}

std::optional<unsigned> UserOf(int connection) {
  const auto credentials = CredentialsOf(connection);
  if (!credentials || credentials->uid == 0) {
    return credentials ? std::optional(credentials->uid) : std::nullopt;
  }
  const UniqueFd process = ProcessOf(connection, credentials->pid);
  return process.valid() ? OwnerOf(credentials->pid, process.get(), credentials->uid)
                         : std::nullopt;
}

Result<Peer> AdmitPeer(int connection, const std::string& group) {
  const auto credentials = CredentialsOf(connection);
  if (!credentials || credentials->pid <= 0) {
    return Error{Code::kPermission, errno, "the caller cannot be seen from here",
                 "cgpud and the container engine must be in one pid namespace"};
  }
  if (credentials->uid != 0) {
    CGPU_TRY(CheckMember(connection, credentials->gid, group));
  }
  Peer peer;
  peer.uid = credentials->uid;
  peer.process = ProcessOf(connection, credentials->pid);
  if (!peer.process.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "the caller is gone");
  }
  return peer;
}

}  // namespace cgpu
