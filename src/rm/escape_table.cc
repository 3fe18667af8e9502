#include "rm/escape_table.h"

#include <algorithm>
#include <array>

#include "rm/nv_structs.h"

namespace cgpu::rm {
namespace {

using Kind = SizeRule::Kind;

constexpr SizeRule Exact(NvU32 size) {
  return {Kind::kExact, size, 0};
}

// Sizes of structures whose fields nothing here needs. nvos.h: NVOS38_PARAMETERS,
// NVOS_I2C_ACCESS_PARAMS. nv-ioctl.h: nv_ioctl_query_device_intr. nv-ioctl-numa.h:
// nv_ioctl_numa_info_t, nv_ioctl_set_numa_status_t. nv-ioctl-lockless-diag.h:
// NV_LOCKLESS_DIAGNOSTIC_PARAMS.
constexpr NvU32 kNvos38Size = 72;
constexpr NvU32 kI2cAccessSize = 32;
constexpr NvU32 kQueryDeviceIntrSize = 8;
constexpr NvU32 kNumaInfoSize = 560;
constexpr NvU32 kSetNumaStatusSize = 4;
constexpr NvU32 kLocklessDiagnosticSize = 15412;

constexpr std::string_view kEscapeC = "src/nvidia/arch/nvalloc/unix/src/escape.c";
constexpr std::string_view kNvC = "kernel-open/nvidia/nv.c";

// A row whose size is the same, exactly, on all branches.
constexpr EscapeRow Row(NvU8 nr, std::string_view name, std::string_view source, EscapeFiles files,
                        NvU32 size) {
  return {nr, name, source, files, Exact(size)};
}

constexpr SizeRule kNever = {};
constexpr SizeRule kAny = {Kind::kAny, 0, 0};

#define CGPU_ESC(name) name, #name

constexpr auto kRows = std::to_array<EscapeRow>({
    Row(CGPU_ESC(NV_ESC_RM_ALLOC_MEMORY), kEscapeC, EscapeFiles::kCard,
        sizeof(nv_ioctl_nvos02_parameters_with_fd)),
    Row(CGPU_ESC(NV_ESC_RM_ALLOC_OBJECT), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS05_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_FREE), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS00_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_CONTROL), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS54_PARAMETERS)),
    // On a card's file only the event classes.
    {CGPU_ESC(NV_ESC_RM_ALLOC), kEscapeC, EscapeFiles::kBoth,
     SizeRule{Kind::kEither, sizeof(NVOS21_PARAMETERS), sizeof(NVOS64_PARAMETERS)}},
    Row(CGPU_ESC(NV_ESC_RM_DUP_OBJECT), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS55_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_SHARE), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS57_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_I2C_ACCESS), kEscapeC, EscapeFiles::kCard, kI2cAccessSize),
    Row(CGPU_ESC(NV_ESC_RM_IDLE_CHANNELS), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS30_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_VID_HEAP_CONTROL), kEscapeC, EscapeFiles::kCtl,
        sizeof(NVOS32_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_ACCESS_REGISTRY), kEscapeC, EscapeFiles::kCtl, kNvos38Size),
    Row(CGPU_ESC(NV_ESC_RM_MAP_MEMORY), kEscapeC, EscapeFiles::kCtl,
        sizeof(nv_ioctl_nvos33_parameters_with_fd)),
    Row(CGPU_ESC(NV_ESC_RM_UNMAP_MEMORY), kEscapeC, EscapeFiles::kCtl, sizeof(NVOS34_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_GET_EVENT_DATA), kEscapeC, EscapeFiles::kBoth,
        sizeof(NVOS41_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_ALLOC_CONTEXT_DMA2), kEscapeC, EscapeFiles::kCtl,
        sizeof(NVOS39_PARAMETERS)),
    {CGPU_ESC(NV_ESC_RM_MAP_MEMORY_DMA),
     kEscapeC,
     EscapeFiles::kCtl,
     {Exact(sizeof(NVOS46_PARAMETERS_V535)),
      {{Branch::k580, Exact(sizeof(NVOS46_PARAMETERS_V580))}}}},
    {CGPU_ESC(NV_ESC_RM_UNMAP_MEMORY_DMA),
     kEscapeC,
     EscapeFiles::kCtl,
     {Exact(sizeof(NVOS47_PARAMETERS_V535)),
      {{Branch::k550, Exact(sizeof(NVOS47_PARAMETERS_V550))}}}},
    Row(CGPU_ESC(NV_ESC_RM_BIND_CONTEXT_DMA), kEscapeC, EscapeFiles::kCtl,
        sizeof(NVOS49_PARAMETERS)),
    Row(CGPU_ESC(NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO), kEscapeC, EscapeFiles::kCtl,
        sizeof(NVOS56_PARAMETERS)),
    // Administrators only; before 580 the size is not looked at. On 535 the number stands for
    // NV_ESC_RM_NVLOG_CTRL, for administrators too.
    {CGPU_ESC(NV_ESC_RM_LOCKLESS_DIAGNOSTIC),
     kEscapeC,
     EscapeFiles::kCtl,
     {kAny, {{Branch::k580, Exact(kLocklessDiagnosticSize)}}}},
    // An array of nv_ioctl_card_info_t; before 595 a remainder is ignored. (595 looks at the size
    // of this and of the next ones before it looks into an XFER, so that inside one the older rule
    // still holds there. Nothing real asks so.)
    {CGPU_ESC(NV_ESC_CARD_INFO),
     kNvC,
     EscapeFiles::kCtl,
     {kAny, {{Branch::k595, SizeRule{Kind::kMultiple, sizeof(nv_ioctl_card_info_t), 0}}}}},
    Row(CGPU_ESC(NV_ESC_REGISTER_FD), kEscapeC, EscapeFiles::kBoth, sizeof(nv_ioctl_register_fd_t)),
    Row(CGPU_ESC(NV_ESC_ALLOC_OS_EVENT), kEscapeC, EscapeFiles::kBoth,
        sizeof(nv_ioctl_alloc_os_event_t)),
    Row(CGPU_ESC(NV_ESC_FREE_OS_EVENT), kEscapeC, EscapeFiles::kBoth,
        sizeof(nv_ioctl_free_os_event_t)),
    Row(CGPU_ESC(NV_ESC_STATUS_CODE), kEscapeC, EscapeFiles::kCtl, sizeof(nv_ioctl_status_code_t)),
    Row(CGPU_ESC(NV_ESC_CHECK_VERSION_STR), kNvC, EscapeFiles::kCtl,
        sizeof(nv_ioctl_rm_api_version_t)),
    Row(CGPU_ESC(NV_ESC_IOCTL_XFER_CMD), kNvC, EscapeFiles::kBoth, sizeof(nv_ioctl_xfer_t)),
    {CGPU_ESC(NV_ESC_ATTACH_GPUS_TO_FD), kNvC, EscapeFiles::kCtl,
     SizeRule{Kind::kMultiple, sizeof(NvU32), 0}},
    {CGPU_ESC(NV_ESC_QUERY_DEVICE_INTR),
     kNvC,
     EscapeFiles::kCard,
     {SizeRule{Kind::kAtLeast, kQueryDeviceIntrSize, 0},
      {{Branch::k595, Exact(kQueryDeviceIntrSize)}}}},
    Row(CGPU_ESC(NV_ESC_SYS_PARAMS), kNvC, EscapeFiles::kCtl, sizeof(nv_ioctl_sys_params_t)),
    Row(CGPU_ESC(NV_ESC_NUMA_INFO), kNvC, EscapeFiles::kCard, kNumaInfoSize),
    Row(CGPU_ESC(NV_ESC_SET_NUMA_STATUS), kNvC, EscapeFiles::kCard, kSetNumaStatusSize),
    {CGPU_ESC(NV_ESC_EXPORT_TO_DMABUF_FD),
     kNvC,
     EscapeFiles::kCard,
     {Exact(2600), {{Branch::k570, Exact(2608)}}}},
    // 550 writes 8 bytes whatever the size, so a smaller one makes it write past its own buffer:
    // boundary::Decode() lets nothing but 8 reach it.
    {CGPU_ESC(NV_ESC_WAIT_OPEN_COMPLETE),
     kNvC,
     EscapeFiles::kBoth,
     {kNever,
      {{Branch::k550, kAny}, {Branch::k570, Exact(sizeof(nv_ioctl_wait_open_complete_t))}}}},
});

