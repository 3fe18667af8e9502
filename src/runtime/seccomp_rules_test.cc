// Tests profiles with libseccomp: it makes a filter of each, as for runc and crun, and the filter
// runs here.
#include "runtime/seccomp_rules.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <set>

#include "base/fd.h"
#include "os/testing.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/uvm_table.h"
#include "sandbox/filter.h"

namespace cgpu {
namespace {

using Filter = std::vector<sock_filter>;

constexpr std::uint32_t kSyscallErrno = EPERM;  // errno of SCMP_ACT_ERRNO without errnoRet

std::uint32_t ActionOf(const std::string& name, std::optional<std::uint32_t> errno_ret) {
  static const std::map<std::string, std::uint32_t> kActions = {
      {"SCMP_ACT_ALLOW", SCMP_ACT_ALLOW},
      {"SCMP_ACT_NOTIFY", SCMP_ACT_NOTIFY},
      {"SCMP_ACT_LOG", SCMP_ACT_LOG}};
  const auto found = kActions.find(name);
  return found != kActions.end() ? found->second
                                 : SCMP_ACT_ERRNO(errno_ret.value_or(kSyscallErrno));
}

scmp_arg_cmp ComparisonOf(const SeccompCondition& condition) {
  static const std::map<std::string, scmp_compare> kOperators = {
      {"SCMP_CMP_NE", SCMP_CMP_NE},
      {"SCMP_CMP_LT", SCMP_CMP_LT},
      {"SCMP_CMP_LE", SCMP_CMP_LE},
      {"SCMP_CMP_EQ", SCMP_CMP_EQ},
      {"SCMP_CMP_GE", SCMP_CMP_GE},
      {"SCMP_CMP_GT", SCMP_CMP_GT},
      {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ}};
  return {condition.index, kOperators.at(condition.op), condition.value, condition.value_two};
}

// Compiles a filter for x86-64 alone, so that the default judges every other architecture.
Filter Compile(const SeccompProfile& profile) {
  EXPECT_EQ(seccomp_api_set(6), 0);
  const std::uint32_t otherwise = ActionOf(profile.default_action, profile.default_errno_ret);
  scmp_filter_ctx context = seccomp_init(otherwise);
  for (const SeccompRule& rule : profile.rules) {
    const std::uint32_t action = ActionOf(rule.action, rule.errno_ret);
    std::vector<scmp_arg_cmp> args;
    for (const SeccompCondition& condition : rule.args) {
      args.push_back(ComparisonOf(condition));
    }
    for (const std::string& name : rule.names) {
      EXPECT_EQ(seccomp_rule_add_array(context, action, seccomp_syscall_resolve_name(name.c_str()),
                                       static_cast<unsigned>(args.size()), args.data()),
                0)
          << name;
    }
  }
  const UniqueFd file(memfd_create("filter", MFD_CLOEXEC));
  EXPECT_EQ(seccomp_export_bpf(context, file.get()), 0);
  seccomp_release(context);
  Filter filter(static_cast<std::size_t>(lseek(file.get(), 0, SEEK_END)) / sizeof(sock_filter));
  EXPECT_EQ(pread(file.get(), filter.data(), filter.size() * sizeof(sock_filter), 0),
            static_cast<ssize_t>(filter.size() * sizeof(sock_filter)));
  return filter;
}

std::uint32_t Judge(const Filter& filter, int nr, std::array<std::uint64_t, 6> args) {
  seccomp_data data{};
  data.nr = nr;
  data.arch = AUDIT_ARCH_X86_64;
  std::copy(args.begin(), args.end(), std::begin(data.args));
  const auto verdict = os::Judge(filter, data);
  EXPECT_TRUE(verdict) << "an instruction that is not known here";
  return verdict.value_or(0);
}

std::uint32_t JudgeIoctl(const Filter& filter, std::uint64_t request) {
  return Judge(filter, SYS_ioctl, {3, request, 0x7000, 0, 0, 0});
}

constexpr std::uint64_t kJunk = 0xdead0001'00000000;

// Returns sizes that some driver takes, their neighbours, the ends, and single bits.
std::set<std::uint32_t> Sizes() {
  std::set<std::uint32_t> sizes = {0, 1, 0x3fff};
  for (std::uint32_t size = 1; size < 1U << 14U; ++size) {
    for (const rm::EscapeRow& row : rm::EscapeRows()) {
      const rm::SizeRule rule = row.Rule(rm::Branch::k580);
      if (rule.kind != rm::SizeRule::Kind::kAny && rule.kind != rm::SizeRule::Kind::kAtLeast &&
          rule.kind != rm::SizeRule::Kind::kMultiple && rule.Accepts(size)) {
        sizes.insert({size - 1, size, size + 1});
      }
    }
  }
  for (std::uint32_t bit = 0; bit < 14; ++bit) {
    sizes.insert(1U << bit);
  }
  return sizes;
}

// Checks each request number of every type byte, with sizes that matter; direction and junk
// alternate.
template <class Check>
void ForRequests(const Check& check) {
  std::uint32_t turn = 0;
  for (const std::uint32_t size : Sizes()) {
    for (std::uint32_t low = 0; low < 1U << 16U; ++low) {
      ++turn;
      const auto direction = turn % 4;
      check((turn % 2 == 0 ? kJunk : 0) | (direction << 30U | (size & 0x3fffU) << 16U | low));
    }
  }
}

// Returns a profile as container engines have it: what is not listed is denied.
SeccompProfile Strict() {
  SeccompProfile profile;
  profile.default_action = "SCMP_ACT_ERRNO";
  profile.architectures = {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"};
  profile.rules = {{{"read", "ioctl", "mmap", "mremap", "remap_file_pages", "io_uring_setup"},
                    "SCMP_ACT_ALLOW",
                    {},
                    {}},
                   {{"personality"}, "SCMP_ACT_ALLOW", {}, {{0, 8, 0, "SCMP_CMP_EQ"}}}};
  return profile;
}

SeccompProfile Slice(const std::optional<SeccompProfile>& profile) {
  auto made = ProfileForSlice(profile, {"/run/cgpu/seccomp.sock", "c1", false});
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

class SeccompRules : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static std::optional<SeccompProfile> Given() {
    return GetParam() ? std::optional(Strict()) : std::nullopt;
  }
};

INSTANTIATE_TEST_SUITE_P(Profiles, SeccompRules, testing::Bool(),
                         [](const auto& one) { return one.param ? "OfAnEngine" : "None"; });

TEST_P(SeccompRules, TrapWhatOurOwnFilterTraps) {
  const Filter filter = Compile(Slice(Given()));
  std::uint64_t trapped = 0;
  ForRequests([&](std::uint64_t request) {
    const bool traps = sandbox::IsTrapped(static_cast<std::uint32_t>(request));
    trapped += traps ? 1 : 0;
    ASSERT_EQ(JudgeIoctl(filter, request), traps ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW)
        << std::hex << request;
  });
  EXPECT_GT(trapped, 1'000'000U);
}

// Returns whether a request makes nothing: one of nvidia-uvm's built-in tests, which developers
// load the module with, or a list of GPUs without room for any, which the driver refuses (nv.c,
// nvidia_read_card_info).
bool IsIdle(std::uint32_t request) {
  return (request >= rm::kUvmTestFirst && request <= rm::kUvmTestLast) ||
         (request & 0x3fff00ffU) == rm::NV_ESC_CARD_INFO;
}

TEST_P(SeccompRules, TrapAllThatAnyDriverTakes) {
  const Filter filter = Compile(Slice(Given()));
  std::uint64_t taken = 0;
  ForRequests([&](std::uint64_t request) {
    const auto low = static_cast<std::uint32_t>(request);
    if (rm::AnyDriverAccepts(low) && !IsIdle(low)) {
      ++taken;
      ASSERT_EQ(JudgeIoctl(filter, request), SECCOMP_RET_USER_NOTIF) << std::hex << request;
    }
  });
  EXPECT_GT(taken, 10'000U);
}

TEST_P(SeccompRules, TrapTheSameMappings) {
  const Filter filter = Compile(Slice(Given()));
  std::mt19937_64 random(1);
  constexpr std::array<std::uint64_t, 6> kOffsets = {0,          0xfff,      0x1000,
                                                     1ULL << 32, 1ULL << 47, ~std::uint64_t{0}};
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t prot = random() % 16;
    const std::uint64_t flags = i % 2 == 0 ? random() : random() % 64;
    const std::uint64_t offset = i % 3 == 0 ? random() : kOffsets.at(random() % kOffsets.size());
    ASSERT_EQ(
        Judge(filter, SYS_mmap, {random(), 4096, prot, flags, 3, offset}),
        sandbox::IsTrappedMmap(prot, flags, offset) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW)
        << prot << " " << flags << " " << offset;
    ASSERT_EQ(Judge(filter, SYS_mremap, {random(), 4096, 4096, flags, random(), 0}),
              sandbox::IsTrappedMremap(flags) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW)
        << flags;
  }
}

TEST_P(SeccompRules, LeaveTheRestAsItWas) {
  const Filter filter = Compile(Slice(Given()));
  EXPECT_EQ(Judge(filter, SYS_read, {}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(Judge(filter, SYS_remap_file_pages, {}), SECCOMP_RET_ERRNO | ENOSYS);
  EXPECT_EQ(Judge(filter, SYS_io_uring_setup, {}), SECCOMP_RET_ERRNO | EPERM);
  const std::uint32_t unlisted = GetParam() ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW;
  EXPECT_EQ(Judge(filter, SYS_write, {}), unlisted);
  EXPECT_EQ(Judge(filter, SYS_personality, {8}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(Judge(filter, SYS_personality, {9}), unlisted);
}

TEST(SeccompRulesOfAProfile, ThatDeniesAllIoctlsStayDenied) {
  SeccompProfile profile = Strict();
  profile.rules = {{{"read"}, "SCMP_ACT_ALLOW", {}, {}}};
  const Filter filter = Compile(Slice(profile));
  for (const std::uint32_t request : {0x5401U, 0xc030462bU, 25U}) {
    EXPECT_EQ(JudgeIoctl(filter, request), SECCOMP_RET_ERRNO | EPERM);
  }
  EXPECT_EQ(Judge(filter, SYS_mmap, {0, 4096, 3, 1, 3, 0x1000}), SECCOMP_RET_ERRNO | EPERM);
}

TEST(SeccompRulesOfAProfile, ThatListsRequestsNoOthersPass) {
  constexpr std::uint32_t kAlloc = 0xc030462b;
  SeccompProfile profile = Strict();
  profile.rules = {{{"ioctl"}, "SCMP_ACT_ALLOW", {}, {{1, 0x5401, 0, "SCMP_CMP_EQ"}}},
                   {{"ioctl"}, "SCMP_ACT_ALLOW", {}, {{1, kAlloc, 0, "SCMP_CMP_EQ"}}},
                   {{"ioctl"}, "SCMP_ACT_ALLOW", {}, {{1, 0xff00, 0x4600, "SCMP_CMP_MASKED_EQ"}}},
                   {{"mmap"}, "SCMP_ACT_ALLOW", {}, {{2, 4, 0, "SCMP_CMP_MASKED_EQ"}}}};
  const Filter filter = Compile(Slice(profile));
  EXPECT_EQ(JudgeIoctl(filter, 0x5401), SECCOMP_RET_ALLOW);
  EXPECT_EQ(JudgeIoctl(filter, kAlloc), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(JudgeIoctl(filter, 0xc020462a), SECCOMP_RET_USER_NOTIF) << "by its type";
  EXPECT_EQ(JudgeIoctl(filter, kJunk | 0xc020462a), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(JudgeIoctl(filter, 0xc030472b), SECCOMP_RET_ERRNO | EPERM);
  EXPECT_EQ(Judge(filter, SYS_mmap, {0, 4096, 3, 1, 3, 0x1000}), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(Judge(filter, SYS_mmap, {0, 4096, 7, 1, 3, 0x1000}), SECCOMP_RET_ERRNO | EPERM);
}

TEST(SeccompRulesOfAProfile, ThatDeniesSomeRequestsTheyStayDenied) {
  constexpr std::uint32_t kTiocsti = 0x5412;
  SeccompProfile profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.rules = {
      {{"ioctl"}, "SCMP_ACT_ERRNO", EACCES, {{1, 0xffffffff, kTiocsti, "SCMP_CMP_MASKED_EQ"}}}};
  const Filter filter = Compile(Slice(profile));
  EXPECT_EQ(JudgeIoctl(filter, kTiocsti), SECCOMP_RET_ERRNO | EACCES);
  EXPECT_EQ(JudgeIoctl(filter, 0x5401), SECCOMP_RET_ALLOW);
  EXPECT_EQ(JudgeIoctl(filter, 0xc030462b), SECCOMP_RET_USER_NOTIF);
}

TEST(SeccompRulesOfAProfile, WithAListenerOfItsOwnAreRefused) {
  SeccompProfile notifies = Strict();
  notifies.rules.push_back({{"mount"}, "SCMP_ACT_NOTIFY", {}, {}});
  SeccompProfile listens = Strict();
  listens.listener_path = "/run/other.sock";
  for (const SeccompProfile& profile : {notifies, listens}) {
    const auto made = ProfileForSlice(profile, {"/run/cgpu/seccomp.sock", "c1", true});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::kConflict);
  }
}

TEST(SeccompRulesOfAProfile, NameTheListenerAndOneArchitecture) {
  const auto made = ProfileForSlice(Strict(), {"/run/cgpu/seccomp.sock", "c1", true});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->listener_path, "/run/cgpu/seccomp.sock");
  EXPECT_EQ(made->listener_metadata, "c1");
  EXPECT_EQ(made->architectures, std::vector<std::string>{"SCMP_ARCH_X86_64"});
  EXPECT_EQ(made->flags, std::vector<std::string>{"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"});
}

}  // namespace
}  // namespace cgpu
