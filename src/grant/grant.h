// Decides what a container may use: a set of GPUs and, per GPU, bytes of memory. Pure: takes parsed
// requests (request.h) and the host's GPUs; returns a Grant, or an error that says why not.
//
// The arithmetic is the contract's: a GPU has floor(MiB / 1024) units, and a container sees
// floor(physical MiB * its units / the GPU's units) MiB of it.
#ifndef CGPU_GRANT_GRANT_H_
#define CGPU_GRANT_GRANT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"

namespace cgpu {

// One physical GPU of the host.
struct Gpu {
  std::string uuid;          // "GPU-8-4-4-4-12 hex digits"
  unsigned index = 0;        // place in the host's enumeration: what a user calls it
  unsigned minor = 0;        // number of /dev/nvidia<minor>
  std::string bdf;           // "0000:01:00.0"
  std::uint32_t gpu_id = 0;  // the driver's, from NV0000_CTRL_CMD_GPU_GET_PROBED_IDS
  std::string model;
  std::uint64_t memory_bytes = 0;
};

struct GpuGrant {
  Gpu gpu;
  std::uint64_t limit_bytes = 0;
};

// The part of a GPU that running containers hold.
struct GpuUse {
  std::uint64_t bytes = 0;  // bytes granted to them
  unsigned slices = 0;      // number of them
  unsigned max_inst = kDefaultMaxInst;
};

// GPUs in the order in which they count from 0 inside the container.
struct Grant {
  std::vector<GpuGrant> gpus;
};

// Returns the units that a GPU offers: floor(MiB / 1024).
[[nodiscard]] std::uint64_t UnitsOf(const Gpu& gpu);

// Returns the bytes that `request` comes to on `gpu`, one of the grant's `gpu_count` GPUs.
// kInvalid: units do not divide evenly over the GPUs, or it comes to nothing. kExhausted: it is
// more than the GPU has.
[[nodiscard]] Result<std::uint64_t> LimitOnGpu(const MemoryRequest& request, const Gpu& gpu,
                                               std::size_t gpu_count);

// Returns the GPUs that `request` names, in its order; for a count, the first ones. kNotFound: a
// GPU is unknown or missing. kInvalid: a GPU is named twice or ambiguously.
[[nodiscard]] Result<std::vector<Gpu>> SelectGpus(const GpuRequest& request,
                                                  const std::vector<Gpu>& gpus);

// Returns kExhausted, and what is free, unless `wanted` bytes fit beside `granted` bytes on the
// GPU.
[[nodiscard]] Result<> FitsOnGpu(const Gpu& gpu, std::uint64_t granted, std::uint64_t wanted);

// Returns kExhausted unless the GPU may have one more slice.
[[nodiscard]] Result<> HasPlace(const Gpu& gpu, const GpuUse& use);

// Makes the whole decision. `uses` says for each of `gpus`, in the same order, what running
// containers hold. A count takes the first GPUs with room; every other choice is the user's own.
// Two requests of a kind (the two families of environment names) must come to the same GPUs and
// bytes, else kConflict. Where the request also has GPUs that are given whole, the grant lists all
// in the host's order.
[[nodiscard]] Result<Grant> MakeGrant(const ResourceRequest& request, const std::vector<Gpu>& gpus,
                                      const std::vector<GpuUse>& uses);

}  // namespace cgpu

#endif  // CGPU_GRANT_GRANT_H_
