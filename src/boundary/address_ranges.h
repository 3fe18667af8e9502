// Sets of addresses: ranges in order that neither overlap nor touch. Pure.
#ifndef CGPU_BOUNDARY_ADDRESS_RANGES_H_
#define CGPU_BOUNDARY_ADDRESS_RANGES_H_

#include <cstdint>
#include <vector>

namespace cgpu::boundary {

struct AddressRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

using AddressRanges = std::vector<AddressRange>;

// Orders ranges, which may come in any order and overlap.
[[nodiscard]] AddressRanges Ordered(AddressRanges ranges);
// The other functions take and return ranges in order.
[[nodiscard]] AddressRanges Union(const AddressRanges& one, const AddressRanges& other);
[[nodiscard]] AddressRanges Intersection(const AddressRanges& one, const AddressRanges& other);
[[nodiscard]] AddressRanges Without(const AddressRanges& one, const AddressRanges& other);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_ADDRESS_RANGES_H_
