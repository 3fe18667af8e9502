#include "cgpud/event_keeper.h"

#include <sys/socket.h>

#include <chrono>
#include <map>

#include "host/container_events.h"

namespace cgpu {
namespace {

Chronicle::Now Now() {
  return {std::chrono::steady_clock::now(), NowMs()};
}

}  // namespace

Result<> EventKeeper::Begin(std::optional<unsigned> group, const Registry& registry) {
  int reports[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) == 0) {
    reports_.reset(reports[0]);
    reporting_.reset(reports[1]);
  }
  CGPU_TRY(ring_.Make(group));
  CGPU_ASSIGN_OR_RETURN(auto reader, EventReader::Open());
  CGPU_ASSIGN_OR_RETURN(const auto past, reader.More());
  chronicle_.Remember(past);
  if (const auto live = registry.Live(); live.ok()) {
    TellOfUnseenEnds(past, *live);
  }
  Event start{NowMs(), events::kDaemonStarted, {{"version", version_}}};
  if (before_) {
    start = {NowMs(), events::kDaemonUpgraded, {{"to", version_}}};
    if (!before_->empty()) {
      start.fields["from"] = *before_;
    }
  }
  chronicle_.Tell(std::move(start), 0, Now());
  return {};
}

void EventKeeper::TellOfUnseenEnds(const std::vector<Event>& past,
                                   const std::vector<Reservation>& live) {
  std::map<std::string, EventFields> open;  // by id
  for (const Event& event : past) {
    const std::string id = TextOf(event, "container");
    if (event.kind == events::kStarted) {
      open[id] = {{"container", id}, {"name", TextOf(event, "name")}};
    } else if (event.kind == events::kEnded) {
      open.erase(id);
    }
  }
  for (const Reservation& one : live) {
    open.erase(one.id);
  }
  for (auto& [id, fields] : open) {
    fields["why"] = "nobody saw why, since cgpud did not run";
    chronicle_.Tell({NowMs(), events::kEnded, std::move(fields)}, 0, Now());
    chronicle_.End(id, Now());
  }
}

void EventKeeper::TakeReports() {
  char line[kMaxEventLine];
  for (ssize_t n = 0; (n = recv(reports_.get(), line, sizeof(line), MSG_DONTWAIT)) > 0;) {
    if (auto event = DecodeEvent({line, static_cast<std::size_t>(n)})) {
      const auto user = static_cast<unsigned>(NumberOf(*event, "uid"));
      chronicle_.Tell(std::move(*event), user, Now());
    }
  }
}

void EventKeeper::Take(const Supervisor::News& news) {
  for (const Refusal& refusal : news.refused) {
    chronicle_.Take(refusal);
  }
  for (const Denial& denial : news.denied) {
    chronicle_.Take(denial);
  }
  for (const Supervisor::Gone& gone : news.gone) {
    chronicle_.End(gone.id, Now());
    if (gone.supervised) {  // root's `cgpu run` tells of its own
      TellOfEnd(gone);
    }
  }
}

void EventKeeper::TellOfEnd(const Supervisor::Gone& gone) {
  Event event{NowMs(),
              events::kEnded,
              {{"container", gone.id},
               {"name", gone.name},
               {"why", gone.killed  ? "cgpud killed it, since its shim ended before it"
                       : gone.ended ? "its processes have ended"
                                    : "no process of it came"}}};
  if (!gone.engine_id.empty()) {
    event.fields["engine_id"] = gone.engine_id;
  }
  chronicle_.Tell(std::move(event), gone.user, Now());
}

void EventKeeper::Flush() {
  chronicle_.Flush(Now());
}

void EventKeeper::Stop() {
  chronicle_.Tell({NowMs(), events::kDaemonStopped, {{"version", version_}}}, 0, Now());
}

// Gives the event to the loop. Where that is gone, since the program was executed again, the event
// is kept from here.
void EventKeeper::Report(Event event, unsigned user) const {
  event.fields["uid"] = std::uint64_t{user};
  const std::string line = EncodeEvent(event);
  if (send(reporting_.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) {
    (void)ring_.Append({event});
  }
}

void EventKeeper::ReportStart(const Reservation& reservation, unsigned user) const {
  Report({NowMs(), events::kStarted, StartedFields(reservation)}, user);
}

void EventKeeper::ReportRefusal(const CreationRequest& request, unsigned user,
                                const std::string& who, const Error& error) const {
  Event event{NowMs(), events::kStartRefused, {{"who", who}, {"why", error.what}}};
  if (!error.hint.empty()) {
    event.fields["hint"] = error.hint;
  }
  if (!request.command) {
    event.fields["engine_id"] = request.engine_id;
  } else if (!request.command->name.empty()) {
    event.fields["name"] = request.command->name;
  }
  Report(std::move(event), user);
}

}  // namespace cgpu
