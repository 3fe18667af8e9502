// Numbers of the driver's ioctls.
//
// The driver looks at _IOC_NR and _IOC_SIZE of a request and at nothing else (NVIDIA/
// open-gpu-kernel-modules 550.163.01 kernel-open/nvidia/nv.c nvidia_ioctl): type byte and direction
// bits may have any value. nvidia-uvm compares whole 32-bit numbers. Their type byte is zero, and
// what UVM_INITIALIZE and UVM_DEINITIALIZE have in the place of a size is none.
#ifndef CGPU_RM_NV_ESCAPE_H_
#define CGPU_RM_NV_ESCAPE_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

// From src/nvidia/arch/nvalloc/unix/include/nv_escape.h:
inline constexpr NvU8 NV_ESC_RM_ALLOC_MEMORY = 0x27;
inline constexpr NvU8 NV_ESC_RM_ALLOC_OBJECT = 0x28;
inline constexpr NvU8 NV_ESC_RM_FREE = 0x29;
inline constexpr NvU8 NV_ESC_RM_CONTROL = 0x2A;
inline constexpr NvU8 NV_ESC_RM_ALLOC = 0x2B;
inline constexpr NvU8 NV_ESC_RM_CONFIG_GET = 0x32;
inline constexpr NvU8 NV_ESC_RM_CONFIG_SET = 0x33;
inline constexpr NvU8 NV_ESC_RM_DUP_OBJECT = 0x34;
inline constexpr NvU8 NV_ESC_RM_SHARE = 0x35;
inline constexpr NvU8 NV_ESC_RM_CONFIG_GET_EX = 0x37;
inline constexpr NvU8 NV_ESC_RM_CONFIG_SET_EX = 0x38;
inline constexpr NvU8 NV_ESC_RM_I2C_ACCESS = 0x39;
inline constexpr NvU8 NV_ESC_RM_IDLE_CHANNELS = 0x41;
inline constexpr NvU8 NV_ESC_RM_VID_HEAP_CONTROL = 0x4A;
inline constexpr NvU8 NV_ESC_RM_ACCESS_REGISTRY = 0x4D;
inline constexpr NvU8 NV_ESC_RM_MAP_MEMORY = 0x4E;
inline constexpr NvU8 NV_ESC_RM_UNMAP_MEMORY = 0x4F;
inline constexpr NvU8 NV_ESC_RM_GET_EVENT_DATA = 0x52;
inline constexpr NvU8 NV_ESC_RM_ALLOC_CONTEXT_DMA2 = 0x54;
inline constexpr NvU8 NV_ESC_RM_ADD_VBLANK_CALLBACK = 0x56;
inline constexpr NvU8 NV_ESC_RM_MAP_MEMORY_DMA = 0x57;
inline constexpr NvU8 NV_ESC_RM_UNMAP_MEMORY_DMA = 0x58;
inline constexpr NvU8 NV_ESC_RM_BIND_CONTEXT_DMA = 0x59;
inline constexpr NvU8 NV_ESC_RM_EXPORT_OBJECT_TO_FD = 0x5C;
inline constexpr NvU8 NV_ESC_RM_IMPORT_OBJECT_FROM_FD = 0x5D;
inline constexpr NvU8 NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO = 0x5E;
inline constexpr NvU8 NV_ESC_RM_LOCKLESS_DIAGNOSTIC = 0x5F;

// From src/nvidia/arch/nvalloc/unix/include/nv-ioctl-numbers.h (NV_IOCTL_BASE is 200):
inline constexpr NvU8 NV_IOCTL_MAGIC = 'F';
inline constexpr NvU8 NV_ESC_CARD_INFO = 200;
inline constexpr NvU8 NV_ESC_REGISTER_FD = 201;
inline constexpr NvU8 NV_ESC_ALLOC_OS_EVENT = 206;
inline constexpr NvU8 NV_ESC_FREE_OS_EVENT = 207;
inline constexpr NvU8 NV_ESC_STATUS_CODE = 209;
inline constexpr NvU8 NV_ESC_CHECK_VERSION_STR = 210;
inline constexpr NvU8 NV_ESC_IOCTL_XFER_CMD = 211;
inline constexpr NvU8 NV_ESC_ATTACH_GPUS_TO_FD = 212;
inline constexpr NvU8 NV_ESC_QUERY_DEVICE_INTR = 213;
inline constexpr NvU8 NV_ESC_SYS_PARAMS = 214;
inline constexpr NvU8 NV_ESC_EXPORT_TO_DMABUF_FD = 217;
inline constexpr NvU8 NV_ESC_WAIT_OPEN_COMPLETE = 218;

// From src/nvidia/arch/nvalloc/unix/include/nv-ioctl-numa.h:
inline constexpr NvU8 NV_ESC_NUMA_INFO = 215;
inline constexpr NvU8 NV_ESC_SET_NUMA_STATUS = 216;

// From kernel-open/common/inc/nv.h: the largest inner size NV_ESC_IOCTL_XFER_CMD takes.
inline constexpr NvU32 NV_ABSOLUTE_MAX_IOCTL_SIZE = 16384;

// Returns the request number with the vendor's own type and direction, as its libraries issue it.
[[nodiscard]] constexpr NvU32 EscapeRequest(NvU8 nr, NvU32 size) {
  return 0xC0000000U | ((size & 0x3FFFU) << 16) | (NvU32{NV_IOCTL_MAGIC} << 8) | nr;
}
// Return the parts of a request number that the driver reads.
[[nodiscard]] constexpr NvU8 EscapeNr(NvU32 request) {
  return static_cast<NvU8>(request & 0xFFU);
}
[[nodiscard]] constexpr NvU32 EscapeSize(NvU32 request) {
  return (request >> 16) & 0x3FFFU;
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_ESCAPE_H_
