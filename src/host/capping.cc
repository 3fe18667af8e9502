#include "host/capping.h"

#include <algorithm>
#include <cstdio>

#include "calibration/record.h"

namespace cgpu {

CardMeans MeansOf(const Node& node, const std::string& uuid) {
  CardMeans means;
  if (const auto record = ReadCard(CardsOf(node), uuid, node.driver).value_or({})) {
    means.card = record->calibration.card;
  }
  means.capping = governor::CappingBy(means.card, node.caps);
  return means;
}

void TellIfNoCap(const Node& node, const ComputeRequest& asked) {
  const bool wanted = asked.percent || asked.max_percent;
  if (wanted && std::ranges::any_of(node.gpus, [&](const Gpu& gpu) {
        return MeansOf(node, gpu.uuid).capping == governor::Capping::kNone;
      })) {
    (void)std::fputs(
        "cgpu: a percentage is a share on these GPUs, and no cap: "
        "it is exceeded while others leave time (`cgpu policy` says where)\n",
        stderr);
  }
}

}  // namespace cgpu
