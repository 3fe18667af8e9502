// The rules for controls. A control that is not listed is refused. A control that real programs
// send and that is refused is listed with the reason.
//
// The starting point is what gVisor's nvproxy admits for compute, utility, graphics and video
// (google/gvisor pkg/sentry/devices/nvproxy/version.go). Removed, or answered by us, are controls
// that change the GPU for all (scheduling, clocks, watchdogs, partitions), that read or write
// registers or other contexts, and that report other tenants. nvproxy admits by a rule the controls
// that the driver hands to the GPU's firmware unseen (rm/control_route.h). Here, each of those that
// programs are recorded to ask and that concerns only the caller has a row of its own.
#include <algorithm>
#include <array>
#include <cstddef>

#include "boundary/policy.h"
#include "boundary/reasons.h"
#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::boundary {
namespace {

using Effect = ControlEffect;

constexpr ControlRule Refuse(std::uint32_t command, std::string_view why) {
  return {command, Effect::kRefuse, 0, rm::NV_ERR_INVALID_ARGUMENT, why};
}
constexpr ControlRule Swallow(std::uint32_t command, std::string_view why) {
  return {command, Effect::kSwallow, 0, rm::NV_ERR_INVALID_ARGUMENT, why};
}
constexpr ControlRule Empty(std::uint32_t command, std::string_view why) {
  return {command, Effect::kEmpty, 0, rm::NV_ERR_INVALID_ARGUMENT, why};
}

constexpr std::string_view kShares = "cgpu gives the shares";
constexpr std::string_view kDebuggers =
    "debuggers (cuda-gdb, GPU core dumps) stop and read contexts; not in a slice";
constexpr std::string_view kWholeGpu = "shows the load of the whole card";

constexpr auto kControls = std::to_array<ControlRule>({
    // Client (NV0000)
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, Effect::kPass},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO, Effect::kPass},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS, Effect::kPeerCaps},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2, Effect::kPeerCaps},
    // A slice has no fabric, whatever the machine has: both answers say so.
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS, Effect::kView},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX, Effect::kPeerCaps},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, Effect::kPass},
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, Effect::kPass},
    {rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, Effect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO, Effect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_ID_INFO_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_GET_DEVICE_IDS, Effect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, Effect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, Effect::kView},
    {rm::NV0000_CTRL_CMD_GPU_ATTACH_IDS, Effect::kGpuIdList, 0},
    {rm::NV0000_CTRL_CMD_GPU_DETACH_IDS, Effect::kGpuIdList, 0},
    {rm::NV0000_CTRL_CMD_GPU_GET_PCI_INFO, Effect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS, gpuId), rm::NV_ERR_OBJECT_NOT_FOUND},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_INFO, Effect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, Effect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS, gpuId), rm::NV_ERR_OBJECT_NOT_FOUND},
    {rm::NV0000_CTRL_CMD_GPU_QUERY_DRAIN_STATE, Effect::kGpuId, 0},
    {rm::NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, Effect::kPass},
    {rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, Effect::kView},
    {rm::NV0000_CTRL_CMD_GPU_ASYNC_ATTACH_ID, Effect::kGpuId, 0},
    {rm::NV0000_CTRL_CMD_GPU_WAIT_ATTACH_ID, Effect::kPass},  // the driver looks at no GPU
    {rm::NV0000_CTRL_CMD_GSYNC_GET_ATTACHED_IDS, Effect::kPass},
    Empty(rm::NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, "groups name cards of the whole node"),
    Refuse(rm::NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE,
           "accounting is of every process on the card"),
    {rm::NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE, Effect::kPass},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, Effect::kPass},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS, Effect::kClient,
     offsetof(rm::NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS, hClient)},
    {rm::NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, Effect::kSharePolicy},
    {rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, Effect::kExport},
    {rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, Effect::kImport},
    {rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, Effect::kExportInfo},
    {rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, Effect::kExportMany},
    {rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, Effect::kImportMany},
    // Device (NV0080)
    {rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, Effect::kPass},
    Refuse(rm::NV0080_CTRL_CMD_UNDOCUMENTED_028B,
           "asked by nvidia-smi on some drivers; in no table of the open driver, which refuses it"),
    // Whether the chip is one for virtual GPUs, and its brand: as it is made (device_ctrl.c).
    {rm::NV0080_CTRL_CMD_GPU_GET_VGX_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GPU_GET_BRAND_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GR_GET_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_GR_GET_INFO, Effect::kPass},
    Refuse(rm::NV0080_CTRL_CMD_GR_SET_TPC_PARTITION_MODE,
           "MPS partitions the card's engines; an MPS server does not run in a slice"),
    {rm::NV0080_CTRL_CMD_GR_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FB_GET_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FB_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_HOST_GET_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_HOST_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FIFO_GET_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FIFO_GET_ENGINE_CONTEXT_PROPERTIES, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, Effect::kPass},
    {rm::NV0080_CTRL_CMD_FIFO_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_DMA_ADV_SCHED_GET_VA_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_DMA_GET_CAPS, Effect::kPass},
    // Answered as on NVIDIA's own virtual GPUs (kern_cuda_limit.c); without it cuCtxCreate fails.
    Swallow(rm::NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, "limits clocks of the whole card"),
    {rm::NV0080_CTRL_CMD_MSENC_GET_CAPS, Effect::kPass},
    {rm::NV0080_CTRL_CMD_MSENC_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_BSP_GET_CAPS_V2, Effect::kPass},
    {rm::NV0080_CTRL_CMD_NVJPG_GET_CAPS_V2, Effect::kPass},
    // Subdevice (NV2080)
    {rm::NV2080_CTRL_CMD_GPU_GET_INFO_V2, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_ENGINES, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_QUERY_ECC_CONFIGURATION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_OEM_BOARD_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_ID, Effect::kPass},
    Swallow(rm::NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION,
            "a lock on the card, one for all tenants"),
    Swallow(rm::NV2080_CTRL_CMD_GPU_RELEASE_COMPUTE_MODE_RESERVATION,
            "a lock on the card, one for all tenants"),
    {rm::NV2080_CTRL_CMD_GPU_GET_ENGINE_PARTNERLIST, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_GID_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_INFOROM_IMAGE_VERSION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_QUERY_INFOROM_ECC_SUPPORT, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_ENCODER_CAPACITY, Effect::kPass},
    Empty(rm::NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS, "counts the sessions of all tenants"),
    {rm::NV2080_CTRL_CMD_GPU_GET_ENGINES_V2, Effect::kPass},
    Empty(rm::NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS, "counts the sessions of all tenants"),
    {rm::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS, Effect::kPass},
    // For each number, of up to 200, the driver would look at all clients of the host under its
    // lock.
    {rm::NV2080_CTRL_CMD_GPU_GET_PIDS, Effect::kLedger},
    {rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, Effect::kLedger},
    {rm::NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_SKYLINE_INFO, Effect::kPass},
    Empty(rm::NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO, "a slice is on no fabric"),
    {rm::NV2080_CTRL_CMD_GPU_GET_CHIP_DETAILS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_RECOVERY_ACTION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_TIMER_GET_TIME, Effect::kPass},
    {rm::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO, Effect::kPass},
    Swallow(rm::NV2080_CTRL_CMD_TIMER_SET_GR_TICK_FREQ, "a clock of the whole card"),
    {rm::NV2080_CTRL_CMD_THERMAL_SYSTEM_EXECUTE_V2, Effect::kReadings},
    {rm::NV2080_CTRL_CMD_BIOS_GET_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, Effect::kDisableChannels, 0, 0,
     "the driver does not ask whose the named channels are: only the container's own"},
    {rm::NV2080_CTRL_CMD_GR_GET_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_ZCULL_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND, Effect::kClient, 0},
    {rm::NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE, Effect::kPreemption, 0, 0,
     "a context that cannot be preempted starves the others: only finer modes are passed on"},
    Swallow(rm::NV2080_CTRL_CMD_GR_CTXSW_PREEMPTION_BIND,
            "a buffer for modes of graphics that keep to no slice"),
    {rm::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_CAPS_V2, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_GPC_MASK, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_TPC_MASK, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER_V2, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_GET_INFO, Effect::kView},
    {rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, Effect::kView},
    {rm::NV2080_CTRL_CMD_FB_GET_GPU_CACHE_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, Effect::kView},
    // tinygrad empties the L2 cache before it times a kernel in a search (BEAM). The driver would
    // hold the GPU's lock and take the cache of all tenants, and without the write-back what they
    // have written (kern_mem_sys_ctrl.c kmemsysFlushGpuCache_IMPL(), kern_mem_sys_gh100.c).
    {rm::NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE, Effect::kCacheFlush, 0, 0,
     "empties the L2 cache of all tenants: answered as done, as on NVIDIA's own virtual GPUs"},
    {rm::NV2080_CTRL_CMD_FB_GET_OFFLINED_PAGES, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_GET_SEMAPHORE_SURFACE_LAYOUT, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_PENDING_CONFIGURATION, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_INFOROM_SUPPORT, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_STATUS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_STATUS_V570, Effect::kPass},
    {rm::NV2080_CTRL_CMD_MC_GET_ARCH_INFO, Effect::kPass},
    // Programs that wait ask it once a second and read their errors after it; when it was refused,
    // a wait ended early (tests/gpu/records/580/wait.txt). Not swallowed: the driver hands it to
    // the firmware, whose part is not public, and itself does the work of the interrupts (intr.c).
    {rm::NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCI_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_BUS_GET_INFO, Effect::kBusInfo},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO, Effect::kView},
    {rm::NV2080_CTRL_CMD_BUS_GET_PEX_COUNTERS, Effect::kPass},
    Refuse(rm::NV2080_CTRL_CMD_BUS_GET_PEX_UTIL_COUNTERS, "counts the traffic of all tenants"),
    {rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2, Effect::kBusInfo},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCIE_REQ_ATOMICS_CAPS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_BUS_GET_C2C_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCIE_CPL_ATOMICS_CAPS, Effect::kPass},
    Swallow(rm::NV2080_CTRL_CMD_PERF_BOOST, "clocks of the whole card"),
    {rm::NV2080_CTRL_CMD_PERF_GET_CURRENT_PSTATE, Effect::kPass},
    Refuse(rm::NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2,
           "nvidia-smi dmon and pmon ask: utilisation and process numbers of all tenants"),
    {rm::NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO, Effect::kPass},
    Swallow(rm::NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS, "the watchdog of the whole card"),
    Swallow(rm::NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG, "the watchdog of the whole card"),
    {rm::NV2080_CTRL_CMD_CE_GET_CE_PCE_MASK, Effect::kPass},
    {rm::NV2080_CTRL_CMD_CE_GET_CAPS_V2, Effect::kPass},
    {rm::NV2080_CTRL_CMD_CE_GET_ALL_CAPS, Effect::kPass},
    Empty(rm::NV2080_CTRL_CMD_NVLINK_GET_NVLINK_CAPS, "links name the cards at their other end"),
    Empty(rm::NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, "links name the cards at their other end"),
    {rm::NV2080_CTRL_CMD_FLCN_GET_CTX_BUFFER_SIZE, Effect::kPass},
    {rm::NV2080_CTRL_CMD_ECC_GET_REPAIR_STATUS, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GSP_GET_FEATURES, Effect::kPass},
    {rm::NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO, Effect::kPass},
    {rm::NV2080_CTRL_CMD_OS_UNIX_VIDMEM_PERSISTENCE_STATUS, Effect::kPass},
    // Firmware, by the number (GSS legacy) or the object (NV2081_BINAPI)
    {rm::GSS_LEGACY_8159, Effect::kOwn},
    {rm::GSS_LEGACY_8162, Effect::kOwn},
    {rm::GSS_LEGACY_8163_TAKE_ENCODER, Effect::kTakeEncoder, 0, 0,
     "takes one of the card's encoder sessions: counted, and bounded for each slice"},
    {rm::GSS_LEGACY_8164_GIVE_ENCODER, Effect::kGiveEncoder, 0, 0,
     "gives back an encoder session: only one that the container has taken"},
    {rm::GSS_LEGACY_8165, Effect::kOwn},
    {rm::GSS_LEGACY_852E, Effect::kOwn},
    {rm::GSS_LEGACY_852F, Effect::kOwn},
    {rm::GSS_LEGACY_9001, Effect::kOwn},
    {rm::GSS_LEGACY_9009, Effect::kOwn},
    {rm::GSS_LEGACY_9038, Effect::kOwn},
    {rm::GSS_LEGACY_9064, Effect::kOwn},
    {rm::GSS_LEGACY_A026, Effect::kOwn},
    {rm::GSS_LEGACY_A028, Effect::kOwn},
    {rm::GSS_LEGACY_A080, Effect::kOwn},
    {rm::GSS_LEGACY_A084, Effect::kOwn},
    {rm::GSS_LEGACY_A612, Effect::kOwn},
    {rm::GSS_LEGACY_A618, Effect::kOwn},
    Refuse(rm::GSS_LEGACY_8539, kWholeGpu),
    Refuse(rm::GSS_LEGACY_9037, kWholeGpu),
    Refuse(rm::GSS_LEGACY_A0A8, kWholeGpu),
    Refuse(rm::GSS_LEGACY_A0D1, "Vulkan asks each second: shows the load of the whole card"),
    {rm::BINAPI_0107, Effect::kOwn},
    {rm::BINAPI_0108, Effect::kOwn},
    {rm::BINAPI_0110, Effect::kOwn},
    {rm::BINAPI_0111, Effect::kOwn},
    // Memory, channels, and others
    {rm::NV0041_CTRL_CMD_GET_SURFACE_INFO, Effect::kPass},
    {rm::NV_SEMAPHORE_SURFACE_CTRL_CMD_BIND_CHANNEL, Effect::kPass},
    {rm::NV_SEMAPHORE_SURFACE_CTRL_CMD_UNBIND_CHANNEL, Effect::kPass},
    Refuse(rm::NV00DE_CTRL_CMD_REQUEST_DATA_POLL,
           "NVML asks: has the driver poll figures of the whole card, for all to read"),
    Refuse(rm::NV00F8_CTRL_CMD_ATTACH_MEM, "memory of a fabric is not given to slices"),
    Refuse(rm::NV00FD_CTRL_CMD_GET_INFO, kWhyMulticast),
    Refuse(rm::NV00FD_CTRL_CMD_ATTACH_MEM, kWhyMulticast),
    Refuse(rm::NV00FD_CTRL_CMD_ATTACH_GPU, kWhyMulticast),
    Refuse(rm::NV00FD_CTRL_CMD_DETACH_MEM, kWhyMulticast),
    // Takes any number, and no command that programs use takes it back (third_party_p2p.c).
    {rm::NV503C_CTRL_CMD_REGISTER_VA_SPACE, Effect::kEntry},
    // The driver itself takes no memory but the GPU's (third_party_p2p.c).
    {rm::NV503C_CTRL_CMD_REGISTER_VIDMEM, Effect::kMemory, 0},  // hMemory
    {rm::NV503C_CTRL_CMD_UNREGISTER_VIDMEM, Effect::kPass},
    {rm::NV906F_CTRL_GET_CLASS_ENGINEID, Effect::kPass},
    Refuse(
        rm::NV906F_CTRL_CMD_RESET_CHANNEL,
        "resets the engine that its parameters name, for all tenants; other projects pass it on, "
        "and no program is on record asking"),
    {rm::NV90E6_CTRL_CMD_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK, Effect::kPass},
    {rm::NV90E7_CTRL_CMD_BBX_GET_LAST_FLUSH_TIME, Effect::kPass},
    {rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, Effect::kPass},
    Swallow(rm::NVA06C_CTRL_CMD_SET_TIMESLICE, kShares),
    Swallow(rm::NVA06C_CTRL_CMD_PREEMPT, kShares),
    Swallow(rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, kShares),
    {rm::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, Effect::kPass},
    {rm::NVA06F_CTRL_CMD_BIND, Effect::kPass},
    Swallow(rm::NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, kShares),
    {rm::NVC36F_CTRL_GET_CLASS_ENGINEID, Effect::kPass},
    {rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, Effect::kPass},
    {rm::NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX, Effect::kPass},
    // The driver copies the memory into the caller's client, where it is not charged.
    {rm::NVC56F_CTRL_CMD_GET_KMB, Effect::kOwnMemory, 124},  // hMemory
    {rm::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES, Effect::kPass},
    {rm::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_GPUS_STATE, Effect::kPass},
    {rm::NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_NUM_SECURE_CHANNELS, Effect::kPass},
    {rm::NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_KEY_ROTATION_STATE, Effect::kPass},
    // Debuggers, profilers and diagnosis
    Refuse(rm::NV208F_CTRL_CMD_GPU_VERIFY_INFOROM, "nvidia-smi asks: diagnosis of the whole card"),
    Refuse(rm::NV83DE_CTRL_CMD_DEBUG_SET_MODE_MMU_DEBUG, kDebuggers),
    // Sets the mask of the caller's own session; without it cuCtxCreate fails.
    {rm::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK, Effect::kOwn},
    // Programs ask them after a fault; their channel's error notifier reports the fault as well.
    {rm::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES, Effect::kSmErrors, 0,
     rm::NV_ERR_OBJECT_NOT_FOUND},
    {rm::NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES, Effect::kSmErrors, 0,
     rm::NV_ERR_OBJECT_NOT_FOUND},
    Refuse(rm::NV83DE_CTRL_CMD_DEBUG_READ_MEMORY, kDebuggers),
    Refuse(rm::NV83DE_CTRL_CMD_DEBUG_SUSPEND_CONTEXT, kDebuggers),
    Refuse(rm::NV83DE_CTRL_CMD_DEBUG_RESUME_CONTEXT, kDebuggers),
    Refuse(rm::NV83DE_CTRL_CMD_DEBUG_SET_MODE_ERRBAR_DEBUG, kDebuggers),
    Refuse(rm::NV9096_CTRL_CMD_SET_ZBC_COLOR_CLEAR,
           "graphics ask: one table of clear colours for all tenants"),
    {rm::NV9096_CTRL_CMD_GET_ZBC_CLEAR_TABLE_SIZE, Effect::kPass},
    {rm::NV9096_CTRL_CMD_GET_ZBC_CLEAR_TABLE_ENTRY, Effect::kPass},
});

