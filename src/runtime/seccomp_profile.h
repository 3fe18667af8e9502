// A container's seccomp profile as an OCI runtime gets it: `linux.seccomp` of config.json
// (opencontainers/runtime-spec config-linux.md).
//
// Pure. The container engine wrote the text, but parts of it are from the container's user. So it
// is bounded, and text that is not well-formed is refused. Fields that the specification does not
// name are lost.
#ifndef CGPU_RUNTIME_SECCOMP_PROFILE_H_
#define CGPU_RUNTIME_SECCOMP_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

inline constexpr std::size_t kMaxSeccompProfile = std::size_t{1} << 20;

// A condition on one of a system call's six arguments, all 64 bits of it. `op` is one of
// SCMP_CMP_NE, _LT, _LE, _EQ, _GE, _GT and _MASKED_EQ; for the last `value` is the mask and
// `value_two` what the masked argument must be.
struct SeccompCondition {
  std::uint32_t index = 0;
  std::uint64_t value = 0;
  std::uint64_t value_two = 0;
  std::string op;

  bool operator==(const SeccompCondition&) const = default;
};

// A rule: what becomes of calls of these names whose arguments meet all conditions. libseccomp may
// combine several rules for the same call as it likes, but a rule without conditions always wins,
// and the first of several such.
struct SeccompRule {
  std::vector<std::string> names;
  std::string action;  // SCMP_ACT_...
  std::optional<std::uint32_t> errno_ret;
  std::vector<SeccompCondition> args;

  bool operator==(const SeccompRule&) const = default;
};

struct SeccompProfile {
  std::string default_action;
  std::optional<std::uint32_t> default_errno_ret;
  std::vector<std::string> architectures;  // none: the host's own alone
  std::vector<std::string> flags;
  std::string listener_path;
  std::string listener_metadata;
  std::vector<SeccompRule> rules;

  bool operator==(const SeccompProfile&) const = default;
};

// Parse and format a profile. kInvalid, with what is wrong.
[[nodiscard]] Result<SeccompProfile> ParseSeccompProfile(std::string_view text);
[[nodiscard]] std::string FormatSeccompProfile(const SeccompProfile& profile);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SECCOMP_PROFILE_H_
