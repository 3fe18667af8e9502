// Measures what processes got of the GPUs, from the driver's list of context switches.
//
// For one thread. It asks the driver when it begins to measure a GPU, and once a second where it
// counts use. For the rest it only reads memory.
#ifndef CGPU_CGPUD_MEASURE_H_
#define CGPU_CGPUD_MEASURE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "governor/meter.h"
#include "governor/use_counter.h"
#include "rmclient/switches.h"
#include "rmclient/utilisation.h"

namespace cgpu {

class Measuring {
 public:
  // kSwitches: Read() alone. kUse: Used(), too.
  enum class What : std::uint8_t { kSwitches, kUse };
  // `node`: as FindNode() takes it.
  Measuring(std::string node, What what) : node_(std::move(node)), what_(what) {}

  // Measures these GPUs and no others from now on. Returns lines for the log: one, once, for a GPU
  // whose driver does not tell.
  [[nodiscard]] std::vector<std::string> Watch(const std::set<std::string>& uuids);

  // Returns the use by GPU, for those on which so many nanoseconds were measured since the last
  // time.
  [[nodiscard]] std::map<std::string, governor::Meter::Use> Read(
      const std::map<std::string, std::uint64_t>& least_ns);
  struct Use {
    std::optional<governor::UseCounter::Use> engine;  // nothing: the driver does not say
    double switches_ns = 0;                           // time that `waiting_ns` is of
    // Time that others had between two time slices (Meter::Part), by process.
    std::map<std::uint32_t, double> waiting_ns;
    // How often a part of the driver's lists was overwritten before it was read. Without switches,
    // `engine` divides the time of some samples as an estimate. Without samples, it lacks time.
    std::uint64_t gaps = 0;
  };
  // Returns what processes used of the watched GPUs since the last time, by GPU. Call Read()
  // before, as often as Rest() says. The counts are up to 1.2 s behind.
  [[nodiscard]] std::map<std::string, Use> Used();
  // Returns how long to wait before the next Read(), if any() is true: longer while nothing changes
  // hands.
  [[nodiscard]] std::chrono::milliseconds Rest() const {
    return std::chrono::milliseconds(still_ < kStill ? 100 : 1'000);
  }
  [[nodiscard]] bool any() const { return !gpus_.empty(); }
  [[nodiscard]] bool watches(const std::string& uuid) const { return gpus_.contains(uuid); }

 private:
  static constexpr unsigned kStill = 10;  // readings without news after which they become rare

  struct Gpu {
    std::unique_ptr<rmclient::SwitchLog> log;
    governor::Meter meter;
    governor::UseCounter counter;
    Use use;                                     // since Used(), but for `engine`
    std::vector<rmclient::Utilisation> waiting;  // whose switches are perhaps not all read
    std::uint64_t newest_ns = 0;                 // time of the newest sample
    bool told = true;                            // the driver gives samples
  };

  [[nodiscard]] Result<> Open();
  [[nodiscard]] Result<> Begin(const std::string& uuid);
  void Sample();

  const std::string node_;
  const What what_;
  std::unique_ptr<rmclient::Client> client_;  // outlives the GPUs
  std::vector<rmclient::Gpu> opened_;
  std::map<std::string, Gpu> gpus_;
  std::set<std::string> refused_;  // GPUs whose driver does not tell
  unsigned still_ = 0;
  std::chrono::steady_clock::time_point sampled_;  // time of the last Sample()
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_MEASURE_H_
