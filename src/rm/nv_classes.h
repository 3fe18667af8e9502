// Numbers of RM classes, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 and 580.95.05 src/common/sdk/nvidia/inc/class/*.h
// and nvos.h. Their parameters: class_table.h.
#ifndef CGPU_RM_NV_CLASSES_H_
#define CGPU_RM_NV_CLASSES_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

// Clients. RM_ALLOC of any of the three makes a client (escape.c).
inline constexpr NvU32 NV01_ROOT = 0x0;
inline constexpr NvU32 NV01_ROOT_NON_PRIV = 0x1;
inline constexpr NvU32 NV01_ROOT_CLIENT = 0x41;

inline constexpr NvU32 NV01_DEVICE_0 = 0x80;
inline constexpr NvU32 NV20_SUBDEVICE_0 = 0x2080;

// Events. The only classes RM_ALLOC takes on a card's file as well (escape.c).
inline constexpr NvU32 NV01_EVENT = 0x5;
inline constexpr NvU32 NV01_EVENT_KERNEL_CALLBACK = 0x78;
inline constexpr NvU32 NV01_EVENT_OS_EVENT = 0x79;
inline constexpr NvU32 NV01_EVENT_KERNEL_CALLBACK_EX = 0x7E;

// Memory.
inline constexpr NvU32 NV01_CONTEXT_DMA = 0x2;
inline constexpr NvU32 NV01_MEMORY_SYSTEM = 0x3E;
inline constexpr NvU32 NV01_MEMORY_LOCAL_PRIVILEGED = 0x3F;
inline constexpr NvU32 NV01_MEMORY_LOCAL_USER = 0x40;
inline constexpr NvU32 NV_MEMORY_EXTENDED_USER = 0x42;
inline constexpr NvU32 NV01_MEMORY_VIRTUAL = 0x70;
inline constexpr NvU32 NV01_MEMORY_SYSTEM_OS_DESCRIPTOR = 0x71;
inline constexpr NvU32 NV01_MEMORY_LIST_SYSTEM = 0x81;
inline constexpr NvU32 NV01_MEMORY_LIST_FBMEM = 0x82;
inline constexpr NvU32 NV01_MEMORY_LIST_OBJECT = 0x83;
inline constexpr NvU32 NV01_MEMORY_HW_RESOURCES = 0xB1;
inline constexpr NvU32 NV01_MEMORY_LOCAL_PHYSICAL = 0xC2;
inline constexpr NvU32 NV_SEMAPHORE_SURFACE = 0xDA;
inline constexpr NvU32 RM_USER_SHARED_DATA = 0xDE;
inline constexpr NvU32 NV_MEMORY_FABRIC = 0xF8;
inline constexpr NvU32 NV_MEMORY_MULTICAST_FABRIC = 0xFD;
inline constexpr NvU32 NV50_MEMORY_VIRTUAL = 0x50A0;
inline constexpr NvU32 FERMI_VASPACE_A = 0x90F1;

// Channels.
inline constexpr NvU32 FERMI_CONTEXT_SHARE_A = 0x9067;
inline constexpr NvU32 KEPLER_CHANNEL_GROUP_A = 0xA06C;
inline constexpr NvU32 VOLTA_CHANNEL_GPFIFO_A = 0xC36F;
inline constexpr NvU32 TURING_CHANNEL_GPFIFO_A = 0xC46F;
inline constexpr NvU32 AMPERE_CHANNEL_GPFIFO_A = 0xC56F;
inline constexpr NvU32 HOPPER_CHANNEL_GPFIFO_A = 0xC86F;
inline constexpr NvU32 BLACKWELL_CHANNEL_GPFIFO_A = 0xC96F;
inline constexpr NvU32 BLACKWELL_CHANNEL_GPFIFO_B = 0xCA6F;
inline constexpr NvU32 VOLTA_USERMODE_A = 0xC361;
inline constexpr NvU32 TURING_USERMODE_A = 0xC461;
inline constexpr NvU32 AMPERE_USERMODE_A = 0xC561;
inline constexpr NvU32 HOPPER_USERMODE_A = 0xC661;
inline constexpr NvU32 BLACKWELL_USERMODE_A = 0xC761;

// Engine objects.
inline constexpr NvU32 VOLTA_DMA_COPY_A = 0xC3B5;
inline constexpr NvU32 TURING_DMA_COPY_A = 0xC5B5;
inline constexpr NvU32 AMPERE_DMA_COPY_A = 0xC6B5;
inline constexpr NvU32 AMPERE_DMA_COPY_B = 0xC7B5;
inline constexpr NvU32 HOPPER_DMA_COPY_A = 0xC8B5;
inline constexpr NvU32 VOLTA_COMPUTE_A = 0xC3C0;
inline constexpr NvU32 TURING_COMPUTE_A = 0xC5C0;
inline constexpr NvU32 AMPERE_COMPUTE_A = 0xC6C0;
inline constexpr NvU32 AMPERE_COMPUTE_B = 0xC7C0;
inline constexpr NvU32 ADA_COMPUTE_A = 0xC9C0;
inline constexpr NvU32 HOPPER_COMPUTE_A = 0xCBC0;

// Others that the tables know because they must be refused or replaced.
inline constexpr NvU32 NV50_P2P = 0x503B;
inline constexpr NvU32 NV50_THIRD_PARTY_P2P = 0x503C;
inline constexpr NvU32 NV20_SUBDEVICE_DIAG = 0x208F;
inline constexpr NvU32 GT200_DEBUGGER = 0x83DE;
inline constexpr NvU32 NV_EVENT_BUFFER = 0x90CD;

#define CGPU_CLASS_ROW(name, number, ...) inline constexpr NvU32 name = number;
#include "rm/classes/engines.inc"
#undef CGPU_CLASS_ROW

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_CLASSES_H_
