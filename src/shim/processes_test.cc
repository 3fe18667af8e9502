#include "shim/processes.h"

#include <gtest/gtest.h>

#include <csignal>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// The container is one child of the test.
class ProcessesTest : public testing::Test {
 protected:
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeLookup callers_{fate_};
  const Child child_{callers_};
  NoCalls handler_;
  WorkerPool pool_{handler_, -1};
  Accounting accounting_{ShimConfig{}, abi_, {}};
  ContainerProcesses processes_{accounting_, callers_, pool_};
};

TEST_F(ProcessesTest, KillsThemAndCondemnsNobody) {
  EXPECT_EQ(processes_.All(), std::vector<pid_t>{child_.pid()});
  processes_.Kill();
  EXPECT_EQ(child_.AwaitSignal(), SIGKILL);
  EXPECT_FALSE(processes_.condemned());
  EXPECT_TRUE(accounting_.Refused().empty());
}

TEST_F(ProcessesTest, CondemnsOnce) {
  EXPECT_FALSE(processes_.condemned());
  processes_.Condemn("the reason");
  EXPECT_EQ(child_.AwaitSignal(), SIGKILL);
  EXPECT_TRUE(processes_.condemned());
  processes_.Condemn("another reason");
  EXPECT_EQ(accounting_.Refused(), (std::map<std::string, std::uint64_t>{{"the reason", 1}}));
}

}  // namespace
}  // namespace cgpu::shim