#undef CGPU_ESC

constexpr bool kRowsAscend = std::is_sorted(
    kRows.begin(), kRows.end(), [](const auto& x, const auto& y) { return x.nr < y.nr; });
static_assert(kRowsAscend);

#define CGPU_UVM(number, name, on_550) {number, #name, on_550, true}

constexpr auto kUvmRows = std::to_array<UvmRow>({
    CGPU_UVM(23, UVM_CREATE_RANGE_GROUP, true),
    CGPU_UVM(24, UVM_DESTROY_RANGE_GROUP, true),
    CGPU_UVM(25, UVM_REGISTER_GPU_VASPACE, true),
    CGPU_UVM(26, UVM_UNREGISTER_GPU_VASPACE, true),
    CGPU_UVM(27, UVM_REGISTER_CHANNEL, true),
    CGPU_UVM(28, UVM_UNREGISTER_CHANNEL, true),
    CGPU_UVM(29, UVM_ENABLE_PEER_ACCESS, true),
    CGPU_UVM(30, UVM_DISABLE_PEER_ACCESS, true),
    CGPU_UVM(31, UVM_SET_RANGE_GROUP, true),
    CGPU_UVM(33, UVM_MAP_EXTERNAL_ALLOCATION, true),
    CGPU_UVM(34, UVM_FREE, true),
    CGPU_UVM(37, UVM_REGISTER_GPU, true),
    CGPU_UVM(38, UVM_UNREGISTER_GPU, true),
    CGPU_UVM(39, UVM_PAGEABLE_MEM_ACCESS, true),
    CGPU_UVM(40, UVM_PREVENT_MIGRATION_RANGE_GROUPS, true),
    CGPU_UVM(41, UVM_ALLOW_MIGRATION_RANGE_GROUPS, true),
    CGPU_UVM(42, UVM_SET_PREFERRED_LOCATION, true),
    CGPU_UVM(43, UVM_UNSET_PREFERRED_LOCATION, true),
    CGPU_UVM(44, UVM_ENABLE_READ_DUPLICATION, true),
    CGPU_UVM(45, UVM_DISABLE_READ_DUPLICATION, true),
    CGPU_UVM(46, UVM_SET_ACCESSED_BY, true),
    CGPU_UVM(47, UVM_UNSET_ACCESSED_BY, true),
    CGPU_UVM(51, UVM_MIGRATE, true),
    CGPU_UVM(53, UVM_MIGRATE_RANGE_GROUP, true),
    CGPU_UVM(54, UVM_ENABLE_SYSTEM_WIDE_ATOMICS, true),
    CGPU_UVM(55, UVM_DISABLE_SYSTEM_WIDE_ATOMICS, true),
    CGPU_UVM(56, UVM_TOOLS_INIT_EVENT_TRACKER, true),
    CGPU_UVM(57, UVM_TOOLS_SET_NOTIFICATION_THRESHOLD, true),
    CGPU_UVM(58, UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS, true),
    CGPU_UVM(59, UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS, true),
    CGPU_UVM(60, UVM_TOOLS_ENABLE_COUNTERS, true),
    CGPU_UVM(61, UVM_TOOLS_DISABLE_COUNTERS, true),
    CGPU_UVM(62, UVM_TOOLS_READ_PROCESS_MEMORY, true),
    CGPU_UVM(63, UVM_TOOLS_WRITE_PROCESS_MEMORY, true),
    CGPU_UVM(64, UVM_TOOLS_GET_PROCESSOR_UUID_TABLE, true),
    CGPU_UVM(65, UVM_MAP_DYNAMIC_PARALLELISM_REGION, true),
    CGPU_UVM(66, UVM_UNMAP_EXTERNAL, true),
    CGPU_UVM(67, UVM_TOOLS_FLUSH_EVENTS, true),
    CGPU_UVM(68, UVM_ALLOC_SEMAPHORE_POOL, true),
    CGPU_UVM(69, UVM_CLEAN_UP_ZOMBIE_RESOURCES, true),
    CGPU_UVM(70, UVM_PAGEABLE_MEM_ACCESS_ON_GPU, true),
    CGPU_UVM(71, UVM_POPULATE_PAGEABLE, true),
    CGPU_UVM(72, UVM_VALIDATE_VA_RANGE, true),
    CGPU_UVM(73, UVM_CREATE_EXTERNAL_RANGE, true),
    CGPU_UVM(74, UVM_MAP_EXTERNAL_SPARSE, true),
    CGPU_UVM(75, UVM_MM_INITIALIZE, true),
    CGPU_UVM(76, UVM_TOOLS_INIT_EVENT_TRACKER_V2, false),
    CGPU_UVM(77, UVM_TOOLS_GET_PROCESSOR_UUID_TABLE_V2, false),
    CGPU_UVM(78, UVM_ALLOC_DEVICE_P2P, false),
    CGPU_UVM(79, UVM_CLEAR_ALL_ACCESS_COUNTERS, false),
    CGPU_UVM(80, UVM_DISCARD, false),
    CGPU_UVM(0x30000001, UVM_INITIALIZE, true),
    CGPU_UVM(0x30000002, UVM_DEINITIALIZE, true),
});

