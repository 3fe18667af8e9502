#include "host/container_events.h"

#include "grant/request.h"

namespace cgpu {

EventFields NamesOf(const Reservation& reservation) {
  EventFields fields{{"container", reservation.id}, {"name", reservation.name}};
  if (!reservation.engine_id.empty()) {
    fields["engine_id"] = reservation.engine_id;
  }
  return fields;
}

EventFields StartedFields(const Reservation& reservation) {
  EventFields fields = NamesOf(reservation);
  std::string gpus;
  for (const GpuGrant& granted : reservation.gpus) {
    gpus += (gpus.empty() ? "" : ",") + std::to_string(granted.gpu.index);
    fields["memory_bytes"] = granted.limit_bytes;
  }
  fields["gpu"] = gpus;
  if (reservation.gpus.size() == 1) {
    fields["uuid"] = reservation.gpus.front().gpu.uuid;
  }
  if (reservation.compute != ComputeRequest{}) {
    fields["compute"] = SentenceOf(reservation.compute);
  }
  fields["uid"] = std::uint64_t{reservation.user};
  fields["origin"] = reservation.origin;
  return fields;
}

}  // namespace cgpu
