// The context buffers that a simulated GPU charges per channel group.
//
// The figures are the simulation's. No GPU was measured: they are of a size that makes the buffers
// count in tests, and they are consistent: a client is charged what it is told when it asks.
#ifndef CGPU_SIM_MODEL_CONTEXT_BUFFERS_H_
#define CGPU_SIM_MODEL_CONTEXT_BUFFERS_H_

#include <optional>

#include "rm/nv_types.h"
#include "sim/model/gpu.h"

namespace cgpu::sim {

// Returns what NV2080_CTRL_CMD_GR_GET_ENGINE_CONTEXT_PROPERTIES answers for an engine id; nullopt:
// NV_ERR_NOT_SUPPORTED.
[[nodiscard]] std::optional<rm::NvU32> ContextBufferSize(const GpuModel& model,
                                                         rm::NvU32 engine_id);
// Returns what NV2080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT answers.
[[nodiscard]] rm::NvU32 MaxSubcontexts(const GpuModel& model);
// Returns the bytes that a channel group on the graphics/compute engine takes of the GPU.
[[nodiscard]] rm::NvU64 ContextGroupBytesOf(const GpuModel& model);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_CONTEXT_BUFFERS_H_
