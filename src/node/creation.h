// A slice for a container that an engine, or a user's `cgpu run`, is about to make: reserved, with
// its shim started.
#ifndef CGPU_NODE_CREATION_H_
#define CGPU_NODE_CREATION_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "node/peer.h"
#include "registry/creation.h"

namespace cgpu {

// What the containers of the node's engines have in common.
struct Surroundings {
  std::string node;       // see FindNode()
  bool isolated = true;   // containers are held to their parts of the cards
  bool killable = false;  // the OCI runtime can have such waits, see runtime/features.h
  unsigned max_inst = kDefaultMaxInst;  // see Wish
};

struct Slice {
  CreationReply reply;
  std::vector<std::string> remarks;  // for the log
};

// `creator`: who asked and makes the container; the shim ends if it ends without. Everything taken
// is given back on error.
[[nodiscard]] Result<Slice> CreateSlice(const Surroundings& surroundings,
                                        const CreationRequest& request, Peer creator);

}  // namespace cgpu

#endif  // CGPU_NODE_CREATION_H_
