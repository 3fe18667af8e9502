#include "os/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/file.h"

namespace cgpu {
namespace {

// Runs `body` in a child; it must return "" for the test to pass.
void InChild(const std::function<std::string()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string wrong = body();
    if (!wrong.empty()) {
      (void)WriteAll(STDERR_FILENO, wrong + "\n");
    }
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The hex value of a line of /proc/thread-self/status, "CapBnd" for one.
CapabilityMask Field(const std::string& name, const std::string& status) {
  const std::size_t at = status.find(name + ":\t");
  return at == std::string::npos ? 0
                                 : std::stoull(status.substr(at + name.size() + 2), nullptr, 16);
}

constexpr const char* kSets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
constexpr CapabilityMask kPtrace = CapabilityBit(CAP_SYS_PTRACE);

// Written by hand, so that an error in the table shows.
TEST(CapabilitiesUnderRun, AreTheseAndNoOthers) {
  constexpr CapabilityMask kKnown = (CapabilityBit(CAP_LAST_CAP) << 1) - 1;
  CapabilityMask dropped = 0;
  for (const int capability :
       {CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_MKNOD, CAP_BPF,
        CAP_PERFMON, CAP_SYS_NICE, CAP_SYS_BOOT, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
        CAP_SYS_TIME, CAP_SYSLOG, CAP_SYS_PACCT, CAP_AUDIT_CONTROL, CAP_MAC_ADMIN,
        CAP_MAC_OVERRIDE}) {
    dropped |= CapabilityBit(capability);
  }
  EXPECT_EQ(CapabilitiesUnderRun(), kKnown & ~dropped);
}

TEST(DropCapabilities, RemovesFromEverySetAndLeavesTheRest) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  InChild([]() -> std::string {
    const std::string before = *ReadFile("/proc/self/status");
    if (const auto dropped = DropCapabilities(kPtrace); !dropped.ok()) {
      return dropped.error().what;
    }
    const std::string after = *ReadFile("/proc/self/status");
    for (const char* set : kSets) {
      if (Field(set, after) != (Field(set, before) & ~kPtrace)) {
        return std::string(set) + " is wrong";
      }
    }
    return (Field("CapEff", before) & kPtrace) != 0 ? "" : "there was nothing to drop";
  });
}

TEST(DropCapabilities, CanDropAll) {
  InChild([]() -> std::string {
    if (const auto dropped = DropCapabilities(kAllCapabilities); !dropped.ok() && geteuid() == 0) {
      return dropped.error().what;
    }
    return Field("CapPrm", *ReadFile("/proc/self/status")) == 0 ? "" : "something is left";
  });
}

TEST(BecomeUser, HasExactlyWhatItKeepsAlsoAfterExec) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  InChild([]() -> std::string {
    if (const auto became = BecomeUser(2'000'000'123, kPtrace); !became.ok()) {
      return became.error().what;
    }
    int ends[2];
    if (pipe(ends) != 0) {  // NOLINT(android-cloexec-pipe): for the program below
      return "pipe";
    }
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl("/bin/cat", "cat", "/proc/self/status", nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::string status;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
      status.append(buffer, static_cast<std::size_t>(n));
    }
    waitpid(child, nullptr, 0);
    for (const char* set : kSets) {
      if (Field(set, status) != kPtrace) {
        return std::string(set) + " is wrong in " + status;
      }
    }
    for (const char* line : {"Uid:\t2000000123\t2000000123\t2000000123\t2000000123",
                             "Gid:\t2000000123\t2000000123\t2000000123\t2000000123", "Groups:\t \n",
                             "NoNewPrivs:\t1"}) {
      if (status.find(line) == std::string::npos) {
        return std::string("no ") + line + " in " + status;
      }
    }
    return "";
  });
}

}  // namespace
}  // namespace cgpu
