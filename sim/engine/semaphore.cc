#include "sim/engine/semaphore.h"

#include <array>
#include <cstring>
#include <span>

namespace cgpu::sim::engine {
namespace {

std::optional<std::uint64_t> ReadWord(GpuMemory& memory, SpaceId space, std::uint64_t address,
                                      bool wide) {
  std::uint64_t value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(wide ? 8 : 4);
  if (!memory.Read(space, address, bytes)) {
    return std::nullopt;
  }
  return value;
}

bool WriteWord(GpuMemory& memory, SpaceId space, std::uint64_t address, std::uint64_t value,
               bool wide) {
  return memory.Write(space, address, std::as_bytes(std::span(&value, 1)).first(wide ? 8 : 4));
}

// As signed or unsigned numbers of their width.
bool Less(std::uint64_t a, std::uint64_t b, bool wide, bool is_signed) {
  if (!is_signed) {
    return a < b;
  }
  return wide ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b)
              : static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
}

std::uint64_t Reduce(const Release& release, std::uint64_t old) {
  const std::uint64_t value = release.payload;
  switch (*release.reduction) {
    case Reduction::kMin:
      return Less(value, old, release.wide, release.is_signed) ? value : old;
    case Reduction::kMax:
      return Less(old, value, release.wide, release.is_signed) ? value : old;
    case Reduction::kXor:
      return old ^ value;
    case Reduction::kAnd:
      return old & value;
    case Reduction::kOr:
      return old | value;
    case Reduction::kAdd:
      return old + value;
    case Reduction::kIncrement:  // wraps at the payload
      return old >= value ? 0 : old + 1;
    case Reduction::kDecrement:
      return old == 0 || old > value ? value : old - 1;
  }
  return old;
}

}  // namespace

std::optional<bool> IsThere(const Acquire& acquire, GpuMemory& memory, SpaceId space) {
  const std::optional<std::uint64_t> read = ReadWord(memory, space, acquire.address, acquire.wide);
  if (!read) {
    return std::nullopt;
  }
  const std::uint64_t mask = acquire.wide ? ~std::uint64_t{0} : 0xffff'ffffU;
  const std::uint64_t value = *read;
  const std::uint64_t payload = acquire.payload & mask;
  switch (acquire.compare) {
    case Compare::kEqual:
      return value == payload;
    case Compare::kStrictGreaterEqual:
      return value >= payload;
    case Compare::kCircularGreaterEqual:
      return ((value - payload) & mask) <= mask / 2;
    case Compare::kAnd:
      return (value & payload) != 0;
    case Compare::kNor:
      return (~(value | payload) & mask) != 0;
  }
  return false;
}

Reduction ComputeReduction(std::uint32_t number) {
  static constexpr std::array<Reduction, 8> kByNumber = {
      Reduction::kAdd,       Reduction::kMin, Reduction::kMax, Reduction::kIncrement,
      Reduction::kDecrement, Reduction::kAnd, Reduction::kOr,  Reduction::kXor};
  return kByNumber[number % kByNumber.size()];
}

bool Write(const Release& release, GpuMemory& memory, SpaceId space, Time now) {
  if (release.timestamp && !WriteWord(memory, space, release.address + 8, now, true)) {
    return false;
  }
  std::uint64_t payload = release.wide ? release.payload : release.payload & 0xffff'ffffU;
  if (release.reduction) {
    const std::optional<std::uint64_t> old = ReadWord(memory, space, release.address, release.wide);
    if (!old) {
      return false;
    }
    payload = Reduce(release, *old);
    return WriteWord(memory, space, release.address, payload, release.wide);
  }
  return WriteWord(memory, space, release.address, payload, release.wide || release.timestamp);
}

}  // namespace cgpu::sim::engine
