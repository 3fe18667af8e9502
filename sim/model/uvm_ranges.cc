// External ranges: uvm_map_external.c, uvm_va_range.c.
#include <algorithm>
#include <iterator>

#include "rm/vidmem.h"
#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

// uvm_api.h uvm_api_range_invalid_aligned().
bool InvalidRange(rm::NvU64 base, rm::NvU64 length, rm::NvU64 alignment) {
  return base % alignment != 0 || length % alignment != 0 || base == 0 || length == 0 ||
         base + length < base;
}

// uvm_gpu.c uvm_gpu_can_address() on a 47-bit processor.
bool CanAddress(rm::NvU64 base, rm::NvU64 length) {
  constexpr rm::NvU64 kLowerEnd = rm::NvU64{1} << 47;
  const rm::NvU64 last = base + length - 1;
  return last < kLowerEnd || base >= ~(kLowerEnd - 1);
}

// From kernel-open/nvidia-uvm/uvm_types.h: the last of each enumeration.
constexpr rm::NvU32 kMappingTypes = 4;      // Default .. ReadOnly
constexpr rm::NvU32 kCachingTypes = 3;      // Default, ForceUncached, ForceCached
constexpr rm::NvU32 kFormatTypes = 2;       // Default, BlockLinear
constexpr rm::NvU32 kElementBits24 = 3;     // known, and refused
constexpr rm::NvU32 kElementBitsKinds = 7;  // Default, 8, 16, (24), 32, 64, 128
constexpr rm::NvU32 kCompressionTypes = 2;  // Default, EnabledNoPlc

bool InvalidAttributes(const rm::UvmGpuMappingAttributes& of) {
  return of.gpuMappingType >= kMappingTypes || of.gpuCachingType >= kCachingTypes ||
         of.gpuCompressionType >= kCompressionTypes || of.gpuFormatType >= kFormatTypes ||
         of.gpuElementBits >= kElementBitsKinds || of.gpuElementBits == kElementBits24 ||
         (of.gpuFormatType == 0) != (of.gpuElementBits == 0);
}

// uvm_mmu_biggest_page_size_up_to().
rm::NvU64 BiggestPageUpTo(rm::NvU64 size, bool with_512m) {
  for (const rm::NvU64 page : {rm::kPage512M, rm::kPageHuge, rm::kPageBig}) {
    if (page <= size && (page != rm::kPage512M || with_512m)) {
      return page;
    }
  }
  return size >= rm::kPage4K ? rm::kPage4K : 0;
}

}  // namespace

std::map<rm::NvU64, UvmRange>::iterator UvmModel::FindRange(UvmSpace& space, rm::NvU64 at) {
  auto found = space.ranges.upper_bound(at);
  if (found == space.ranges.begin()) {
    return space.ranges.end();
  }
  --found;
  return at - found->first < found->second.length ? found : space.ranges.end();
}

// The external range that holds all of [base, base + length).
UvmRange* UvmModel::FindExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  const auto found = FindRange(space, base);
  if (found == space.ranges.end() || found->second.kind != UvmRangeKind::kExternal ||
      base + length > found->first + found->second.length) {
    return nullptr;
  }
  return &found->second;
}

// uvm_range_tree_add().
NvStatus UvmModel::CheckFree(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  if (OverlapsManaged(space, base, length)) {
    return rm::NV_ERR_UVM_ADDRESS_IN_USE;
  }
  const auto next = space.ranges.lower_bound(base);
  if (next != space.ranges.end() && next->first < base + length) {
    return rm::NV_ERR_UVM_ADDRESS_IN_USE;
  }
  if (next != space.ranges.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.length > base) {
      return rm::NV_ERR_UVM_ADDRESS_IN_USE;
    }
  }
  return rm::NV_OK;
}

NvStatus UvmModel::CreateExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  if (InvalidRange(base, length, rm::kPage4K)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const NvStatus status = CheckFree(space, base, length);
  if (status == rm::NV_OK) {
    UvmRange& range = space.ranges[base];
    range.kind = UvmRangeKind::kExternal;
    range.length = length;
  }
  return status;
}

