#include "rm/escape_table.h"

#include <algorithm>
#include <array>

#include "rm/nv_structs.h"
#include "rm/uvm_table.h"

namespace cgpu::rm {
namespace {

using Kind = SizeRule::Kind;

constexpr SizeRule Exact(NvU32 size) {
  return {Kind::kExact, size, 0};
}

// Sizes of structures whose fields are not needed here. nvos.h: NVOS38_PARAMETERS,
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

// Makes a row whose size is the same, exactly, on all branches.
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
    // On a GPU's file only the event classes.
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
    // For administrators only; before 580 the driver does not check the size. On 535 the number
    // means NV_ESC_RM_NVLOG_CTRL, for administrators too.
    {CGPU_ESC(NV_ESC_RM_LOCKLESS_DIAGNOSTIC),
     kEscapeC,
     EscapeFiles::kCtl,
     {kAny, {{Branch::k580, Exact(kLocklessDiagnosticSize)}}}},
    // An array of nv_ioctl_card_info_t; before 595 a remainder is ignored. (595 checks the size of
    // this and of the next ones before it looks into an XFER, so inside an XFER the older rule
    // still holds there. No real program asks so.)
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
    // 550 writes 8 bytes whatever the size is, so a smaller one makes it write beyond its own
    // buffer: boundary::Decode() lets only size 8 reach it.
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