constexpr auto kSorted = [] {
  auto rules = kControls;
  std::ranges::sort(rules, {}, &ControlRule::command);
  return rules;
}();

constexpr bool kNoneTwice =
    std::ranges::adjacent_find(kSorted, {}, &ControlRule::command) == kSorted.end();
static_assert(kNoneTwice);

}  // namespace

std::string_view WhyControl(std::uint32_t command) {
  const ControlRule* rule = FindControlRule(command);
  if (rule != nullptr && !rule->why.empty()) {
    return rule->why;
  }
  if (rule != nullptr) {
    return WhyEffect(rule->effect);
  }
  switch (rm::RouteOf(command, 0)) {
    case rm::ControlRoute::kFirmwarePrivileged:
      return "for administrators of the machine";
    case rm::ControlRoute::kFirmware:
      return kWhyFirmware;
    default:
      break;
  }
  switch (command >> 16U) {
    case 0x0073:  // NV04_DISPLAY_COMMON
      return kWhyDisplays;
    case 0x00e0:  // NV_MEMORY_EXPORT
    case 0x00f1:  // NV_IMEX_SESSION
    case 0x00f8:  // NV_MEMORY_FABRIC
    case 0x00fb:  // NV_MEMORY_FABRIC_IMPORTED_REF
      return kWhyFabric;
    case 0x00fd:  // NV_MEMORY_MULTICAST_FABRIC
      return kWhyMulticast;
    case rm::NV2081_BINAPI:
      return kWhyFirmware;
    case rm::GT200_DEBUGGER:
      return kDebuggers;
    case 0x90cc:  // GF100_PROFILER
    case 0xb0cc:  // MAXWELL_PROFILER
      return kWhyProfilers;
    default:
      return rm::FindControl(command) != nullptr ? kWhyNotNeeded : kWhyNotKnown;
  }
}

