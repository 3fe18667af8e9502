#include "boundary/page_tables.h"

namespace cgpu::boundary {

void PageTables::Map(std::uint64_t start, std::uint64_t end) {
  for (std::size_t level = 0; level < kReach.size(); ++level) {
    const std::uint64_t first = start >> kReach[level];
    const std::uint64_t last = (end - 1) >> kReach[level];
    auto& shared = shared_[level];
    tables_ += shared[first]++ == 0 ? 1 : 0;
    if (last != first) {
      tables_ += shared[last]++ == 0 ? 1 : 0;
      tables_ += last - first - 1;
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
        --tables_;
      }
    };
    leave(first);
    if (last != first) {
      leave(last);
      tables_ -= last - first - 1;
    }
  }
}

std::uint64_t PageTables::MostBytes(std::uint64_t length, bool smallest) {
  std::uint64_t tables = 0;
  for (std::size_t level = smallest ? 0 : 1; level < kReach.size(); ++level) {
    tables += ((length - 1) >> kReach[level]) + 2;  // one more if it begins in the middle of one
  }
  return tables * kTableBytes;
}

}  // namespace cgpu::boundary