#undef CGPU_UVM

}  // namespace

std::span<const EscapeRow> EscapeRows() {
  return kRows;
}

const EscapeRow* FindEscape(NvU8 nr) {
  const auto* row = std::lower_bound(kRows.begin(), kRows.end(), nr,
                                     [](const EscapeRow& x, NvU8 y) { return x.nr < y; });
  return row != kRows.end() && row->nr == nr ? row : nullptr;
}

bool EscapeAcceptsSize(const Abi& abi, NvU8 nr, NvU32 size) {
  const EscapeRow* row = FindEscape(nr);
  return row != nullptr && row->Rule(abi.branch).Accepts(size);
}

std::optional<std::size_t> StatusOffset(NvU8 nr, std::size_t size) {
  switch (nr) {
    case NV_ESC_RM_ALLOC:
      return size == sizeof(NVOS64_PARAMETERS) ? offsetof(NVOS64_PARAMETERS, status)
                                               : offsetof(NVOS21_PARAMETERS, status);
    case NV_ESC_RM_FREE:
      return offsetof(NVOS00_PARAMETERS, status);
    case NV_ESC_RM_CONTROL:
      return offsetof(NVOS54_PARAMETERS, status);
    case NV_ESC_RM_DUP_OBJECT:
      return offsetof(NVOS55_PARAMETERS, status);
    case NV_ESC_RM_SHARE:
      return offsetof(NVOS57_PARAMETERS, status);
    case NV_ESC_RM_VID_HEAP_CONTROL:
      return offsetof(NVOS32_PARAMETERS, status);
    case NV_ESC_RM_MAP_MEMORY:
      return offsetof(NVOS33_PARAMETERS, status);
    case NV_ESC_RM_UNMAP_MEMORY:
      return offsetof(NVOS34_PARAMETERS, status);
    case NV_ESC_RM_ALLOC_MEMORY:
      return offsetof(nv_ioctl_nvos02_parameters_with_fd, params.status);
    case NV_ESC_RM_IDLE_CHANNELS:
      return offsetof(NVOS30_PARAMETERS, status);
    case NV_ESC_RM_GET_EVENT_DATA:
      return offsetof(NVOS41_PARAMETERS, status);
    case NV_ESC_RM_ALLOC_CONTEXT_DMA2:
      return offsetof(NVOS39_PARAMETERS, status);
    case NV_ESC_RM_MAP_MEMORY_DMA:
      return size == sizeof(NVOS46_PARAMETERS_V535) ? offsetof(NVOS46_PARAMETERS_V535, status)
                                                    : offsetof(NVOS46_PARAMETERS_V580, status);
    case NV_ESC_RM_UNMAP_MEMORY_DMA:
      return size == sizeof(NVOS47_PARAMETERS_V535) ? offsetof(NVOS47_PARAMETERS_V535, status)
                                                    : offsetof(NVOS47_PARAMETERS_V550, status);
    case NV_ESC_RM_BIND_CONTEXT_DMA:
      return offsetof(NVOS49_PARAMETERS, status);
    case NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
      return offsetof(NVOS56_PARAMETERS, status);
    case NV_ESC_ALLOC_OS_EVENT:
      return offsetof(nv_ioctl_alloc_os_event_t, Status);
    case NV_ESC_FREE_OS_EVENT:
      return offsetof(nv_ioctl_free_os_event_t, Status);
    default:
      return std::nullopt;
  }
}

std::span<const UvmRow> UvmRows() {
  return kUvmRows;
}

const UvmRow* FindUvm(NvU32 request) {
  const auto* row = std::lower_bound(kUvmRows.begin(), kUvmRows.end(), request,
                                     [](const UvmRow& x, NvU32 y) { return x.request < y; });
  return row != kUvmRows.end() && row->request == request ? row : nullptr;
}

bool AnyDriverAccepts(NvU32 request) {
  if (FindUvm(request) != nullptr || (request >= kUvmTestFirst && request <= kUvmTestLast)) {
    return true;
  }
  const EscapeRow* row = FindEscape(EscapeNr(request));
  const NvU32 size = EscapeSize(request);
  return row != nullptr && std::any_of(kBranches.begin(), kBranches.end(), [&](Branch branch) {
           return row->Rule(branch).Accepts(size);
         });
}

}  // namespace cgpu::rm
