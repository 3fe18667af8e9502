// Requests: what a user asks for on a command line or in an environment, before it meets the host's
// GPUs. Sizes are whole MiB, shares whole percent; fractions of them are refused. All functions are
// pure; every error is kInvalid with a sentence and a hint.
#ifndef CGPU_GRANT_REQUEST_H_
#define CGPU_GRANT_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Memory per GPU, except kUnits, which is a total.
struct MemoryRequest {
  enum class Kind {
    kWholeGpu,
    kMib,       // `value` MiB
    kPercent,   // `value` % of the GPU's MiB, 1 to 100
    kUnits,     // `value` units in total, evenly over the GPUs
    kFraction,  // `value` of `of` equal parts of the GPU
  };
  Kind kind = Kind::kWholeGpu;
  std::uint64_t value = 0;
  std::uint64_t of = 0;
};

// GPUs that are asked for.
struct GpuRequest {
  enum class Kind { kAll, kCount, kDevices };
  Kind kind = Kind::kAll;
  std::uint64_t count = 0;
  std::vector<std::string> devices;  // indices ("0"), UUIDs or prefixes of them
};

// Everything that is asked for one container. More than one request of a kind means that the same
// thing was said twice; they must agree. No request means all GPUs, and each whole.
struct ResourceRequest {
  std::vector<GpuRequest> gpus;
  std::vector<MemoryRequest> memory;
  // GPUs that the container has whole, whatever `memory` says, unless `gpus` has them too.
  std::optional<GpuRequest> whole = std::nullopt;
};

// Compute time that a container asks for on its GPUs (governor/policy.h).
struct ComputeRequest {
  std::optional<std::uint64_t> percent;      // 1 to 100, guaranteed
  std::optional<std::uint64_t> max_percent;  // `percent` to 100
  std::optional<std::uint64_t> weight;       // 1 to kMaxWeight
  bool high_priority = false;

  bool operator==(const ComputeRequest&) const = default;
};
inline constexpr std::uint64_t kMaxWeight = 100;

// Default and greatest number of slices that a GPU may have at a time (the contract's max_inst).
inline constexpr unsigned kDefaultMaxInst = 20;
inline constexpr unsigned kMostMaxInst = 64;

// A request for a container.
struct SliceRequest {
  ResourceRequest resources;
  ComputeRequest compute;
  std::string origin;                   // "flags", "environment" or "default"
  std::string name;                     // empty: one is made up
  std::string stem;                     // begin of a made-up name
  std::string engine_id;                // the container engine's name for it; empty for `cgpu run`
  std::string names_file;               // the engine's file with the name that its user knows
  std::string pod;                      // uid of its pod; empty: it is of none
  std::string container;                // its name in the pod
  bool agent = false;                   // its listeners come over a socket of its own
  bool isolated = true;                 // false: it shares its GPUs without limits
  unsigned user = 0;                    // uid of the user that asks
  unsigned max_inst = kDefaultMaxInst;  // for GPUs for which nothing else was set
};

// Returns "30 % to 60 %, weight 4, high priority"; "an equal part" if nothing was asked for.
[[nodiscard]] std::string SentenceOf(const ComputeRequest& request);

// Parses "4096MiB", "3.5GiB", "4G", "4GB" or "25%"; a bare number is MiB, and G is GiB. Refuses 0,
// less than a MiB's parts, bare numbers of a few MiB, and negative, overflowing and other text.
// Letters' case does not matter.
[[nodiscard]] Result<MemoryRequest> ParseSize(std::string_view text);

// Parses a positive whole number of units.
[[nodiscard]] Result<MemoryRequest> ParseUnits(std::string_view text);

// Parses Docker's grammar for --gpus: "2", "all", "device=0,2", "device=GPU-8a56…", with or without
// Docker's inner quotation marks.
[[nodiscard]] Result<GpuRequest> ParseGpus(std::string_view text);

// Parses "0,2", "GPU-8a56…" or "all", as in ALIYUN_COM_GPU_VISIBLE_DEVICES.
[[nodiscard]] Result<GpuRequest> ParseDeviceList(std::string_view text);

// Parses a whole number from `low` to `high`; `what` names it in the error.
[[nodiscard]] Result<std::uint64_t> ParseNumber(std::string_view text, std::string_view what,
                                                std::uint64_t low, std::uint64_t high);

// Parses a whole number from 1 to 100, with or without "%".
[[nodiscard]] Result<std::uint64_t> ParsePercent(std::string_view text, std::string_view what);

}  // namespace cgpu

#endif  // CGPU_GRANT_REQUEST_H_
