#include "runtime/hook.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"

namespace cgpu {
namespace {

// Tests what RunHook() makes of the runtime's state and of the bundle, as far as the host stays
// untouched.
class RunHookTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/cgpu-hook-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    bundle_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(bundle_); }

  std::string State() const { return R"({"ociVersion":"1.0.2","bundle":")" + bundle_ + "\"}"; }

  void ExpectRefused(const std::string& state, Code code, const std::string& says,
                     const std::vector<std::string>& arguments = {}) const {
    const std::string path = bundle_ + "/state";
    ASSERT_TRUE(WriteFile(path, state).ok());
    const auto fd = OpenFile(path, 0);
    ASSERT_TRUE(fd.ok());
    const auto done = RunHook(arguments, fd->get());
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, code) << done.error().what;
    EXPECT_NE(done.error().what.find(says), std::string::npos) << done.error().what;
  }

  void ExpectConfigRefused(const std::string& config, Code code, const std::string& says) const {
    ASSERT_TRUE(WriteFile(bundle_ + "/config.json", config).ok());
    ExpectRefused(State(), code, says);
  }

  std::string bundle_;
};

TEST_F(RunHookTest, AStateThatIsNoneIsRefused) {
  ExpectRefused("", Code::kInvalid, "no JSON object");
  ExpectRefused("[]", Code::kInvalid, "no JSON object");
  ExpectRefused("{}", Code::kInvalid, "bundle");
  ExpectRefused(R"({"bundle":7})", Code::kInvalid, "bundle");
  ExpectRefused(R"({"bundle":"relative"})", Code::kInvalid, "bundle");
  ExpectRefused(R"({"x":)" + std::string(1000, '[') + std::string(1000, ']') + "}", Code::kInvalid,
                "nested");
  ExpectRefused(std::string((std::size_t{8} << 20) + 1, ' '), Code::kInvalid, "too large");
  ExpectRefused(State(), Code::kNotFound, "config.json");
  ExpectRefused(State(), Code::kInvalid, "a word that is not known", {"--unknown", "x"});
}

TEST_F(RunHookTest, AConfigurationWithoutARootOrMountsOfItsOwnIsRefused) {
  const std::string mounts = R"("linux":{"namespaces":[{"type":"pid"},{"type":"mount"}]})";
  ExpectConfigRefused("7", Code::kInvalid, "no JSON object");
  ExpectConfigRefused("{}", Code::kUnsupported, "mount namespace");
  for (const char* part :
       {R"("linux":[])", R"("linux":{"namespaces":{}})", R"("linux":{"namespaces":[7,[]]})",
        R"("linux":{"namespaces":[{"type":"mount","path":"/proc/1/ns/mnt"}]})"}) {
    ExpectConfigRefused("{" + std::string(part) + R"(,"root":{"path":"r"}})", Code::kUnsupported,
                        "mount namespace");
  }
  ExpectConfigRefused("{" + mounts + "}", Code::kInvalid, "root file system");
  ExpectConfigRefused("{" + mounts + R"(,"root":"r"})", Code::kInvalid, "root file system");
  ExpectConfigRefused("{" + mounts + R"(,"root":{"path":1}})", Code::kInvalid, "root file system");
  for (const std::string& path : {std::string("not-there"), bundle_ + "/not-there"}) {
    ExpectConfigRefused("{" + mounts + R"(,"root":{"path":")" + path + "\"}}", Code::kInternal,
                        bundle_ + "/not-there");
  }
}

}  // namespace
}  // namespace cgpu
