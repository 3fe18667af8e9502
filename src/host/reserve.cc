#include "host/reserve.h"

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>
#include <vector>

#include "host/compute.h"
#include "host/machine_node.h"
#include "host/pod_grants.h"
#include "host/shim_process.h"
#include "protocol/admin.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kIdLength = 12;  // number of hex digits
constexpr std::size_t kDrawnId = 64;   // the same of an engine's id
// Time for which containers that are about to end are waited for.
constexpr std::chrono::seconds kEndingTime{3};

struct Random {
  std::string id;
  unsigned number = 0;
};

std::string HexOf(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Result<Random> Draw() {
  unsigned char bytes[kIdLength / 2 + sizeof(unsigned)];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    return ErrnoError(Code::kInternal, errno, "cannot draw random numbers");
  }
  Random random;
  random.id = HexOf(std::span(bytes).first(kIdLength / 2));
  std::memcpy(&random.number, bytes + kIdLength / 2, sizeof(random.number));
  return random;
}

// Returns the id. Docker's, podman's and containerd's ids are 64 hex digits, of which their users
// see the first twelve: where these are free, `cgpu ps` shows the same.
std::string IdFor(const std::string& engine_id, const std::string& drawn,
                  const std::vector<Reservation>& live) {
  std::string id = engine_id.substr(0, kIdLength);
  const bool free =
      std::ranges::none_of(live, [&](const Reservation& other) { return other.id == id; });
  return IsId(id) && free ? id : drawn;
}

bool IsTaken(const std::string& name, const std::vector<Reservation>& live) {
  return std::ranges::any_of(live, [&](const Reservation& other) { return other.name == name; });
}

// Makes up a name such as "train.py-3f2a": the stem, as far as a name may have it, and as much of
// the id as makes the name the only one.
std::string MadeUpName(const std::string& wanted, const std::string& id,
                       const std::vector<Reservation>& live) {
  std::string stem = wanted.substr(0, 48);
  std::ranges::replace_if(stem, [](char c) { return !IsName(std::string("a") + c); }, '-');
  stem = IsName(stem) ? stem : "c" + stem;
  std::size_t digits = 4;
  while (digits < id.size() && IsTaken(stem + "-" + id.substr(0, digits), live)) {
    ++digits;
  }
  return stem + "-" + id.substr(0, digits);
}

// Returns the name. A container engine has already given its containers names or ids.
std::string NameFor(const SliceRequest& request, const std::string& id,
                    const std::vector<Reservation>& live) {
  const bool fits =
      !request.engine_id.empty() && IsName(request.stem) && !IsTaken(request.stem, live);
  return fits ? request.stem : MadeUpName(request.stem, id, live);
}

Result<> CheckName(const std::string& name, const std::vector<Reservation>& live) {
  if (!IsName(name)) {
    return Error{Code::kInvalid, 0, "\"" + name + "\" cannot be a container's name",
                 "use up to 64 letters, digits, and - . _ after the first"};
  }
  for (const Reservation& other : live) {
    if (other.name == name) {
      return Error{Code::kConflict, 0,
                   "the name \"" + name + "\" is in use by container " + other.id,
                   "choose another, or end that one"};
    }
  }
  return {};
}

Result<std::vector<GpuUse>> UsesOf(const Registry& registry, const RegistryLock& lock,
                                   const std::vector<Gpu>& gpus,
                                   const std::vector<Reservation>& live, unsigned max_inst) {
  std::vector<GpuUse> uses = GpuUses(gpus, live);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    CGPU_ASSIGN_OR_RETURN(const auto settings, registry.SettingsOf(lock, gpus[i].uuid));
    uses[i].max_inst = settings.max_inst.value_or(max_inst);
  }
  return uses;
}

Result<> Announce(const Registry& registry, const RegistryLock& lock, bool with_agent,
                  Reserved& reserved) {
  CGPU_ASSIGN_OR_RETURN(auto admin, registry.Add(lock, reserved.reservation));
  reserved.admin = std::move(admin);
  if (!with_agent) {
    return {};
  }
  auto agent = registry.AddAgent(lock, reserved.reservation.id, reserved.reservation.user);
  if (!agent.ok()) {
    reserved.admin.reset();
    registry.RemoveIfDead(lock, reserved.reservation.id);
    return agent.error();
  }
  reserved.agent = std::move(*agent);
  return {};
}

// Returns whether trying again is worthwhile: one of the containers in the way has ended, or ends
// now. Call it without the registry's lock, which their launchers take.
bool WaitForAnEnd(const Registry& registry, const std::vector<std::string>& ids,
                  Clock::time_point until) {
  std::vector<Question> questions;
  questions.reserve(ids.size());
  for (const std::string& id : ids) {
    questions.push_back({id});
  }
  const auto answers = registry.AskAll(questions);
  std::vector<UniqueFd> streams;
  std::vector<pollfd> ends;  // POLLHUP is always reported
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto status =
        answers[i].ok() ? DecodeStatus(*answers[i]) : Result<ContainerStatus>(answers[i].error());
    if (status.ok() && status->state != kEnded) {
      continue;
    }
    auto stream = registry.Watch(ids[i]);
    if (!stream.ok()) {
      return true;
    }
    if (!status.ok()) {
      continue;  // its shim is stopped
    }
    ends.push_back({stream->get(), 0, 0});
    streams.push_back(std::move(*stream));
  }
  int ready = 0;
  while (!ends.empty() && ready == 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) {
      return false;
    }
    ready = poll(ends.data(), ends.size(), static_cast<int>(left));
    ready = ready < 0 && errno == EINTR ? 0 : ready;
  }
  return ready > 0;
}

