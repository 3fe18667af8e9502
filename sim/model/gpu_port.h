// The driver's messages to the GPU's engines, and their answers. The other side is a process of
// its own (sim/gpu/wire.h); a driver without one, as in unit tests, runs nothing.
#ifndef CGPU_SIM_MODEL_GPU_PORT_H_
#define CGPU_SIM_MODEL_GPU_PORT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rm/nv_types.h"
#include "sim/model/memory.h"

namespace cgpu::sim {

// Names a group or a channel for the engines: never reused, one count for all GPUs.
using GpuKey = rm::NvU64;
// Something the engines have not finished; 0: nothing to wait for.
using GpuTicket = rm::NvU64;

struct GpuGroupSetup {
  int gpu = 0;
  GpuKey key = 0;
  rm::NvU32 engine_type = 0;   // NV2080_ENGINE_TYPE_*
  rm::NvU64 timeslice_us = 0;  // 0: the driver's default
  rm::NvU32 interleave = 0;
  std::uint32_t pid = 0;   // tgid of the process whose client made it
  std::uint32_t user = 0;  // its euid
};

struct GpuChannelSetup {
  int gpu = 0;
  GpuKey key = 0;
  GpuKey group = 0;
  rm::NvU64 space = 0;   // DriverModel's number of its address space; 0: it has none
  rm::NvU64 gpfifo = 0;  // GPU address of its ring
  rm::NvU32 entries = 0;
  rm::NvU32 id = 0;
  std::weak_ptr<Block> userd;
  rm::NvU64 userd_offset = 0;
  std::weak_ptr<Block> errors;  // its error notifiers, if it has some
};

// How long a group was on its engine in one stretch of time.
struct GpuSample {
  rm::NvU64 end_ns = 0;  // CLOCK_MONOTONIC
  rm::NvU64 length_ns = 0;
  GpuKey group = 0;
  rm::NvU64 busy_ns = 0;
  bool active = false;  // on its engine at the end
};

// An NV_EVENT_BUFFER: what it is bound to, and what was set.
struct GpuEventBuffer {
  GpuKey key = 0;
  std::weak_ptr<Block> header;
  std::weak_ptr<Block> records;
  rm::NvU32 record_bytes = 0;
  rm::NvU32 record_count = 0;
  int gpu = -1;  // whose context switches it gets; -1: none's
  bool enabled = false;
  bool keep_newest = false;
  rm::NvU32 get = 0;
  bool all_users = false;
  bool admin = false;      // whoever bound it
  std::uint32_t user = 0;  // its euid
};

// Called under the driver's lock: nothing here waits for the engines or takes long.
class GpuPort {
 public:
  GpuPort() = default;
  GpuPort(const GpuPort&) = delete;
  GpuPort& operator=(const GpuPort&) = delete;
  virtual ~GpuPort() = default;

  virtual void AddGroup(const GpuGroupSetup& group) = 0;
  virtual void RemoveGroup(GpuKey group) = 0;
  virtual void SetTimeslice(GpuKey group, rm::NvU64 us) = 0;
  virtual void SetInterleave(GpuKey group, rm::NvU32 level) = 0;
  virtual void AddChannel(const GpuChannelSetup& channel) = 0;
  virtual void RemoveChannel(GpuKey channel) = 0;

  // Tells of a buffer that is made, or of which something was set.
  virtual void SetEventBuffer(const GpuEventBuffer& buffer) = 0;
  virtual void RemoveEventBuffer(GpuKey buffer) = 0;

  // Give an order. It is done when none of what it stops is on its engine any more.
  [[nodiscard]] virtual GpuTicket Schedule(std::span<const GpuKey> channels, bool on) = 0;
  [[nodiscard]] virtual GpuTicket Disable(std::span<const GpuKey> channels, bool off,
                                          bool only_scheduling) = 0;
  [[nodiscard]] virtual GpuTicket Preempt(GpuKey group) = 0;
  [[nodiscard]] virtual GpuTicket Restart(GpuKey channel) = 0;
  [[nodiscard]] virtual GpuTicket Stop(GpuKey channel) = 0;
  // Waits until it is done, for at most so many microseconds (0: as long as it takes). Not under
  // the driver's lock.
  enum class Waited : std::uint8_t { kDone, kTimeout, kDead };
  [[nodiscard]] virtual Waited Await(GpuTicket ticket, rm::NvU64 timeout_us) = 0;

  // Tells that addresses of the space lead elsewhere than before.
  virtual void Invalidate(rm::NvU64 space) = 0;

  // Returns the last samples of a GPU, oldest first.
  [[nodiscard]] virtual std::vector<GpuSample> Samples(int gpu) = 0;
};

// Stands for the engines' knowledge of a group, a channel or an event buffer: its end tells them.
class OnGpu {
 public:
  enum class Kind : std::uint8_t { kGroup, kChannel, kEventBuffer };

  // `port` outlives it.
  OnGpu(GpuPort& port, Kind kind, GpuKey key) : port_(port), kind_(kind), key_(key) {}
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() {
    if (kind_ == Kind::kGroup) {
      port_.RemoveGroup(key_);
    } else if (kind_ == Kind::kChannel) {
      port_.RemoveChannel(key_);
    } else {
      port_.RemoveEventBuffer(key_);
    }
  }

  [[nodiscard]] GpuKey Key() const { return key_; }

 private:
  GpuPort& port_;
  const Kind kind_;
  const GpuKey key_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_GPU_PORT_H_
