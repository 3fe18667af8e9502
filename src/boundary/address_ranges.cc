#include "boundary/address_ranges.h"

#include <algorithm>

namespace cgpu::boundary {

AddressRanges Ordered(AddressRanges ranges) {
  std::ranges::sort(ranges);
  AddressRanges ordered;
  for (const AddressRange& range : ranges) {
    if (range.start >= range.end) {
      continue;
    }
    if (!ordered.empty() && range.start <= ordered.back().end) {
      ordered.back().end = std::max(ordered.back().end, range.end);
    } else {
      ordered.push_back(range);
    }
  }
  return ordered;
}

AddressRanges Union(const AddressRanges& one, const AddressRanges& other) {
  AddressRanges all = one;
  all.insert(all.end(), other.begin(), other.end());
  return Ordered(std::move(all));
}

AddressRanges Intersection(const AddressRanges& one, const AddressRanges& other) {
  AddressRanges common;
  auto next = other.begin();
  for (const AddressRange& range : one) {
    while (next != other.end() && next->end <= range.start) {
      ++next;
    }
    for (auto at = next; at != other.end() && at->start < range.end; ++at) {
      common.push_back({std::max(range.start, at->start), std::min(range.end, at->end)});
    }
  }
  return common;
}

AddressRanges Without(const AddressRanges& one, const AddressRanges& other) {
  AddressRanges left;
  auto next = other.begin();
  for (AddressRange range : one) {
    while (next != other.end() && next->end <= range.start) {
      ++next;
    }
    for (auto at = next; at != other.end() && at->start < range.end; ++at) {
      if (at->start > range.start) {
        left.push_back({range.start, at->start});
      }
      range.start = at->end;
      if (range.start >= range.end) {
        break;
      }
    }
    if (range.start < range.end) {
      left.push_back(range);
    }
  }
  return left;
}

}  // namespace cgpu::boundary
