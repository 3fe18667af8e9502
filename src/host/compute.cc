#include "host/compute.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include "host/container_events.h"
#include "host/event_ring.h"

namespace cgpu {
namespace {

// Returns what the others that live on the GPU were promised, without the one of that id.
std::vector<ComputeRequest> OthersOn(const Gpu& gpu, const std::vector<Reservation>& live,
                                     std::string_view except) {
  std::vector<ComputeRequest> others;
  for (const Reservation& reservation : live) {
    const bool there = std::ranges::any_of(
        reservation.gpus, [&](const GpuGrant& grant) { return grant.gpu.uuid == gpu.uuid; });
    if (there && reservation.isolated && reservation.id != except) {
      others.push_back(reservation.compute);
    }
  }
  return others;
}

bool ChoosesNothing(const std::vector<ComputeRequest>& requests) {
  return std::ranges::all_of(requests, [](const ComputeRequest& one) {
    return governor::ChosenBy(one) == governor::ChosenBy({});
  });
}

Result<> HonoursAll(const Gpu& gpu, governor::Policy policy,
                    const std::vector<ComputeRequest>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto honoured = governor::CanHonour(gpu, policy, std::span(all).first(i), all[i]);
    if (honoured.ok()) {
      continue;
    }
    Error error = honoured.error();
    error.what = "a container on GPU " + std::to_string(gpu.index) +
                 " was promised what the policy " + std::string(NameOf(policy)) +
                 " cannot give: " + error.what;
    error.hint = "see which with `cgpu ps -v`; change it with `cgpu set`, or end it";
    return error;
  }
  return {};
}

// Sets the settings if their policy can give what the GPU's containers were promised.
Result<> SetHonoured(const Registry& registry, const RegistryLock& lock, const Gpu& gpu,
                     const GpuSettings& settings) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  CGPU_TRY(HonoursAll(gpu, settings.PolicyNow(), OthersOn(gpu, live, {})));
  return registry.SetGpu(lock, gpu.uuid, settings);
}

std::string SentenceOf(const GpuSettings& settings) {
  std::string text(NameOf(settings.PolicyNow()));
  if (settings.max_inst) {
    text += ", max-inst " + std::to_string(*settings.max_inst);
  }
  if (settings.prio_ratio) {
    text += ", prio-ratio " + std::to_string(*settings.prio_ratio);
  }
  return text;
}

void NotePolicySet(const Gpu& gpu, const GpuSettings& before, const GpuSettings& after) {
  NoteEvent(events::kPolicySet, {{"gpu", std::to_string(gpu.index)},
                                 {"uuid", gpu.uuid},
                                 {"from", SentenceOf(before)},
                                 {"to", SentenceOf(after)}});
}

}  // namespace

Result<> AdmitCompute(const Registry& registry, const RegistryLock& lock,
                      const std::vector<GpuGrant>& gpus, const std::vector<Reservation>& live,
                      const ComputeRequest& wanted) {
  std::vector<std::pair<std::string, GpuSettings>> chosen;
  for (const GpuGrant& grant : gpus) {
    CGPU_ASSIGN_OR_RETURN(auto settings, registry.SettingsOf(lock, grant.gpu.uuid));
    const auto others = OthersOn(grant.gpu, live, {});
    const bool may_choose = others.empty() || (ChoosesNothing(others) && !ChoosesNothing({wanted}));
    if (may_choose && settings.chosen != governor::ChosenBy(wanted)) {
      settings.chosen = governor::ChosenBy(wanted);
      chosen.emplace_back(grant.gpu.uuid, settings);
    }
    CGPU_TRY(governor::CanHonour(grant.gpu, settings.PolicyNow(), others, wanted));
  }
  for (const auto& [uuid, settings] : chosen) {
    CGPU_TRY(registry.SetGpu(lock, uuid, settings));
  }
  return {};
}

Result<std::vector<GpuSettings>> SettingsOf(const Registry& registry,
                                            const std::vector<Gpu>& gpus) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  std::vector<GpuSettings> all;
  for (const Gpu& gpu : gpus) {
    CGPU_ASSIGN_OR_RETURN(const auto settings, registry.SettingsOf(lock, gpu.uuid));
    all.push_back(settings);
  }
  return all;
}

