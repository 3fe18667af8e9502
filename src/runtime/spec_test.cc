#include "runtime/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cgpu {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

// A configuration as a container engine writes it, with a GPU that is already in.
constexpr const char* kSpecText = R"({
  "ociVersion": "1.0.2-dev",
  "process": {
    "user": {"uid": 1000, "gid": 1000},
    "args": ["python3", "train.py"],
    "env": ["PATH=/usr/bin", "NVIDIA_VISIBLE_DEVICES=all", "CGPU_MEM=3GiB"],
    "capabilities": {"bounding": ["CAP_CHOWN", "CAP_MKNOD"], "effective": ["CAP_CHOWN"]}
  },
  "root": {"path": "rootfs"},
  "hostname": "c1",
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/usr/lib/libcuda.so.1", "type": "bind", "source": "/usr/lib/libcuda.so.1",
     "options": ["ro", "bind"]},
    {"destination": "/run/nvidia-persistenced/socket", "type": "bind",
     "source": "/run/nvidia-persistenced/socket"},
    {"destination": "/data/gpu", "type": "bind", "source": "/dev//nvidia2"}
  ],
  "hooks": {"prestart": [{"path": "/usr/bin/nvidia-container-runtime-hook"}]},
  "annotations": {"io.kubernetes.cri.container-name": "main"},
  "linux": {
    "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "network", "path": "/run/ns"}],
    "resources": {"devices": [{"allow": false, "access": "rwm"},
                              {"allow": true, "type": "c", "major": 195, "minor": 0, "access": "rwm"},
                              {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}],
                  "memory": {"limit": 1073741824}},
    "devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0},
                {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229},
                {"path": "/opt/card", "type": "c", "major": 195, "minor": 1}],
    "seccomp": {"defaultAction": "SCMP_ACT_ERRNO",
                "syscalls": [{"names": ["ioctl"], "action": "SCMP_ACT_ALLOW"}]},
    "maskedPaths": ["/proc/kcore"]
  }
})";

SpecChanges Changes() {
  SpecChanges changes;
  changes.seccomp.default_action = "SCMP_ACT_ALLOW";
  changes.seccomp.listener_path = "/run/cgpu/seccomp.sock";
  changes.gpu_majors = {195};
  changes.devices = {{"/dev/nvidiactl", 195, 255}};
  changes.mounts = {{"/run/cgpu/c1/proc", "/proc/driver/nvidia", true}};
  changes.hooks = {{"/usr/bin/cgpu-runtime", {"cgpu-runtime", "hook", "--bdf", "x"}}};
  changes.environment = {{"NVIDIA_VISIBLE_DEVICES", "void"}, {"CGPU_ID", "abc"}};
  return changes;
}

TEST(Spec, TellsWhatMattersToASlice) {
  const auto spec = ParseSpec(kSpecText);
  ASSERT_TRUE(spec.ok()) << spec.error().what;
  EXPECT_THAT(spec->environment, Contains("CGPU_MEM=3GiB"));
  EXPECT_THAT(spec->capabilities, UnorderedElementsAre("CAP_CHOWN", "CAP_MKNOD"));
  EXPECT_FALSE(spec->user_namespace);
  EXPECT_TRUE(spec->pid_namespace);
  EXPECT_THAT(spec->gpu_files, ElementsAre("/dev/nvidia0"));
  ASSERT_EQ(spec->hooks.size(), 1U);
  EXPECT_EQ(spec->hooks[0].path, "/usr/bin/nvidia-container-runtime-hook");
  EXPECT_EQ(spec->annotations.at("io.kubernetes.cri.container-name"), "main");
  ASSERT_TRUE(spec->seccomp);
  EXPECT_EQ(spec->seccomp->default_action, "SCMP_ACT_ERRNO");
}

TEST(Spec, MayLackAlmostEverything) {
  const auto spec = ParseSpec(R"({"linux": {"seccomp": null}, "process": null})");
  ASSERT_TRUE(spec.ok()) << spec.error().what;
  EXPECT_FALSE(spec->seccomp);
  EXPECT_TRUE(spec->environment.empty());
  const auto changed = ChangeSpec("{}", Changes());
  ASSERT_TRUE(changed.ok()) << changed.error().what;
  EXPECT_EQ(Json::parse(*changed)["linux"]["devices"].size(), 1U);
}

TEST(Spec, NamesTheCapabilityThatCannotBeHeld) {
  auto spec = ParseSpec(kSpecText);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(CapabilityPastSlices(*spec), std::nullopt);
  spec->capabilities.insert("CAP_SYS_ADMIN");
  EXPECT_EQ(CapabilityPastSlices(*spec), "CAP_SYS_ADMIN");
  spec->user_namespace = true;
  EXPECT_EQ(CapabilityPastSlices(*spec), std::nullopt);
}

