#include "shim/tenant_files.h"

#include <gtest/gtest.h>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// Counts what is taken.
struct CountingCaller final : os::Caller {
  [[nodiscard]] Result<UniqueFd> TakeFd(int fd) const override {
    ++taken;
    return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  [[nodiscard]] Result<os::FileIdentity> Identify(int /*proc*/, int fd) const override {
    ++looks;
    auto identity = os::Identify(fd);
    if (!identity.ok() && !allows_look) {
      return Error{Code::kUnavailable, EACCES, "its file system does not say", {}};
    }
    return identity.ok() ? std::move(identity)
                         : Error{Code::kNotFound, ENOENT, "no such descriptor", {}};
  }
  [[nodiscard]] bool Alive() const override { return alive; }

  mutable int taken = 0;
  mutable int looks = 0;
  bool alive = true;
  bool allows_look = true;
};

// A control file is what is like /dev/zero.
class TenantFilesTest : public testing::Test {
 protected:
  TenantFilesTest() {
    config_.files = {ControlFile()};
    caller_.process = callers_.Processes()[0];
  }
  static UniqueFd Open(const char* path) { return UniqueFd(open(path, O_RDWR | O_CLOEXEC)); }
  // Puts the file under the number.
  static void Put(const UniqueFd& file, int number) {
    ASSERT_EQ(dup3(file.get(), number, O_CLOEXEC), number);
  }
  int ErrorOfTake(int number) {
    const auto taken = files_.Take(caller_, number);
    return taken.ok() ? 0 : taken.error().sys_errno;
  }

  ShimConfig config_;
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeLookup callers_{fate_};
  NoCalls handler_;
  WorkerPool pool_{handler_, -1};
  Accounting accounting_{config_, abi_, {}};
  ContainerProcesses processes_{accounting_, callers_, pool_};
  TenantFiles files_{config_, -1, processes_};
  CountingCaller caller_;
  const UniqueFd gpu_ = Open("/dev/zero");
  const UniqueFd foreign_ = Open("/dev/null");
};

TEST_F(TenantFilesTest, LooksWithoutTaking) {
  const auto gpu = files_.LookAt(caller_, gpu_.get());
  ASSERT_TRUE(gpu.ok() && gpu->has_value());
  EXPECT_EQ((*gpu)->kind, boundary::FileKind::kControl);
  EXPECT_TRUE((*gpu)->granted);
  const auto foreign = files_.LookAt(caller_, foreign_.get());
  EXPECT_TRUE(foreign.ok() && !foreign->has_value());
  EXPECT_EQ(caller_.taken, 0);
}

TEST_F(TenantFilesTest, SaysWhyThereIsNoFile) {
  constexpr int kNone = 1'000'000;
  EXPECT_EQ(ErrorOfTake(kNone), EBADF);
  caller_.alive = false;
  EXPECT_EQ(ErrorOfTake(kNone), ESRCH);
  caller_.allows_look = false;
  EXPECT_EQ(ErrorOfTake(kNone), ENOTTY) << "it may be anything but a GPU's";
  EXPECT_EQ(caller_.taken, 0);
}

TEST_F(TenantFilesTest, TakesNoFileThatIsNoGpus) {
  EXPECT_EQ(ErrorOfTake(foreign_.get()), ENOTTY);
  EXPECT_EQ(caller_.taken, 0);
}

TEST_F(TenantFilesTest, TakesAFileOfAGpu) {
  const auto taken = files_.Take(caller_, gpu_.get());
  ASSERT_TRUE(taken.ok());
  EXPECT_NE(taken->file.get(), gpu_.get());
  EXPECT_EQ(taken->known.kind, boundary::FileKind::kControl);
}

TEST_F(TenantFilesTest, LooksNoFurtherAtANumberThatLedToAGpuUntilItLies) {
  EXPECT_EQ(ErrorOfTake(gpu_.get()), 0);
  EXPECT_EQ(caller_.looks, 1);
  EXPECT_EQ(ErrorOfTake(gpu_.get()), 0);
  EXPECT_EQ(caller_.looks, 1);
  Put(foreign_, gpu_.get());
  EXPECT_EQ(ErrorOfTake(gpu_.get()), ENOTTY);
  EXPECT_EQ(caller_.taken, 3);
  EXPECT_EQ(caller_.looks, 1);
  EXPECT_EQ(ErrorOfTake(gpu_.get()), ENOTTY);
  EXPECT_EQ(caller_.taken, 3) << "numbers are not trusted any more";
  Put(Open("/dev/zero"), gpu_.get());
  EXPECT_EQ(ErrorOfTake(gpu_.get()), 0);
  EXPECT_EQ(caller_.looks, 3);
}

TEST_F(TenantFilesTest, ClosesWhatItDiscards) {
  files_.Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  EXPECT_TRUE(files_.CanDiscard(Reaper::kMost));
  files_.Discard(UniqueFd(ends[1]));
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 0) << "the last writer is closed";
}

}  // namespace
}  // namespace cgpu::shim
