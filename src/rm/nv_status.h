// NV_STATUS values: what the driver writes into the status field of an answered call.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/nvstatuscodes.h; the
// values are the same in 580.95.05 (which adds some that nothing here needs).
#ifndef CGPU_RM_NV_STATUS_H_
#define CGPU_RM_NV_STATUS_H_

#include <cstdint>

namespace cgpu::rm {

using NvStatus = std::uint32_t;

inline constexpr NvStatus NV_OK = 0x0;
inline constexpr NvStatus NV_ERR_GENERIC = 0xffff;
inline constexpr NvStatus NV_ERR_BROKEN_FB = 0x1;
inline constexpr NvStatus NV_ERR_BUFFER_TOO_SMALL = 0x2;
inline constexpr NvStatus NV_ERR_BUSY_RETRY = 0x3;
inline constexpr NvStatus NV_ERR_CALLBACK_NOT_SCHEDULED = 0x4;
inline constexpr NvStatus NV_ERR_CARD_NOT_PRESENT = 0x5;
inline constexpr NvStatus NV_ERR_CYCLE_DETECTED = 0x6;
inline constexpr NvStatus NV_ERR_DMA_IN_USE = 0x7;
inline constexpr NvStatus NV_ERR_DMA_MEM_NOT_LOCKED = 0x8;
inline constexpr NvStatus NV_ERR_DMA_MEM_NOT_UNLOCKED = 0x9;
inline constexpr NvStatus NV_ERR_DUAL_LINK_INUSE = 0xa;
inline constexpr NvStatus NV_ERR_ECC_ERROR = 0xb;
inline constexpr NvStatus NV_ERR_FIFO_BAD_ACCESS = 0xc;
inline constexpr NvStatus NV_ERR_FREQ_NOT_SUPPORTED = 0xd;
inline constexpr NvStatus NV_ERR_GPU_DMA_NOT_INITIALIZED = 0xe;
inline constexpr NvStatus NV_ERR_GPU_IS_LOST = 0xf;
inline constexpr NvStatus NV_ERR_GPU_IN_FULLCHIP_RESET = 0x10;
inline constexpr NvStatus NV_ERR_GPU_NOT_FULL_POWER = 0x11;
inline constexpr NvStatus NV_ERR_GPU_UUID_NOT_FOUND = 0x12;
inline constexpr NvStatus NV_ERR_HOT_SWITCH = 0x13;
inline constexpr NvStatus NV_ERR_I2C_ERROR = 0x14;
inline constexpr NvStatus NV_ERR_I2C_SPEED_TOO_HIGH = 0x15;
inline constexpr NvStatus NV_ERR_ILLEGAL_ACTION = 0x16;
inline constexpr NvStatus NV_ERR_IN_USE = 0x17;
inline constexpr NvStatus NV_ERR_INFLATE_COMPRESSED_DATA_FAILED = 0x18;
inline constexpr NvStatus NV_ERR_INSERT_DUPLICATE_NAME = 0x19;
inline constexpr NvStatus NV_ERR_INSUFFICIENT_RESOURCES = 0x1a;
inline constexpr NvStatus NV_ERR_INSUFFICIENT_PERMISSIONS = 0x1b;
inline constexpr NvStatus NV_ERR_INSUFFICIENT_POWER = 0x1c;
inline constexpr NvStatus NV_ERR_INVALID_ACCESS_TYPE = 0x1d;
inline constexpr NvStatus NV_ERR_INVALID_ADDRESS = 0x1e;
inline constexpr NvStatus NV_ERR_INVALID_ARGUMENT = 0x1f;
inline constexpr NvStatus NV_ERR_INVALID_BASE = 0x20;
inline constexpr NvStatus NV_ERR_INVALID_CHANNEL = 0x21;
inline constexpr NvStatus NV_ERR_INVALID_CLASS = 0x22;
inline constexpr NvStatus NV_ERR_INVALID_CLIENT = 0x23;
inline constexpr NvStatus NV_ERR_INVALID_COMMAND = 0x24;
inline constexpr NvStatus NV_ERR_INVALID_DATA = 0x25;
inline constexpr NvStatus NV_ERR_INVALID_DEVICE = 0x26;
inline constexpr NvStatus NV_ERR_INVALID_DMA_SPECIFIER = 0x27;
inline constexpr NvStatus NV_ERR_INVALID_EVENT = 0x28;
inline constexpr NvStatus NV_ERR_INVALID_FLAGS = 0x29;
inline constexpr NvStatus NV_ERR_INVALID_FUNCTION = 0x2a;
inline constexpr NvStatus NV_ERR_INVALID_HEAP = 0x2b;
inline constexpr NvStatus NV_ERR_INVALID_INDEX = 0x2c;
inline constexpr NvStatus NV_ERR_INVALID_IRQ_LEVEL = 0x2d;
inline constexpr NvStatus NV_ERR_INVALID_LIMIT = 0x2e;
inline constexpr NvStatus NV_ERR_INVALID_LOCK_STATE = 0x2f;
inline constexpr NvStatus NV_ERR_INVALID_METHOD = 0x30;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT = 0x31;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT_BUFFER = 0x32;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT_HANDLE = 0x33;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT_NEW = 0x34;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT_OLD = 0x35;
inline constexpr NvStatus NV_ERR_INVALID_OBJECT_PARENT = 0x36;
inline constexpr NvStatus NV_ERR_INVALID_OFFSET = 0x37;
inline constexpr NvStatus NV_ERR_INVALID_OPERATION = 0x38;
inline constexpr NvStatus NV_ERR_INVALID_OWNER = 0x39;
inline constexpr NvStatus NV_ERR_INVALID_PARAM_STRUCT = 0x3a;
inline constexpr NvStatus NV_ERR_INVALID_PARAMETER = 0x3b;
inline constexpr NvStatus NV_ERR_INVALID_PATH = 0x3c;
inline constexpr NvStatus NV_ERR_INVALID_POINTER = 0x3d;
inline constexpr NvStatus NV_ERR_INVALID_REGISTRY_KEY = 0x3e;
inline constexpr NvStatus NV_ERR_INVALID_REQUEST = 0x3f;
inline constexpr NvStatus NV_ERR_INVALID_STATE = 0x40;
inline constexpr NvStatus NV_ERR_INVALID_STRING_LENGTH = 0x41;
inline constexpr NvStatus NV_ERR_INVALID_READ = 0x42;
inline constexpr NvStatus NV_ERR_INVALID_WRITE = 0x43;
inline constexpr NvStatus NV_ERR_INVALID_XLATE = 0x44;
inline constexpr NvStatus NV_ERR_IRQ_NOT_FIRING = 0x45;
inline constexpr NvStatus NV_ERR_IRQ_EDGE_TRIGGERED = 0x46;
inline constexpr NvStatus NV_ERR_MEMORY_TRAINING_FAILED = 0x47;
inline constexpr NvStatus NV_ERR_MISMATCHED_SLAVE = 0x48;
inline constexpr NvStatus NV_ERR_MISMATCHED_TARGET = 0x49;
inline constexpr NvStatus NV_ERR_MISSING_TABLE_ENTRY = 0x4a;
inline constexpr NvStatus NV_ERR_MODULE_LOAD_FAILED = 0x4b;
inline constexpr NvStatus NV_ERR_MORE_DATA_AVAILABLE = 0x4c;
inline constexpr NvStatus NV_ERR_MORE_PROCESSING_REQUIRED = 0x4d;
inline constexpr NvStatus NV_ERR_MULTIPLE_MEMORY_TYPES = 0x4e;
inline constexpr NvStatus NV_ERR_NO_FREE_FIFOS = 0x4f;
inline constexpr NvStatus NV_ERR_NO_INTR_PENDING = 0x50;
inline constexpr NvStatus NV_ERR_NO_MEMORY = 0x51;
inline constexpr NvStatus NV_ERR_NO_SUCH_DOMAIN = 0x52;
inline constexpr NvStatus NV_ERR_NO_VALID_PATH = 0x53;
inline constexpr NvStatus NV_ERR_NOT_COMPATIBLE = 0x54;
inline constexpr NvStatus NV_ERR_NOT_READY = 0x55;
inline constexpr NvStatus NV_ERR_NOT_SUPPORTED = 0x56;
inline constexpr NvStatus NV_ERR_OBJECT_NOT_FOUND = 0x57;
inline constexpr NvStatus NV_ERR_OBJECT_TYPE_MISMATCH = 0x58;
inline constexpr NvStatus NV_ERR_OPERATING_SYSTEM = 0x59;
inline constexpr NvStatus NV_ERR_OTHER_DEVICE_FOUND = 0x5a;
inline constexpr NvStatus NV_ERR_OUT_OF_RANGE = 0x5b;
inline constexpr NvStatus NV_ERR_OVERLAPPING_UVM_COMMIT = 0x5c;
inline constexpr NvStatus NV_ERR_PAGE_TABLE_NOT_AVAIL = 0x5d;
inline constexpr NvStatus NV_ERR_PID_NOT_FOUND = 0x5e;
inline constexpr NvStatus NV_ERR_PROTECTION_FAULT = 0x5f;
inline constexpr NvStatus NV_ERR_RC_ERROR = 0x60;
inline constexpr NvStatus NV_ERR_REJECTED_VBIOS = 0x61;
inline constexpr NvStatus NV_ERR_RESET_REQUIRED = 0x62;
inline constexpr NvStatus NV_ERR_STATE_IN_USE = 0x63;
inline constexpr NvStatus NV_ERR_SIGNAL_PENDING = 0x64;
inline constexpr NvStatus NV_ERR_TIMEOUT = 0x65;
inline constexpr NvStatus NV_ERR_TIMEOUT_RETRY = 0x66;
inline constexpr NvStatus NV_ERR_TOO_MANY_PRIMARIES = 0x67;
inline constexpr NvStatus NV_ERR_UVM_ADDRESS_IN_USE = 0x68;
inline constexpr NvStatus NV_ERR_MAX_SESSION_LIMIT_REACHED = 0x69;
inline constexpr NvStatus NV_ERR_LIB_RM_VERSION_MISMATCH = 0x6a;
inline constexpr NvStatus NV_ERR_PRIV_SEC_VIOLATION = 0x6b;
inline constexpr NvStatus NV_ERR_GPU_IN_DEBUG_MODE = 0x6c;
inline constexpr NvStatus NV_ERR_FEATURE_NOT_ENABLED = 0x6d;
inline constexpr NvStatus NV_ERR_RESOURCE_LOST = 0x6e;
inline constexpr NvStatus NV_ERR_PMU_NOT_READY = 0x6f;
inline constexpr NvStatus NV_ERR_FLCN_ERROR = 0x70;
inline constexpr NvStatus NV_ERR_FATAL_ERROR = 0x71;
inline constexpr NvStatus NV_ERR_MEMORY_ERROR = 0x72;
inline constexpr NvStatus NV_ERR_INVALID_LICENSE = 0x73;
inline constexpr NvStatus NV_ERR_NVLINK_INIT_ERROR = 0x74;
inline constexpr NvStatus NV_ERR_NVLINK_MINION_ERROR = 0x75;
inline constexpr NvStatus NV_ERR_NVLINK_CLOCK_ERROR = 0x76;
inline constexpr NvStatus NV_ERR_NVLINK_TRAINING_ERROR = 0x77;
inline constexpr NvStatus NV_ERR_NVLINK_CONFIGURATION_ERROR = 0x78;
inline constexpr NvStatus NV_ERR_RISCV_ERROR = 0x79;
inline constexpr NvStatus NV_ERR_FABRIC_MANAGER_NOT_PRESENT = 0x7a;
inline constexpr NvStatus NV_ERR_ALREADY_SIGNALLED = 0x7b;
inline constexpr NvStatus NV_ERR_QUEUE_TASK_SLOT_NOT_AVAILABLE = 0x7c;
inline constexpr NvStatus NV_ERR_KEY_ROTATION_IN_PROGRESS = 0x7d;
inline constexpr NvStatus NV_ERR_NVSWITCH_FABRIC_NOT_READY = 0x81;
inline constexpr NvStatus NV_ERR_NVSWITCH_FABRIC_FAILURE = 0x82;
// From 610 on, which uses it where a cgroup has a limit on GPU memory:
inline constexpr NvStatus NV_ERR_RESOURCE_ACCOUNTING_HARD_LIMIT_EXCEEDED = 0x8d;
inline constexpr NvStatus NV_WARN_HOT_SWITCH = 0x10001;
inline constexpr NvStatus NV_WARN_INCORRECT_PERFMON_DATA = 0x10002;
inline constexpr NvStatus NV_WARN_MISMATCHED_SLAVE = 0x10003;
inline constexpr NvStatus NV_WARN_MISMATCHED_TARGET = 0x10004;
inline constexpr NvStatus NV_WARN_MORE_PROCESSING_REQUIRED = 0x10005;
inline constexpr NvStatus NV_WARN_NOTHING_TO_DO = 0x10006;
inline constexpr NvStatus NV_WARN_NULL_OBJECT = 0x10007;
inline constexpr NvStatus NV_WARN_OUT_OF_RANGE = 0x10008;

// Returns "NV_ERR_NO_MEMORY" and the like; nullptr for a value that is not in the list above.
[[nodiscard]] const char* StatusName(NvStatus status);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_STATUS_H_
