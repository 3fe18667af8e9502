// The event buffers that get the context switches of the GPUs: their memory, as the driver writes
// it. src/nvidia/src/libraries/eventbuffer/eventbufferproducer.c and
// src/nvidia/src/kernel/gpu/gr/fecs_event_list.c.
#ifndef CGPU_SIM_GPU_EVENT_BUFFERS_H_
#define CGPU_SIM_GPU_EVENT_BUFFERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "sim/engine/gpu.h"
#include "sim/gpu/memory.h"
#include "sim/gpu/wire.h"

namespace cgpu::sim {

// Thread-compatible.
class EventBuffers {
 public:
  // The owner of a group of channels; none: it is gone, and the driver says nothing of it.
  struct Owner {
    std::uint32_t pid = 0;
    std::uint32_t user = 0;
    std::uint32_t channel = 0;  // the number of one of its channels
  };
  using OwnerOf = std::function<std::optional<Owner>(engine::GroupKey)>;
  // The engines of a GPU; null: it has none yet.
  using GpuOf = std::function<const engine::Gpu*(std::uint32_t gpu)>;

  EventBuffers(Memory& memory, OwnerOf owner, GpuOf gpu)
      : memory_(memory), owner_(std::move(owner)), gpu_(std::move(gpu)) {}

  void Set(const wire::EventBuffer& buffer);
  void Remove(std::uint64_t key) { buffers_.erase(key); }

  // Writes what there is, if it is time to: the driver looks at the engines' own list thirty times
  // a second.
  void Write(engine::Time now);
  // Returns when to call it again; none: nothing waits to be written.
  [[nodiscard]] std::optional<engine::Time> Due() const { return due_; }

 private:
  struct Buffer {
    wire::EventBuffer set;
    std::uint64_t next = 0;  // the number of the next switch
    std::uint32_t put = 0;
    std::uint64_t dropped = 0;
    std::uint16_t sequence = 0;
  };

  [[nodiscard]] const engine::Gpu* GpuOfBuffer(const Buffer& buffer) const;
  void Append(Buffer& buffer, const engine::Residence& residence);

  Memory& memory_;
  const OwnerOf owner_;
  const GpuOf gpu_;
  std::map<std::uint64_t, Buffer> buffers_;
  std::optional<engine::Time> due_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_GPU_EVENT_BUFFERS_H_