// uvm_unmap_external_in_range(): pieces are cut at both ends, then what lies within goes. A cut
// must fall between two pages of the piece.
NvStatus UvmModel::UnmapPieces(UvmSpace& space, UvmRange& range, int gpu, rm::NvU64 base,
                               rm::NvU64 length) {
  const auto of_gpu = range.pieces.find(gpu);
  if (of_gpu == range.pieces.end()) {
    return rm::NV_OK;
  }
  Pieces& pieces = of_gpu->second;  // none without a registered GPU VA space
  const rm::NvU64 end = base + length;
  UvmGpuVaSpace* vaspace = VaSpaceOf(space, gpu);
  const auto cut = [&pieces, vaspace](Pieces::iterator piece, rm::NvU64 at) {
    if (at % piece->second.page_size != 0) {
      return false;
    }
    vaspace->tree.Split(piece->first, piece->second.length, at, piece->second.page_size);
    UvmPiece upper = piece->second;
    upper.length = piece->first + piece->second.length - at;
    upper.offset += at - piece->first;
    piece->second.length = at - piece->first;
    pieces.emplace(at, std::move(upper));
    return true;
  };
  auto piece = pieces.upper_bound(base);
  if (piece != pieces.begin()) {
    --piece;
    if (piece->first + piece->second.length <= base) {
      ++piece;
    }
  }
  while (piece != pieces.end() && piece->first < end) {
    if (piece->first < base) {
      if (!cut(piece, base)) {
        return rm::NV_ERR_INVALID_ADDRESS;
      }
      ++piece;
      continue;
    }
    if (piece->first + piece->second.length > end && !cut(piece, end)) {
      return rm::NV_ERR_INVALID_ADDRESS;
    }
    vaspace->tree.Remove(piece->first, piece->second.length, piece->second.page_size);
    ++vaspace->vaspace->version;
    piece = pieces.erase(piece);
  }
  return rm::NV_OK;
}

// All pieces that `gpu` maps, or only those whose memory lies on `memory_gpu`.
void UvmModel::DropPieces(UvmSpace& space, UvmRange& range, int gpu, int memory_gpu) {
  const auto of_gpu = range.pieces.find(gpu);
  if (of_gpu == range.pieces.end()) {
    return;
  }
  UvmGpuVaSpace* vaspace = VaSpaceOf(space, gpu);
  for (auto piece = of_gpu->second.begin(); piece != of_gpu->second.end();) {
    const Block* block = piece->second.block.get();
    if (memory_gpu != kAnyMemory && (block == nullptr || block->gpu != memory_gpu)) {
      ++piece;
      continue;
    }
    vaspace->tree.Remove(piece->first, piece->second.length, piece->second.page_size);
    ++vaspace->vaspace->version;
    piece = of_gpu->second.erase(piece);
  }
}

