#include "sim/node/control_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "sim/node/wire.h"

namespace cgpu::sim {
namespace {

Error NoAnswer(const NodeDir& dir) {
  return Error{Code::kUnavailable, 0,
               "the simulated node '" + dir.Name() + "' does not answer: its server is gone",
               "clean up with `cgpu sim stop --name " + dir.Name() + "` and start it again"};
}

}  // namespace

Result<ControlClient> ControlClient::Connect(const NodeDir& dir) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir.ControlSocket();
  if (!fd.valid() || path.size() >= sizeof(address.sun_path)) {
    return ErrnoError(Code::kInternal, errno, "making a socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    switch (errno) {
      case ENOENT:
        return access(dir.Path().c_str(), F_OK) == 0 ? NoAnswer(dir) : NoSuchNode(dir.Name());
      case ECONNREFUSED:
        return NoAnswer(dir);
      case EACCES:
      case EPERM:
        return Error{Code::kPermission, errno,
                     "the simulated node '" + dir.Name() + "' is managed by root",
                     "run this command as root; `cgpu sim exec` works for everyone"};
      default:
        return ErrnoError(Code::kUnavailable, errno, "connecting to " + path);
    }
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoError(Code::kInternal, errno, "asking who serves " + path);
  }
  return ControlClient(std::move(fd), peer.pid);
}

Result<std::string> ControlClient::Ask(const std::string& request) {
  CGPU_TRY(WriteAll(socket_.get(), request + "\n"));
  CGPU_ASSIGN_OR_RETURN(const auto line, ReadLine(socket_.get()));
  return ResultOf(line);
}

}  // namespace cgpu::sim
