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

struct Reserved {
  Reservation reservation;
  Grant grant;  // what its shim holds it to
  // For the shim: the container is alive for others as long as a process holds this descriptor.
  UniqueFd admin;
  UniqueFd agent;  // socket that its listeners come over, if it was asked for
};

// Returns 128 random bits, in hex digits.
[[nodiscard]] Result<std::string> DrawWord();

// Reserves. Returns kInvalid, kNotFound, kExhausted or kConflict with the sentence for the user.
// Where the request does not fit beside containers that are about to end, it waits for these, for
// seconds: a user that saw the end of one (its launcher was killed, its container engine has said
// so) may start the next at once.
[[nodiscard]] Result<Reserved> Reserve(const Registry& registry, const Node& node,
                                       const SliceRequest& request);

// Releases the reservation of a container that does not live, when it is destroyed.
class Giveback {
 public:
  // `registry` outlives this.
  Giveback(const Registry& registry, std::string id) : registry_(registry), id_(std::move(id)) {}
  Giveback(const Giveback&) = delete;
  Giveback& operator=(const Giveback&) = delete;
  ~Giveback();

 private:
  const Registry& registry_;
  std::string id_;
};

// Returns the configuration for the container's shim.
[[nodiscard]] ShimConfig ConfigFor(const Reservation& reservation, const Node& node,
                                   const Grant& grant);

}  // namespace cgpu

#endif  // CGPU_HOST_RESERVE_H_
