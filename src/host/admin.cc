#include "host/admin.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "grant/grant.h"
#include "host/container_events.h"
#include "host/event_ring.h"

namespace cgpu {
namespace {

// Most questions asked at once: each takes an open file, of the 1024 that a process usually has.
constexpr std::size_t kAskedAtOnce = 768;

// Adds what the shim does not know, and the container's user: a shim is not asked that.
void AddFrom(const Reservation& reservation, ContainerStatus& status) {
  status.id = reservation.id;
  status.name = reservation.name;
  status.user = reservation.user;
  status.engine_id = reservation.engine_id;
  status.pod = reservation.pod;
  status.container = reservation.container;
  status.origin = reservation.origin;
  status.isolated = reservation.isolated;
  status.compute = reservation.compute;
  for (std::size_t i = 0; i < std::min(status.gpus.size(), reservation.gpus.size()); ++i) {
    status.gpus[i].reserved_bytes = reservation.gpus[i].limit_bytes;
  }
}

// Returns what is known of a container without its shim.
ContainerStatus StatusFrom(const Reservation& reservation) {
  ContainerStatus status;
  status.state = kUnresponsive;
  status.since = reservation.since;
  for (std::size_t i = 0; i < reservation.gpus.size(); ++i) {
    const GpuGrant& grant = reservation.gpus[i];
    GpuStatus gpu;
    gpu.uuid = grant.gpu.uuid;
    gpu.index = static_cast<unsigned>(i);
    gpu.host_index = grant.gpu.index;
    gpu.limit_bytes = grant.limit_bytes;
    status.gpus.push_back(gpu);
  }
  AddFrom(reservation, status);
  return status;
}

Result<ContainerStatus> StatusIn(const Result<std::string>& answer) {
  return answer.ok() ? DecodeStatus(*answer) : Result<ContainerStatus>(answer.error());
}

// Adds what the shim said about the processes on each GPU. No answer, or that of an earlier
// version, leaves them out.
void AddProcesses(std::span<const Result<std::string>> answers, ContainerStatus& status) {
  for (std::size_t i = 0; i < std::min(status.gpus.size(), answers.size()); ++i) {
    auto memory =
        answers[i].ok() ? DecodeGpuMemory(*answers[i]) : Result<GpuMemory>(answers[i].error());
    if (memory.ok()) {
      status.gpus[i].processes = std::move(memory->processes);
    }
  }
}

// Asks the shims of some containers everything before it waits for the first answer, with one
// deadline: on a busy host each shim takes a while until it runs, and a stopped one holds up only
// itself.
void AppendStatuses(const Registry& registry, std::span<const Reservation> reservations,
                    bool processes, std::vector<ContainerStatus>& containers) {
  std::vector<Question> questions;
  for (const Reservation& reservation : reservations) {
    questions.push_back({reservation.id});
    for (const GpuGrant& grant : reservation.gpus) {
      if (processes) {
        questions.push_back({reservation.id, {AdminRequest::Kind::kMemory, grant.gpu.uuid, 0}});
      }
    }
  }
  const auto answers = registry.AskAll(questions);
  std::span<const Result<std::string>> rest(answers);
  for (const Reservation& reservation : reservations) {
    auto status = StatusIn(rest.front());
    const std::size_t more = processes ? reservation.gpus.size() : 0;
    if (status.ok()) {
      AddFrom(reservation, *status);
      AddProcesses(rest.subspan(1, more), *status);
      containers.push_back(std::move(*status));
    } else if (status.error().code != Code::kNotFound) {
      containers.push_back(StatusFrom(reservation));
    }
    rest = rest.subspan(1 + more);
  }
}

std::vector<ContainerStatus> List(const Registry& registry, const std::vector<Reservation>& live,
                                  bool processes) {
  std::vector<ContainerStatus> containers;
  std::size_t first = 0;
  std::size_t questions = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::size_t more = 1 + (processes ? live[i].gpus.size() : 0);
    if (questions + more > kAskedAtOnce) {
      AppendStatuses(registry, std::span(live).subspan(first, i - first), processes, containers);
      first = i;
      questions = 0;
    }
    questions += more;
  }
  AppendStatuses(registry, std::span(live).subspan(first), processes, containers);
  return containers;
}

// Returns the places in the container's grant that the change is for.
Result<std::vector<std::size_t>> ChosenGpus(const Reservation& reservation,
                                            const std::string& gpu) {
  std::vector<Gpu> inside;
  for (const GpuGrant& grant : reservation.gpus) {
    inside.push_back(grant.gpu);
    inside.back().index = static_cast<unsigned>(inside.size() - 1);
  }
  GpuRequest request;
  if (!gpu.empty()) {
    request.kind = GpuRequest::Kind::kDevices;
    request.devices = {gpu};
  }
  const auto selected = SelectGpus(request, inside);
  if (!selected.ok()) {
    Error error = selected.error();
    error.hint = "--gpu counts the container's own GPUs from 0; see `cgpu ps`";
    return error;
  }
  std::vector<std::size_t> chosen;
  for (const Gpu& one : selected.value()) {
    chosen.push_back(one.index);
  }
  return chosen;
}

// Returns `reservation` with the new limits, checked against the GPUs and all grants.
Result<Reservation> Changed(Reservation reservation, const std::vector<std::size_t>& chosen,
                            const MemoryRequest& memory, const std::vector<Reservation>& live) {
  for (const std::size_t i : chosen) {
    GpuGrant& grant = reservation.gpus[i];
    CGPU_ASSIGN_OR_RETURN(const auto limit, LimitOnGpu(memory, grant.gpu, chosen.size()));
    CGPU_TRY(FitsOnGpu(grant.gpu, GpuUses({grant.gpu}, live, reservation.id)[0].bytes, limit));
    grant.limit_bytes = limit;
  }
  return reservation;
}

// Tells the shim, GPU by GPU. The larger of both limits is reserved from now on.
Result<> Apply(const Registry& registry, const RegistryLock& lock, const Reservation& before,
               const Reservation& after, const std::vector<std::size_t>& chosen) {
  Reservation during = after;
  for (const std::size_t i : chosen) {
    during.gpus[i].limit_bytes = std::max(before.gpus[i].limit_bytes, after.gpus[i].limit_bytes);
  }
  CGPU_TRY(registry.Update(lock, during));
  Reservation done = before;
  for (const std::size_t i : chosen) {
    const auto answer = registry.Ask(
        after.id, {AdminRequest::Kind::kSet, after.gpus[i].gpu.uuid, after.gpus[i].limit_bytes});
    const Result<> outcome = answer.ok() ? DecodeOutcome(answer.value()) : answer.error();
    if (!outcome.ok()) {
      // Silence leaves open which limit holds, so the larger one stays reserved.
      const bool refused = answer.ok() && outcome.error().code == Code::kConflict;
      if (refused || outcome.error().code == Code::kNotFound) {
        CGPU_TRY(registry.Update(lock, done));
      }
      return outcome.error();
    }
    done.gpus[i].limit_bytes = after.gpus[i].limit_bytes;
  }
  return {};
}

// Returns the reservation after the change. What is held above a new limit is not free for others:
// it stays reserved until the limit is set again. All of the old limit stays reserved while no shim
// says what is held.
Reservation Settled(const Reservation& before, Reservation after,
                    const Result<ContainerStatus>& status) {
  for (std::size_t i = 0; i < after.gpus.size(); ++i) {
    const std::uint64_t held = status.ok() && i < status.value().gpus.size()
                                   ? status.value().gpus[i].used_bytes
                                   : before.gpus[i].limit_bytes;
    after.gpus[i].limit_bytes = std::max(after.gpus[i].limit_bytes, held);
  }
  return after;
}

// Keeps an event for each GPU.
void NoteMemorySet(const ContainerStatus& was, const Reservation& after,
                   const std::vector<std::size_t>& chosen) {
  for (const std::size_t i : chosen) {
    EventFields fields = NamesOf(after);
    fields["gpu"] = std::to_string(after.gpus[i].gpu.index);
    fields["uuid"] = after.gpus[i].gpu.uuid;
    fields["from_bytes"] = i < was.gpus.size() ? was.gpus[i].limit_bytes : std::uint64_t{0};
    fields["to_bytes"] = after.gpus[i].limit_bytes;
    NoteEvent(events::kMemorySet, std::move(fields));
  }
}

}  // namespace

