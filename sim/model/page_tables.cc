#include "sim/model/page_tables.h"

#include <algorithm>
#include <array>

#include "rm/vidmem.h"

namespace cgpu::sim {
namespace {

constexpr unsigned kHugeShift = 21;
// Level 0 is the root, 1 to 3 the directories, 4 and 5 tables of 4 KiB and of 64 KiB pages: bits of
// address that one table of the level covers.
constexpr std::array<unsigned, 6> kShift = {63, 47, 38, 29, kHugeShift, kHugeShift};
constexpr unsigned kDirectories = 4;

constexpr std::array<rm::NvU64, 6> kBytes = {4096, 4096, 4096, 4096, 4096, 256};

unsigned LeafLevel(rm::NvU64 page) {
  return page < rm::kPageBig ? 4 : 5;
}

// Calls visit(table) for each table that the range needs, until one call returns false.
template <class Visit>
bool ForEachTable(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page, const Visit& visit) {
  const auto level = [&](unsigned n) {
    const rm::NvU64 last = (address + length - 1) >> kShift[n];
    for (rm::NvU64 index = address >> kShift[n]; index <= last; ++index) {
      if (!visit(std::make_pair(n, index))) {
        return false;
      }
    }
    return true;
  };
  // Pages of 512 MiB lie in the directory above the last.
  const unsigned directories = kDirectories - (page >= rm::kPage512M ? 1 : 0);
  for (unsigned n = 0; n < directories; ++n) {
    if (!level(n)) {
      return false;
    }
  }
  return page >= rm::NvU64{1} << kHugeShift || level(LeafLevel(page));
}

}  // namespace

bool PageTables::Map(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page) {
  rm::NvU64 missing = 0;
  const bool fits = ForEachTable(address, length, page, [&](const Table& table) {
    missing += uses_.contains(table) ? 0 : kBytes.at(table.first);
    return missing <= memory_.Free();  // so that a huge range is not walked to its end
  });
  if (!fits || !memory_.Take(missing)) {
    return false;
  }
  (void)ForEachTable(address, length, page, [this](const Table& table) {
    ++uses_[table];
    return true;
  });
  bytes_ += missing;
  return true;
}

void PageTables::Unmap(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page) {
  rm::NvU64 gone = 0;
  (void)ForEachTable(address, length, page, [&](const Table& table) {
    const auto found = uses_.find(table);
    if (--found->second == 0) {
      uses_.erase(found);
      gone += kBytes.at(table.first);
    }
    return true;
  });
  memory_.Return(gone);
  bytes_ -= gone;
}

rm::NvU64 PageTables::Reserve(rm::NvU64 length) {
  constexpr rm::NvU64 kAlign = rm::NvU64{1} << kHugeShift;
  const rm::NvU64 address = next_;
  next_ += (length + kAlign - 1) / kAlign * kAlign;
  return address;
}

void PageTables::Lead(rm::NvU64 address, rm::NvU64 length, const std::shared_ptr<Block>& block,
                      rm::NvU64 offset) {
  ++version_;
  mapped_[address] = Mapped{length, block, offset};
}

void PageTables::Forget(rm::NvU64 address) {
  ++version_;
  mapped_.erase(address);
}

std::optional<GpuPlace> PageTables::Find(rm::NvU64 address) const {
  auto found = mapped_.upper_bound(address);
  if (found == mapped_.begin()) {
    return std::nullopt;
  }
  const rm::NvU64 end = found == mapped_.end() ? ~rm::NvU64{0} : found->first;
  --found;
  const rm::NvU64 length = std::min(found->second.length, end - found->first);
  auto block = found->second.block.lock();
  if (address - found->first >= length || block == nullptr) {
    return std::nullopt;
  }
  return GpuPlace{found->first, length, std::move(block), found->second.offset};
}

PinnedTables::~PinnedTables() {
  for (const Piece& piece : pieces_) {
    tables_->Unmap(piece.address, piece.length, piece.page);
  }
}

bool PinnedTables::Pin(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page) {
  if (!tables_->Map(address, length, page)) {
    return false;
  }
  pieces_.push_back({address, length, page});
  return true;
}

}  // namespace cgpu::sim
