// The desk answers the admin socket, takes further listeners (agent.h) and tells watchers. It runs
// on the calling thread until the container has ended and the driver has given everything back.
//
// An order of root must arrive whatever the container does. So the desk does nothing that a tenant
// could make longer: that is housekeeping's work. The desk waits for housekeeping and for calls of
// tenants before an upgrade alone, at most half a second each.
#ifndef CGPU_SHIM_DESK_H_
#define CGPU_SHIM_DESK_H_

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "protocol/admin.h"
#include "shim/agent.h"
#include "shim/handover.h"
#include "shim/housekeeping.h"
#include "shim/server.h"
#include "shim/watchers.h"

namespace cgpu::shim {

class Desk {
 public:
  // Most connections that have not sent a request yet. The oldest is closed for the next one.
  static constexpr std::size_t kMaxConnections = 64;

  // `admin`: a listening stream socket, or none. `agent`: may be null.
  static Result<Desk> Make(Server& server, Housekeeping& housekeeping, UniqueFd admin,
                           std::unique_ptr<Agent> agent);

  // Takes over the state to hand over one day that the desk does not know itself, and a
  // predecessor's watchers and connections. Call it before Run().
  void Inherit(const Handover& state);

  // Returns when no process is left under a filter, no listener is on its way, and the driver holds
  // nothing of the container any more. While another container keeps its files its memory stays
  // taken, and so its grant stays too.
  void Run();

 private:
  // An upgrade waits so long for calls that are in the driver; others wait meanwhile.
  static constexpr std::chrono::milliseconds kUnderway{50};

  // A connection that asks something.
  struct Connection {
    UniqueFd socket;
    std::string line;
    UniqueFd file;
  };

  Desk(Server& server, Housekeeping& housekeeping, UniqueFd admin, std::unique_ptr<Agent> agent,
       UniqueFd pace)
      : server_(server),
        housekeeping_(housekeeping),
        admin_(std::move(admin)),
        agent_(std::move(agent)),
        pace_(std::move(pace)) {}

  [[nodiscard]] std::vector<pollfd> Polled() const;
  void Serve(const std::vector<pollfd>& polled);
  void LookForEnd();
  void TellRefused();
  void Accept();
  [[nodiscard]] bool HasAsked(Connection& connection) const;
  void Answer(Connection connection);
  [[nodiscard]] bool LauncherGone() const;
  [[nodiscard]] std::string Reply(const AdminRequest& request, UniqueFd file) const;
  void Upgrade(const UniqueFd& connection, UniqueFd program);
  [[nodiscard]] Error TryUpgrade(const UniqueFd& connection, UniqueFd program);
  [[nodiscard]] Result<Handover> Save() const;

  Server& server_;
  Housekeeping& housekeeping_;
  UniqueFd admin_;
  std::unique_ptr<Agent> agent_;
  UniqueFd pace_;  // a timer, paces reports of refusals
  Watchers watchers_;
  std::list<Connection> connections_;  // the oldest first
  int launcher_ = -1;                  // borrowed
  std::set<int> allowed_;              // system calls
  bool told_ = false;                  // refusals were reported; until the timer expires
  bool ended_ = false;                 // the container has ended, as far as can be seen
  bool done_ = false;
  std::chrono::milliseconds underway_ = kUnderway;
  std::int64_t attempted_ns_ = 0;  // when an upgrade failed for a call that was in the driver
  bool starved_ = false;  // this process had no room for an admin's connection: try again soon
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_DESK_H_
