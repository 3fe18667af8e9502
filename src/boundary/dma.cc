// Charges the page tables of RM's own GPU mappings.
#include <optional>
#include <utility>
#include <vector>

#include "boundary/boundary.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {
namespace {

struct MapRequest {
  std::uint32_t device = 0;
  std::uint32_t range = 0;
  std::uint32_t memory = 0;
  std::uint64_t length = 0;
  std::uint32_t flags = 0;
  std::uint64_t address = 0;
};

template <class Params>
MapRequest ReadAs(const Call& call) {
  const auto params = Load<Params>(call.image);
  return {params.hDevice, params.hDma,  params.hMemory,
          params.length,  params.flags, params.dmaOffset};
}

MapRequest Read(const Call& call) {
  return call.image.size() == sizeof(rm::NVOS46_PARAMETERS_V535)
             ? ReadAs<rm::NVOS46_PARAMETERS_V535>(call)
             : ReadAs<rm::NVOS46_PARAMETERS_V580>(call);
}

DmaMapping MappingOf(const MapRequest& request, const ledger::ObjectInfo& memory) {
  DmaMapping mapping;
  mapping.start = request.address;
  mapping.end = request.address + request.length;
  mapping.both = rm::NVOS46_FLAGS_PAGE_SIZE.Get(request.flags) == rm::NVOS46_FLAGS_PAGE_SIZE_BOTH;
  mapping.device = request.device;
  mapping.memory = memory.ref.serial;
  mapping.handle = memory.ref.handle;
  return mapping;
}

}  // namespace

// Returns the tables of a VA range (NV50_MEMORY_VIRTUAL). The driver makes it with tables for all
// pages that may be mapped in it (gpu_vaspace.c gvaspaceAlloc() and
// gvaspaceApplyDefaultAlignment()): of small and of big pages unless it says which. A lazy one has
// none, one that others manage neither, and a sparse one has those at its ends.
Boundary::IntervalTables Boundary::TablesOfInterval(std::uint64_t size, std::uint32_t flags,
                                                    std::uint32_t attr) {
  constexpr std::uint64_t kBigTable = 256;
  if (size == 0 || (flags & (rm::NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED)) != 0) {
    return {};
  }
  if ((flags & rm::NVOS32_ALLOC_FLAGS_SPARSE) != 0) {
    return {2 * PageTables::MostBytes(1), false};
  }
  if ((flags & rm::NVOS32_ALLOC_FLAGS_LAZY) != 0) {
    return {};
  }
  switch (rm::NVOS32_ATTR_PAGE_SIZE.Get(attr)) {
    case rm::NVOS32_ATTR_PAGE_SIZE_HUGE:
      return {PageTables::MostBytes(size, false), false};
    case rm::NVOS32_ATTR_PAGE_SIZE_DEFAULT: {
      // A page of the GPU holds several tables of big pages (gmmu_walk.c).
      const std::uint64_t big = ((size - 1) / rm::kPageHuge + 2) * kBigTable;
      return {PageTables::MostBytes(size) + big + PageTables::kTableBytes, true};
    }
    default:
      return {PageTables::MostBytes(size), false};
  }
}

Decision Boundary::ReserveInterval(Call& call, Decision decision, std::uint64_t size,
                                   std::uint32_t flags, std::uint32_t attr) {
  const IntervalTables tables = TablesOfInterval(size, flags, attr);
  decision.covered = tables.covered;
  return Reserve(call, std::move(decision),
                 tables.bytes > 0 ? ledger::Kind::kMemory : ledger::Kind::kOther, tables.bytes);
}

DmaBook* Boundary::FindDmaBook(ledger::ClientRef client) {
  const auto found = dma_.find(client.handle);
  return found != dma_.end() && found->second.client() == client ? &found->second : nullptr;
}

std::uint32_t Boundary::SpaceOfRange(const Call& call) {
  const Bytes* params = AllocParameters(call);
  if (params == nullptr) {
    return 0;
  }
  return call.command == rm::NV01_MEMORY_VIRTUAL
             ? Load<rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS>(*params).hVASpace
             : Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params).hVASpace;
}

// Adds a range. `space`: the address space that it names, or 0 for its device's; an unknown one is
// the object's own.
void Boundary::AddRange(ledger::ClientRef client, std::uint32_t handle,
                        std::optional<std::uint32_t> space, bool covered) {
  const auto owner = ledger_.FindClient(client.handle);
  const auto range = ledger_.Find(client, handle);
  if (!owner || !range || !range->card) {
    return;
  }
  if (FindDmaBook(client) == nullptr) {
    DropDmaBook(client.handle);
    dma_.emplace(client.handle, DmaBook(owner->ref, owner->owner));
  }
  std::uint64_t serial = range->ref.serial;
  if (space) {
    const auto named = ledger_.Find(client, *space != 0 ? *space : range->parent);
    serial = named ? named->ref.serial : serial;
  }
  dma_.at(client.handle).AddRange(range->ref, serial, *range->card, covered);
  if (space && range->cls == rm::NV50_MEMORY_VIRTUAL) {
    // virtual_mem.c refAddDependant(). If it names no space, or one that is gone by now, it depends
    // on none.
    (void)ledger_.AddDependency(client, handle, *space).ok();
  }
}

