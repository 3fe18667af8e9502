// Gives a GPU work without CUDA: its classes, addresses for it, channels.
//
// Objects end with their client. Thread-safety is that of the client.
#ifndef CGPU_RMCLIENT_CHANNELS_H_
#define CGPU_RMCLIENT_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

// Returns the classes that the GPU has (NV0080_CTRL_CMD_GPU_GET_CLASSLIST).
[[nodiscard]] Result<std::vector<rm::NvU32>> ClassesOf(Client& client, const Gpu& gpu);
// Returns the first of `wanted` that is among `classes`, or 0.
[[nodiscard]] rm::NvU32 FirstOf(std::span<const rm::NvU32> wanted,
                                const std::vector<rm::NvU32>& classes);

// Maps the first `length` bytes of a memory object for the GPU and returns the address. The driver
// chooses it, in the device's own address space. It holds until the memory is freed.
[[nodiscard]] Result<std::uint64_t> MapForGpu(Client& client, const Gpu& gpu, rm::NvHandle memory,
                                              std::size_t length);

// Where a channel finds its ring, and where it writes.
struct ChannelPlaces {
  rm::NvHandle errors = 0;  // memory for its error notifiers
  rm::NvHandle userd = 0;   // memory with GP_GET and GP_PUT
  std::uint64_t userd_offset = 0;
  std::uint64_t ring = 0;  // GPU address
  std::uint32_t entries = 0;
};
// Makes a channel of this class in a channel group, in the device's own address space.
[[nodiscard]] Result<rm::NvHandle> MakeChannel(Client& client, const Gpu& gpu, rm::NvHandle group,
                                               rm::NvU32 class_number, const ChannelPlaces& places);

// Does GPFIFO_SCHEDULE of a channel group: from now on its channels run what their rings hold.
[[nodiscard]] Outcome ScheduleGroup(Client& client, rm::NvHandle group);

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_CHANNELS_H_
