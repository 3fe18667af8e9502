// Keeps the events that cgpud knows of (host/event_ring.h), paced by a Chronicle. Without a place
// for events none are kept; all else goes on.
//
// For one thread. Children that serve requests report through a socket, so that all events of the
// daemon are paced together.
#ifndef CGPU_CGPUD_EVENT_KEEPER_H_
#define CGPU_CGPUD_EVENT_KEEPER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cgpud/chronicle.h"
#include "cgpud/supervisor.h"
#include "host/event_ring.h"
#include "host/registry.h"
#include "protocol/creation.h"

namespace cgpu {

class EventKeeper {
 public:
  // `version`: this program's. `before`: that of the program that this one has replaced, or "" if
  // that is not known; nothing: it is a fresh start.
  EventKeeper(std::string version, std::optional<std::string> before)
      : version_(std::move(version)), before_(std::move(before)) {}

  // Begins with the events of the start, and of containers that ended while no daemon ran. `group`:
  // may read the events. An error says why none are kept.
  [[nodiscard]] Result<> Begin(std::optional<unsigned> group, const Registry& registry);

  // Returns the descriptor to poll for reading. TakeReports() reads from it and never waits.
  [[nodiscard]] int reports() const { return reports_.get(); }
  void TakeReports();
  void Take(const Supervisor::News& news);
  // Writes what is due. Call it at next(), and whenever something was taken.
  void Flush();
  [[nodiscard]] std::optional<AuditLog::Time> next() const { return chronicle_.next(); }
  void Stop();

  // For a child that serves a request.
  void BecomeReporter() { reports_.reset(); }
  void ReportStart(const Reservation& reservation, unsigned user) const;
  // `who`: what asked, for a sentence.
  void ReportRefusal(const CreationRequest& request, unsigned user, const std::string& who,
                     const Error& error) const;

 private:
  void Report(Event event, unsigned user) const;
  void TellOfUnseenEnds(const std::vector<Event>& past, const std::vector<Reservation>& live);
  void TellOfEnd(const Supervisor::Gone& gone);

  const std::string version_;
  const std::optional<std::string> before_;
  const EventRing ring_;
  Chronicle chronicle_{[this](const std::vector<Event>& events) { (void)ring_.Append(events); }};
  UniqueFd reports_;
  UniqueFd reporting_;  // the children's end
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_EVENT_KEEPER_H_
