// A GPU's encoder sessions: a pool that all its users share. The driver's kernel part knows
// nothing of it; the firmware counts.
#ifndef CGPU_SIM_MODEL_ENCODER_SESSIONS_H_
#define CGPU_SIM_MODEL_ENCODER_SESSIONS_H_

#include <map>

#include "rm/nv_types.h"

namespace cgpu::sim {

// That a session can be given back by a client that took none, and comes back when its client
// goes, is an assumption: neither is on record. Thread-compatible.
class EncoderSessions {
 public:
  explicit EncoderSessions(rm::NvU32 most) : most_(most) {}

  // Takes a session; returns false when all are taken.
  [[nodiscard]] bool Take(rm::NvHandle client) {
    if (Taken() >= most_) {
      return false;
    }
    ++taken_[client];
    return true;
  }
  // Gives back one of the client's own, else anybody's. Returns false when none is taken.
  [[nodiscard]] bool Give(rm::NvHandle client) {
    auto found = taken_.find(client);
    if (found == taken_.end()) {
      found = taken_.begin();
    }
    if (found == taken_.end()) {
      return false;
    }
    if (--found->second == 0) {
      taken_.erase(found);
    }
    return true;
  }
  void Forget(rm::NvHandle client) { taken_.erase(client); }

  [[nodiscard]] rm::NvU32 Taken() const {
    rm::NvU32 sum = 0;
    for (const auto& [client, count] : taken_) {
      sum += count;
    }
    return sum;
  }

 private:
  const rm::NvU32 most_;
  std::map<rm::NvHandle, rm::NvU32> taken_;  // no entry is 0
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_ENCODER_SESSIONS_H_
