// Serves the tree (tree.h) as a FUSE file system at <registry>/km.
//
// It is in a process of its own: cgpud and the containers do without it. Files have direct_io, so
// that each open reads what is true then, and the kernel keeps neither names nor sizes.
#ifndef CGPU_KM_SERVER_H_
#define CGPU_KM_SERVER_H_

#include <string>

#include "base/result.h"
#include "runtime/settings.h"

namespace cgpu::km {

// Serves until SIGTERM, SIGINT or SIGHUP, then takes the mount away. Tells systemd when it is
// ready. The cards are those that the node of `settings` has at the start. What a server left that
// was killed is replaced. kPermission: not root; kConflict: another one serves, or something else
// is mounted there; and what FindNode() has.
[[nodiscard]] Result<> ServeTree(const Settings& settings, const std::string& version);

}  // namespace cgpu::km

#endif  // CGPU_KM_SERVER_H_
