// Asks the exporters of many Kubernetes nodes at once.
#ifndef CGPU_FLEET_ASK_H_
#define CGPU_FLEET_ASK_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/pods.h"

namespace cgpu::fleet {

struct AskLimits {
  std::chrono::milliseconds time{2000};                        // for each answer
  std::size_t answer_bytes = std::size_t{8} << 20;             // of one
  std::size_t bytes_of_all_together = std::size_t{256} << 20;  // later ones are refused
};

// Returns the answers to /api/overview, in the order of `exporters`. They are asked in parallel,
// directly and not by a proxy. `token`: what they want to be shown. kUnavailable: no answer came in
// time, or one that is too long. kPermission: the exporter wants another token. kInvalid: it
// answers with another status than 200. For any thread; waits.
[[nodiscard]] std::vector<Result<std::string>> AskExporters(const std::vector<Exporter>& exporters,
                                                            const std::string& token,
                                                            const AskLimits& limits = {});

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_ASK_H_
