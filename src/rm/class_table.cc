#include "rm/class_table.h"

#include <algorithm>
#include <array>

#include "rm/nv_alloc.h"

namespace cgpu::rm {
namespace {

#define CGPU_CLASS(name) name, #name

// Numbers instead of a sizeof stand for structures whose fields nothing here needs. Volta's engine
// classes are in the vendor's headers but not in the open driver's class list (it starts at
// Turing).
constexpr ByBranch kMemoryAllocSize(120, {{Branch::k550, sizeof(NV_MEMORY_ALLOCATION_PARAMS)}});
constexpr ByBranch kChannelAllocSize(sizeof(NV_CHANNEL_ALLOC_PARAMS_V535),
                                     {{Branch::k570, sizeof(NV_CHANNEL_ALLOC_PARAMS_V570)}});
constexpr ByBranch kVaspaceAllocSize(sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V535),
                                     {{Branch::k580,
                                       sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V580)}});

#define CGPU_CLASS_ROW(name, number, source, params, size, listed) \
  {number, #name, source, params, size, listed},

constexpr auto kUnsorted = std::to_array<ClassRow>({
    {CGPU_CLASS(NV01_ROOT), "class/cl0000.h", ClassParams::kOptional, sizeof(NvHandle), 1},
    {CGPU_CLASS(NV01_ROOT_NON_PRIV), "class/cl0000.h", ClassParams::kOptional, sizeof(NvHandle), 1},
    {CGPU_CLASS(NV01_CONTEXT_DMA), "nvos.h", ClassParams::kRequired,
     sizeof(NV_CONTEXT_DMA_ALLOCATION_PARAMS), 1},
    {CGPU_CLASS(NV01_EVENT), "class/cl0005.h", ClassParams::kRequired,
     sizeof(NV0005_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV01_MEMORY_SYSTEM), "nvos.h", ClassParams::kRequired, kMemoryAllocSize, 1},
    {CGPU_CLASS(NV01_MEMORY_LOCAL_PRIVILEGED), "class/cl003f.h", ClassParams::kNone, 0, 1},
    {CGPU_CLASS(NV01_MEMORY_LOCAL_USER), "nvos.h", ClassParams::kRequired, kMemoryAllocSize, 1},
    {CGPU_CLASS(NV01_ROOT_CLIENT), "class/cl0000.h", ClassParams::kOptional, sizeof(NvHandle), 1},
    {CGPU_CLASS(NV_MEMORY_EXTENDED_USER), "nvos.h", ClassParams::kRequired, kMemoryAllocSize, 1},
    {CGPU_CLASS(NV01_MEMORY_VIRTUAL), "class/cl0070.h", ClassParams::kRequired,
     sizeof(NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS), 1},
    {CGPU_CLASS(NV01_MEMORY_SYSTEM_OS_DESCRIPTOR), "nvos.h", ClassParams::kRequired,
     sizeof(NV_OS_DESC_MEMORY_ALLOCATION_PARAMS), 1},
    {CGPU_CLASS(NV01_EVENT_KERNEL_CALLBACK), "class/cl0005.h", ClassParams::kRequired,
     sizeof(NV0005_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV01_EVENT_OS_EVENT), "class/cl0005.h", ClassParams::kRequired,
     sizeof(NV0005_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV01_EVENT_KERNEL_CALLBACK_EX), "class/cl0005.h", ClassParams::kRequired,
     sizeof(NV0005_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV01_DEVICE_0), "class/cl0080.h", ClassParams::kOptional,
     sizeof(NV0080_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV01_MEMORY_LIST_SYSTEM), "class/cl84a0.h", ClassParams::kRequired, 152, 1},
    {CGPU_CLASS(NV01_MEMORY_LIST_FBMEM), "class/cl84a0.h", ClassParams::kRequired, 152, 1},
    {CGPU_CLASS(NV01_MEMORY_LIST_OBJECT), "class/cl84a0.h", ClassParams::kRequired, 152, 1},
    {CGPU_CLASS(NV01_MEMORY_HW_RESOURCES), "nvos.h", ClassParams::kRequired, 120, 1},
    {CGPU_CLASS(NV01_MEMORY_LOCAL_PHYSICAL), "class/cl00c2.h", ClassParams::kRequired, 24, 1},
    {CGPU_CLASS(NV_SEMAPHORE_SURFACE), "class/cl00da.h", ClassParams::kRequired, 16, 1},
    {CGPU_CLASS(RM_USER_SHARED_DATA), "class/cl00de.h", ClassParams::kRequired,
     ByBranch(4, {{Branch::k550, sizeof(NV00DE_ALLOC_PARAMETERS)}}), 1},
    {CGPU_CLASS(NV_MEMORY_FABRIC), "class/cl00f8.h", ClassParams::kRequired, 48, 1},
    {CGPU_CLASS(NV_MEMORY_MULTICAST_FABRIC), "class/cl00fd.h", ClassParams::kRequired,
     ByBranch(40, {{Branch::k550, 80}}), 1},
    {CGPU_CLASS(NV20_SUBDEVICE_0), "class/cl2080.h", ClassParams::kOptional,
     sizeof(NV2080_ALLOC_PARAMETERS), 1},
    {CGPU_CLASS(NV20_SUBDEVICE_DIAG), "class/cl208f.h", ClassParams::kNone, 0, 1},
    {CGPU_CLASS(NV50_P2P), "class/cl503b.h", ClassParams::kRequired,
     ByBranch(72, {{Branch::k590, 88}}), 1},
    {CGPU_CLASS(NV50_THIRD_PARTY_P2P), "class/cl503c.h", ClassParams::kOptional, 4, 1},
    {CGPU_CLASS(NV50_MEMORY_VIRTUAL), "nvos.h", ClassParams::kRequired, kMemoryAllocSize, 1},
    {CGPU_CLASS(GT200_DEBUGGER), "class/cl83de.h", ClassParams::kRequired, 12, 1},
    {CGPU_CLASS(FERMI_CONTEXT_SHARE_A), "nvos.h", ClassParams::kRequired,
     sizeof(NV_CTXSHARE_ALLOCATION_PARAMETERS), 1},
    {CGPU_CLASS(NV_EVENT_BUFFER), "class/cl90cd.h", ClassParams::kRequired, 72, 1},
    {CGPU_CLASS(FERMI_VASPACE_A), "nvos.h", ClassParams::kRequired, kVaspaceAllocSize, 1},
    {CGPU_CLASS(KEPLER_CHANNEL_GROUP_A), "nvos.h", ClassParams::kRequired,
     sizeof(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS), 1},
    {CGPU_CLASS(VOLTA_USERMODE_A), "class/clc361.h", ClassParams::kNone, 0, 1},
    {CGPU_CLASS(VOLTA_CHANNEL_GPFIFO_A), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, 1},
    {CGPU_CLASS(VOLTA_DMA_COPY_A), "class/clb0b5sw.h", ClassParams::kOptional, 8, 0},
    {CGPU_CLASS(VOLTA_COMPUTE_A), "nvos.h", ClassParams::kOptional, 16, 0},
    {CGPU_CLASS(TURING_USERMODE_A), "class/clc461.h", ClassParams::kNone, 0, 1},
    {CGPU_CLASS(TURING_CHANNEL_GPFIFO_A), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, 1},
    {CGPU_CLASS(AMPERE_USERMODE_A), "class/clc561.h", ClassParams::kNone, 0, 1},
    {CGPU_CLASS(AMPERE_CHANNEL_GPFIFO_A), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, 1},
    {CGPU_CLASS(TURING_DMA_COPY_A), "class/clb0b5sw.h", ClassParams::kOptional, 8, 1},
    {CGPU_CLASS(TURING_COMPUTE_A), "nvos.h", ClassParams::kOptional, 16, 1},
    {CGPU_CLASS(HOPPER_USERMODE_A), "nvos.h", ClassParams::kOptional,
     sizeof(NV_HOPPER_USERMODE_A_PARAMS), 1},
    {CGPU_CLASS(AMPERE_DMA_COPY_A), "class/clb0b5sw.h", ClassParams::kOptional, 8, 1},
    {CGPU_CLASS(AMPERE_COMPUTE_A), "nvos.h", ClassParams::kOptional, 16, 1},
    {CGPU_CLASS(BLACKWELL_USERMODE_A), "nvos.h", ClassParams::kOptional,
     sizeof(NV_HOPPER_USERMODE_A_PARAMS), Since(Branch::k570)},
    {CGPU_CLASS(AMPERE_DMA_COPY_B), "class/clb0b5sw.h", ClassParams::kOptional, 8, 1},
    {CGPU_CLASS(AMPERE_COMPUTE_B), "nvos.h", ClassParams::kOptional, 16, 1},
    {CGPU_CLASS(HOPPER_CHANNEL_GPFIFO_A), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, 1},
    {CGPU_CLASS(HOPPER_DMA_COPY_A), "class/clb0b5sw.h", ClassParams::kOptional, 8, 1},
    {CGPU_CLASS(BLACKWELL_CHANNEL_GPFIFO_A), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, Since(Branch::k570)},
    {CGPU_CLASS(ADA_COMPUTE_A), "nvos.h", ClassParams::kOptional, 16, 1},
    {CGPU_CLASS(BLACKWELL_CHANNEL_GPFIFO_B), "alloc/alloc_channel.h", ClassParams::kRequired,
     kChannelAllocSize, Since(Branch::k570)},
    {CGPU_CLASS(HOPPER_COMPUTE_A), "nvos.h", ClassParams::kOptional, 16, 1},
#include "rm/classes/engines.inc"
});

#undef CGPU_CLASS_ROW
#undef CGPU_CLASS

constexpr auto kRows = [] {
  auto rows = kUnsorted;
  std::sort(rows.begin(), rows.end(),
            [](const ClassRow& x, const ClassRow& y) { return x.number < y.number; });
  return rows;
}();

constexpr bool kNoneTwice =
    std::adjacent_find(kRows.begin(), kRows.end(), [](const ClassRow& x, const ClassRow& y) {
      return x.number == y.number;
    }) == kRows.end();
static_assert(kNoneTwice);

}  // namespace

std::span<const ClassRow> ClassRows() {
  return kRows;
}

const ClassRow* FindClass(NvU32 number) {
  const auto* row = std::lower_bound(kRows.begin(), kRows.end(), number,
                                     [](const ClassRow& x, NvU32 y) { return x.number < y; });
  return row != kRows.end() && row->number == number ? row : nullptr;
}

NvU32 ClassParamSize(const Abi& abi, NvU32 number) {
  const ClassRow* row = FindClass(number);
  return row == nullptr ? 0 : row->Size(abi.branch);
}

bool IsChannelClass(NvU32 number) {
  switch (number) {
    case VOLTA_CHANNEL_GPFIFO_A:
    case TURING_CHANNEL_GPFIFO_A:
    case AMPERE_CHANNEL_GPFIFO_A:
    case HOPPER_CHANNEL_GPFIFO_A:
    case BLACKWELL_CHANNEL_GPFIFO_A:
    case BLACKWELL_CHANNEL_GPFIFO_B:
      return true;
    default:
      return false;
  }
}

}  // namespace cgpu::rm
