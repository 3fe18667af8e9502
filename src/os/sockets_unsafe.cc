#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "os/mounts.h"
#include "os/sockets.h"

namespace cgpu::os {
namespace {

// A file as unix_diag identifies it.
struct File {
  std::uint32_t inode = 0;
  std::uint32_t device = 0;
};

struct Request {
  nlmsghdr head;
  unix_diag_req body;
};

// Converts "254:3" to the kernel's single number.
std::optional<std::uint32_t> DeviceFrom(std::string_view text) {
  constexpr int kMinorBits = 20;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':' ||
      std::from_chars(first.ptr + 1, end, minor).ptr != end) {
    return std::nullopt;
  }
  return major << kMinorBits | minor;
}

// Finds a file. The device is the file system's, which stat(2) does not always return (btrfs).
Result<File> FileAt(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat st{};
  if (!file.valid() || fstat(file.get(), &st) != 0) {
    return ErrnoError(errno == ENOENT ? Code::kNotFound : Code::kPermission, errno,
                      "cannot look at " + path);
  }
  CGPU_ASSIGN_OR_RETURN(const auto mount, FindMount(file.get(), path));
  CGPU_ASSIGN_OR_RETURN(const auto mounts, ReadMounts());
  const auto found = std::ranges::find(mounts, mount.id, &MountEntry::id);
  const auto device = found == mounts.end() ? std::nullopt : DeviceFrom(found->device);
  if (!device) {
    return Error{Code::kUnavailable, 0, "cannot find the mount of " + path, {}};
  }
  return File{static_cast<std::uint32_t>(st.st_ino), *device};
}

// Asks for all listening sockets of this network namespace, with their files.
Result<UniqueFd> AskForListeners() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  Request request{};
  request.head.nlmsg_len = sizeof(request);
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = 1U << TCP_LISTEN;
  request.body.udiag_show = UDIAG_SHOW_VFS;
  if (!socket.valid() || send(socket.get(), &request, sizeof(request), 0) < 0) {
    return ErrnoError(Code::kUnsupported, errno, "the kernel does not list its sockets");
  }
  return socket;
}

// Returns the beginning of `bytes`; zeros where they are too short.
template <class Struct>
Struct Head(std::string_view bytes) {
  Struct head{};
  std::memcpy(&head, bytes.data(), bytes.size() < sizeof(head) ? 0 : sizeof(head));
  return head;
}

// Takes the first part off. Parts begin with their length and at multiples of four. Returns nothing
// if there is none.
template <class Length>
std::string_view TakePart(std::string_view& parts) {
  constexpr std::size_t kAlign = 4;
  const std::size_t length = Head<Length>(parts);
  if (length < kAlign || length > parts.size()) {
    return {};
  }
  const std::string_view part = parts.substr(0, length);
  parts.remove_prefix(std::min(parts.size(), (length + kAlign - 1) / kAlign * kAlign));
  return part;
}

// Returns the inode of the socket in the message, if the socket is at `file`.
std::optional<std::uint64_t> SocketAt(std::string_view message, const File& file) {
  constexpr std::size_t kSocket = sizeof(nlmsghdr);
  constexpr std::size_t kAttributes = kSocket + sizeof(unix_diag_msg);
  if (message.size() < kAttributes) {
    return std::nullopt;
  }
  std::string_view attributes = message.substr(kAttributes);
  for (std::string_view one; !(one = TakePart<std::uint16_t>(attributes)).empty();) {
    const auto at = Head<unix_diag_vfs>(one.substr(sizeof(rtattr)));
    if (Head<rtattr>(one).rta_type == UNIX_DIAG_VFS && at.udiag_vfs_ino == file.inode &&
        at.udiag_vfs_dev == file.device) {
      return Head<unix_diag_msg>(message.substr(kSocket)).udiag_ino;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<FileIdentity> ListenerAt(const std::string& path) {
  CGPU_ASSIGN_OR_RETURN(const auto file, FileAt(path));
  CGPU_ASSIGN_OR_RETURN(const auto socket, AskForListeners());
  auto identity = Identify(socket.get());  // all sockets are of one file system
  std::array<char, std::size_t{1} << 15> buffer{};
  while (identity.ok()) {
    const ssize_t n = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) {
      return ErrnoError(Code::kUnavailable, errno, "the kernel's list of sockets broke off");
    }
    std::string_view messages(buffer.data(), static_cast<std::size_t>(n));
    for (std::string_view one; !(one = TakePart<std::uint32_t>(messages)).empty();) {
      const auto type = Head<nlmsghdr>(one).nlmsg_type;
      if (type == NLMSG_ERROR) {
        return Error{Code::kUnsupported, 0, "the kernel does not list its sockets",
                     "load its module unix_diag: modprobe unix_diag"};
      }
      if (type == NLMSG_DONE) {
        return Error{Code::kNotFound, 0, "nobody listens at " + path, {}};
      }
      if (const auto inode = SocketAt(one, file)) {
        identity->ino = *inode;
        return identity;
      }
    }
  }
  return identity;
}

}  // namespace cgpu::os
