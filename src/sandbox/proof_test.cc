#include "sandbox/proof.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

namespace cgpu::sandbox {
namespace {

TEST(Proof, WithoutAFilterThereIsNone) {
  const auto proved = ProveFilter("0123456789ab");
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().code, Code::kPermission);
  EXPECT_NE(proved.error().what.find("another filter"), std::string::npos) << proved.error().what;
}

TEST(Proof, AnswersAreAContainersOwnAndNoError) {
  EXPECT_NE(ProofAnswer("0123456789ab"), ProofAnswer("0123456789ac"));
  for (const char* id : {"", "0123456789ab", "ffffffffffff"}) {
    EXPECT_GE(ProofAnswer(id), 1);
    EXPECT_LE(ProofAnswer(id), 0x7fffffff);
  }
}

TEST(Proof, IsAnIoctlOnNoFile) {
  os::Notification call;
  call.nr = SYS_ioctl;
  call.args[0] = 0xffffffff;
  call.args[1] = kProofRequest;
  EXPECT_TRUE(IsProof(call));
  call.args[0] = ~std::uint64_t{0};  // as the kernel takes it
  EXPECT_TRUE(IsProof(call));
  call.args[0] = 3;
  EXPECT_FALSE(IsProof(call));
  call.args[0] = 0xffffffff;
  call.nr = SYS_mmap;
  EXPECT_FALSE(IsProof(call));
}

TEST(Proof, AProgramIsKnownByItsMount) {
  const UniqueFd proc(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto own = ProgramOf(proc.get(), getpid());
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->of_image);
  EXPECT_EQ(own, ProgramOf(proc.get(), getpid()));
  EXPECT_FALSE(ProgramOf(proc.get(), 0));
}

}  // namespace
}  // namespace cgpu::sandbox
