#include "runtime/seccomp_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <functional>
#include <set>
#include <utility>

#include "sandbox/filter.h"

namespace cgpu {
namespace {

constexpr const char* kAllow = "SCMP_ACT_ALLOW";
constexpr const char* kErrno = "SCMP_ACT_ERRNO";
constexpr const char* kNotify = "SCMP_ACT_NOTIFY";
constexpr const char* kKillable = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV";

// Bits of a request's number: asm-generic/ioctl.h.
constexpr std::uint32_t kNumber = 0xff;
constexpr std::uint32_t kType = 0xff00;
constexpr std::uint32_t kSize = 0x3fff0000;
constexpr std::uint32_t kFirstTypeBit = 8;
constexpr std::uint32_t kFirstSizeBit = 16;
constexpr std::uint32_t kDirectionBit = 30;

// Arguments of ioctl, mmap and mremap.
constexpr std::uint32_t kRequest = 1;
constexpr std::uint32_t kProt = 2;
constexpr std::uint32_t kFlags = 3;
constexpr std::uint32_t kOffset = 5;
// asm-generic/mman-common.h.
constexpr std::uint64_t kRead = 1;
constexpr std::uint64_t kWrite = 2;
constexpr std::uint64_t kShared = 1;
constexpr std::uint64_t kAnonymous = 0x20;

using Conditions = std::vector<SeccompCondition>;

SeccompCondition Masked(std::uint32_t index, std::uint64_t mask, std::uint64_t value) {
  return {index, mask, value, "SCMP_CMP_MASKED_EQ"};
}

SeccompRule Rule(std::string name, std::string action, Conditions args = {},
                 std::optional<std::uint32_t> errno_ret = {}) {
  return {{std::move(name)}, std::move(action), errno_ret, std::move(args)};
}

bool Passes(const std::string& action) {
  return action == kAllow || action == "SCMP_ACT_LOG" || action == "SCMP_ACT_TRACE";
}

// A profile's rules for one system call, taken out of it.
struct Verdicts {
  std::optional<std::string> always;  // the action for all of its calls that no rule denies
  std::vector<SeccompRule> conditional;
};

Verdicts TakeOut(SeccompProfile& profile, const std::string& name) {
  Verdicts verdicts;
  std::optional<SeccompRule> unconditional;
  for (SeccompRule& rule : profile.rules) {
    if (std::erase(rule.names, name) == 0) {
      continue;
    }
    SeccompRule own = rule;
    own.names = {name};
    if (!own.args.empty()) {
      verdicts.conditional.push_back(own);
    } else if (!unconditional) {
      unconditional = own;
    }
  }
  std::erase_if(profile.rules, [](const SeccompRule& rule) { return rule.names.empty(); });
  if (unconditional && !Passes(unconditional->action)) {
    verdicts.conditional = {*unconditional};  // it wins over all others
  } else if (unconditional) {
    verdicts.always = unconditional->action;
  } else if (Passes(profile.default_action)) {
    verdicts.always = profile.default_action;
  }
  return verdicts;
}

// Calls that `include` lists, each by what its arguments must meet; and the calls to let through,
// for profiles that deny what they do not list.
struct Division {
  std::vector<Conditions> include;
  std::vector<Conditions> rest;
};

// Adds conditions for all requests that are `also` in the bits of `with` and have none of `values`
// in the bits of `mask`. It goes from the highest bit down; for each beginning of a value it adds
// the continuations that no value has.
void AddComplement(std::uint32_t mask, const std::set<std::uint32_t>& values, std::uint32_t with,
                   std::uint32_t also, std::vector<Conditions>* rest) {
  std::set<std::uint32_t> beginnings = {0};
  std::uint32_t seen = 0;
  for (std::uint32_t one = std::bit_floor(mask); one != 0; one >>= 1U) {
    if ((mask & one) == 0) {
      continue;
    }
    seen |= one;
    std::set<std::uint32_t> longer;
    for (const std::uint32_t value : values) {
      longer.insert(value & seen);
    }
    for (const std::uint32_t beginning : beginnings) {
      for (const std::uint32_t next : {beginning, beginning | one}) {
        if (!longer.contains(next)) {
          rest->push_back({Masked(kRequest, with | seen, also | next)});
        }
      }
    }
    beginnings = std::move(longer);
  }
}

// Returns the requests that sandbox::IsTrapped() is true of.
Division TrappedRequests() {
  Division division;
  for (std::uint32_t bit = kFirstSizeBit; bit < kDirectionBit; ++bit) {
    division.include.push_back({Masked(kRequest, 1U << bit, 1U << bit)});
  }
  division.include.push_back({Masked(kRequest, kType, 0)});
  for (const std::uint32_t number : sandbox::kInAnySize) {
    division.include.push_back({Masked(kRequest, kNumber, number)});
  }
  // Requests without a size, with a bit of the type set and another number.
  const std::set<std::uint32_t> in_any_size(sandbox::kInAnySize.begin(), sandbox::kInAnySize.end());
  for (std::uint32_t type = kFirstTypeBit; type < kFirstSizeBit; ++type) {
    AddComplement(kNumber, in_any_size, kSize | 1U << type, 1U << type, &division.rest);
  }
  return division;
}

// Returns the one request that the rule's conditions let through, if that is so.
std::optional<std::uint32_t> OneRequest(const SeccompRule& rule) {
  if (rule.args.size() != 1 || rule.args[0].index != kRequest || rule.args[0].op != "SCMP_CMP_EQ") {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(rule.args[0].value);
}

// Divides the calls of `listed`'s name that the profile lets pass: those that `division` includes
// become what `listed` says. Where the profile lets calls pass on conditions, a rule that may mean
// one of those becomes what `listed` says.
void Divide(SeccompProfile& profile, const SeccompRule& listed, const Division& division,
            const std::function<bool(const SeccompRule&)>& may_mean_listed) {
  const std::string& name = listed.names[0];
  Verdicts verdicts = TakeOut(profile, name);
  for (SeccompRule& rule : verdicts.conditional) {
    if (Passes(rule.action)) {
      if (verdicts.always) {
        continue;
      }
      if (may_mean_listed(rule)) {
        rule.action = listed.action;
        rule.errno_ret = listed.errno_ret;
      }
    }
    profile.rules.push_back(std::move(rule));
  }
  if (!verdicts.always) {
    return;
  }
  for (const Conditions& conditions : division.include) {
    profile.rules.push_back(Rule(name, listed.action, conditions, listed.errno_ret));
  }
  if (!Passes(profile.default_action)) {
    for (const Conditions& conditions : division.rest) {
      profile.rules.push_back(Rule(name, *verdicts.always, conditions));
    }
  }
}

// Divides the calls that sandbox::IsTrapped() is true of.
void DivideIoctl(SeccompProfile& profile) {
  Divide(profile, Rule("ioctl", kNotify), TrappedRequests(), [&](const SeccompRule& rule) {
    const auto one = OneRequest(rule);
    return !one || sandbox::IsTrapped(*one);
  });
}

// Divides the calls that sandbox::IsTrappedMmap() is true of.
void DivideMmap(SeccompProfile& profile) {
  const Division division = {{{Masked(kProt, kRead | kWrite, kRead | kWrite),
                               Masked(kFlags, kShared | kAnonymous, kShared),
                               {kOffset, sandbox::kPage, 0, "SCMP_CMP_GE"}}},
                             {{Masked(kProt, kRead, 0)},
                              {Masked(kProt, kWrite, 0)},
                              {Masked(kFlags, kShared, 0)},
                              {Masked(kFlags, kAnonymous, kAnonymous)},
                              {{kOffset, sandbox::kPage, 0, "SCMP_CMP_LT"}}}};
  Divide(profile, Rule("mmap", kNotify), division, [](const SeccompRule&) { return true; });
}

// Divides the calls that sandbox::IsTrappedMremap() is true of.
void DivideMremap(SeccompProfile& profile) {
  Division division = {{}, {{Masked(kFlags, sandbox::kMremapTo, 0)}}};
  for (std::uint32_t bit = 1; bit <= sandbox::kMremapTo; bit <<= 1) {
    if ((sandbox::kMremapTo & bit) != 0) {
      division.include.push_back({Masked(kFlags, bit, bit)});
    }
  }
  Divide(profile, Rule("mremap", kNotify), division, [](const SeccompRule&) { return true; });
}

void Deny(SeccompProfile& profile, const std::string& name, std::uint32_t errno_ret) {
  (void)TakeOut(profile, name);
  // libseccomp refuses a rule that says what the default says.
  if (profile.default_action != kErrno || profile.default_errno_ret.value_or(EPERM) != errno_ret) {
    profile.rules.push_back(Rule(name, kErrno, {}, errno_ret));
  }
}

SeccompProfile Unconfined() {
  SeccompProfile profile;
  profile.default_action = kAllow;
  return profile;
}

}  // namespace

Result<SeccompProfile> ProfileForSlice(const std::optional<SeccompProfile>& profile,
                                       const SeccompListener& listener) {
  SeccompProfile made = profile.value_or(Unconfined());
  const bool notifies = std::ranges::any_of(
      made.rules, [](const SeccompRule& rule) { return rule.action == kNotify; });
  if (notifies || !made.listener_path.empty() || made.default_action == kNotify) {
    return Error{
        Code::kConflict, EBUSY, "the container's seccomp profile has a listener of its own",
        "use a profile without SCMP_ACT_NOTIFY: a container has room for one listener, and "
        "a slice needs it"};
  }
  DivideIoctl(made);
  DivideMmap(made);
  DivideMremap(made);
  Deny(made, "remap_file_pages", ENOSYS);
  Deny(made, "io_uring_setup", EPERM);
  made.architectures = {"SCMP_ARCH_X86_64"};  // others' arguments cannot be judged
  if (listener.killable && std::ranges::find(made.flags, kKillable) == made.flags.end()) {
    made.flags.emplace_back(kKillable);
  }
  made.listener_path = listener.path;
  made.listener_metadata = listener.metadata;
  return made;
}

}  // namespace cgpu