// Waits until the container that had this container engine's id before has ended: one that is
// restarted keeps its id, here too. Ids of 64 digits are drawn, so no other container has it.
void WaitForPredecessor(const Registry& registry, const std::string& engine_id,
                        Clock::time_point until) {
  while (engine_id.size() == kDrawnId && Clock::now() < until) {
    const auto live = registry.Live();
    if (!live.ok()) {
      return;
    }
    const auto before = std::ranges::find(*live, engine_id, &Reservation::engine_id);
    const auto stream = before != live->end() ? registry.Watch(before->id)
                                              : Error{Code::kNotFound, 0, "there is none", {}};
    if (!stream.ok()) {
      return;
    }
    pollfd end{stream->get(), 0, 0};  // POLLHUP is always reported
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    (void)poll(&end, 1, std::max(0, static_cast<int>(left)));
  }
}

// Reserves, without waiting. Puts the containers that are in the way into `in_the_way`.
Result<Reserved> ReserveNow(const Registry& registry, const Node& node, const SliceRequest& request,
                            std::vector<std::string>& in_the_way) {
  CGPU_ASSIGN_OR_RETURN(const auto random, Draw());
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  if (!request.pod.empty() && !HasPodGrant(request.pod)) {
    return Error{Code::kUnavailable, 0, "the pod " + request.pod + " has ended", {}};
  }
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  in_the_way.clear();
  for (const Reservation& other : live) {
    in_the_way.push_back(other.id);
  }
  Reserved reserved;
  Reservation& reservation = reserved.reservation;
  reservation.id = IdFor(request.engine_id, random.id, live);
  reservation.name = request.name.empty() ? NameFor(request, reservation.id, live) : request.name;
  CGPU_TRY(CheckName(reservation.name, live));
  CGPU_ASSIGN_OR_RETURN(const auto uses, UsesOf(registry, lock, node.gpus, live, request.max_inst));
  CGPU_ASSIGN_OR_RETURN(auto grant, MakeGrant(request.resources, node.gpus, uses));
  reserved.grant = std::move(grant);
  if (request.isolated) {
    CGPU_TRY(AdmitCompute(registry, lock, reserved.grant.gpus, live, request.compute));
  }
  if (geteuid() == 0) {
    CGPU_TRY(CheckOpenToShims(node, reserved.grant));
  }
  reservation.user = request.user;
  reservation.shim_uid = geteuid() == 0 ? PickShimUid(live, random.number) : geteuid();
  reservation.since = static_cast<std::uint64_t>(std::time(nullptr));
  reservation.engine_id = request.engine_id;
  reservation.names_file = request.names_file;
  reservation.pod = request.pod;
  reservation.container = request.container;
  reservation.origin = request.origin;
  reservation.isolated = request.isolated;
  reservation.compute = request.compute;
  reservation.gpus = reserved.grant.gpus;
  for (GpuGrant& granted : reserved.grant.gpus) {
    granted.limit_bytes = request.isolated ? granted.limit_bytes : granted.gpu.memory_bytes;
  }
  CGPU_TRY(Announce(registry, lock, request.agent, reserved));
  return reserved;
}

}  // namespace

Result<std::string> DrawWord() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ErrnoError(Code::kInternal, errno, "cannot draw random numbers");
  }
  return HexOf(bytes);
}

Result<Reserved> Reserve(const Registry& registry, const Node& node, const SliceRequest& request) {
  const auto until = Clock::now() + kEndingTime;
  WaitForPredecessor(registry, request.engine_id, until);
  for (;;) {
    std::vector<std::string> in_the_way;
    auto reserved = ReserveNow(registry, node, request, in_the_way);
    const bool refused = !reserved.ok() && (reserved.error().code == Code::kExhausted ||
                                            reserved.error().code == Code::kConflict);
    if (!refused || Clock::now() >= until || !WaitForAnEnd(registry, in_the_way, until)) {
      return reserved;
    }
  }
}

Giveback::~Giveback() {
  if (const auto lock = registry_.Lock(); lock.ok()) {
    registry_.RemoveIfDead(lock.value(), id_);
  }
}

ShimConfig ConfigFor(const Reservation& reservation, const Node& node, const Grant& grant) {
  ShimConfig config;
  config.id = reservation.id;
  config.name = reservation.name;
  config.user = reservation.user;
  config.since = reservation.since;
  Describe(node, grant, config);
  return config;
}

}  // namespace cgpu
