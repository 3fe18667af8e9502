// Computes what a channel group costs on the GPU before it holds any work: its context buffers.
//
// The driver allocates them for itself, on the GPU, once per channel group on the graphics/compute
// engine. Any client that holds a subdevice can ask their sizes before it allocates anything:
// NV2080_CTRL_CMD_GR_GET_ENGINE_CONTEXT_PROPERTIES with each of kGroupContextBuffers, which needs
// no privilege (src/nvidia/src/kernel/gpu/gr/kernel_graphics.c
// subdeviceCtrlCmdKGrGetEngineContextProperties_IMPL). NV_ERR_NOT_SUPPORTED means that the GPU has
// no such buffer. Three other commands are not used: GR_GET_CTX_BUFFER_SIZE answers only for a
// group whose context exists already, GR_GET_CTX_BUFFER_INFO is for the kernel alone, and NV0080
// FIFO_GET_ENGINE_CONTEXT_PROPERTIES tells the same as the first but is routed to the GPU's
// firmware.
//
// Which buffers are per group: kernel_graphics_context.c kgrctxCtxBufferToFifoEngineId
// (GR_CTX_BUFFER to engine id). The other engine ids are buffers of the whole GPU, allocated once.
// The main buffer is followed by one 4 KiB header per subcontext (kernel_graphics.c
// kgraphicsGetMainCtxBufferSize). Their number is the answer of NV2080_CTRL_CMD_GR_GET_INFO_V2,
// index MAX_SUBCONTEXT_COUNT.
#ifndef CGPU_RM_CONTEXT_BUFFERS_H_
#define CGPU_RM_CONTEXT_BUFFERS_H_

#include <array>

#include "rm/nv_types.h"

namespace cgpu::rm {

// From ctrl/ctrl0080/ctrl0080fifo.h, NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_ENGINE_ID_*:
inline constexpr NvU32 kEngineIdGraphics = 0x00;  // the main buffer
inline constexpr NvU32 kEngineIdGraphicsZcull = 0x08;
inline constexpr NvU32 kEngineIdGraphicsPm = 0x09;
inline constexpr NvU32 kEngineIdGraphicsPreempt = 0x0B;
inline constexpr NvU32 kEngineIdGraphicsSpill = 0x0C;
inline constexpr NvU32 kEngineIdGraphicsPagepool = 0x0D;
inline constexpr NvU32 kEngineIdGraphicsBetacb = 0x0E;
inline constexpr NvU32 kEngineIdGraphicsRtv = 0x0F;
inline constexpr NvU32 kEngineIdGraphicsPatch = 0x10;
inline constexpr NvU32 kEngineIdGraphicsSetup = 0x19;
inline constexpr NvU32 kEngineIdCount = 0x1A;

inline constexpr auto kGroupContextBuffers = std::to_array<NvU32>(
    {kEngineIdGraphics, kEngineIdGraphicsZcull, kEngineIdGraphicsPm, kEngineIdGraphicsPreempt,
     kEngineIdGraphicsSpill, kEngineIdGraphicsPagepool, kEngineIdGraphicsBetacb,
     kEngineIdGraphicsRtv, kEngineIdGraphicsPatch, kEngineIdGraphicsSetup});

// Sizes in bytes as the driver answered, in the order of kGroupContextBuffers; 0 for a buffer it
// does not have.
using ContextBufferSizes = std::array<NvU64, kGroupContextBuffers.size()>;

// Returns the bytes of the GPU that one channel group takes, at most: each buffer in whole 4 KiB
// pages, the main one with `max_subcontexts` headers, and the sum in whole units of
// kVidmemGranularity. Returns 0 when no buffer has a size. Saturates.
[[nodiscard]] NvU64 ContextGroupBytes(const ContextBufferSizes& sizes, NvU32 max_subcontexts);

// Returns the bytes of the GPU that an address space (FERMI_VASPACE_A) takes from the start. The
// range that the GPU's firmware manages has its page tables, down to those whose entries are 512
// MiB: three from Turing on, where there is such firmware, and four from Hopper on
// (src/nvidia/src/kernel/mem_mgr/gpu_vaspace.c _gvaspaceReserveVaForClientRm()). `architecture`:
// NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_* (ctrl2080mc.h).
[[nodiscard]] NvU64 AddressSpaceBytes(NvU32 architecture);

}  // namespace cgpu::rm

#endif  // CGPU_RM_CONTEXT_BUFFERS_H_
