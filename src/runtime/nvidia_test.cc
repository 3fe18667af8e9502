#include "runtime/nvidia.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/spec.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// Configuration that dockerd 20.10 makes of --gpus 1 where NVIDIA's hook is installed.
constexpr const char* kDockerGpus = R"({
  "process": {"env": ["CGPU_MEM=3GiB", "NVIDIA_VISIBLE_DEVICES=0"]},
  "hooks": {"prestart": [
    {"path": "/usr/bin/nvidia-container-runtime-hook",
     "args": ["nvidia-container-runtime-hook", "prestart"], "env": ["PATH=/usr/bin"]},
    {"path": "/proc/12/exe", "args": ["libnetwork-setkey", "-exec-root=/var/run/docker", "a", "b"]}
  ]}})";

// Configuration that `ctr run --gpus 0` of containerd 1.6 makes.
constexpr const char* kCtrGpus = R"({
  "hooks": {"prestart": [
    {"path": "/usr/bin/containerd",
     "args": ["containerd", "oci-hook", "--", "/usr/bin/nvidia-container-cli", "--load-kmods",
              "configure", "--device=0", "--utility", "--pid={{pid}}", "{{rootfs}}"]}]}})";

// Configuration that NVIDIA's runtime in CDI mode, podman and newer container engines make of
// nvidia.com/gpu=1 with a specification of `nvidia-ctk cdi generate`, shortened.
constexpr const char* kCdi = R"({
  "process": {"env": ["CGPU_MEM=3GiB", "NVIDIA_VISIBLE_DEVICES=void"]},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
     "source": "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
     "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]},
    {"destination": "/usr/bin/nvidia-smi", "source": "/usr/bin/nvidia-smi",
     "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]},
    {"destination": "/run/nvidia-persistenced/socket", "source": "/run/nvidia-persistenced/socket",
     "options": ["rbind", "ro", "noexec"]}
  ],
  "linux": {
    "devices": [
      {"path": "/dev/nvidia-modeset", "type": "c", "major": 195, "minor": 254},
      {"path": "/dev/nvidia-uvm", "type": "c", "major": 509, "minor": 0},
      {"path": "/dev/nvidiactl", "type": "c", "major": 195, "minor": 255},
      {"path": "/dev/nvidia1", "type": "c", "major": 195, "minor": 1},
      {"path": "/dev/dri/card1", "type": "c", "major": 226, "minor": 1}],
    "resources": {"devices": [
      {"allow": false, "access": "rwm"},
      {"allow": true, "type": "c", "major": 195, "minor": 1, "access": "rw"},
      {"allow": true, "type": "c", "major": 226, "minor": 1, "access": "rw"}]}},
  "hooks": {"createContainer": [
    {"path": "/usr/bin/nvidia-cdi-hook",
     "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "a::b"]},
    {"path": "/usr/bin/nvidia-ctk",
     "args": ["nvidia-ctk", "hook", "chmod", "--mode", "755", "--path", "/dev/dri"]},
    {"path": "/usr/bin/nvidia-cdi-hook",
     "args": ["nvidia-cdi-hook", "disable-device-node-modification"]},
    {"path": "/usr/bin/nvidia-cdi-hook",
     "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib"]}]}})";

std::vector<NvidiaHook> HooksOf(const char* text) {
  std::vector<NvidiaHook> kinds;
  const auto spec = ParseSpec(text);
  EXPECT_TRUE(spec.ok());
  for (const SpecHook& hook : spec.ok() ? spec->hooks : std::vector<SpecHook>()) {
    kinds.push_back(NvidiaHookOf(hook.path, hook.arguments));
  }
  return kinds;
}

std::vector<std::string> Texts(const Json& list, const char* key) {
  std::vector<std::string> texts;
  for (const Json& one : list) {
    texts.push_back(one[key]);
  }
  return texts;
}

TEST(Nvidia, RecognisesHooks) {
  EXPECT_THAT(HooksOf(kDockerGpus), ElementsAre(NvidiaHook::kGpus, NvidiaHook::kNone));
  EXPECT_THAT(HooksOf(kCtrGpus), ElementsAre(NvidiaHook::kGpus));
  EXPECT_THAT(HooksOf(kCdi), ElementsAre(NvidiaHook::kLibraries, NvidiaHook::kNeedless,
                                         NvidiaHook::kNeedless, NvidiaHook::kLibraries));
  struct Case {
    const char* path;
    std::vector<std::string> arguments;
    NvidiaHook kind;
  };
  const Case cases[] = {
      {"/opt/nvidia-container-toolkit",
       {"nvidia-container-toolkit", "prestart"},
       NvidiaHook::kGpus},
      {"/usr/local/nvidia/toolkit/nvidia-container-runtime-hook.real", {}, NvidiaHook::kGpus},
      {"nvidia-cdi-hook", {"x", "--debug", "enable-cuda-compat"}, NvidiaHook::kLibraries},
      {"/usr/bin/nvidia-cdi-hook", {"nvidia-cdi-hook", "mount-everything"}, NvidiaHook::kUnknown},
      {"/usr/bin/nvidia-cdi-hook", {}, NvidiaHook::kUnknown},
      {"/usr/bin/nvidia-something", {"x"}, NvidiaHook::kUnknown},
      {"/usr/bin/update-ldcache", {"update-ldcache"}, NvidiaHook::kNone},
      {"", {}, NvidiaHook::kNone},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(NvidiaHookOf(c.path, c.arguments), c.kind) << c.path;
  }
}

TEST(Nvidia, CdisCardsAreTakenOutAndItsLibrariesStay) {
  const auto spec = ParseSpec(kCdi);
  ASSERT_TRUE(spec.ok());
  std::vector<unsigned> minors;
  for (const std::string& file : spec->gpu_files) {
    if (const auto minor = GpuMinor(file)) {
      minors.push_back(*minor);
    }
  }
  EXPECT_THAT(minors, ElementsAre(1));
  EXPECT_EQ(spec->binds.size(), 2U) << "the socket will not be there";
  SpecChanges changes;
  changes.gpu_majors = {195, 509};
  const auto text = ChangeSpec(kCdi, changes);
  ASSERT_TRUE(text.ok()) << text.error().what;
  const Json after = Json::parse(*text);
  EXPECT_THAT(after["linux"]["devices"], IsEmpty());
  EXPECT_EQ(after["linux"]["resources"]["devices"].size(), 1U);
  EXPECT_THAT(Texts(after["mounts"], "destination"),
              ElementsAre("/proc", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01",
                          "/usr/bin/nvidia-smi"));
  const Json& hooks = after["hooks"]["createContainer"];
  ASSERT_EQ(hooks.size(), 2U);
  EXPECT_EQ(hooks[0]["args"][1], "create-symlinks");
  EXPECT_EQ(hooks[1]["args"][1], "update-ldcache");
}

TEST(Nvidia, TellsGpusFromOtherFiles) {
  EXPECT_EQ(GpuMinor("/dev/nvidia0"), 0U);
  EXPECT_EQ(GpuMinor("/dev/../dev//nvidia12"), 12U);
  for (const char* other : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia", "/dev/nvidia1a",
                            "/dev/nvidia-caps/nvidia-cap1", "/data/nvidia0", "", "/dev/nvidia-1"}) {
    EXPECT_EQ(GpuMinor(other), std::nullopt) << other;
  }
  EXPECT_TRUE(NamesGpus("all"));
  EXPECT_TRUE(NamesGpus("0,1"));
  for (const char* none : {"", "void", "none"}) {
    EXPECT_FALSE(NamesGpus(none)) << none;
  }
}

}  // namespace
}  // namespace cgpu
