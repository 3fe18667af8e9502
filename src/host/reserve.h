// The first step of every container, however it is started: decides what the container gets and
// reserves it, in one step as others see it.
#ifndef CGPU_HOST_RESERVE_H_
#define CGPU_HOST_RESERVE_H_

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "grant/grant.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/reservation.h"
#include "protocol/config.h"

namespace cgpu {

// A request for a container.
struct ContainerRequest {
  ResourceRequest resources;
  std::string name;       // empty: one is made up
  std::string stem;       // begin of a made-up name
  std::string engine_id;  // the container engine's name for it; empty for `cgpu run`
  bool agent = false;     // its listeners come over a socket of its own
  std::string origin;     // see Reservation
  bool isolated = true;   // see Reservation
  ComputeRequest compute;
  unsigned user = 0;                    // uid of the user that asks
  unsigned max_inst = kDefaultMaxInst;  // for GPUs for which nothing else was set
};

struct Reserved {
  Reservation reservation;
  Grant grant;  // what its shim holds it to
  // For the shim: the container is alive for others as long as a process holds this descriptor.
  UniqueFd admin;
  UniqueFd agent;  // socket that its listeners come over, if it was asked for
};

// Reserves. Returns kInvalid, kNotFound, kExhausted or kConflict with the sentence for the user.
// Where the request does not fit beside containers that are about to end, it waits for these, for
// seconds: a user that saw the end of one (its launcher was killed, its container engine has said
// so) may start the next at once.
[[nodiscard]] Result<Reserved> Reserve(const Registry& registry, const Node& node,
                                       const ContainerRequest& request);

// Returns the configuration for the container's shim.
[[nodiscard]] ShimConfig ConfigFor(const Reservation& reservation, const Node& node,
                                   const Grant& grant);

}  // namespace cgpu

#endif  // CGPU_HOST_RESERVE_H_
