// Has each GPU asked how it takes orders (`cgpu calibrate`) that nobody has asked with this driver
// yet, while it is idle. A container that comes meanwhile ends that: it is asked again later.
//
// For one thread. It waits for no calibration: `cgpu calibrate` is a child process, which ends with
// the thread that made it.
#ifndef CGPU_CGPUD_CALIBRATING_H_
#define CGPU_CGPUD_CALIBRATING_H_

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "host/registry.h"

namespace cgpu {

class Calibrating {
 public:
  using Clock = std::chrono::steady_clock;
  // `node`: as FindNode() takes it. `allowed`: false, and it does nothing.
  Calibrating(const Registry& registry, std::string node, bool allowed)
      : registry_(registry), node_(std::move(node)), allowed_(allowed) {}
  Calibrating(const Calibrating&) = delete;
  Calibrating& operator=(const Calibrating&) = delete;
  ~Calibrating() { Stop(); }

  // Looks at what is to be done now: call it when containers come or go, and at next(). Returns
  // lines for the log.
  [[nodiscard]] std::vector<std::string> Look(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next() const { return next_; }

  // Says that a child has ended, by its wait status. Returns nothing if it is not this one's; else
  // lines for the log.
  [[nodiscard]] std::optional<std::vector<std::string>> Ended(pid_t child, int status);
  // Kills the child, if there is one.
  void Stop();

 private:
  [[nodiscard]] Result<std::set<std::string>> InUse() const;
  [[nodiscard]] Result<> Start(const std::string& uuid);

  const Registry& registry_;
  const std::string node_;
  const bool allowed_;
  std::optional<Clock::time_point> next_;
  std::map<std::string, Clock::time_point> idle_;  // when each GPU may be asked, at the earliest
  std::map<std::string, std::chrono::seconds> backoff_;
  std::set<std::string> told_;  // GPUs of which the log has why they were not asked
  pid_t child_ = 0;             // 0: there is none
  std::string asked_;           // the GPU that it asks
  bool came_ = false;           // it was ended for a container
  UniqueFd said_;               // file with what it says
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_CALIBRATING_H_
