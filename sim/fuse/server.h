// The FUSE file system of a node: turns the kernel's requests into calls of the simulated driver.
#ifndef CGPU_SIM_FUSE_SERVER_H_
#define CGPU_SIM_FUSE_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "sim/driver/driver.h"
#include "sim/fuse/faults.h"
#include "sim/fuse/gpu_link.h"
#include "sim/fuse/mappings.h"
#include "sim/fuse/open_files.h"
#include "sim/fuse/pollers.h"
#include "sim/fuse/proc_caller.h"
#include "sim/fuse/tree.h"
#include "sim/fuse/workers.h"

struct fuse_req;
struct fuse_session;

namespace cgpu::sim {

// Thread-safe. Once started it lives until the process ends.
class FuseServer {
 public:
  // The bytes that a processor can address, and so the offsets of managed memory.
  static constexpr std::int64_t kAddresses = std::int64_t{1} << 47;

  // `driver` outlives the server.
  FuseServer(Driver& driver, std::string mount_point);
  ~FuseServer();
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;

  // Sets the engines, if there are any; before Start(). `engines` outlives the server.
  void SetEngines(GpuLink* engines);
  // Mounts and serves on threads of its own.
  [[nodiscard]] Result<> Start();
  // Takes the mount away; open files answer ENODEV from when the process ends.
  void Unmount();

  [[nodiscard]] const Tree& GetTree() const { return tree_; }
  [[nodiscard]] Faults& GetFaults() { return faults_; }
  [[nodiscard]] Pollers& GetPollers() { return pollers_; }

  // Returns when every file of the node whose last reference was gone before the call has been
  // released in the driver. RELEASE requests are queued by the kernel in order: a file of our own
  // is opened and closed, and when its RELEASE arrives all earlier ones have been taken off the
  // queue; then the threads that took them are waited for. kUnavailable at the deadline.
  // Also takes in what is mapped of nvidia-uvm's files.
  [[nodiscard]] Result<> Sync(std::chrono::milliseconds timeout);

  // Looks for mappings of nvidia-uvm's files in all processes and tells the driver.
  void SettleMappings() { SettleMappings({}); }
  // Sets whether the mappings of address spaces that end stay from now on: UvmSeen::keeps_ended.
  void KeepMapped(bool kept);

 private:
  friend struct FuseOps;
  struct Parked {
    fuse_req* request = nullptr;
    Call call;
    std::unique_ptr<ProcCaller> caller;
  };

  void Ioctl(fuse_req* request, FileKind kind, FileId file, std::uint32_t number,
             std::uint64_t argument, pid_t tid);
  static void Reply(fuse_req* request, int error);
  void Park(fuse_req* request, Call call, std::unique_ptr<ProcCaller> caller,
            const FaultRule& rule);
  void Resume(std::uint64_t ticket);
  [[nodiscard]] bool IsKilled(std::uint64_t ticket);
  // Looks only in these processes, or in all if there are none.
  void SettleMappings(std::set<std::uint32_t> processes);
  void BarrierReleased(Ino barrier);
  // Waits until the barrier is released. False at the deadline.
  [[nodiscard]] bool AwaitBarrier(Ino barrier, std::chrono::steady_clock::time_point until);
  // As Sync(), without the mappings.
  [[nodiscard]] Result<> AwaitReleases(std::chrono::milliseconds timeout);
  [[nodiscard]] std::shared_ptr<Pages> PagesOf(Block& block);
  // Returns the content of this nvidia-uvm file's managed memory, by address; nullptr: the file is
  // no address space. A range holds what an unmapped one left there.
  [[nodiscard]] std::shared_ptr<Pages> ManagedPagesOf(FileId file);
  void ForgetManagedPages(FileId file);
  [[nodiscard]] bool IsEngine(pid_t tid) const {
    return engines_ != nullptr && engines_->Pid() == tid;
  }
  // Note that a program may map memory through this file from now on, and that none does any more.
  void NoteMapping(const Call& call, const ProcCaller& caller);
  void Unmapped(Ino ino);
  // RM_USER_SHARED_DATA: reads the page, and remembers who has it mapped so that it is renewed when
  // the sizes change.
  void ReadSharedData(Ino ino, int gpu, std::size_t at, std::span<std::byte> out);
  void ForgetSharedData(Ino ino);
  void RenewSharedData();

  Driver& driver_;
  GpuLink* engines_ = nullptr;
  const std::string mount_point_;
  const Tree tree_;
  NodeIdentity node_;  // constant after Start()
  OpenFiles open_files_;
  Pollers pollers_;
  std::atomic<std::uint64_t> serial_{1};
  std::atomic<std::uint64_t> next_ticket_{1};
  fuse_session* session_ = nullptr;
  std::unique_ptr<Workers> workers_;

  Mutex settle_mutex_;  // a look at the processes and its use; above the driver's lock
  Mappings mappings_ CGPU_GUARDED_BY(settle_mutex_);
  bool keep_mapped_ CGPU_GUARDED_BY(settle_mutex_) = false;

  Mutex pages_mutex_;  // protects Block::pages, too; below the driver's lock
  std::map<FileId, std::shared_ptr<Pages>> managed_pages_ CGPU_GUARDED_BY(pages_mutex_);

  Mutex shared_data_mutex_;  // above the driver's lock
  std::set<Ino> shared_data_files_ CGPU_GUARDED_BY(shared_data_mutex_);
  std::uint64_t shared_data_version_ CGPU_GUARDED_BY(shared_data_mutex_) = 0;

  Mutex parked_mutex_;  // below that of faults_
  std::map<std::uint64_t, Parked> parked_ CGPU_GUARDED_BY(parked_mutex_);

  Mutex barrier_mutex_;
  CondVar barrier_changed_;
  std::set<Ino> barriers_ CGPU_GUARDED_BY(barrier_mutex_);  // waited for

  Faults faults_;  // last: its thread uses the rest
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_SERVER_H_
