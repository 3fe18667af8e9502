// Identifies the process that asks cgpud, as the kernel says.
#ifndef CGPU_CGPUD_PEER_H_
#define CGPU_CGPUD_PEER_H_

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

// Returns the process that connected an AF_UNIX socket, by its pidfd (Linux 6.5). Older kernels
// tell its number alone, which may be another process's by now. kPermission: it is neither root's
// nor of the group `group` (of /etc/group).
[[nodiscard]] Result<Peer> AdmitPeer(int connection, const std::string& group);

// Returns the user who has to answer for that process, which need not be its uid: a user may have
// thousands of subordinate uids (subuid(5)) in a user namespace of his own. Nothing where the
// kernel does not tell, or the process has ended.
[[nodiscard]] std::optional<unsigned> UserOf(int connection);

// Returns the number of the group of that name on this host. kNotFound.
[[nodiscard]] Result<unsigned> FindGroup(const std::string& group);

// Returns the number of the group in a text of the form of /etc/group (group(5)). kNotFound. Pure.
[[nodiscard]] Result<unsigned> GroupIn(std::string_view text, std::string_view group);

}  // namespace cgpu

#endif  // CGPU_CGPUD_PEER_H_
