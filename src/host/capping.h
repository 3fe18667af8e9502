// Says by what means containers are held to a part of a GPU's time: what its calibration showed
// (calibration/record.h), and what is known of its node.
#ifndef CGPU_HOST_CAPPING_H_
#define CGPU_HOST_CAPPING_H_

#include <string>

#include "governor/card.h"
#include "grant/request.h"
#include "host/node.h"

namespace cgpu {

struct CardMeans {
  governor::Card card;
  governor::Capping capping = governor::Capping::kNone;
};

// Returns what is known of a GPU of `node`. Reads the record each time: a calibration may be made
// at any time. A record that cannot be read is none.
[[nodiscard]] CardMeans MeansOf(const Node& node, const std::string& uuid);

// Tells on stderr if `asked` has a percentage and some GPU of the node has no means to cap.
void TellIfNoCap(const Node& node, const ComputeRequest& asked);

}  // namespace cgpu

#endif  // CGPU_HOST_CAPPING_H_
