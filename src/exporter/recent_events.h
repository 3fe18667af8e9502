// Keeps the newest events of this host (host/event_ring.h) in memory.
#ifndef CGPU_EXPORTER_RECENT_EVENTS_H_
#define CGPU_EXPORTER_RECENT_EVENTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/event_ring.h"

namespace cgpu::exporter {

inline constexpr std::size_t kRecentEvents = 50;

// For one thread at a time.
class RecentEvents {
 public:
  explicit RecentEvents(std::string folder = kEventsFolder) : folder_(std::move(folder)) {}

  // Returns the newest kRecentEvents, the newest one first. None where no events are kept.
  [[nodiscard]] const std::vector<Event>& Read();

 private:
  const std::string folder_;
  std::optional<EventReader> reader_;
  std::vector<Event> newest_;
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_RECENT_EVENTS_H_
