#include "cgpud/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "os/start_time.h"

namespace cgpu {
namespace {

constexpr char kId[] = "3f2a00bc11de";

// A container of one process, whose shim is the test.
class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : process_(fork()) {
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pause();
      _exit(0);
    }
    char pattern[] = "/tmp/cgpu-supervisor-XXXXXX";
    folder_ = mkdtemp(pattern);
    auto registry = Registry::OpenAt(folder_);
    EXPECT_TRUE(registry.ok());
    registry_ = std::make_unique<Registry>(std::move(*registry));
    UniqueFd socket = Announce();
    supervisor_ = std::make_unique<Supervisor>(
        *registry_, UniqueFd(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    supervisor_->Refresh();
    const UniqueFd probe(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    shim_.reset(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  ~SupervisorTest() override {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  // Returns the listening socket of the container's shim.
  UniqueFd Announce() {
    auto lock = registry_->Lock();
    EXPECT_TRUE(lock.ok());
    Reservation reservation;
    reservation.id = kId;
    reservation.name = "a";
    reservation.gpus.resize(1);
    reservation.gpus[0].gpu.uuid = "GPU-1";
    auto socket = registry_->Add(*lock, reservation);
    auto agent = registry_->AddAgent(*lock, kId, 0);
    EXPECT_TRUE(socket.ok() && agent.ok());
    agent_ = std::move(*agent);
    return std::move(*socket);
  }

  // The shim says this, and ends. Returns what the supervisor makes of it.
  Supervisor::Gone Ends(const std::string& text) {
    EXPECT_EQ(send(shim_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    shim_.reset();
    const auto news = supervisor_->Look(supervisor_->descriptors());
    EXPECT_EQ(news.gone.size(), 1U);
    return news.gone.empty() ? Supervisor::Gone() : news.gone[0];
  }

  // Returns whether the process has been killed.
  bool Killed() {
    int status = 0;
    kill(process_, SIGTERM);  // ends it if nothing has; a SIGKILL before it counts
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    process_ = -1;
    return WTERMSIG(status) == SIGKILL;
  }

  [[nodiscard]] std::string Pid() const { return std::to_string(process_); }
  [[nodiscard]] std::uint64_t Started() const {
    const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return os::StartTime(proc.get(), process_).value_or(0);
  }

 private:
  pid_t process_;
  std::string folder_;
  std::unique_ptr<Registry> registry_;
  UniqueFd agent_;
  std::unique_ptr<Supervisor> supervisor_;
  UniqueFd shim_;
};

TEST_F(SupervisorTest, KillsTheContainerOfAShimThatEndsWithoutAWord) {
  EXPECT_TRUE(
      Ends("pid " + Pid() + "\nstart " + Pid() + " " + std::to_string(Started()) + "\n").killed);
  EXPECT_TRUE(Killed());
}

TEST_F(SupervisorTest, KillsTheProcessOfAnOlderShim) {
  EXPECT_TRUE(Ends("pid " + Pid() + "\n").killed);
  EXPECT_TRUE(Killed());
}

TEST_F(SupervisorTest, SparesAContainerWhoseEndWasSaid) {
  EXPECT_TRUE(Ends("pid " + Pid() + "\nended\n").ended);
  EXPECT_FALSE(Killed());
}

TEST_F(SupervisorTest, SparesAProcessThatHasTheNumberOfOneThatEnded) {
  const auto gone =
      Ends("pid " + Pid() + "\nstart " + Pid() + " " + std::to_string(Started() - 1) + "\n");
  EXPECT_FALSE(gone.killed);
  EXPECT_FALSE(Killed());
}

}  // namespace
}  // namespace cgpu
