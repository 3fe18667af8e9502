// What a shim looks after beside its tenants' calls: exits and closes, whatever they leave behind,
// and that the container's end leaves nothing. All of it can be made to take long by a tenant, so
// it has a thread of its own, for which nobody waits, and rounds.h says how much of the time it
// takes.
#ifndef CGPU_SHIM_HOUSEKEEPING_H_
#define CGPU_SHIM_HOUSEKEEPING_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/result.h"
#include "shim/rounds.h"
#include "shim/server.h"

namespace cgpu::shim {

// From any thread but for Start(). Lives for as long as the process does.
class Housekeeping {
 public:
  // The inotify watches are those of the server's configuration.
  static Result<std::unique_ptr<Housekeeping>> Make(Server& server);

  // Begins, with a look around: of closes before this nobody has been told. kExhausted: the machine
  // has no room for the thread.
  Result<> Start();

  // Something of the container's may have ended.
  void Hasten();

  // Nobody is left under a filter and no listener is on its way, so far as can be seen; or somebody
  // is again.
  void SetOver(bool over);
  // Readable when nothing is held any more while the container is over. Then Rested() says so once.
  [[nodiscard]] int rest_events() const { return rested_.get(); }
  [[nodiscard]] bool Rested();

  // Looks after nothing more until Resume(); false: it is in a look that lasted longer than
  // `patience`, and goes on.
  [[nodiscard]] bool Pause(std::chrono::milliseconds patience);
  void Resume();

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
  // Of Run()'s thread:
  Rounds rounds_;
  bool told_ = false;  // of an exit or the like, since the last look

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool paused_ = false;
  bool looking_ = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_HOUSEKEEPING_H_
