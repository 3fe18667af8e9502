// The parameters of a channel, NV_CHANNEL_ALLOC_PARAMS, whatever the branch lays out.
#ifndef CGPU_RM_CHANNEL_PARAMS_H_
#define CGPU_RM_CHANNEL_PARAMS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>

#include "rm/by_branch.h"
#include "rm/nv_alloc.h"

namespace cgpu::rm {

// The fields that this project reads or sets.
struct ChannelParams {
  NvHandle hObjectError = 0;
  NvU64 gpFifoOffset = 0;
  NvU32 gpFifoEntries = 0;
  NvHandle hContextShare = 0;
  NvHandle hVASpace = 0;
  NvHandle hUserdMemory = 0;  // of the first subdevice, as userdOffset
  NvU64 userdOffset = 0;
  NvU32 engineType = 0;
};

template <class Layout>
[[nodiscard]] ChannelParams FromLayout(const Layout& raw) {
  ChannelParams params;
  params.hObjectError = raw.hObjectError;
  params.gpFifoOffset = raw.gpFifoOffset;
  params.gpFifoEntries = raw.gpFifoEntries;
  params.hContextShare = raw.hContextShare;
  params.hVASpace = raw.hVASpace;
  params.hUserdMemory = raw.hUserdMemory[0];
  params.userdOffset = raw.userdOffset[0];
  params.engineType = raw.engineType;
  return params;
}

// Sets those fields of `raw` and no others.
template <class Layout>
void IntoLayout(const ChannelParams& params, Layout& raw) {
  raw.hObjectError = params.hObjectError;
  raw.gpFifoOffset = params.gpFifoOffset;
  raw.gpFifoEntries = params.gpFifoEntries;
  raw.hContextShare = params.hContextShare;
  raw.hVASpace = params.hVASpace;
  raw.hUserdMemory[0] = params.hUserdMemory;
  raw.userdOffset[0] = params.userdOffset;
  raw.engineType = params.engineType;
}

// Returns `take` of what a caller of that branch wrote; the rest of a short `bytes` is zero.
template <class Take>
[[nodiscard]] auto OfChannel(Branch branch, std::span<const std::byte> bytes, Take take) {
  const auto load = [bytes, take](auto raw) {
    if (!bytes.empty()) {
      std::memcpy(&raw, bytes.data(), bytes.size() < sizeof(raw) ? bytes.size() : sizeof(raw));
    }
    return take(raw);
  };
  return branch >= Branch::k610 ? load(NV_CHANNEL_ALLOC_PARAMS_V610{})
                                : load(NV_CHANNEL_ALLOC_PARAMS_V535{});
}

[[nodiscard]] inline ChannelParams ReadChannelParams(Branch branch,
                                                     std::span<const std::byte> bytes) {
  return OfChannel(branch, bytes, [](const auto& raw) { return FromLayout(raw); });
}

// Returns the handles of memory or of context DMAs that the driver uses as long as the channel
// lives: its error notifiers, and USERD of each subdevice; 0: none (kernel_channel.c
// kchannelConstruct_IMPL(), kernel_channel_gv100.c kchannelCreateUserdMemDescBc_GV100()).
[[nodiscard]] inline std::array<NvHandle, 10> KeptByChannel(Branch branch,
                                                            std::span<const std::byte> bytes) {
  return OfChannel(branch, bytes, [](const auto& raw) {
    std::array<NvHandle, 10> kept{raw.hObjectError, raw.hObjectEccError};
    std::ranges::copy(raw.hUserdMemory, kept.begin() + 2);
    return kept;
  });
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_CHANNEL_PARAMS_H_
