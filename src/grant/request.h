// What a user asks for, as written on a command line or in an environment, before it meets the
// node's cards. Units are 1 MiB and 1 %; fractions are refused. All functions are pure; every error
// is kInvalid with a sentence and a hint.
#ifndef CGPU_GRANT_REQUEST_H_
#define CGPU_GRANT_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Memory per card, but for kUnits.
struct MemoryRequest {
  enum class Kind {
    kWholeCard,
    kMib,       // `value` MiB
    kPercent,   // `value` % of the card's MiB, 1 to 100
    kUnits,     // `value` units in total, evenly over the cards
    kFraction,  // `value` of `of` parts of the card
  };
  Kind kind = Kind::kWholeCard;
  std::uint64_t value = 0;
  std::uint64_t of = 0;
};

// Which cards.
struct GpuRequest {
  enum class Kind { kAll, kCount, kDevices };
  Kind kind = Kind::kAll;
  std::uint64_t count = 0;
  std::vector<std::string> devices;  // indices ("0"), UUIDs or prefixes of them
};

// Everything asked for one container. More than one request of a kind means that the same thing was
// said twice; they must agree. None means all cards, whole cards.
struct ResourceRequest {
  std::vector<GpuRequest> gpus;
  std::vector<MemoryRequest> memory;
  // Cards that it has whole, whatever `memory` says, as far as they are not among `gpus` too.
  std::optional<GpuRequest> whole = std::nullopt;
};

// How much of the time of its cards a container may use (governor/policy.h).
struct ComputeRequest {
  std::optional<std::uint64_t> percent;      // 1 to 100, guaranteed
  std::optional<std::uint64_t> max_percent;  // `percent` to 100
  std::optional<std::uint64_t> weight;       // 1 to kMaxWeight
  bool high_priority = false;

  bool operator==(const ComputeRequest&) const = default;
};
inline constexpr std::uint64_t kMaxWeight = 100;

// "30 % to 60 %, weight 4, high priority"; "an equal part" if nothing was asked for.
[[nodiscard]] std::string SentenceOf(const ComputeRequest& request);

// "4096MiB", "4GiB", "4G", "25%"; a bare number is MiB. 0, negative, fractional, overflowing and
// other text is refused. Letters' case does not matter.
[[nodiscard]] Result<MemoryRequest> ParseSize(std::string_view text);

// A positive whole number of units.
[[nodiscard]] Result<MemoryRequest> ParseUnits(std::string_view text);

// Docker's grammar for --gpus: "2", "all", "device=0,2", "device=GPU-8a56…", with or without
// Docker's inner quotation marks.
[[nodiscard]] Result<GpuRequest> ParseGpus(std::string_view text);

// "0,2", "GPU-8a56…" or "all": as in ALIYUN_COM_GPU_VISIBLE_DEVICES.
[[nodiscard]] Result<GpuRequest> ParseDeviceList(std::string_view text);

// A whole number from `low` to `high`; `what` names it in the error.
[[nodiscard]] Result<std::uint64_t> ParseNumber(std::string_view text, std::string_view what,
                                                std::uint64_t low, std::uint64_t high);

}  // namespace cgpu

#endif  // CGPU_GRANT_REQUEST_H_