TEST(Spec, CapabilitiesThatEnginesGiveByDefaultCanBeHeld) {
  ContainerSpec spec;
  for (const char* name :
       {"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID",
        "SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}) {
    spec.capabilities.insert(std::string("CAP_") + name);
  }
  EXPECT_EQ(CapabilityPastSlices(spec), std::nullopt);
}

// Also refused: what `cgpu run` takes away, other spellings that crun understands, and unknown
// names.
TEST(Spec, OtherCapabilitiesCannotBeHeld) {
  for (const char* name : {"CAP_SYS_PTRACE",
                           "CAP_SYS_ADMIN",
                           "CAP_SYS_MODULE",
                           "CAP_SYS_RAWIO",
                           "CAP_BPF",
                           "CAP_PERFMON",
                           "CAP_SYS_NICE",
                           "CAP_SYS_BOOT",
                           "CAP_DAC_READ_SEARCH",
                           "CAP_CHECKPOINT_RESTORE",
                           "CAP_SYS_TIME",
                           "CAP_SYSLOG",
                           "CAP_SYS_PACCT",
                           "CAP_AUDIT_CONTROL",
                           "CAP_MAC_ADMIN",
                           "CAP_MAC_OVERRIDE",
                           "cap_sys_admin",
                           "Cap_Chown",
                           "SYS_ADMIN",
                           "21",
                           "0x15",
                           "CAP_41",
                           "CAP_TO_COME",
                           "CAP_CHOWN ",
                           "",
                           "ALL"}) {
    ContainerSpec spec;
    spec.capabilities = {"CAP_CHOWN", name};
    EXPECT_EQ(CapabilityPastSlices(spec), name);
  }
}

TEST(Spec, ChangesWhatASliceNeedsAndNothingElse) {
  const auto changed = ChangeSpec(kSpecText, Changes());
  ASSERT_TRUE(changed.ok()) << changed.error().what;
  const Json before = Json::parse(kSpecText);
  const Json after = Json::parse(*changed);
  for (const char* part : {"ociVersion", "root", "hostname", "annotations"}) {
    EXPECT_EQ(after[part], before[part]) << part;
  }
  EXPECT_EQ(after["process"]["args"], before["process"]["args"]);
  EXPECT_EQ(after["process"]["user"], before["process"]["user"]);
  EXPECT_EQ(after["linux"]["namespaces"], before["linux"]["namespaces"]);
  EXPECT_EQ(after["linux"]["maskedPaths"], before["linux"]["maskedPaths"]);
  EXPECT_EQ(after["linux"]["resources"]["memory"], before["linux"]["resources"]["memory"]);
  EXPECT_EQ(after["process"]["env"],
            Json({"PATH=/usr/bin", "CGPU_MEM=3GiB", "NVIDIA_VISIBLE_DEVICES=void", "CGPU_ID=abc"}));
  EXPECT_EQ(after["linux"]["seccomp"]["listenerPath"], "/run/cgpu/seccomp.sock");
  EXPECT_EQ(after["hooks"]["prestart"], before["hooks"]["prestart"]);
  EXPECT_EQ(after["hooks"]["createContainer"], Json::parse(R"([{"path": "/usr/bin/cgpu-runtime",
                             "args": ["cgpu-runtime", "hook", "--bdf", "x"],
                             "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
                             }])"));
}

TEST(Spec, FieldsThatSomeRuntimesTakeForOthersAreRefused) {
  for (const char* text :
       {R"({"Linux": {"seccomp": null}})", R"({"linux": {"SECCOMP": null}})",
        R"({"linux": {"\u017feccomp": null}})", R"({"hoo\u212as": {}})",
        R"({"Annotations": {"org.criu.config": "/x"}})",
        R"({"mounts": [{"destination": "/x", "source": "/y", "Source": "/z"}]})"}) {
    EXPECT_FALSE(ParseSpec(text).ok()) << text;
    EXPECT_FALSE(ChangeSpec(text, Changes()).ok()) << text;
  }
  EXPECT_TRUE(
      ParseSpec(R"({"annotations": {"Type": "x"}, "linux": {"sysctl": {"Path": "1"}}})").ok());
}

TEST(Spec, TheProofOfTheFilterIsTheFirstOfItsStage) {
  SpecChanges changes = Changes();
  changes.start_hooks.push_back({"/dev/prove", {"prove", "id"}});
  const auto changed =
      ChangeSpec(R"({"hooks": {"startContainer": [{"path": "/image/program"}]}})", changes);
  ASSERT_TRUE(changed.ok());
  const Json hooks = Json::parse(*changed)["hooks"]["startContainer"];
  ASSERT_EQ(hooks.size(), 2U);
  EXPECT_EQ(hooks[0]["path"], "/dev/prove");
  EXPECT_EQ(hooks[0]["env"].size(), 1U);
  EXPECT_EQ(hooks[1]["path"], "/image/program");
}