Result<std::vector<ContainerStatus>> ListContainers(const Registry& registry) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  return List(registry, live, false);
}

std::vector<ContainerStatus> ListContainers(const Registry& registry,
                                            const std::vector<Reservation>& recorded) {
  return List(registry, recorded, false);
}

Result<std::vector<ContainerStatus>> ListWithProcesses(const Registry& registry) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  return List(registry, live, true);
}

Result<std::vector<GpuStatus>> ChangeMemory(const Registry& registry, const MemoryChange& change) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(change.container, live));
  const Reservation& before = live[found];
  if (!before.isolated) {
    return Error{Code::kUnsupported, 0,
                 "container " + before.name + " shares its GPUs without limits",
                 "`mode: share` of this node says so: there is no limit to change"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto chosen, ChosenGpus(before, change.gpu));
  CGPU_ASSIGN_OR_RETURN(const auto after, Changed(before, chosen, change.memory, live));
  const auto was = StatusIn(registry.Ask(before.id, AdminRequest{}));
  CGPU_TRY(Apply(registry, lock, before, after, chosen));
  const auto status = StatusIn(registry.Ask(before.id, AdminRequest{}));
  NoteMemorySet(was.ok() ? *was : StatusFrom(before), after, chosen);
  CGPU_TRY(registry.Update(lock, Settled(before, after, status)));
  std::vector<GpuStatus> gpus;
  for (const std::size_t i : chosen) {
    const std::vector<GpuStatus>& now = status.ok() ? status.value().gpus : StatusFrom(after).gpus;
    if (i < now.size()) {
      gpus.push_back(now[i]);
    }
  }
  return gpus;
}

}  // namespace cgpu
