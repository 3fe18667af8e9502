#include "host/reservation.h"

#include <optional>

#include "protocol/lines.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr std::size_t kMaxGpus = 256;

void VisitCompute(LineCodec& io, ComputeRequest& compute) {
  io.Maybe("compute-percent", compute.percent, 0, 100);
  io.Maybe("compute-max-percent", compute.max_percent, 0, 100);
  io.Maybe("compute-weight", compute.weight, 0, kMaxWeight);
  compute.high_priority =
      io.Line("compute-priority", compute.high_priority, [&] { io.Fixed("high"); });
}

void VisitGpu(LineCodec& io, GpuGrant& grant) {
  Gpu& gpu = grant.gpu;
  if (gpu.model.empty()) {
    gpu.model = "-";
  }
  io.Values(gpu.uuid, gpu.index, gpu.memory_bytes, grant.limit_bytes, gpu.model);
}

void Fields(LineCodec& io, Reservation& reservation) {
  io.One("id", reservation.id);
  io.Check(IsId(reservation.id));
  io.One("name", reservation.name);
  io.Check(IsName(reservation.name));
  io.One("user", reservation.user);
  io.One("shim-uid", reservation.shim_uid);
  io.One("since", reservation.since);
  io.Maybe("engine", reservation.engine_id);
  io.Maybe("names-file", reservation.names_file);
  io.Maybe("pod", reservation.pod);
  io.Maybe("container", reservation.container);
  io.Maybe("origin", reservation.origin);
  reservation.isolated = !io.Line("isolation", !reservation.isolated, [&] { io.Fixed("none"); });
  VisitCompute(io, reservation.compute);
  io.Each("card", reservation.gpus, kMaxGpus, [&](GpuGrant& granted) { VisitGpu(io, granted); });
  io.Require(!reservation.gpus.empty(), "card");
}

constexpr LineFormat<Reservation> kReservationFormat{"a grant's file", Fields};

}  // namespace

std::string EncodeReservation(const Reservation& reservation) {
  return kReservationFormat.Encode(reservation);
}

Result<Reservation> DecodeReservation(std::string_view text) {
  return kReservationFormat.Decode(text);
}

std::vector<GpuUse> GpuUses(const std::vector<Gpu>& gpus, const std::vector<Reservation>& live,
                            std::string_view except) {
  std::vector<GpuUse> uses(gpus.size());
  for (const Reservation& reservation : live) {
    for (const GpuGrant& grant : reservation.gpus) {
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (gpus[i].uuid == grant.gpu.uuid && reservation.id != except) {
          uses[i].bytes += grant.limit_bytes;
          ++uses[i].slices;
        }
      }
    }
  }
  return uses;
}

Result<std::size_t> FindReservation(std::string_view reference,
                                    const std::vector<Reservation>& live) {
  std::vector<std::size_t> found;
  std::optional<std::size_t> named;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i].id == reference) {
      return i;
    }
    if (live[i].name == reference) {
      named = i;
    }
    if (!reference.empty() && live[i].id.starts_with(reference)) {
      found.push_back(i);
    }
  }
  if (named) {
    return *named;
  }
  const std::string name(reference);
  if (found.empty()) {
    return Error{Code::kNotFound, 0, "no container \"" + name + "\" is running",
                 "it may have ended; `cgpu ps` lists those that run"};
  }
  if (found.size() > 1) {
    return Error{Code::kInvalid, 0,
                 "\"" + name + "\" is ambiguous: " + std::to_string(found.size()) +
                     " containers' ids begin with it",
                 "give more of the id, or the name"};
  }
  return found[0];
}

}  // namespace cgpu
