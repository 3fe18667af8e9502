#include "runtime/features.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/child.h"
#include "json/json.h"

namespace cgpu {
namespace {

constexpr std::chrono::seconds kTimeout{10};
constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
constexpr std::size_t kMaxFeaturesDepth = 32;
constexpr const char* kFlag = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV";
constexpr int kMajor = 1;  // first version of crun that has it
constexpr int kMinor = 6;

bool IsListed(std::string_view features) {
  if (NestsDeeper(features, kMaxFeaturesDepth)) {
    return false;
  }
  const auto root = ParseJson(features);
  const auto& flags = At(At(At(root, "linux"), "seccomp"), "supportedFlags");
  return flags.is_array() && std::ranges::find(flags, kFlag) != flags.end();
}

// Returns whether the text, such as "crun version 1.8.1", is of a crun that has it.
bool IsNewCrun(std::string_view version) {
  constexpr std::string_view kBeginning = "crun version ";
  if (!version.starts_with(kBeginning)) {
    return false;
  }
  const char* const end = version.data() + version.size();
  int major = 0;
  int minor = 0;
  const auto [dot, wrong] = std::from_chars(version.data() + kBeginning.size(), end, major);
  if (wrong != std::errc() || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, minor).ec != std::errc()) {
    return false;
  }
  return major > kMajor || (major == kMajor && minor >= kMinor);
}

// Returns what the program says; "" if it fails.
Result<std::string> Answer(const std::string& program, const std::string& argument) {
  CGPU_ASSIGN_OR_RETURN(auto output, OutputOf({program, argument}, kTimeout, kMaxOutput));
  return output.status == 0 ? std::move(output.text) : std::string();
}

}  // namespace

bool WaitsKillably(std::string_view features, std::string_view version) {
  return IsListed(features) || IsNewCrun(version);
}

Result<bool> AskForKillableWaits(const std::string& program) {
  CGPU_ASSIGN_OR_RETURN(const auto features, Answer(program, "features"));
  CGPU_ASSIGN_OR_RETURN(const auto version, Answer(program, "--version"));
  return WaitsKillably(features, version);
}

}  // namespace cgpu