const ControlRule* FindControlRule(std::uint32_t command) {
  const auto* rule = std::ranges::lower_bound(kSorted, command, {}, &ControlRule::command);
  return rule != kSorted.end() && rule->command == command ? rule : nullptr;
}

std::string_view EffectName(ControlEffect effect) {
  constexpr std::string_view kNames[] = {
      "pass",       "view",     "swallow",      "empty",        "gpu-id",    "gpu-ids",
      "peers",      "client",   "policy",       "export",       "import",    "exports",
      "imports",    "exported", "own",          "ledger",       "sm-errors", "memory",
      "own-memory", "bus-info", "take-encoder", "give-encoder", "channels",  "preemption",
      "readings",   "entry",    "cache-flush",  "refuse"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ControlEffect::kRefuse) + 1);
  return kNames[static_cast<std::size_t>(effect)];
}

std::string_view WhyEffect(ControlEffect effect) {
  switch (effect) {
    case ControlEffect::kPass:
      return "tells of the card as it is made, or acts on the caller's own objects";
    case ControlEffect::kView:
      return "the results are rewritten to show the slice";
    case ControlEffect::kGpuId:
    case ControlEffect::kGpuIdList:
    case ControlEffect::kPeerCaps:
      return "names cards: only granted ones";
    case ControlEffect::kClient:
    case ControlEffect::kSharePolicy:
      return "names a client: only one of the container's";
    case ControlEffect::kExport:
    case ControlEffect::kImport:
    case ControlEffect::kExportMany:
    case ControlEffect::kImportMany:
    case ControlEffect::kExportInfo:
      return "memory stays charged while a file holds it";
    case ControlEffect::kOwn:
      return "concerns the caller alone, on an object of its own";
    case ControlEffect::kReadings:
      return "a list of instructions: only those that read a sensor";
    case ControlEffect::kLedger:
      return "of the container's own processes; the driver would look at all clients of the node";
    case ControlEffect::kSmErrors:
      return "of the context that is on the card, whosever it is: no error is told, none cleared";
    case ControlEffect::kMemory:
      return "names memory: only the container's";
    case ControlEffect::kOwnMemory:
      return "names memory: only the container's, and of the host";
    case ControlEffect::kBusInfo:
      return "counters of the whole card: only indices that reset none";
    case ControlEffect::kEntry:
      return "the driver keeps an entry for it: bounded";
    default:
      return {};
  }
}

}  // namespace cgpu::boundary
