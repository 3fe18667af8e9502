// The driver's side of the engines' process: starts it, tells it what it must know, and gives it
// the bytes of memory it asks for.
#ifndef CGPU_SIM_FUSE_GPU_LINK_H_
#define CGPU_SIM_FUSE_GPU_LINK_H_

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "sim/driver/driver.h"
#include "sim/fuse/tree.h"
#include "sim/gpu/options.h"
#include "sim/gpu/wire.h"
#include "sim/model/gpu_port.h"

namespace cgpu::sim {

// The engines' counts; see sim/engine/accounting.h.
struct EngineAccounting {
  bool alive = false;
  std::vector<wire::GroupAccounting> groups;
  std::vector<wire::ChannelAccounting> channels;
  std::vector<wire::RunlistAccounting> runlists;
  std::vector<std::pair<int, wire::Start>> starts;  // with its GPU
  std::map<GpuKey, std::uint32_t> faults;           // of groups: NVIDIA's numbers of errors
};

// Thread-safe. It is never destroyed: its threads end with the process.
//
// The processors' view of memory. What a program has mapped lies in the page cache of the inode
// that it opened, so the engines map that inode too, by a descriptor (O_PATH) that is kept from
// RM_MAP_MEMORY on until the program's file is released. The engines' own opens and closes of such
// inodes are nobody's files.
class GpuLink final : public GpuPort {
 public:
  // Starts the process: this program as `cgpu-sim engine`. To be called by the thread that lives as
  // long as this process, before there are others.
  [[nodiscard]] static Result<GpuLink*> Start(const GpuOptions& options);
  // Begins to talk. `pages` makes a block's pages, under the driver's lock.
  void Serve(Driver& driver, std::function<std::shared_ptr<Pages>(Block&)> pages);

  [[nodiscard]] const GpuOptions& Options() const { return options_; }
  [[nodiscard]] pid_t Pid() const { return pid_; }
  // kUnavailable: no answer.
  [[nodiscard]] Result<EngineAccounting> AskAccounting(std::uint64_t starts_from);

  // The driver's messages; see gpu_port.h.
  void AddGroup(const GpuGroupSetup& group) override;
  void RemoveGroup(GpuKey group) override;
  void SetTimeslice(GpuKey group, rm::NvU64 us) override;
  void SetInterleave(GpuKey group, rm::NvU32 level) override;
  void AddChannel(const GpuChannelSetup& channel) override;
  void RemoveChannel(GpuKey channel) override;
  void SetEventBuffer(const GpuEventBuffer& buffer) override;
  void RemoveEventBuffer(GpuKey buffer) override;
  [[nodiscard]] GpuTicket Schedule(std::span<const GpuKey> channels, bool on) override;
  [[nodiscard]] GpuTicket Disable(std::span<const GpuKey> channels, bool off,
                                  bool only_scheduling) override;
  [[nodiscard]] GpuTicket Preempt(GpuKey group) override;
  [[nodiscard]] GpuTicket Restart(GpuKey channel) override;
  [[nodiscard]] GpuTicket Stop(GpuKey channel) override;
  [[nodiscard]] Waited Await(GpuTicket ticket, rm::NvU64 timeout_us) override;
  void Invalidate(rm::NvU64 space) override;
  [[nodiscard]] std::vector<GpuSample> Samples(int gpu) override;

  // Returns whether the engines use the block, and through other files too.
  [[nodiscard]] bool UsesOthers(rm::NvU64 block);
  // Returns when the engines have taken all that they were told before.
  void Settle();
  // Notes that a program may map `block` through the file with this inode. Under the driver's lock.
  void Mapped(Ino ino, UniqueFd path, const MapContext& context, const Block& block);
  // Notes that the program's file was released: what it wrote is in the block by now.
  void Unmapped(Ino ino);
  // Returns where the pages of an inode that the engines have open belong.
  [[nodiscard]] std::optional<MapContext> ContextOf(Ino ino);
  // Note that the engines opened or released it.
  void EngineOpened(Ino ino);
  void EngineReleased(Ino ino);

 private:
  struct Outgoing {
    std::string bytes;
    UniqueFd fd;
  };
  struct File {
    UniqueFd path;
    MapContext context;
    rm::NvU64 block = 0;
    bool mapped = true;   // by a program, as far as is known
    unsigned opened = 0;  // by the engines
  };

  GpuLink(UniqueFd socket, wire::Shared* shared, pid_t pid, GpuOptions options)
      : socket_(std::move(socket)), shared_(shared), pid_(pid), options_(options) {}

  template <class T>
  void Send(const T& message, int borrowed = -1) {
    const MutexLock lock(mutex_);
    Enqueue(wire::Bytes(message), borrowed);
  }
  void Enqueue(std::string_view bytes, int borrowed) CGPU_REQUIRES(mutex_);
  // Waits until the engines have done what the ticket stands for, or are gone. False at the
  // deadline.
  [[nodiscard]] bool WaitFor(GpuTicket ticket, std::chrono::steady_clock::time_point until)
      CGPU_REQUIRES(mutex_);
  [[nodiscard]] GpuTicket SendOrder(wire::Order::What what, std::span<const GpuKey> keys,
                                    bool only_scheduling);
  void RunSender();
  void RunReceiver();
  void Receive(std::string_view bytes);
  void ReceiveAccounting(wire::Kind kind, std::string_view bytes);
  void AnswerTranslate(const wire::Translate& ask);
  void AnswerFind(const wire::FindBlock& ask);
  [[nodiscard]] bool Give(Block& block);
  void TellMapped(Ino ino, const File& file) CGPU_REQUIRES(mutex_);
  void DropIfUnused(std::map<Ino, File>::iterator file) CGPU_REQUIRES(mutex_);
  void Gone(rm::NvU64 block);
  void Died();

  const UniqueFd socket_;
  wire::Shared* const shared_;
  const pid_t pid_;
  const GpuOptions options_;
  Driver* driver_ = nullptr;
  std::function<std::shared_ptr<Pages>(Block&)> pages_;

  Mutex asking_ CGPU_ACQUIRED_BEFORE(mutex_);  // one AskAccounting() at a time

  Mutex mutex_;  // below the driver's lock
  CondVar to_send_;
  CondVar changed_;
  bool alive_ CGPU_GUARDED_BY(mutex_) = true;
  std::deque<Outgoing> outgoing_ CGPU_GUARDED_BY(mutex_);
  GpuTicket next_ticket_ CGPU_GUARDED_BY(mutex_) = 1;
  std::set<GpuTicket> pending_ CGPU_GUARDED_BY(mutex_);
  // Blocks that the engines may ask for, by id.
  std::map<rm::NvU64, std::weak_ptr<Block>> blocks_ CGPU_GUARDED_BY(mutex_);
  std::set<rm::NvU64> given_ CGPU_GUARDED_BY(mutex_);
  std::map<Ino, File> files_ CGPU_GUARDED_BY(mutex_);
  std::multimap<rm::NvU64, Ino> by_block_ CGPU_GUARDED_BY(mutex_);
  std::map<int, std::deque<GpuSample>> samples_ CGPU_GUARDED_BY(mutex_);  // by GPU
  std::map<GpuKey, std::uint32_t> faults_ CGPU_GUARDED_BY(mutex_);
  EngineAccounting accounting_ CGPU_GUARDED_BY(mutex_);  // as they come in
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_GPU_LINK_H_
