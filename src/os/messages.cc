#include "os/messages.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace cgpu {
namespace {

constexpr std::size_t kMaxText = 64 * 1024;

// Room for one descriptor's control message, aligned as its header must be.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

UniqueFd TakeFd(msghdr& header) {
  UniqueFd fd;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(c), sizeof(raw));
      fd.reset(raw);
    }
  }
  return fd;
}

// Receives a message, with its descriptor if `fd` has a place for it.
Result<std::string> Receive(int socket, int timeout_ms, UniqueFd* fd) {
  pollfd ready{socket, POLLIN, 0};
  const auto polled = TEMP_FAILURE_RETRY(poll(&ready, 1, timeout_ms));
  if (polled <= 0) {
    return Error{Code::kUnavailable, polled < 0 ? errno : ETIMEDOUT, "no message in time", {}};
  }
  std::string text(kMaxText, '\0');
  iovec io{text.data(), text.size()};
  Control control{};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  if (fd != nullptr) {  // without room for descriptors the kernel drops them
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
  }
  const ssize_t n = TEMP_FAILURE_RETRY(recvmsg(socket, &header, MSG_CMSG_CLOEXEC));
  if (n >= 0 && fd != nullptr) {
    *fd = TakeFd(header);
  }
  if (n < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot receive a message");
  }
  if (n == 0 || (header.msg_flags & MSG_TRUNC) != 0) {
    return Error{
        Code::kUnavailable, 0, n == 0 ? "the other side is gone" : "a message is too long", {}};
  }
  text.resize(static_cast<std::size_t>(n));
  return text;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> MakeMessagePair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot make a pair of sockets");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<> SendMessage(int socket, std::string_view text, int fd) {
  iovec io{const_cast<char*>(text.data()), text.size()};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  Control control{};
  if (fd >= 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof(fd));
  }
  if (TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL)) < 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot send a message");
  }
  return {};
}

Result<Message> ReceiveMessage(int socket, int timeout_ms) {
  Message message;
  CGPU_ASSIGN_OR_RETURN(message.text, Receive(socket, timeout_ms, &message.fd));
  return message;
}

Result<std::string> ReceiveText(int socket, int timeout_ms) {
  return Receive(socket, timeout_ms, nullptr);
}

}  // namespace cgpu
