// Programs that wait in poll for something to happen on their files.
#ifndef CGPU_SIM_FUSE_POLLERS_H_
#define CGPU_SIM_FUSE_POLLERS_H_

#include <map>
#include <set>

#include "base/mutex.h"
#include "sim/model/object.h"

struct fuse_pollhandle;

namespace cgpu::sim {

// Thread-safe.
class Pollers {
 public:
  Pollers() = default;
  ~Pollers();
  Pollers(const Pollers&) = delete;
  Pollers& operator=(const Pollers&) = delete;

  // Keeps the handle by which the kernel hears of the file, in place of an older one, which says
  // the same. Null: the program does not wait. Look at the file afterwards, so that nothing is
  // missed.
  void Keep(FileId file, fuse_pollhandle* handle);
  void Forget(FileId file);
  // Lets those that wait for these files look again.
  void Wake(const std::set<FileId>& files);
  void WakeAll();

 private:
  Mutex mutex_;
  std::map<FileId, fuse_pollhandle*> handles_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_POLLERS_H_
