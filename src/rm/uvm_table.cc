#include "rm/uvm_table.h"

#include <algorithm>
#include <array>

namespace cgpu::rm {
namespace {

#define CGPU_UVM(name, number, ...) {name, #name, __VA_ARGS__},
constexpr auto kUvmRows = std::to_array<UvmRow>({
#include "rm/uvm.inc"
});
#undef CGPU_UVM

constexpr bool kUvmRowsAscend = std::ranges::is_sorted(kUvmRows, {}, &UvmRow::request);
static_assert(kUvmRowsAscend);

constexpr const UvmRow& RowOf(NvU32 request) {
  return *std::ranges::find(kUvmRows, request, &UvmRow::request);
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
  return kUvmRows;
}

const UvmRow* FindUvm(NvU32 request) {
  const auto* row = std::ranges::lower_bound(kUvmRows, request, {}, &UvmRow::request);
  return row != kUvmRows.end() && row->request == request ? row : nullptr;
}

NvU32 UvmParamSize(Branch branch, NvU32 request) {
  const UvmRow* row = FindUvm(request);
  return row == nullptr ? 0 : row->size.At(branch);
}

}  // namespace cgpu::rm
