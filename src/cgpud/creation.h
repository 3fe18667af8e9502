// Creates a slice for a container that a container engine, or a user's `cgpu run`, is about to
// make: reserves it and starts its shim.
#ifndef CGPU_CGPUD_CREATION_H_
#define CGPU_CGPUD_CREATION_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "cgpud/peer.h"
#include "host/reservation.h"
#include "protocol/config.h"
#include "protocol/creation.h"

namespace cgpu {

// Settings that the containers of the host's container engines have in common.
struct Surroundings {
  std::string node;       // see FindNode()
  bool isolated = true;   // containers are held to their slices
  bool killable = false;  // the OCI runtime can have killable waits, see runtime/features.h
  unsigned max_inst = kDefaultMaxInst;    // see SliceRequest
  std::vector<FirmwareControl> firmware;  // see ShimConfig
  // Containers of pods have what the scheduler has decided (host/pod_grants.h), whatever their
  // environment says.
  bool kubernetes = false;
};

struct Slice {
  CreationReply reply;
  Reservation reservation;
  std::vector<std::string> remarks;  // lines for the log
};

// Creates the slice. `creator`: the process that asked and makes the container; the shim ends if
// that process ends without having made it. Everything taken is given back on error.
// kNotFound, for the container of a pod alone: it has no part of the pod's GPUs.
[[nodiscard]] Result<Slice> CreateSlice(const Surroundings& surroundings,
                                        const CreationRequest& request, Peer creator);

}  // namespace cgpu

#endif  // CGPU_CGPUD_CREATION_H_
