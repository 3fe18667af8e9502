#include "cgpud/peer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <vector>

#include "base/file.h"
#include "host/registry.h"
#include "os/ownership.h"

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
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto owner = os::OutermostOwner(proc.get(), credentials->pid, credentials->uid);
  // If it has ended, another process may have its number.
  const bool lives =
      process.valid() && syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0) == 0;
  return lives ? owner : std::nullopt;
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