Result<> ChangeGpu(const Registry& registry, const Gpu& gpu, const SavedSettings& change,
                   const std::string& saved) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto before, registry.SettingsOf(lock, gpu.uuid));
  GpuSettings settings = before;
  settings.policy = change.policy.value_or(settings.policy);
  settings.max_inst = change.max_inst ? change.max_inst : settings.max_inst;
  settings.prio_ratio = change.prio_ratio ? change.prio_ratio : settings.prio_ratio;
  SavedByGpu kept;
  if (!saved.empty()) {
    CGPU_ASSIGN_OR_RETURN(kept, ReadSaved(saved));
  }
  CGPU_TRY(SetHonoured(registry, lock, gpu, settings));
  NotePolicySet(gpu, before, settings);
  if (saved.empty()) {
    return {};
  }
  kept[gpu.uuid] = Merged(kept[gpu.uuid], change);
  return WriteSaved(saved, kept);
}

Result<> ResetGpu(const Registry& registry, const Gpu& gpu,
                  std::optional<governor::Policy> configured, const std::string& saved) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto before, registry.SettingsOf(lock, gpu.uuid));
  GpuSettings settings;
  settings.policy = configured;
  settings.chosen = before.chosen;
  SavedByGpu kept;
  if (!saved.empty()) {
    CGPU_ASSIGN_OR_RETURN(kept, ReadSaved(saved));
  }
  CGPU_TRY(SetHonoured(registry, lock, gpu, settings));
  NotePolicySet(gpu, before, settings);
  return kept.erase(gpu.uuid) == 0 ? Result<>() : WriteSaved(saved, kept);
}

Result<> RestoreGpu(const Registry& registry, const std::string& uuid, const SavedSettings& saved) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(auto settings, registry.SettingsOf(lock, uuid));
  settings.policy = settings.policy ? settings.policy : saved.policy.value_or(std::nullopt);
  settings.max_inst = settings.max_inst ? settings.max_inst : saved.max_inst;
  settings.prio_ratio = settings.prio_ratio ? settings.prio_ratio : saved.prio_ratio;
  return registry.SetGpu(lock, uuid, settings);
}

Result<> SetPolicyAtStart(const Registry& registry, const std::string& uuid,
                          governor::Policy policy) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(auto settings, registry.SettingsOf(lock, uuid));
  if (settings.policy && settings.policy != policy) {
    return Error{Code::kConflict, 0,
                 "GPU " + uuid + " keeps the compute policy " +
                     std::string(NameOf(*settings.policy)) +
                     ", which was set while the machine runs: " + std::string(NameOf(policy)) +
                     " of the settings does not hold",
                 "set it with: cgpu policy"};
  }
  settings.policy = policy;
  return registry.SetGpu(lock, uuid, settings);
}

Result<ComputeRequest> ChangeCompute(const Registry& registry, const ComputeChange& change) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(change.container, live));
  Reservation after = (live)[found];
  ComputeRequest& compute = after.compute;
  compute.percent = change.percent.value_or(compute.percent);
  compute.max_percent = change.max_percent.value_or(compute.max_percent);
  compute.weight = change.weight.value_or(compute.weight);
  compute.high_priority = change.high_priority.value_or(compute.high_priority);
  if (compute.max_percent && compute.percent && *compute.max_percent < *compute.percent) {
    return Error{Code::kInvalid, 0, "its maximum would be less than what it is guaranteed",
                 "give both: --compute and --compute-max"};
  }
  for (const GpuGrant& grant : after.gpus) {
    CGPU_ASSIGN_OR_RETURN(const auto settings, registry.SettingsOf(lock, grant.gpu.uuid));
    CGPU_TRY(governor::CanHonour(grant.gpu, settings.PolicyNow(),
                                 OthersOn(grant.gpu, live, after.id), compute));
  }
  CGPU_TRY(registry.Update(lock, after));
  EventFields fields = NamesOf(after);
  fields["from"] = SentenceOf(live[found].compute);
  fields["to"] = SentenceOf(compute);
  NoteEvent(events::kComputeSet, std::move(fields));
  return compute;
}

Result<> AnswersOrders(const Registry& registry, const std::string& container) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  CGPU_ASSIGN_OR_RETURN(const auto found, FindReservation(container, live));
  const Reservation& reservation = (live)[found];
  const auto answer = registry.Ask(reservation.id, AdminRequest{});
  if (answer.ok() || answer.error().code == Code::kNotFound) {
    return {};
  }
  return Error{
      Code::kUnavailable, 0,
      "the share is written down, but the shim of container " + reservation.id +
          " does not answer (" + answer.error().what + "): what it had holds until it does",
      "cgpud sends the order again; to end the container: cgpu upgrade --force " + reservation.id};
}

void TellIfNobodyHoldsShares(const std::string& daemon) {
  if (!ConnectToDaemon(daemon).ok()) {
    (void)std::fputs(
        "cgpu: shares of compute time hold when cgpud runs, and it does not: systemctl start "
        "cgpud\n",
        stderr);
  }
}

}  // namespace cgpu
