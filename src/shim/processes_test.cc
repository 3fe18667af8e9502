#include "shim/processes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// The container is one child of the test.
class ProcessesTest : public testing::Test {
 protected:
  ProcessesTest() : child_(fork()) {
    if (child_ == 0) {
      pause();
      _exit(0);
    }
    auto process = std::make_shared<os::Process>();
    process->tgid = child_;
    process->serial = 1;
    process->pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, child_, 0)));
    callers_.Adopt({process}, 2);
  }
  // Returns the signal that has ended the child.
  int AwaitSignal() const {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  const pid_t child_;
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeLookup callers_{fate_};
  NoCalls handler_;
  WorkerPool pool_{handler_, -1};
  Accounting accounting_{ShimConfig{}, abi_, {}};
  ContainerProcesses processes_{accounting_, callers_, pool_};
};

TEST_F(ProcessesTest, KillsThemAndCondemnsNobody) {
  EXPECT_EQ(processes_.All(), std::vector<pid_t>{child_});
  processes_.Kill();
  EXPECT_EQ(AwaitSignal(), SIGKILL);
  EXPECT_FALSE(processes_.condemned());
  EXPECT_TRUE(accounting_.Refused().empty());
}

TEST_F(ProcessesTest, CondemnsOnce) {
  EXPECT_FALSE(processes_.condemned());
  processes_.Condemn("the reason");
  EXPECT_EQ(AwaitSignal(), SIGKILL);
  EXPECT_TRUE(processes_.condemned());
  processes_.Condemn("another reason");
  EXPECT_EQ(accounting_.Refused(), (std::map<std::string, std::uint64_t>{{"the reason", 1}}));
}

}  // namespace
}  // namespace cgpu::shim
