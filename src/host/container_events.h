// The fields of events about a container (host/events.h).
#ifndef CGPU_HOST_CONTAINER_EVENTS_H_
#define CGPU_HOST_CONTAINER_EVENTS_H_

#include "host/events.h"
#include "host/reservation.h"

namespace cgpu {

// Returns the fields that name the container.
[[nodiscard]] EventFields NamesOf(const Reservation& reservation);
// Returns these, and what the container got.
[[nodiscard]] EventFields StartedFields(const Reservation& reservation);

}  // namespace cgpu

#endif  // CGPU_HOST_CONTAINER_EVENTS_H_