Decision Boundary::DecideMapDma(Call& call, Decision decision) {
  const MapRequest request = Read(call);
  const auto range = ledger_.Find(decision.client, request.range);
  const auto memory = ledger_.Find(decision.client, request.memory);
  const auto device = ledger_.Find(decision.client, request.device);
  if (request.length == 0) {
    return Answer(call, rm::NV_ERR_INVALID_LIMIT, "MAP_MEMORY_DMA of nothing");
  }
  if (!range || !memory || !device) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "MAP_MEMORY_DMA of an unknown object");
  }
  if (memory->cls == rm::NV01_MEMORY_LOCAL_PRIVILEGED) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, "MAP_MEMORY_DMA of registers");
  }
  DmaBook* const book = FindDmaBook(decision.client);
  if (book == nullptr || !range->card || device->card != range->card || !IsRangeClass(range->cls)) {
    return Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, "MAP_MEMORY_DMA into another object");
  }
  const bool placed = rm::NVOS46_FLAGS_DMA_OFFSET_FIXED.Get(request.flags) != 0;
  if (request.length > ~(placed ? request.address : 0)) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "MAP_MEMORY_DMA beyond all addresses");
  }
  MapRequest counted = request;
  counted.address = placed ? request.address : 0;
  const std::uint64_t bytes = book->Bytes(*range->card) +
                              book->Need(range->ref.serial, MappingOf(counted, *memory), placed);
  if (!ledger_.SetExtra(KeyOf(*book), *range->card, bytes).ok()) {
    return NoMemory(call, *range->card);
  }
  decision.object = range->ref;
  return decision;
}

void Boundary::AccountMapDma(const Call& call, const Decision& decision, bool done) {
  DmaBook* const book = FindDmaBook(decision.client);
  if (book == nullptr) {
    return;
  }
  const MapRequest request = Read(call);
  const auto memory = ledger_.Find(decision.client, request.memory);
  if (done && memory) {
    book->Add(decision.object.serial, MappingOf(request, *memory));
  }
  SettleDma(*book);
}

void Boundary::AccountUnmapDma(const Call& call, const Decision& decision) {
  DmaBook* const book = FindDmaBook(decision.client);
  const auto params = Load<rm::NVOS47_PARAMETERS_V550>(call.image);
  const auto range = ledger_.Find(decision.client, params.hDma);
  if (book != nullptr && range) {
    const bool sized = call.image.size() == sizeof(rm::NVOS47_PARAMETERS_V550);
    book->Remove(range->ref.serial, params.hDevice, params.dmaOffset, sized ? params.size : 0);
    SettleDma(*book);
  }
}

ledger::ExtraKey Boundary::KeyOf(const DmaBook& book) {
  return {book.owner(), kDmaExtra | book.client().serial};
}

// Sets the ledger's charge to what the tracker says.
void Boundary::SettleDma(const DmaBook& book) {
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    ledger_.ForceExtra(KeyOf(book), card, book.Bytes(card));
  }
}

void Boundary::DropDmaBook(std::uint32_t client) {
  const auto found = dma_.find(client);
  if (found == dma_.end()) {
    return;
  }
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    ledger_.ForceExtra(KeyOf(found->second), card, 0);
  }
  dma_.erase(found);
}

void Boundary::FreeObject(ledger::ClientRef client, ledger::ObjectRef object) {
  DmaBook* const book = FindDmaBook(client);
  const bool others = book != nullptr && ledger_.FreesOthers(client, object.handle);
  // If the ledger does not know it, or it went with its parent meanwhile, there is nothing to give
  // back.
  if (!ledger_.Free(client, object).ok() || book == nullptr) {
    return;
  }
  if (!ledger_.Owns(client.handle)) {
    DropDmaBook(client.handle);
    return;
  }
  book->Forget(object.serial);
  if (others) {
    book->Sweep([&](ledger::ObjectRef at) {
      const auto there = ledger_.Find(client, at.handle);
      return there && there->ref == at;
    });
  }
  SettleDma(*book);
}

void Boundary::DropGoneClients() {
  std::vector<std::uint32_t> gone;
  for (const auto& [handle, book] : dma_) {
    const auto client = ledger_.FindClient(handle);
    if (!client || client->ref != book.client()) {
      gone.push_back(handle);
    }
  }
  for (const std::uint32_t handle : gone) {
    DropDmaBook(handle);
  }
}

}  // namespace cgpu::boundary
