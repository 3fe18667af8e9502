#include "boundary/page_tables.h"

namespace cgpu::boundary {

void PageTables::Map(std::uint64_t start, std::uint64_t end) {
  for (std::size_t level = 0; level < kReach.size(); ++level) {
    const std::uint64_t first = start >> kReach[level];
    const std::uint64_t last = (end - 1) >> kReach[level];
    auto& shared = shared_[level];
    bytes_ += shared[first]++ == 0 ? BytesAt(level) : 0;
    if (last != first) {
      bytes_ += shared[last]++ == 0 ? BytesAt(level) : 0;
      bytes_ += (last - first - 1) * BytesAt(level);
    }
  }
}

void PageTables::Unmap(std::uint64_t start, std::uint64_t end) {
  for (std::size_t level = 0; level < kReach.size(); ++level) {
    const std::uint64_t first = start >> kReach[level];
    const std::uint64_t last = (end - 1) >> kReach[level];
    auto& shared = shared_[level];
    const auto leave = [&](std::uint64_t table) {
      const auto found = shared.find(table);
      if (found != shared.end() && --found->second == 0) {
        shared.erase(found);
        bytes_ -= BytesAt(level);
      }
    };
    leave(first);
    if (last != first) {
      leave(last);
      bytes_ -= (last - first - 1) * BytesAt(level);
    }
  }
}

std::uint64_t PageTables::MostBytes(std::uint64_t length) {
  std::uint64_t bytes = 0;
  for (std::size_t level = 0; level < kReach.size(); ++level) {
    // One more if it begins in the middle of one.
    bytes += (((length - 1) >> kReach[level]) + 2) * BytesAt(level);
  }
  return bytes;
}

}  // namespace cgpu::boundary
