#include <gtest/gtest.h>

#include <cerrno>

#include "base/file.h"
#include "rm/nv_classes.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"
#include "rmclient/raw.h"

namespace cgpu::rmclient {
namespace {

TEST(Outcome, SaysWhatCameOfTheCall) {
  EXPECT_TRUE((Outcome{}).ok());
  EXPECT_FALSE((Outcome{EINVAL, rm::NV_OK}).ok());
  EXPECT_FALSE((Outcome{0, rm::NV_ERR_NO_MEMORY}).ok());
  EXPECT_EQ(Describe({0, rm::NV_ERR_NO_MEMORY}), "out of memory (NV_ERR_NO_MEMORY)");
  EXPECT_EQ(Describe({0, rm::NV_ERR_INVALID_CLASS}), "NV_ERR_INVALID_CLASS");
  EXPECT_EQ(Describe({0, 0xABCDEF}), "driver status 0xabcdef");
  EXPECT_EQ(Describe({ENOTTY, rm::NV_OK}), "Inappropriate ioctl for device");
}

TEST(CallError, TellsKindsOfFailureApart) {
  const auto code = [](Outcome outcome) { return CallError(outcome, "doing it").code; };
  EXPECT_EQ(code({0, rm::NV_ERR_NO_MEMORY}), Code::kExhausted);
  EXPECT_EQ(code({0, rm::NV_ERR_INSUFFICIENT_PERMISSIONS}), Code::kPermission);
  EXPECT_EQ(code({0, rm::NV_ERR_NOT_SUPPORTED}), Code::kUnsupported);
  EXPECT_EQ(code({0, rm::NV_ERR_INVALID_CLIENT}), Code::kNotFound);
  EXPECT_EQ(code({0, rm::NV_ERR_INVALID_ARGUMENT}), Code::kInvalid);
  EXPECT_EQ(code({EACCES, rm::NV_OK}), Code::kPermission);
  EXPECT_EQ(CallError({0, rm::NV_ERR_NO_MEMORY}, "doing it").what,
            "doing it: out of memory (NV_ERR_NO_MEMORY)");
}

TEST(DevicePaths, InAFolder) {
  const DevicePaths real = DevicePaths::InFolder("/dev");
  EXPECT_EQ(real.ctl, "/dev/nvidiactl");
  EXPECT_EQ(real.gpu(3), "/dev/nvidia3");
}

TEST(Client, WithoutADriverSaysSo) {
  const Result<Client> client = Client::Open(DevicePaths::InFolder("/nonexistent"));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, Code::kNotFound);
  EXPECT_FALSE(client.error().hint.empty());
}

TEST(Client, OnAFileThatIsNoDriverSaysSo) {
  const std::string folder = testing::TempDir() + "/rmclient_test";
  ASSERT_TRUE(MakeDirectories(folder).ok());
  ASSERT_TRUE(WriteFile(folder + "/nvidiactl", "").ok());
  const Result<Client> client = Client::Open(DevicePaths::InFolder(folder));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().sys_errno, ENOTTY);
}

TEST(RawCalls, ReportTheErrnoOfABadFile) {
  rm::NvHandle handle = 0;
  EXPECT_EQ(Alloc(-1, 0, 0, &handle, rm::NV01_ROOT, nullptr, 0).sys_errno, EBADF);
  EXPECT_EQ(Free(-1, 1, 1, 1).sys_errno, EBADF);
  EXPECT_EQ(Control(-1, 1, 1, 1, nullptr, 0).sys_errno, EBADF);
  EXPECT_EQ(RegisterFd(-1, -1), EBADF);
}

}  // namespace
}  // namespace cgpu::rmclient
