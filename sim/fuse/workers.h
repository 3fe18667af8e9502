// The threads that take requests off /dev/fuse: on demand, so that a request that waits for a
// caller's memory never keeps others from being served.
#ifndef CGPU_SIM_FUSE_WORKERS_H_
#define CGPU_SIM_FUSE_WORKERS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"

struct fuse_session;

namespace cgpu::sim {

class Workers {
 public:
  explicit Workers(fuse_session* session) : session_(session) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Starts the first thread. The threads end with the process: a thread that waits for a caller's
  // memory cannot be ended otherwise.
  void Start();

  // Returns when every RELEASE that had been taken off the queue by any thread before this call has
  // been processed. To be called by a thread that is not processing one.
  //
  // A thread that is asleep in read(2) on /dev/fuse has taken nothing; one that is running there
  // may have, and is asked again. Threads busy with anything but a RELEASE are not waited for.
  void SettleReleases();

 private:
  struct Slot {
    std::atomic<pid_t> tid{0};
    std::atomic<bool> reading{false};
    std::atomic<std::uint32_t> opcode{0};
    std::atomic<std::uint64_t> cycle{0};
  };

  static constexpr int kMaxThreads = 512;
  static constexpr int kMaxIdle = 8;

  void Spawn() CGPU_REQUIRES(mutex_);
  void Run(Slot* slot);
  void TakenFrom();
  [[nodiscard]] bool MayRest();
  [[nodiscard]] static bool AsleepInRead(pid_t tid);

  fuse_session* const session_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_ CGPU_GUARDED_BY(mutex_);
  std::vector<Slot*> unused_ CGPU_GUARDED_BY(mutex_);  // slots of threads that have ended
  int idle_ CGPU_GUARDED_BY(mutex_) = 0;
  int total_ CGPU_GUARDED_BY(mutex_) = 0;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_WORKERS_H_
