#include "sim/model/context_buffers.h"

#include "rm/context_buffers.h"

namespace cgpu::sim {

std::optional<rm::NvU32> ContextBufferSize(const GpuModel& model, rm::NvU32 engine_id) {
  // One size for every model but the preemption buffer, which grows with the GPU.
  const rm::NvU32 preempt_mib = model.memory_mib >= 16000 ? 20 : 12;
  switch (engine_id) {
    case rm::kEngineIdGraphics:
      return 1536 * kKiB;
    case rm::kEngineIdGraphicsZcull:
      return 640 * kKiB;
    case rm::kEngineIdGraphicsPm:
      return 512 * kKiB;
    case rm::kEngineIdGraphicsPreempt:
      return preempt_mib * 1024 * kKiB;
    case rm::kEngineIdGraphicsSpill:
      return 3072 * kKiB;
    case rm::kEngineIdGraphicsPagepool:
      return 256 * kKiB;
    case rm::kEngineIdGraphicsBetacb:
      return 2048 * kKiB;
    case rm::kEngineIdGraphicsRtv:
      return 300 * kKiB;
    case rm::kEngineIdGraphicsPatch:
      return 68 * kKiB;
    default:
      return std::nullopt;
  }
}

rm::NvU32 MaxSubcontexts(const GpuModel& model) {
  return model.chip->architecture >= 0x160 ? 64 : 8;
}

rm::NvU64 ContextGroupBytesOf(const GpuModel& model) {
  rm::ContextBufferSizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = ContextBufferSize(model, rm::kGroupContextBuffers[i]).value_or(0);
  }
  return rm::ContextGroupBytes(sizes, MaxSubcontexts(model));
}

}  // namespace cgpu::sim
