// Helpers for tests of the managed tracker: the addresses of its memory, and a UVM that is asked.
#ifndef CGPU_BOUNDARY_MANAGED_TRACKER_TESTING_H_
#define CGPU_BOUNDARY_MANAGED_TRACKER_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "boundary/managed_tracker.h"
#include "boundary/testing.h"

namespace cgpu::boundary {

using State = ManagedTracker::Seen::State;
using Witness = ManagedTracker::Witness;

// Answers all doubts as a UVM that has something in each file's ranges.
inline void AnswerDoubts(ManagedTracker& tracker, const std::vector<AddressRanges>& files) {
  std::vector<std::pair<ManagedTracker::Doubt, std::size_t>> holders;
  for (const auto& doubt : tracker.Doubts()) {
    holders.emplace_back(doubt, std::count_if(files.begin(), files.end(), [&](const auto& file) {
                           return !Intersection({doubt.range}, file).empty();
                         }));
  }
  tracker.Resolve(holders);
}

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_TRACKER_TESTING_H_
