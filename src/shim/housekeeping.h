// Housekeeping handles what happens beside the tenants' calls: exits and closes, everything they
// leave behind, and the end of the container, which must leave nothing. A tenant can make all of it
// take long. So it has a thread of its own, for which nobody waits, and rounds.h limits its share
// of the time.
#ifndef CGPU_SHIM_HOUSEKEEPING_H_
#define CGPU_SHIM_HOUSEKEEPING_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "shim/rounds.h"
#include "shim/server.h"

namespace cgpu::shim {

// Any thread may call it, except Start(). Lives as long as the process does.
class Housekeeping {
 public:
  // Makes the inotify watches of the server's configuration. `closes`: the instance of the
  // predecessor, which has them, or none. Others may have taken all that the uid may have, so a
  // shim never gives its own back.
  static Result<std::unique_ptr<Housekeeping>> Make(Server& server, UniqueFd closes = {});

  // Begins with a look around, because closes before this were not reported. kExhausted: the
  // machine has no room for the thread.
  Result<> Start();

  // Notes that something of the container's may have ended.
  void Hasten();

  // Sets whether the container is over: no process is left under a filter and no listener is on its
  // way, as far as can be seen.
  void SetOver(bool over);
  // Returns a descriptor that is readable when nothing is held any more while the container is
  // over. Then Rested() returns true once.
  [[nodiscard]] int rest_events() const { return rested_.get(); }
  [[nodiscard]] bool Rested();

  // Stops all looks until Resume(). Returns false if a look lasted longer than `timeout`;
  // housekeeping then goes on.
  [[nodiscard]] bool Pause(std::chrono::milliseconds timeout);
  void Resume();

  // Returns the inotify instance, for the successor.
  [[nodiscard]] int closes() const { return inotify_.get(); }

 private:
  Housekeeping(Server& server, UniqueFd inotify, UniqueFd called, UniqueFd rested)
      : server_(server),
        inotify_(std::move(inotify)),
        called_(std::move(called)),
        rested_(std::move(rested)) {}

  void Run();
  void Wait();
  void Look();
  [[nodiscard]] bool DrainInotify() const;

  Server& server_;
  const UniqueFd inotify_;
  const UniqueFd called_;  // an eventfd: something has changed that Run() is to see
  const UniqueFd rested_;  // another
  std::atomic<bool> over_{false};
  // For Run()'s thread alone:
  Rounds rounds_;
  std::uint64_t others_due_us_ = 0;  // when to look for what others have mapped
  bool told_ = false;                // an exit or the like was reported since the last look

  Mutex mutex_;  // guards the rest
  CondVar changed_;
  bool paused_ CGPU_GUARDED_BY(mutex_) = false;
  bool looking_ CGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HOUSEKEEPING_H_
