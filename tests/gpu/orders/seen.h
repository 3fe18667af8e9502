// Which channels a library in this process asks the driver for: the program's own ioctl() stands
// before libc's, which a library calls by name. It changes nothing of a call.
#ifndef CGPU_TESTS_GPU_ORDERS_SEEN_H_
#define CGPU_TESTS_GPU_ORDERS_SEEN_H_

#include <functional>
#include <vector>

#include "rm/nv_types.h"

namespace cgpu::orders {

struct SeenObject {
  rm::NvHandle client = 0;
  rm::NvHandle parent = 0;
  rm::NvHandle handle = 0;
  rm::NvU32 cls = 0;
  rm::NvU32 engine = 0;  // of a channel group: NV2080_ENGINE_TYPE_*
};

// Channel groups and channels that were allocated between the two, by any thread.
void BeginToSee();
[[nodiscard]] std::vector<SeenObject> EndToSee();

// Is told of calls of the library, in the thread that makes them. Calls that a watcher makes are
// told to nobody.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;

  // A channel group or a channel was made.
  virtual void Allocated(const SeenObject& object) = 0;
  // A group or a channel is going to be scheduled (GPFIFO_SCHEDULE).
  virtual void BeforeSchedule() = 0;
  // The driver has answered; `done`: with success. `again` makes the same call once more.
  virtual void AfterSchedule(bool done, rm::NvHandle client, rm::NvHandle object,
                             const std::function<void()>& again) = 0;
};
// Sets the watcher of all threads; nullptr: none. It must outlive the calls that are under way.
void SetWatcher(Watcher* watcher);

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_SEEN_H_
