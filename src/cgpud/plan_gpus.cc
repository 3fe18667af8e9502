#include "cgpud/plan_gpus.h"

#include "governor/plan.h"
#include "host/node.h"

namespace cgpu {
namespace {

governor::Rules RulesFor(const GpuSettings& settings, unsigned max_inst, const CardMeans& means) {
  governor::Rules rules;
  rules.policy = settings.PolicyNow();
  rules.max_inst = settings.max_inst.value_or(max_inst);
  rules.prio_ratio = settings.prio_ratio.value_or(governor::kDefaultPrioRatio);
  rules.capping = means.capping;
  constexpr std::uint32_t kMostSwitchUs = 1'000;  // a calibration that saw more is not believed
  rules.switch_us = std::min(means.card.copy_switch_us, kMostSwitchUs);
  return rules;
}

}  // namespace

Means MeansOfGpus(const Node& node) {
  Means means;
  for (const Gpu& gpu : node.gpus) {
    means[gpu.uuid] = MeansOf(node, gpu.uuid);
  }
  return means;
}

CardMeans MeansIn(const Means& means, const std::string& uuid) {
  const auto known = means.find(uuid);
  return known == means.end() ? CardMeans() : known->second;
}

Means MeansOfNode(const std::string& name) {
  const auto node = FindNode(name);
  return node.ok() ? MeansOfGpus(*node) : Means();
}

Result<std::map<std::string, PlannedGpu>> PlanGpus(const Registry& registry, unsigned max_inst,
                                                   const Means& means) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  return PlanGpus(registry, lock, live, max_inst, means);
}

std::map<std::string, PlannedGpu> PlanGpus(const Registry& registry, const RegistryLock& lock,
                                           const std::vector<Reservation>& live, unsigned max_inst,
                                           const Means& means) {
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
    const governor::Rules rules = RulesFor(*settings, max_inst, MeansIn(means, uuid));
    const auto orders = governor::Plan(rules, members[uuid]);
    gpu.policy = rules.policy;
    const auto shares = governor::Shares(rules, members[uuid]);
    const auto caps = governor::Caps(rules, members[uuid]);
    gpu.idles = !caps.empty();
    gpu.by_slices = rules.policy != governor::Policy::kNative;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      gpu.members[i].order = orders[i];
      gpu.members[i].promised = shares[i];
      gpu.members[i].cap = caps.empty() ? 1 : caps[i];
      gpu.by_slices = gpu.by_slices && !orders[i].high && orders[i].duty == governor::Duty{};
    }
  }
  return gpus;
}

}  // namespace cgpu
