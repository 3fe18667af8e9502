#include "boundary/uvm_tracker.h"

namespace cgpu::boundary {

void UvmSpace::AddRange(std::uint64_t base, std::uint64_t length) {
  if (pools_.contains(base)) {
    RemoveRange(base);  // a stale one: the driver has just made the new
  }
  ranges_[base] = length;
}

void UvmSpace::RemoveRange(std::uint64_t base) {
  const auto range = ranges_.find(base);
  if (range == ranges_.end()) {
    return;
  }
  for (auto& [gpu, pieces] : pieces_) {
    UnmapPieces(gpu, base, base + range->second);
  }
  if (pools_.erase(base) != 0) {
    for (auto& [gpu, tables] : tables_) {
      tables.Unmap(base, base + range->second);
    }
  }
  ranges_.erase(range);
}

void UvmSpace::AddPool(std::uint64_t base) {
  pools_.insert(base);
}

std::uint64_t UvmSpace::PoolBytes() const {
  std::uint64_t bytes = 0;
  for (const std::uint64_t base : pools_) {
    bytes += ranges_.at(base);
  }
  return bytes;
}

void UvmSpace::PlanPiece(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end) {
  tables_[gpu].Map(start, end);
}

void UvmSpace::DropPlan(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end) {
  tables_[gpu].Unmap(start, end);
}

void UvmSpace::AddPiece(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end, Hold hold) {
  Use(hold);  // first, so that a removed piece of the same hold does not end it
  UnmapPieces(gpu, start, end);
  pieces_[gpu][start] = {end, hold};
}

void UvmSpace::UnmapPieces(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end) {
  auto& pieces = pieces_[gpu];
  PageTables& tables = tables_[gpu];
  auto piece = pieces.upper_bound(start);
  if (piece != pieces.begin() && std::prev(piece)->second.end > start) {
    --piece;
  }
  while (piece != pieces.end() && piece->first < end) {
    const std::uint64_t from = piece->first;
    const Piece old = piece->second;
    tables.Unmap(from, old.end);
    piece = pieces.erase(piece);
    if (from < start) {
      Use(old.hold);
      tables.Map(from, start);
      pieces[from] = {start, old.hold};
    }
    if (end < old.end) {
      Use(old.hold);
      tables.Map(end, old.end);
      piece = pieces.insert_or_assign(end, Piece{old.end, old.hold}).first;
    }
    Leave(old.hold);
  }
}

void UvmSpace::AddChannel(std::pair<std::uint32_t, std::uint32_t> channel, ledger::Gpu gpu,
                          std::uint64_t start, std::uint64_t end, Hold hold) {
  RemoveChannel(channel);  // a stale one: the driver has just taken the new
  Use(hold);
  channels_[channel] = {gpu, start, end, hold};
}

void UvmSpace::RemoveChannel(std::pair<std::uint32_t, std::uint32_t> channel) {
  const auto found = channels_.find(channel);
  if (found == channels_.end()) {
    return;
  }
  if (found->second.end > found->second.start) {
    tables_[found->second.gpu].Unmap(found->second.start, found->second.end);
  }
  Leave(found->second.hold);
  channels_.erase(found);
}

void UvmSpace::RemoveVaSpace(ledger::Gpu gpu) {
  UnmapPieces(gpu, 0, ~std::uint64_t{0});
  for (const auto& channel : Channels()) {
    if (channels_[channel].gpu == gpu) {
      RemoveChannel(channel);
    }
  }
  windows_.erase(gpu);
  va_spaces_.erase(gpu);
}

void UvmSpace::RemoveGpu(ledger::Gpu gpu) {
  RemoveVaSpace(gpu);
  gpus_.erase(gpu);
}

UvmSpace::Hold UvmSpace::NewHold() {
  do {
    ++last_hold_;
  } while (last_hold_ == 0 || holds_.contains(last_hold_));
  return last_hold_;
}

std::uint64_t UvmSpace::Bytes(ledger::Gpu gpu) const {
  const auto tables = tables_.find(gpu);
  const std::uint64_t root = va_spaces_.contains(gpu) ? PageTables::kTableBytes : 0;
  return root + (tables == tables_.end() ? 0 : tables->second.Bytes());
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> UvmSpace::Ranges() const {
  return {ranges_.begin(), ranges_.end()};
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> UvmSpace::Channels() const {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
  all.reserve(channels_.size());
  for (const auto& [channel, what] : channels_) {
    all.push_back(channel);
  }
  return all;
}

void UvmSpace::AddWindow(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end) {
  constexpr std::uint64_t kPage = 4096;
  windows_[gpu] =
      Union(windows_[gpu], {{start / kPage * kPage, (end - 1) / kPage * kPage + kPage}});
}

AddressRanges UvmSpace::Windows(ledger::Gpu gpu) const {
  const auto windows = windows_.find(gpu);
  return windows == windows_.end() ? AddressRanges{} : windows->second;
}

bool UvmSpace::HasMostWindows(ledger::Gpu gpu) const {
  constexpr std::size_t kMost = 4096;  // a program has one for each of its contexts
  const auto windows = windows_.find(gpu);
  return windows != windows_.end() && windows->second.size() >= kMost;
}

ledger::Gpu UvmSpace::GpuOfChannel(std::pair<std::uint32_t, std::uint32_t> channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? 0 : found->second.gpu;
}

void UvmSpace::Use(Hold hold) {
  if (hold != 0) {
    ++holds_[hold];
  }
}

void UvmSpace::Leave(Hold hold) {
  const auto found = holds_.find(hold);
  if (found != holds_.end() && --found->second == 0) {
    holds_.erase(found);
    released_.push_back(hold);
  }
}

}  // namespace cgpu::boundary
