// What processes got of the cards, by the driver's list of context switches.
//
// For one thread. The driver is asked when a card comes to be measured; after that only memory is
// read.
#ifndef CGPU_NODE_MEASURE_H_
#define CGPU_NODE_MEASURE_H_

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
#include "rmclient/switches.h"
#include "rmclient/utilisation.h"

namespace cgpu {

class Measuring {
 public:
  // `node`: as FindNode() takes it.
  explicit Measuring(std::string node) : node_(std::move(node)) {}

  // These cards and no others from now on. Returns lines for the log: of a card whose driver does
  // not tell, once.
  [[nodiscard]] std::vector<std::string> Watch(const std::set<std::string>& uuids);

  // By card, of those on which so many nanoseconds were measured since the last time.
  [[nodiscard]] std::map<std::string, governor::Meter::Use> Read(
      const std::map<std::string, std::uint64_t>& least_ns);
  // How busy a watched card was lately; none: the driver does not say.
  [[nodiscard]] std::optional<rmclient::Utilisation> Busy(const std::string& uuid);
  // How long until Read() is to be called again, if any() is measured: longer while nothing changes
  // hands.
  [[nodiscard]] std::chrono::milliseconds Rest() const {
    return std::chrono::milliseconds(still_ < kStill ? 100 : 1'000);
  }
  [[nodiscard]] bool any() const { return !cards_.empty(); }

 private:
  static constexpr unsigned kStill = 10;  // readings without news, until it is seldom

  struct Card {
    std::unique_ptr<rmclient::SwitchLog> log;
    governor::Meter meter;
  };

  [[nodiscard]] Result<> Open();
  [[nodiscard]] Result<> Begin(const std::string& uuid);

  const std::string node_;
  std::unique_ptr<rmclient::Client> client_;  // outlives the cards
  std::vector<rmclient::Card> opened_;
  std::map<std::string, Card> cards_;
  std::set<std::string> refused_;  // whose driver does not tell
  unsigned still_ = 0;
};

}  // namespace cgpu

#endif  // CGPU_NODE_MEASURE_H_
