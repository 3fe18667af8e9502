#include "boundary/quotas.h"

#include <algorithm>
#include <limits>

#include "rm/nv_classes.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint64_t kEqualPart = 48;
constexpr std::uint64_t kByMemory = 960;
constexpr std::uint64_t kEncoderSessions = 8;
constexpr std::uint64_t kMib = 1024 * 1024;

// A slice's part of a GPU and the whole, in MiB as grants are: so nothing overflows. The part is
// never more than the whole.
struct Share {
  std::uint64_t part;
  std::uint64_t whole;
};

Share ShareOf(std::uint64_t limit, std::uint64_t total) {
  const std::uint64_t whole = std::max<std::uint64_t>(total / kMib, 1);
  return {total == 0 ? whole : std::min(limit / kMib, whole), whole};
}

}  // namespace

std::uint32_t MostOf(std::uint32_t cls) {
  constexpr std::uint32_t kMost = 4096;
  switch (cls) {
    case rm::NV01_EVENT:
    case rm::NV01_EVENT_OS_EVENT:
    case rm::NV2081_BINAPI:
    case rm::GF100_ZBC_CLEAR:
      return kMost;
    default:
      return std::numeric_limits<std::uint32_t>::max();
  }
}

std::uint32_t EncodersOf(std::uint64_t limit, std::uint64_t total) {
  const auto [part, whole] = ShareOf(limit, total);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(kEncoderSessions * part / whole, 1));
}

ledger::GpuQuotas QuotasOf(std::uint64_t limit, std::uint64_t total, std::uint64_t bar1) {
  const auto [part, whole] = ShareOf(limit, total);
  const auto ids = static_cast<std::uint32_t>(kEqualPart + kByMemory * part / whole);
  const std::uint64_t window = (bar1 - bar1 / 32) / kMib;
  // BAR1 has at most as many MiB as 2^52 bytes have, and so has memory.
  const std::uint64_t bytes = window * kMib / whole * part;
  return {ids, ids, bytes};
}

std::uint64_t Bar1Bytes(std::uint64_t offset, std::uint64_t length, std::uint64_t page_bytes) {
  const std::uint64_t page = std::max<std::uint64_t>(page_bytes, 4096);
  const std::uint64_t from = offset / page * page;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  if (offset > kMost - length || offset + length - from > kMost - (page - 1)) {
    return kMost;
  }
  return (offset + length - from + page - 1) / page * page;
}

}  // namespace cgpu::boundary
