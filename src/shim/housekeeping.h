// What a shim does beside its tenants' calls: notices exits and closes, takes further listeners
// (agent.h), and answers the admin socket. Runs on the calling thread until the container has ended
// and the driver has given everything back.
#ifndef CGPU_SHIM_HOUSEKEEPING_H_
#define CGPU_SHIM_HOUSEKEEPING_H_

#include <memory>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "registry/admin.h"
#include "shim/agent.h"
#include "shim/handover.h"
#include "shim/server.h"
#include "shim/watchers.h"

namespace cgpu::shim {

class Housekeeping {
 public:
  // `admin`: a listening stream socket, or none. `agent`: may be null. The inotify watches are
  // those of the configuration.
  static Result<Housekeeping> Make(Server& server, UniqueFd admin, std::unique_ptr<Agent> agent);

  // What it does not know itself of the state to hand over one day, and what a predecessor's
  // watched: before Run().
  void Inherit(const Handover& state);

  // Returns when nobody is left under a filter, no listener is on its way, and the driver holds
  // nothing of the container any more: while another container keeps its files its memory is taken,
  // and so stays its grant.
  void Run();

 private:
  Housekeeping(Server& server, UniqueFd admin, std::unique_ptr<Agent> agent, UniqueFd inotify,
               UniqueFd timer, UniqueFd pace)
      : server_(server),
        admin_(std::move(admin)),
        agent_(std::move(agent)),
        inotify_(std::move(inotify)),
        timer_(std::move(timer)),
        pace_(std::move(pace)) {}

  void Schedule();
  void Round();
  void LookForEnd();
  void DrainInotify() const;
  void TellRefused();
  void ServeAdmin();
  [[nodiscard]] bool LauncherGone() const;
  [[nodiscard]] std::string Reply(const AdminRequest& request, UniqueFd file) const;
  void Upgrade(const UniqueFd& connection, UniqueFd program);
  [[nodiscard]] Result<Handover> Save() const;

  Server& server_;
  UniqueFd admin_;
  std::unique_ptr<Agent> agent_;
  UniqueFd inotify_;
  UniqueFd timer_;
  UniqueFd pace_;  // a timer, of refusals that are told
  Watchers watchers_;
  int launcher_ = -1;      // borrowed
  std::set<int> allowed_;  // system calls
  std::size_t round_ = 0;
  bool ended_ = false;  // the container has, so far as can be seen
  bool done_ = false;
  bool starved_ = false;  // this process had no room for an admin's connection: try again soon
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HOUSEKEEPING_H_
