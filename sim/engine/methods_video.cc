// The video decoders: clc9b0.h. A picture takes Costs::kernel_ns and decodes nothing.
#include <algorithm>

#include "sim/engine/execute.h"

namespace cgpu::sim::engine {

void VideoMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                 Step& step) {
  enum Method : std::uint32_t {
    kSemaphoreA = 0x240,
    kSemaphoreB = 0x244,
    kSemaphoreC = 0x248,
    kExecute = 0x300,
    kSemaphoreD = 0x304,
  };
  constexpr std::uint32_t kOne = 0;  // SEMAPHORE_D_STRUCTURE_SIZE
  constexpr std::uint32_t kFour = 1;
  VideoState& video = channel.video;
  switch (method) {
    case kSemaphoreA:
      video.semaphore = WithUpper(video.semaphore, Bits(data, 24, 0));
      return;
    case kSemaphoreB:
      video.semaphore = WithLower(video.semaphore, data & ~std::uint32_t{3});
      return;
    case kSemaphoreC:
      video.payload = data;
      return;
    case kExecute:
      channel.operation =
          Operation{Operation::Kind::kVideo, std::max(machine.costs.kernel_ns, Duration{1}), true};
      return;
    case kSemaphoreD: {
      const std::uint32_t size = Bits(data, 1, 0);
      ReleaseOrFault(
          channel, machine,
          Release{video.semaphore, video.payload, size != kOne, size == kFour, std::nullopt, false},
          step);
      if (Bit(data, 8)) {  // AWAKEN_ENABLE
        machine.events.OnInterrupt(machine.runlist, channel.key, machine.now);
      }
      return;
    }
    default:
      ++channel.ignored_methods;
  }
}

}  // namespace cgpu::sim::engine
