// A container's seccomp profile, and what is made of it. For every input: an error has a sentence
// and a hint; what is accepted comes back from its own text; and whatever the profile says, no rule
// lets all requests or mappings pass by a slice's shim.
#include "runtime/seccomp_profile.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "runtime/seccomp_rules.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;

namespace {

bool Names(const cgpu::SeccompRule& rule, const std::string& name) {
  return std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end();
}

void CheckError(const cgpu::Error& error) {
  Require(!error.what.empty() && !error.hint.empty(), "an error says what is wrong and what to do");
}

void CheckSlice(const cgpu::SeccompProfile& profile) {
  Require(profile.listener_path == "/l" && profile.listener_metadata == "m", "the shim listens");
  Require(profile.architectures.size() == 1, "one architecture");
  for (const cgpu::SeccompRule& rule : profile.rules) {
    const bool divided = Names(rule, "ioctl") || Names(rule, "mmap") || Names(rule, "mremap");
    Require(!divided || !rule.args.empty() || rule.action != "SCMP_ACT_ALLOW",
            "no rule lets all pass");
    Require(rule.action != "SCMP_ACT_ALLOW" ||
                !(Names(rule, "remap_file_pages") || Names(rule, "io_uring_setup")),
            "what cannot be judged does not pass");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto profile =
      cgpu::ParseSeccompProfile(std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!profile.ok()) {
    CheckError(profile.error());
    return 0;
  }
  const auto again = cgpu::ParseSeccompProfile(cgpu::FormatSeccompProfile(*profile));
  Require(again.ok() && *again == *profile, "it comes back");
  const auto slice = cgpu::ProfileForSlice(*profile, {"/l", "m", true});
  if (slice.ok()) {
    CheckSlice(*slice);
  } else {
    CheckError(slice.error());
  }
  return 0;
}
