#include "runtime/cdi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace cgpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// A specification as `nvidia-ctk cdi generate` writes it, shortened.
constexpr const char* kYaml = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/dri/card1
        hooks:
            - hookName: createContainer
              path: /usr/bin/nvidia-cdi-hook
              args: [nvidia-cdi-hook, create-symlinks, --link, ../card1::/dev/dri/by-path/x]
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
        - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu
    deviceNodes:
        - path: /dev/nvidiactl
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args:
            - nvidia-cdi-hook
            - update-ldcache
            - --folder
            - /usr/lib/x86_64-linux-gnu
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, disable-device-node-modification]
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, a-new-one, now]
        - hookName: prestart
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, update-ldcache]
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01
          options: [ro, nosuid, nodev, rbind, rprivate]
        - hostPath: /run/nvidia-persistenced/socket
          containerPath: /run/nvidia-persistenced/socket
        - hostPath: /dev/nvidia0
          containerPath: /opt/card
)";

TEST(Cdi, TakesLibrariesAndNothingOfGpus) {
  const auto files = ParseCdi(kYaml);
  ASSERT_TRUE(files.ok()) << files.error().what;
  ASSERT_EQ(files->mounts.size(), 1U);
  EXPECT_EQ(files->mounts[0].source, "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01");
  EXPECT_TRUE(files->mounts[0].read_only);
  EXPECT_TRUE(files->mounts[0].executable);
  EXPECT_THAT(files->environment,
              ElementsAre(Pair("NVIDIA_CTK_LIBCUDA_DIR", "/usr/lib/x86_64-linux-gnu")));
  ASSERT_EQ(files->hooks.size(), 1U);
  EXPECT_THAT(files->hooks[0].arguments, ElementsAre("nvidia-cdi-hook", "update-ldcache",
                                                     "--folder", "/usr/lib/x86_64-linux-gnu"));
  EXPECT_THAT(files->left_out, ElementsAre("/usr/bin/nvidia-cdi-hook a-new-one now",
                                           "/usr/bin/nvidia-cdi-hook update-ldcache"));
}

TEST(Cdi, OtherKindsAndEmptyEditsHaveNothing) {
  for (const char* text :
       {R"({"cdiVersion": "0.5.0", "kind": "vendor.com/nic",
            "containerEdits": {"mounts": [{"hostPath": "/a", "containerPath": "/a"}]}})",
        R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu"})",
        R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {}})"}) {
    const auto files = ParseCdi(text);
    ASSERT_TRUE(files.ok()) << text << files.error().what;
    EXPECT_THAT(files->mounts, IsEmpty());
  }
}

TEST(Cdi, WhatIsNotWellFormedIsRefused) {
  for (const char* edits :
       {R"("mounts": [{"hostPath": "/a"}])",
        R"("mounts": [{"hostPath": "a", "containerPath": "/a"}])", R"("mounts": [1])",
        R"("env": [{"a": 1}])", R"("env": "A=B")", R"("hooks": [{"hookName": "createContainer"}])",
        R"("hooks": [{"path": "/usr/bin/nvidia-cdi-hook", "args": ["x", "update-ldcache"]}])"}) {
    const std::string text = R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",)"
                             R"("containerEdits": {)" +
                             std::string(edits) + "}}";
    const auto files = ParseCdi(text);
    ASSERT_FALSE(files.ok()) << text;
    EXPECT_EQ(files.error().code, Code::kInvalid);
  }
  for (const char* text : {"", "[]", "{", "kind: nvidia.com/gpu", "cdiVersion: 1"}) {
    EXPECT_FALSE(ParseCdi(text).ok()) << text;
  }
}

class CdiFolders : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/cgpu-cdi-XXXXXX";
    folder_ = mkdtemp(name);
    fs::create_directory(folder_ + "/etc");
    fs::create_directory(folder_ + "/run");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder_ + "/" + name, text, 0644).ok());
  }
  Result<DriverFiles> Read() {
    return ReadCdi({folder_ + "/etc", folder_ + "/run", folder_ + "/none"});
  }
  static std::string Mounting(const std::string& path) {
    return R"({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": [)"
           R"({"hostPath": ")" +
           path + R"(", "containerPath": ")" + path + R"("}]}})";
  }

  std::string folder_;
};

TEST_F(CdiFolders, TheLastThatHasAnyCounts) {
  EXPECT_TRUE(Read()->mounts.empty());
  Write("etc/nvidia.yaml", kYaml);
  Write("etc/broken.json", "{");
  Write("etc/notes.txt", "nvidia.com/gpu: {");
  Write("run/other.json", R"({"cdiVersion": "0.5.0", "kind": "vendor.com/nic"})");
  ASSERT_TRUE(Read().ok()) << Read().error().what;
  EXPECT_EQ(Read()->mounts[0].source, "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01");
  Write("run/b.json", Mounting("/b"));
  Write("run/a.json", Mounting("/a"));
  ASSERT_EQ(Read()->mounts.size(), 2U);
  EXPECT_EQ(Read()->mounts[0].source, "/a");
}

TEST_F(CdiFolders, OneThatMayBeAboutGpusMustBeUnderstood) {
  Write("run/nvidia.yaml", "kind: nvidia.com/gpu\n");
  const auto files = Read();
  ASSERT_FALSE(files.ok());
  EXPECT_THAT(files.error().what, HasSubstr("/run/nvidia.yaml: "));
}

}  // namespace
}  // namespace cgpu
