// The process in which the GPUs' engines run: `cgpu-sim engine`.
//
// It is another one than the driver's, because the pages of a FUSE file that its own server maps
// would wait for that server. It looks at the channels' GP_PUTs every 50 us while some channel has
// work or had some in the last 5 ms, every millisecond while one is scheduled, and sleeps without
// end while none is. However late it wakes up, each event has its own time (sim/engine/gpu.h).
#ifndef CGPU_SIM_GPU_ENGINES_H_
#define CGPU_SIM_GPU_ENGINES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/gpu.h"
#include "sim/gpu/event_buffers.h"
#include "sim/gpu/memory.h"
#include "sim/gpu/options.h"
#include "sim/gpu/wire.h"

namespace cgpu::sim {

class Engines final : public engine::GpuEvents {
 public:
  // `socket` leads to the driver's process; a borrow. `shared` outlives the engines.
  Engines(int socket, const wire::Shared& shared, const GpuOptions& options);

  // Ends with the process.
  [[noreturn]] void Run();

  void OnFault(engine::GroupKey group, engine::ChannelKey channel, engine::Fault fault,
               std::uint64_t address, engine::Time at) override;
  void OnInterrupt(engine::RunlistId runlist, engine::ChannelKey channel, engine::Time at) override;

 private:
  struct Gpu {
    std::unique_ptr<engine::Gpu> engine;
    std::map<engine::RunlistId, bool> runlists;
    std::map<engine::GroupKey, engine::Duration> sampled;  // what samples have said of it
  };
  struct Channel {
    std::uint32_t gpu = 0;
    engine::GroupKey group = 0;
    engine::BlockId errors = 0;
    std::uint32_t id = 0;
    bool scheduled = false;
  };
  struct Group {
    std::uint32_t gpu = 0;
    std::uint32_t pid = 0;
    std::uint32_t user = 0;
  };
  struct Pending {
    std::uint64_t ticket = 0;
    engine::Time at = 0;
  };
  struct Happened {
    engine::GroupKey group = 0;
    engine::ChannelKey channel = 0;
    engine::Fault fault{};
    std::uint64_t address = 0;
    engine::Time at = 0;
  };

  // Takes what was sent before now, waiting for what has not arrived yet. Asks the kernel for
  // nothing when there is none.
  void Drain();
  void Take(Message& message);
  void AddGroup(const wire::AddGroup& group);
  void AddChannel(const wire::AddChannel& channel);
  void TakeOrder(const wire::Order& order);
  [[nodiscard]] engine::Time Apply(const wire::Order& order);
  [[nodiscard]] engine::Gpu* GpuOf(engine::GroupKey group);
  [[nodiscard]] std::optional<EventBuffers::Owner> OwnerOf(engine::GroupKey group) const;
  void SendAccounting(const wire::AskAccounting& ask);
  void SendStarts(std::uint32_t gpu, std::uint64_t from);
  // Returns false if not all that happens up to `now` has been done yet.
  bool Advance(engine::Time now);
  bool AdvanceGpus(engine::Time now);
  void TakeSample(engine::Time end);
  void TellFaults();
  void TellDone();
  void Look();  // at GP_PUTs and semaphores
  [[nodiscard]] bool AnyScheduled() const;
  // Returns how long to sleep; nullopt: until a message comes.
  [[nodiscard]] std::optional<engine::Duration> Rest(engine::Time now);
  void Sleep(std::optional<engine::Duration> rest) const;

  const int socket_;
  const wire::Shared* const shared_;
  engine::Costs costs_;
  Memory memory_;
  std::map<std::uint32_t, Gpu> gpus_;
  std::map<engine::GroupKey, Group> groups_;
  std::map<engine::ChannelKey, Channel> channels_;
  EventBuffers event_buffers_;
  std::vector<Pending> pending_;
  std::vector<Happened> faults_;
  engine::Time last_work_ = 0;
  engine::Time next_sample_ = 0;  // 0: nothing to sample
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_GPU_ENGINES_H_
