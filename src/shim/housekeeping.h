// What a shim does beside its tenants' calls: notices exits and closes, and answers the admin
// socket. Runs on the calling thread until the container has ended and the driver has given
// everything back.
#ifndef CGPU_SHIM_HOUSEKEEPING_H_
#define CGPU_SHIM_HOUSEKEEPING_H_

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "shim/server.h"

namespace cgpu::shim {

class Housekeeping {
 public:
  // `admin`: a listening stream socket, or none. `launcher_uid`: who may use it besides root.
  // The inotify watches are those of the configuration.
  static Result<Housekeeping> Make(Server& server, UniqueFd admin, unsigned first_pid);

  // Returns when nobody is left under the filter and the driver holds nothing of the container any
  // more: while another container keeps its files its memory is taken, and so stays its grant.
  void Run();

 private:
  Housekeeping(Server& server, UniqueFd admin, UniqueFd inotify, UniqueFd timer, unsigned first_pid)
      : server_(server),
        admin_(std::move(admin)),
        inotify_(std::move(inotify)),
        timer_(std::move(timer)),
        first_pid_(first_pid) {}

  void Schedule();
  void Round();
  void DrainInotify() const;
  void ServeAdmin() const;
  [[nodiscard]] std::string Reply(const std::string& line) const;

  Server& server_;
  UniqueFd admin_;
  UniqueFd inotify_;
  UniqueFd timer_;
  unsigned first_pid_;
  std::size_t round_ = 0;
  bool ended_ = false;
  bool done_ = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HOUSEKEEPING_H_
