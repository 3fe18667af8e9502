// The hurry in which work that nobody waits for is to end soon, undone: an upgrade waits for
// housekeeping to rest. Thread-safe.
#ifndef CGPU_SHIM_HURRY_H_
#define CGPU_SHIM_HURRY_H_

#include <atomic>

namespace cgpu::shim {

class Hurry {
 public:
  void Set(bool on) { on_.store(on); }
  [[nodiscard]] bool on() const { return on_.load(); }
  // Returns true if work is to end soon. `at_leisure`: no call waits for it.
  [[nodiscard]] bool CutsShort(bool at_leisure) const { return at_leisure && on(); }

 private:
  std::atomic<bool> on_{false};
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HURRY_H_
