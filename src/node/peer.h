// Who asks the daemon, as the kernel says.
#ifndef CGPU_NODE_PEER_H_
#define CGPU_NODE_PEER_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

struct Peer {
  UniqueFd process;  // a pidfd
  unsigned uid = 0;
};

// The process at the other end of a connected AF_UNIX socket, which waits there and so still has
// its number. kPermission: it is neither root's nor of the group `group` (of /etc/group).
[[nodiscard]] Result<Peer> AdmitPeer(int connection, const std::string& group);

// Whose process it is; nothing where the kernel does not tell.
[[nodiscard]] std::optional<unsigned> UserOf(int connection);

// The number of the group of that name on this machine. kNotFound.
[[nodiscard]] Result<unsigned> FindGroup(const std::string& group);

// The number of the group in a text of the form of /etc/group (group(5)). kNotFound. Pure.
[[nodiscard]] Result<unsigned> GroupIn(std::string_view text, std::string_view group);

}  // namespace cgpu

#endif  // CGPU_NODE_PEER_H_
