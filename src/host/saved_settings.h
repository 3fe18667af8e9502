// Settings of GPUs that outlive the host's boot: what root has set with `cgpu policy`, as the file
// kSavedFile has them. cgpu alone writes the file. Its lines are
//
//   GPU-UUID policy fixed     # the policy, or "auto": the GPU's first container chooses
//   GPU-UUID max_inst 8
//   GPU-UUID prio_ratio 95
//
// and at the end ".". This file wins over the administrator's config.yaml.
#ifndef CGPU_HOST_SAVED_SETTINGS_H_
#define CGPU_HOST_SAVED_SETTINGS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "governor/policy.h"
#include "host/gpu_settings.h"

namespace cgpu {

inline constexpr char kSavedFile[] = "/var/lib/cgpu/policy";

// Settings that root has made for one GPU. Nothing: root has not set that.
struct SavedSettings {
  // A policy, or none for "auto".
  std::optional<std::optional<governor::Policy>> policy = std::nullopt;
  std::optional<unsigned> max_inst = std::nullopt;    // as GpuSettings
  std::optional<unsigned> prio_ratio = std::nullopt;  // as GpuSettings

  [[nodiscard]] bool empty() const { return !policy && !max_inst && !prio_ratio; }
};
using SavedByGpu = std::map<std::string, SavedSettings>;  // by a GPU's UUID

// Parses a number that root sets. kInvalid, with the range, for another word.
[[nodiscard]] Result<unsigned> ParseMaxInst(std::string_view word);
[[nodiscard]] Result<unsigned> ParsePrioRatio(std::string_view word);
// Parses a policy or "auto".
[[nodiscard]] Result<std::optional<governor::Policy>> ParsePolicyOrAuto(const std::string& word);

// Returns `before` with what `change` sets.
[[nodiscard]] SavedSettings Merged(SavedSettings before, const SavedSettings& change);

// Encode and decode the file. Decoding skips settings that a later version has added. Pure.
[[nodiscard]] std::string EncodeSaved(const SavedByGpu& saved);
[[nodiscard]] Result<SavedByGpu> DecodeSaved(std::string_view text);

// Reads the file `path`; nothing is saved if there is none.
[[nodiscard]] Result<SavedByGpu> ReadSaved(const std::string& path);
// Replaces the file (0644) and makes its folder (0755). Readers see the old text or the new one.
// The caller holds the registry's lock from reading to writing.
[[nodiscard]] Result<> WriteSaved(const std::string& path, const SavedByGpu& saved);

}  // namespace cgpu

#endif  // CGPU_HOST_SAVED_SETTINGS_H_
