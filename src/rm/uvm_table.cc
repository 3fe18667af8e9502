#include "rm/uvm_table.h"

#include <algorithm>
#include <array>

namespace cgpu::rm {
namespace {

constexpr auto kRows = std::to_array<UvmRow>({
    {23, "UVM_CREATE_RANGE_GROUP", Until(Branch::k610, 16), Until(Branch::k610, 8)},
    {24, "UVM_DESTROY_RANGE_GROUP", Until(Branch::k610, 16), Until(Branch::k610, 8)},
    {25, "UVM_REGISTER_GPU_VASPACE", 32, 28},
    {26, "UVM_UNREGISTER_GPU_VASPACE", 20, 16},
    {27, "UVM_REGISTER_CHANNEL", 56, 48},
    {28, "UVM_UNREGISTER_CHANNEL", {28, {{Branch::k590, 12}}}, {24, {{Branch::k590, 8}}}},
    {29, "UVM_ENABLE_PEER_ACCESS", 36, 32},
    {30, "UVM_DISABLE_PEER_ACCESS", 36, 32},
    {31, "UVM_SET_RANGE_GROUP", Until(Branch::k610, 32), Until(Branch::k610, 24)},
    {33,
     "UVM_MAP_EXTERNAL_ALLOCATION",
     {1200, {{Branch::k550, 9264}}},
     {1196, {{Branch::k550, 9260}}}},
    {34, "UVM_FREE", {24, {{Branch::k590, 16}}}, {16, {{Branch::k590, 8}}}},
    {37, "UVM_REGISTER_GPU", 40, 36},
    {38, "UVM_UNREGISTER_GPU", 20, 16},
    {39, "UVM_PAGEABLE_MEM_ACCESS", 8, 4},
    {40, "UVM_PREVENT_MIGRATION_RANGE_GROUPS", Until(Branch::k610, 272), Until(Branch::k610, 264)},
    {41, "UVM_ALLOW_MIGRATION_RANGE_GROUPS", Until(Branch::k610, 272), Until(Branch::k610, 264)},
    {42, "UVM_SET_PREFERRED_LOCATION", 40, {32, {{Branch::k550, 36}}}},
    {43, "UVM_UNSET_PREFERRED_LOCATION", 24, 16},
    {44, "UVM_ENABLE_READ_DUPLICATION", 24, 16},
    {45, "UVM_DISABLE_READ_DUPLICATION", 24, 16},
    {46, "UVM_SET_ACCESSED_BY", 40, 32},
    {47, "UVM_UNSET_ACCESSED_BY", 40, 32},
    {51, "UVM_MIGRATE", 80, 72},
    {53, "UVM_MIGRATE_RANGE_GROUP", Until(Branch::k610, 32), Until(Branch::k610, 24)},
    {54, "UVM_ENABLE_SYSTEM_WIDE_ATOMICS", {20, {{Branch::k595, 0}}}, {16, {{Branch::k595, 0}}}},
    {55, "UVM_DISABLE_SYSTEM_WIDE_ATOMICS", {20, {{Branch::k595, 0}}}, {16, {{Branch::k595, 0}}}},
    {56, "UVM_TOOLS_INIT_EVENT_TRACKER", {56, {{Branch::k550, 64}, {Branch::k570, 56}}}, 48},
    {57, "UVM_TOOLS_SET_NOTIFICATION_THRESHOLD", 8, 4},
    {58, "UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS", 16, 8},
    {59, "UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS", 16, 8},
    {60, "UVM_TOOLS_ENABLE_COUNTERS", 16, 8},
    {61, "UVM_TOOLS_DISABLE_COUNTERS", 16, 8},
    {62, "UVM_TOOLS_READ_PROCESS_MEMORY", 40, 32},
    {63, "UVM_TOOLS_WRITE_PROCESS_MEMORY", 40, 32},
    {64,
     "UVM_TOOLS_GET_PROCESSOR_UUID_TABLE",
     {16, {{Branch::k550, 24}, {Branch::k570, 16}}},
     {12, {{Branch::k570, 8}}}},
    {65, "UVM_MAP_DYNAMIC_PARALLELISM_REGION", 40, 32},
    {66, "UVM_UNMAP_EXTERNAL", 40, 32},
    {67, "UVM_TOOLS_FLUSH_EVENTS", 4, 0},
    {68,
     "UVM_ALLOC_SEMAPHORE_POOL",
     {1184, {{Branch::k550, 9248}}},
     {1176, {{Branch::k550, 9240}}}},
    {69, "UVM_CLEAN_UP_ZOMBIE_RESOURCES", 4, 0},
    {70, "UVM_PAGEABLE_MEM_ACCESS_ON_GPU", 24, 20},
    {71, "UVM_POPULATE_PAGEABLE", 24, 20},
    {72, "UVM_VALIDATE_VA_RANGE", 24, 16},
    {73, "UVM_CREATE_EXTERNAL_RANGE", 24, 16},
    {74, "UVM_MAP_EXTERNAL_SPARSE", 40, 32},
    {75, "UVM_MM_INITIALIZE", 8, 4},
    {76, "UVM_TOOLS_INIT_EVENT_TRACKER_V2", {0, {{Branch::k570, 56}}}, {0, {{Branch::k570, 48}}}},
    {77,
     "UVM_TOOLS_GET_PROCESSOR_UUID_TABLE_V2",
     {0, {{Branch::k570, 16}}},
     {0, {{Branch::k570, 8}}}},
    {78, "UVM_ALLOC_DEVICE_P2P", {0, {{Branch::k570, 56}}}, {0, {{Branch::k570, 52}}}},
    {79, "UVM_CLEAR_ALL_ACCESS_COUNTERS", {0, {{Branch::k570, 4}}}, 0},
    {80, "UVM_DISCARD", {0, {{Branch::k580, 32}}}, {0, {{Branch::k580, 24}}}},
    {UVM_INITIALIZE, "UVM_INITIALIZE", 16, 8},
    {UVM_DEINITIALIZE, "UVM_DEINITIALIZE", 0, 0},
});

constexpr bool kRowsAscend =
    std::is_sorted(kRows.begin(), kRows.end(),
                   [](const UvmRow& x, const UvmRow& y) { return x.request < y.request; });
static_assert(kRowsAscend);

constexpr const UvmRow& RowOf(NvU32 request) {
  return *std::find_if(kRows.begin(), kRows.end(),
                       [&](const UvmRow& row) { return row.request == request; });
}

// Checks that the structure lies as the row says, in this branch.
template <class T>
constexpr bool Fits(NvU32 request, std::size_t status, Branch branch) {
  return RowOf(request).size.At(branch) == sizeof(T) && RowOf(request).status.At(branch) == status;
}
#define CGPU_FITS(request, params, branch) \
  static_assert(Fits<params>(request, offsetof(params, rmStatus), branch))

CGPU_FITS(UVM_INITIALIZE, UVM_INITIALIZE_PARAMS, Branch::k535);
CGPU_FITS(UVM_REGISTER_GPU_VASPACE, UVM_REGISTER_GPU_VASPACE_PARAMS, Branch::k535);
CGPU_FITS(UVM_UNREGISTER_GPU_VASPACE, UVM_UNREGISTER_GPU_VASPACE_PARAMS, Branch::k535);
CGPU_FITS(UVM_UNREGISTER_GPU, UVM_UNREGISTER_GPU_VASPACE_PARAMS, Branch::k535);
CGPU_FITS(UVM_REGISTER_CHANNEL, UVM_REGISTER_CHANNEL_PARAMS, Branch::k535);
CGPU_FITS(UVM_UNREGISTER_CHANNEL, UVM_UNREGISTER_CHANNEL_PARAMS_V535, Branch::k580);
CGPU_FITS(UVM_UNREGISTER_CHANNEL, UVM_UNREGISTER_CHANNEL_PARAMS_V590, Branch::k590);
CGPU_FITS(UVM_ENABLE_PEER_ACCESS, UVM_ENABLE_PEER_ACCESS_PARAMS, Branch::k535);
CGPU_FITS(UVM_DISABLE_PEER_ACCESS, UVM_ENABLE_PEER_ACCESS_PARAMS, Branch::k535);
CGPU_FITS(UVM_UNMAP_EXTERNAL, UVM_UNMAP_EXTERNAL_PARAMS, Branch::k535);
CGPU_FITS(UVM_MAP_EXTERNAL_SPARSE, UVM_UNMAP_EXTERNAL_PARAMS, Branch::k535);
CGPU_FITS(UVM_MAP_DYNAMIC_PARALLELISM_REGION, UVM_UNMAP_EXTERNAL_PARAMS, Branch::k535);
CGPU_FITS(UVM_SET_ACCESSED_BY, UVM_UNMAP_EXTERNAL_PARAMS, Branch::k535);
CGPU_FITS(UVM_SET_PREFERRED_LOCATION, UVM_UNMAP_EXTERNAL_PARAMS, Branch::k535);
CGPU_FITS(UVM_REGISTER_GPU, UVM_REGISTER_GPU_PARAMS, Branch::k535);
CGPU_FITS(UVM_PAGEABLE_MEM_ACCESS, UVM_PAGEABLE_MEM_ACCESS_PARAMS, Branch::k535);
CGPU_FITS(UVM_PAGEABLE_MEM_ACCESS_ON_GPU, UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS, Branch::k535);
CGPU_FITS(UVM_MIGRATE, UVM_MIGRATE_PARAMS, Branch::k535);
CGPU_FITS(UVM_MIGRATE_RANGE_GROUP, UVM_MIGRATE_RANGE_GROUP_PARAMS, Branch::k595);
CGPU_FITS(UVM_MM_INITIALIZE, UVM_MM_INITIALIZE_PARAMS, Branch::k535);
CGPU_FITS(UVM_ALLOC_DEVICE_P2P, UVM_ALLOC_DEVICE_P2P_PARAMS, Branch::k570);
#undef CGPU_FITS

template <class Tail>
constexpr bool TailFits(NvU32 request, std::size_t at, Branch branch) {
  return RowOf(request).size.At(branch) == at + sizeof(Tail) &&
         RowOf(request).status.At(branch) == at + offsetof(Tail, rmStatus);
}
static_assert(TailFits<UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(UVM_MAP_EXTERNAL_ALLOCATION,
                                                         UvmMapExternalTail(Branch::k535),
                                                         Branch::k535));
static_assert(TailFits<UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(UVM_MAP_EXTERNAL_ALLOCATION,
                                                         UvmMapExternalTail(Branch::k550),
                                                         Branch::k550));
static_assert(TailFits<UVM_ALLOC_SEMAPHORE_POOL_TAIL>(UVM_ALLOC_SEMAPHORE_POOL,
                                                      UvmSemaphorePoolTail(Branch::k535),
                                                      Branch::k535));
static_assert(TailFits<UVM_ALLOC_SEMAPHORE_POOL_TAIL>(UVM_ALLOC_SEMAPHORE_POOL,
                                                      UvmSemaphorePoolTail(Branch::k550),
                                                      Branch::k550));

}  // namespace

std::span<const UvmRow> UvmRows() {
  return kRows;
}

const UvmRow* FindUvm(NvU32 request) {
  const auto* row = std::lower_bound(kRows.begin(), kRows.end(), request,
                                     [](const UvmRow& x, NvU32 y) { return x.request < y; });
  return row != kRows.end() && row->request == request ? row : nullptr;
}

NvU32 UvmParamSize(Branch branch, NvU32 request) {
  const UvmRow* row = FindUvm(request);
  return row == nullptr ? 0 : row->size.At(branch);
}

}  // namespace cgpu::rm
