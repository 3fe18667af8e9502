// The first step of every container, however it is started: what it gets of the node is decided and
// taken, in one step as others see it.
#ifndef CGPU_LAUNCHER_RESERVE_H_
#define CGPU_LAUNCHER_RESERVE_H_

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "grant/grant.h"
#include "launcher/node.h"
#include "registry/config.h"
#include "registry/registry.h"
#include "registry/reservation.h"

namespace cgpu {

// What is asked for.
struct Wish {
  ResourceRequest request;
  std::string name;       // empty: made up
  std::string stem;       // what a made-up name begins with
  std::string engine_id;  // what a container engine calls it: empty for `cgpu run`
  bool agent = false;     // its listeners come over a socket of its own
  std::string origin;     // see Reservation
  bool isolated = true;   // see Reservation
  ComputeRequest compute;
  unsigned user = 0;                    // uid of whoever asks
  unsigned max_inst = kDefaultMaxInst;  // of cards for which nothing else was set
};

struct Reserved {
  Reservation reservation;
  Grant grant;  // what its shim is to hold it to
  // For the shim: as long as somebody holds it the container is alive for others.
  UniqueFd admin;
  UniqueFd agent;  // where its listeners will come, if it was wished for
};

// kInvalid, kNotFound, kExhausted or kConflict, with the sentence for the user. Where one does not
// fit beside containers that are at their end it waits for these, for seconds: whoever saw the end
// of one (its launcher was killed, its engine has said so) may start the next at once.
[[nodiscard]] Result<Reserved> Reserve(const Registry& registry, const Node& node,
                                       const Wish& wish);

// What its shim is told.
[[nodiscard]] ShimConfig ConfigFor(const Reservation& reservation, const Node& node,
                                   const Grant& grant);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_RESERVE_H_
