#include "cgpud/plan_gpus.h"

#include "governor/plan.h"
#include "host/node.h"

namespace cgpu {
namespace {

governor::Rules RulesFor(const GpuSettings& settings, unsigned max_inst, bool can_suspend) {
  governor::Rules rules;
  rules.policy = settings.PolicyNow();
  rules.max_inst = settings.max_inst.value_or(max_inst);
  rules.prio_ratio = settings.prio_ratio.value_or(governor::kDefaultPrioRatio);
  rules.can_suspend = can_suspend;
  return rules;
}

}  // namespace

Result<std::map<std::string, PlannedGpu>> PlanGpus(const Registry& registry, unsigned max_inst,
                                                   const std::set<std::string>& suspendable) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  return PlanGpus(registry, lock, live, max_inst, suspendable);
}

std::map<std::string, PlannedGpu> PlanGpus(const Registry& registry, const RegistryLock& lock,
                                           const std::vector<Reservation>& live, unsigned max_inst,
                                           const std::set<std::string>& suspendable) {
  std::map<std::string, PlannedGpu> gpus;
  std::map<std::string, std::vector<governor::Member>> members;
  for (const Reservation& reservation : live) {
    for (const GpuGrant& grant : reservation.gpus) {
      if (reservation.isolated) {
        // The oldest container has the first place.
        auto& there = members[grant.gpu.uuid];
        there.push_back({reservation.compute, static_cast<unsigned>(there.size())});
        gpus[grant.gpu.uuid].members.push_back({reservation.id, reservation.shim_uid, {}, 0});
      }
    }
  }
  for (auto& [uuid, gpu] : gpus) {
    const auto settings = registry.SettingsOf(lock, uuid);
    if (!settings.ok()) {
      gpu.members.clear();  // it stays as it is there
      continue;
    }
    const governor::Rules rules = RulesFor(*settings, max_inst, suspendable.contains(uuid));
    const auto orders = governor::Plan(rules, members[uuid]);
    gpu.policy = rules.policy;
    const auto shares = governor::Shares(rules, members[uuid]);
    gpu.by_slices = rules.policy != governor::Policy::kNative;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      gpu.members[i].order = orders[i];
      gpu.members[i].promised = shares[i];
      gpu.by_slices = gpu.by_slices && !orders[i].high && orders[i].duty == governor::Duty{};
    }
  }
  return gpus;
}

std::set<std::string> SuspendableGpus(const std::string& name) {
  std::set<std::string> gpus;
  const auto node = FindNode(name);
  if (node.ok() && node->caps) {
    for (const Gpu& gpu : node->gpus) {
      gpus.insert(gpu.uuid);
    }
  }
  return gpus;
}

}  // namespace cgpu