TEST(Spec, HooksThatAreThereGoFirst) {
  const auto changed = ChangeSpec(
      R"({"hooks": {"createContainer": [{"path": "/usr/bin/nvidia-cdi-hook"}]}})", Changes());
  ASSERT_TRUE(changed.ok());
  const Json hooks = Json::parse(*changed)["hooks"]["createContainer"];
  ASSERT_EQ(hooks.size(), 2U);
  EXPECT_EQ(hooks[0]["path"], "/usr/bin/nvidia-cdi-hook");
}

TEST(Spec, TellsWhatOfTheNodeIsMounted) {
  const auto spec = ParseSpec(R"({"mounts": [
      {"destination": "/proc", "type": "proc", "source": "proc"},
      {"destination": "/a", "type": "bind", "source": "/x", "options": ["ro"]},
      {"destination": "/b", "source": "y", "options": ["rbind", "rw"]},
      {"destination": "/c", "type": "none", "source": "/z", "options": ["bind"]}]})");
  ASSERT_TRUE(spec.ok()) << spec.error().what;
  ASSERT_EQ(spec->binds.size(), 3U);
  EXPECT_EQ(spec->binds[0].source, "/x");
  EXPECT_EQ(spec->binds[0].destination, "/a");
  EXPECT_TRUE(spec->binds[0].read_only);
  EXPECT_EQ(spec->binds[1].source, "y");
  EXPECT_FALSE(spec->binds[1].read_only);
  EXPECT_EQ(spec->binds[2].destination, "/c");
  EXPECT_FALSE(ParseSpec(R"({"mounts": [{"destination": "/a", "options": "bind"}]})").ok());
}

TEST(Spec, TakesOutGpusThatAreNotGranted) {
  const auto changed = ChangeSpec(kSpecText, Changes());
  ASSERT_TRUE(changed.ok());
  const Json after = Json::parse(*changed);
  std::vector<std::string> devices;
  for (const Json& device : after["linux"]["devices"]) {
    devices.push_back(device["path"]);
  }
  EXPECT_THAT(devices, ElementsAre("/dev/fuse", "/dev/nvidiactl"));
  const Json& rules = after["linux"]["resources"]["devices"];
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0], Json({{"allow", false}, {"access", "rwm"}})) << "stays first";
  EXPECT_EQ(rules[1]["major"], 1);
  EXPECT_EQ(rules[2]["minor"], 255);
  std::vector<std::string> mounts;
  for (const Json& mount : after["mounts"]) {
    mounts.push_back(mount["destination"]);
  }
  EXPECT_THAT(mounts, ElementsAre("/proc", "/usr/lib/libcuda.so.1", "/proc/driver/nvidia"));
  EXPECT_THAT(after["mounts"][2]["options"], Contains("ro"));
}

TEST(Spec, ADeviceWithoutNumbersTakesNoRuleWithIt) {
  const auto changed = ChangeSpec(
      R"({"linux": {"devices": [{"path": "/dev/nvidia0"}],
                    "resources": {"devices": [{"allow": false, "access": "rwm"}]}}})",
      SpecChanges());
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(Json::parse(*changed)["linux"]["resources"]["devices"].size(), 1U);
}

TEST(Spec, WhatIsNotWellFormedIsRefused) {
  const std::string deep = R"({"x": )" + std::string(100, '[') + std::string(100, ']') + "}";
  for (const std::string& text :
       {std::string(), std::string("[]"), deep, std::string(R"({"process": []})"),
        std::string(R"({"process": {"env": "A=B"}})"), std::string(R"({"process": {"env": [1]}})"),
        std::string(R"({"process": {"capabilities": {"bounding": [1]}}})"),
        std::string(R"({"mounts": {}})"), std::string(R"({"mounts": [1]})"),
        std::string(R"({"mounts": [{"destination": 1}]})"), std::string(R"({"linux": 1})"),
        std::string(R"({"linux": {"namespaces": [{"type": 1}]}})"),
        std::string(R"({"linux": {"devices": {"path": "/dev/null"}}})"),
        std::string(R"({"linux": {"seccomp": {"defaultAction": 1}}})"),
        std::string(R"({"linux": {"seccomp": []}})"), std::string(R"({"annotations": {"a": 1}})"),
        std::string(R"({"hooks": {"prestart": [1]}})"),
        std::string(R"({"linux": {"resources": []}})"),
        std::string(R"({"linux": {"resources": {"devices": {}}}})")}) {
    EXPECT_FALSE(ChangeSpec(text, Changes()).ok()) << text;
  }
  // Runtimes in C read a text up to its first NUL.
  for (const char* text :
       {R"({"a": "\u0000"})", R"({"a": {"b\u0000": 1}})", R"({"a": ["x", {"b": "\u0000y"}]})"}) {
    EXPECT_FALSE(ParseSpec(text).ok()) << text;
  }
  EXPECT_TRUE(ParseSpec(R"({"a": "\\u0000"})").ok()) << "a backslash";
  const auto wrong = ParseSpec(R"({"mounts": {}})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace cgpu
