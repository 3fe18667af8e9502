// Structures in and out of byte buffers, without aliasing.
#ifndef CGPU_SIM_DRIVER_BYTES_H_
#define CGPU_SIM_DRIVER_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace cgpu::sim {

// Returns the front of `bytes` as a T; missing bytes are zero.
template <class T>
[[nodiscard]] T Load(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (!bytes.empty()) {
    std::memcpy(&value, bytes.data(), std::min(sizeof(T), bytes.size()));
  }
  return value;
}

// Copies as much of `value` as fits to the front of `bytes`.
template <class T>
void Store(std::span<std::byte> bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), &value, std::min(sizeof(T), bytes.size()));
  }
}

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_BYTES_H_
