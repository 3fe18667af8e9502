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

constexpr SizeRule kNever = {};
constexpr SizeRule kAny = {Kind::kAny, 0, 0};

#define CGPU_ESCAPE(name, number, source, files, ...) {name, #name, source, files, __VA_ARGS__},
constexpr auto kEscapeRows = std::to_array<EscapeRow>({
#include "rm/escapes.inc"
});
#undef CGPU_ESCAPE

constexpr bool kEscapeRowsAscend =
    std::ranges::is_sorted(kEscapeRows, [](const auto& x, const auto& y) { return x.nr < y.nr; });
static_assert(kEscapeRowsAscend);

}  // namespace

std::span<const EscapeRow> EscapeRows() {
  return kEscapeRows;
}

const EscapeRow* FindEscape(NvU8 nr) {
  const auto* row = std::ranges::lower_bound(kEscapeRows, nr, {}, &EscapeRow::nr);
  return row != kEscapeRows.end() && row->nr == nr ? row : nullptr;
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
  return row != nullptr && std::ranges::any_of(kBranches, [&](Branch branch) {
           return row->Rule(branch).Accepts(size);
         });
}

}  // namespace cgpu::rm