// nv_gpu_ops.c dupMemory() and uvm_map_external.c set_ext_gpu_map_location(). The duplicate holds
// the memory whatever becomes of the handle it was made from.
NvStatus UvmModel::Duplicate(const UvmSpace& space, int gpu, std::uint32_t tgid,
                             const UvmMapRequest& request, std::shared_ptr<Block>* block) {
  Client* source = driver_.FindClient(request.client);
  if (source == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  const Object* object = DriverModel::FindObject(*source, request.memory);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (object->kind != ObjectKind::kMemory || object->block == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (!MayDuplicate(*source, *object, tgid)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  const int owner = object->gpu;
  const bool on_gpu = object->block->gpu >= 0;
  const bool reachable =
      owner == gpu || !on_gpu || space.peers.contains({std::min(owner, gpu), std::max(owner, gpu)});
  if (!space.gpus.contains(owner) || !reachable) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  *block = object->block;
  return rm::NV_OK;
}

// uvm_map_external_allocation_on_gpu(). What was mapped there before is gone even when this fails.
NvStatus UvmModel::MapOnGpu(UvmSpace& space, UvmRange& range, int gpu, std::uint32_t tgid,
                            const UvmMapRequest& request) {
  if (!CanAddress(request.base, request.length)) {
    return rm::NV_ERR_OUT_OF_RANGE;
  }
  NvStatus status = UnmapPieces(space, range, gpu, request.base, request.length);
  if (status != rm::NV_OK) {
    return status;
  }
  UvmPiece piece;
  status = Duplicate(space, gpu, tgid, request, &piece.block);
  if (status != rm::NV_OK) {
    return status;
  }
  const Chip* chip = driver_.Gpus()[static_cast<std::size_t>(gpu)].model->chip;
  const rm::NvU64 alignments =
      piece.block->page_size | request.base | request.length | request.offset;
  piece.page_size = BiggestPageUpTo(alignments & ~(alignments - 1), chip->architecture >= kAmpere);
  if (piece.page_size == 0) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const rm::NvU64 size = (piece.block->length + piece.block->page_size - 1) /
                         piece.block->page_size * piece.block->page_size;
  if (request.offset + request.length > size || request.offset + request.length < request.offset) {
    return rm::NV_ERR_INVALID_OFFSET;
  }
  piece.length = request.length;
  piece.offset = request.offset;
  VaSpaceOf(space, gpu)->tree.Add(request.base, request.length, piece.page_size);
  range.pieces[gpu].emplace(request.base, std::move(piece));
  return rm::NV_OK;
}

NvStatus UvmModel::MapExternal(UvmSpace& space, std::uint32_t tgid, const UvmMapRequest& request,
                               std::span<const rm::UvmGpuMappingAttributes> gpus) {
  if (InvalidRange(request.base, request.length, rm::kPage4K)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  if (gpus.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  UvmRange* range = FindExternal(space, request.base, request.length);
  if (range == nullptr) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  NvStatus status = rm::NV_OK;
  std::set<int> mapped;
  for (const rm::UvmGpuMappingAttributes& attributes : gpus) {
    const int gpu = Registered(space, attributes.gpuUuid);
    if (InvalidAttributes(attributes)) {
      status = rm::NV_ERR_INVALID_ARGUMENT;
    } else if (gpu < 0 || VaSpaceOf(space, gpu) == nullptr) {
      status = rm::NV_ERR_INVALID_DEVICE;
    } else {
      status = MapOnGpu(space, *range, gpu, tgid, request);
    }
    if (status != rm::NV_OK) {
      break;
    }
    mapped.insert(gpu);
  }
  if (status != rm::NV_OK) {
    for (const int gpu : mapped) {
      (void)UnmapPieces(space, *range, gpu, request.base, request.length);
    }
  }
  return status;
}

std::optional<GpuPlace> UvmModel::Find(const VaSpace& vaspace, int gpu, rm::NvU64 address) {
  for (auto& [file, space] : spaces_) {
    const UvmGpuVaSpace* registered = VaSpaceOf(space, gpu);
    if (registered == nullptr || registered->vaspace.get() != &vaspace) {
      continue;
    }
    const auto range = FindRange(space, address);
    if (range == space.ranges.end()) {
      return std::nullopt;
    }
    const auto pieces = range->second.pieces.find(gpu);
    if (pieces == range->second.pieces.end()) {
      return std::nullopt;
    }
    auto piece = pieces->second.upper_bound(address);
    if (piece == pieces->second.begin()) {
      return std::nullopt;
    }
    --piece;
    if (address - piece->first >= piece->second.length || piece->second.block == nullptr) {
      return std::nullopt;
    }
    return GpuPlace{piece->first, piece->second.length, piece->second.block, piece->second.offset};
  }
  return std::nullopt;
}

NvStatus UvmModel::MapSparse(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                             const rm::NvProcessorUuid& uuid) {
  if (InvalidRange(base, length, rm::kPageBig)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  UvmRange* range = FindExternal(space, base, length);
  if (range == nullptr) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const int gpu = Registered(space, uuid);
  UvmGpuVaSpace* vaspace = gpu < 0 ? nullptr : VaSpaceOf(space, gpu);
  if (vaspace == nullptr) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  if (!CanAddress(base, length)) {
    return rm::NV_ERR_OUT_OF_RANGE;
  }
  const NvStatus status = UnmapPieces(space, *range, gpu, base, length);
  if (status != rm::NV_OK) {
    return status;
  }
  UvmPiece piece;
  piece.length = length;
  piece.page_size = rm::kPageBig;
  vaspace->tree.Add(base, length, piece.page_size);
  range->pieces[gpu].emplace(base, std::move(piece));
  return rm::NV_OK;
}

NvStatus UvmModel::UnmapExternal(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                                 const rm::NvProcessorUuid& uuid) {
  if (InvalidRange(base, length, rm::kPage4K)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  UvmRange* range = FindExternal(space, base, length);
  if (range == nullptr) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const int gpu = Registered(space, uuid);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  return UnmapPieces(space, *range, gpu, base, length);
}

// uvm_free(): whole ranges only, and none that mmap made.
NvStatus UvmModel::Free(UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  if (InvalidRange(base, length, rm::kPage4K)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const auto range = space.ranges.find(base);
  if (range == space.ranges.end() || range->second.kind == UvmRangeKind::kChannel ||
      range->second.length != length) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  DropRange(space, range);
  return rm::NV_OK;
}

NvStatus UvmModel::FreeAt(UvmSpace& space, rm::NvU64 base) {
  const auto range = space.ranges.find(base);
  return range == space.ranges.end() ? NvStatus{rm::NV_ERR_INVALID_ADDRESS}
                                     : Free(space, base, range->second.length);
}

void UvmModel::DropRange(UvmSpace& space, std::map<rm::NvU64, UvmRange>::iterator range) {
  for (auto& [gpu, registered] : space.gpus) {
    DropPieces(space, range->second, gpu, kAnyMemory);
    if (registered.vaspace == nullptr) {
      continue;
    }
    if (range->second.kind == UvmRangeKind::kSemaphorePool) {
      registered.vaspace->tree.Remove(range->first, range->second.length, rm::kPage4K);
    } else if (range->second.kind == UvmRangeKind::kDynamicParallelism &&
               range->second.gpu == gpu) {
      registered.vaspace->tree.Remove(range->first, range->second.length, range->second.length);
    }
  }
  space.ranges.erase(range);
}

NvStatus UvmModel::Validate(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  const auto range = space.ranges.find(base);
  const auto managed = space.managed.find(base);
  const bool found = (range != space.ranges.end() && range->second.length == length) ||
                     (managed != space.managed.end() && managed->second.length == length);
  return found ? rm::NV_OK : rm::NV_ERR_INVALID_ADDRESS;
}

}  // namespace cgpu::sim
