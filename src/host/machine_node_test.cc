#include "host/machine_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"

namespace cgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kSomeUser = 47110;
constexpr char kVersion550[] =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";

TEST(VersionIn, FindsTheReleaseAmongOtherWords) {
  EXPECT_EQ(VersionIn(kVersion550), "550.163.01");
  EXPECT_EQ(VersionIn("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release "
                      "Build  (root@host)  Tue Sep 23 10:11:16 UTC 2025\n"),
            "580.95.05");
  EXPECT_EQ(VersionIn("550.163.01\n"), "550.163.01");
  EXPECT_EQ(VersionIn("NVRM version: custom build of 2025\nGCC version:  gcc version 12.2.0\n"),
            "");
  EXPECT_EQ(VersionIn(""), "");
}

Gpu GpuAt(unsigned index, unsigned minor) {
  Gpu gpu;
  gpu.index = index;
  gpu.minor = minor;
  gpu.uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(minor);
  gpu.bdf = "0000:0" + std::to_string(minor) + ":00.0";
  gpu.gpu_id = 0x100 * (minor + 1);
  gpu.model = "Some Card";
  gpu.memory_bytes = std::uint64_t{16160} << 20;
  return gpu;
}

// A host in a temporary folder, with device nodes that no driver is behind.
class MachineNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/cgpu-machine-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    machine_.root = pattern;
    ASSERT_EQ(chmod(pattern, 0755), 0);
    ASSERT_TRUE(MakeDirectories(machine_.root + "/dev").ok());
    machine_.ask = [this](const rmclient::DevicePaths& paths) -> Result<DriverAnswer> {
      asked_ = paths.ctl;
      return answer_;
    };
  }
  void TearDown() override { std::filesystem::remove_all(machine_.root); }

  void Put(const std::string& path, const std::string& content) const {
    const std::string whole = machine_.root + path;
    ASSERT_TRUE(MakeDirectories(whole.substr(0, whole.rfind('/'))).ok());
    ASSERT_TRUE(WriteFile(whole, content).ok());
  }
  bool Device(const std::string& name, unsigned major, unsigned minor, mode_t mode = 0666) const {
    const std::string path = machine_.root + "/dev/" + name;
    return mknod(path.c_str(), S_IFCHR, makedev(major, minor)) == 0 &&
           chmod(path.c_str(), mode) == 0;
  }
  // Makes a loaded driver with GPUs of these minors, listed in this order.
  bool Load(const std::vector<unsigned>& minors) {
    Put("/proc/driver/nvidia/version", kVersion550);
    answer_.version = "550.163.01";
    bool made = Device("nvidiactl", 195, 255);
    for (const unsigned minor : minors) {
      made = made && Device("nvidia" + std::to_string(minor), 195, minor);
      answer_.gpus.push_back(GpuAt(static_cast<unsigned>(answer_.gpus.size()), minor));
    }
    return made;
  }
  Error ErrorOf() const {
    const auto node = FindMachineNode(machine_);
    return node.ok() ? Error{Code::kInternal, 0, "no error", {}} : node.error();
  }

  Machine machine_;
  DriverAnswer answer_;
  std::string asked_;
};

#define CGPU_NEED(made)                                   \
  do {                                                    \
    if (!(made)) {                                        \
      GTEST_SKIP() << "device nodes cannot be made here"; \
    }                                                     \
  } while (false)

TEST_F(MachineNodeTest, WithoutADriverThereIsNone) {
  const auto node = FindMachineNode(machine_);
  ASSERT_TRUE(node.ok()) << node.error().what;
  EXPECT_FALSE(node->has_value());
  EXPECT_EQ(asked_, "");
}

// Files without a driver are left behind by one that was unloaded.
TEST_F(MachineNodeTest, DeviceFilesAloneAreNoDriver) {
  CGPU_NEED(Device("nvidiactl", 195, 255) && Device("nvidia0", 195, 0));
  const auto node = FindMachineNode(machine_);
  ASSERT_TRUE(node.ok()) << node.error().what;
  EXPECT_FALSE(node->has_value());
}

TEST_F(MachineNodeTest, AnUnknownReleaseIsRefusedUnasked) {
  Put("/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\n");
  EXPECT_EQ(ErrorOf().code, Code::kUnsupported);
  EXPECT_THAT(ErrorOf().what, HasSubstr("470.57.02"));
  EXPECT_THAT(ErrorOf().hint, HasSubstr("550."));
  Put("/proc/driver/nvidia/version", "something else\n");
  EXPECT_EQ(ErrorOf().code, Code::kUnsupported);
  EXPECT_EQ(asked_, "");
}

TEST_F(MachineNodeTest, TheModulesVersionFileServesToo) {
  Put("/sys/module/nvidia/version", "999.01.02\n");
  EXPECT_EQ(ErrorOf().code, Code::kUnsupported);
  EXPECT_THAT(ErrorOf().what, HasSubstr("999.01.02"));
}

TEST_F(MachineNodeTest, MissingOrWrongDeviceFilesAreNamed) {
  Put("/proc/driver/nvidia/version", kVersion550);
  EXPECT_EQ(ErrorOf().code, Code::kUnavailable);
  EXPECT_THAT(ErrorOf().what, HasSubstr("/dev/nvidiactl is not there"));
  EXPECT_THAT(ErrorOf().hint, HasSubstr("nvidia-smi"));
  Put("/dev/nvidiactl", "");
  EXPECT_EQ(ErrorOf().code, Code::kUnavailable);
  EXPECT_THAT(ErrorOf().what, HasSubstr("is not a device file"));
  ASSERT_EQ(unlink((machine_.root + "/dev/nvidiactl").c_str()), 0);
  CGPU_NEED(Device("nvidiactl", 1, 3));
  EXPECT_EQ(ErrorOf().code, Code::kUnavailable);
  EXPECT_THAT(ErrorOf().what, HasSubstr("minor is 3"));
  EXPECT_EQ(asked_, "");
}

TEST_F(MachineNodeTest, HasTheDriversGpusAndTheDeviceFiles) {
  CGPU_NEED(Load({0, 1}) && Device("nvidia-uvm", 510, 0) && Device("nvidia-uvm-tools", 510, 1) &&
            Device("nvidia-modeset", 195, 254));
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  ASSERT_TRUE(found->has_value());
  const Node& node = **found;
  EXPECT_EQ(asked_, machine_.root + "/dev/nvidiactl");
  EXPECT_EQ(node.name, "");
  EXPECT_EQ(node.driver, "550.163.01");
  EXPECT_EQ(node.proc_source, machine_.root + "/proc/driver/nvidia");
  EXPECT_EQ(node.pci_source, machine_.root + "/sys/bus/pci");
  std::vector<std::string> names;
  std::map<std::string, NodeFile> files;
  for (const NodeDevice& device : node.devices) {
    names.push_back(device.name);
    files[device.name] = device.file;
    EXPECT_FALSE(device.file.simulated);
    EXPECT_EQ(device.folder, "");
    EXPECT_EQ(device.file.path, machine_.root + "/dev/" + device.name);
  }
  EXPECT_THAT(names,
              ElementsAre("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm", "nvidia-uvm-tools"));
  EXPECT_EQ(files["nvidiactl"].kind, NodeFile::Kind::kCtl);
  EXPECT_EQ(files["nvidiactl"].dev_major, 195U);
  EXPECT_EQ(files["nvidiactl"].dev_minor, 255U);
  EXPECT_EQ(files["nvidia1"].kind, NodeFile::Kind::kGpu);
  EXPECT_EQ(files["nvidia1"].dev_major, 195U);
  EXPECT_EQ(files["nvidia1"].dev_minor, 1U);
  EXPECT_EQ(files["nvidia-uvm"].kind, NodeFile::Kind::kUvm);
  EXPECT_EQ(files["nvidia-uvm"].dev_major, 510U);
  ASSERT_EQ(node.gpus.size(), 2U);
  EXPECT_EQ(node.gpus[1].uuid, GpuAt(1, 1).uuid);
  EXPECT_EQ(node.gpus[1].gpu_id, 0x200U);
  EXPECT_EQ(node.gpus[1].memory_bytes, std::uint64_t{16160} << 20);
}

// GPUs are counted by bus address, files by the order in which the driver found the GPUs.
TEST_F(MachineNodeTest, MinorsAreNotIndices) {
  CGPU_NEED(Load({3, 1}) && Device("nvidia7", 195, 7));
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  const Node& node = **found;
  EXPECT_EQ(node.gpus.at(0).minor, 3U);
  EXPECT_EQ(node.gpus.at(0).index, 0U);
  EXPECT_EQ(node.gpus.at(1).minor, 1U);

  const Grant grant{{{node.gpus[0], 1 << 30}}};
  const GpuTree tree = TreeFor(node, grant, {});
  std::vector<std::string> shown;
  for (const DeviceFile& device : tree.devices) {
    shown.push_back(device.name);
    EXPECT_FALSE(device.via_folder);
    EXPECT_EQ(device.source, machine_.root + "/dev/" + device.name);
  }
  EXPECT_THAT(shown, ElementsAre("nvidiactl", "nvidia3"));
  EXPECT_THAT(tree.bdfs, ElementsAre("0000:03:00.0"));
}

// Goes all the way to the shim: every file of the host, granted or not, as it was found.
TEST_F(MachineNodeTest, AShimIsToldOfEveryFileByItsDeviceNumber) {
  CGPU_NEED(Load({3, 1}) && Device("nvidia7", 195, 7));
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  ShimConfig config;
  config.id = "0123456789ab";
  config.name = "test";
  Describe(**found, Grant{{{(*found)->gpus[1], 1 << 30}}}, config);
  const auto told = DecodeConfig(EncodeConfig(config));
  ASSERT_TRUE(told.ok()) << told.error().what;
  EXPECT_EQ(told->driver, "550.163.01");
  std::map<unsigned, bool> granted;
  for (const NodeFile& file : told->files) {
    EXPECT_FALSE(file.simulated);
    EXPECT_EQ(file.dev_major, 195U);
    EXPECT_EQ(file.dev_minor, file.minor);
    granted[file.minor] = file.granted;
  }
  EXPECT_EQ(granted, (std::map<unsigned, bool>{{1, true}, {3, false}, {7, false}, {255, true}}));
  EXPECT_THAT(told->watches,
              ElementsAre(machine_.root + "/dev/nvidiactl", machine_.root + "/dev/nvidia1"));
  ASSERT_EQ(told->gpus.size(), 1U);
  EXPECT_EQ(told->gpus[0].gpu.minor, 1U);
  EXPECT_EQ(told->gpus[0].gpu.gpu_id, 0x200U);
}

TEST_F(MachineNodeTest, FilesThatAreNotWhatTheirNameSaysAreLeftOut) {
  CGPU_NEED(Load({0}) && Device("nvidia1", 195, 2) && Device("nvidia2", 1, 2) &&
            Device("nvidia03", 195, 3) && Device("nvidia-caps", 195, 4) &&
            Device("nvidia248", 195, 248));
  answer_.gpus.push_back(GpuAt(1, 1));
  Put("/dev/nvidia5", "");
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  EXPECT_EQ((*found)->devices.size(), 2U);
  ASSERT_EQ((*found)->gpus.size(), 1U);
  EXPECT_EQ((*found)->gpus[0].minor, 0U);
}

TEST_F(MachineNodeTest, NoCardsAndNoneForThisUserAreToldApart) {
  CGPU_NEED(Load({}));
  EXPECT_EQ(ErrorOf().code, Code::kNotFound);
  EXPECT_THAT(ErrorOf().what, HasSubstr("has no GPUs"));
  CGPU_NEED(Device("nvidia0", 195, 0));
  EXPECT_EQ(ErrorOf().code, Code::kPermission);
  EXPECT_THAT(ErrorOf().hint, HasSubstr("/dev/nvidia0"));
}

TEST_F(MachineNodeTest, WhatTheDriverSaysOfItsReleaseCounts) {
  CGPU_NEED(Load({0}));
  answer_.version = "550.90.07";
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  EXPECT_EQ((*found)->driver, "550.90.07");
}

// Asks the real question, on files that no driver is behind.
TEST_F(MachineNodeTest, NobodyBehindTheFilesIsAnError) {
  CGPU_NEED(Load({0}));
  if (std::filesystem::exists("/dev/nvidiactl")) {
    GTEST_SKIP() << "this machine has a driver";
  }
  machine_.ask = AskThroughFiles;
  if (ErrorOf().sys_errno == EPERM) {
    GTEST_SKIP() << "a device cgroup keeps such files closed";
  }
  EXPECT_EQ(ErrorOf().code, Code::kUnavailable);
  EXPECT_THAT(ErrorOf().what, HasSubstr("550.163.01 is loaded, but does not answer"));
}

TEST_F(MachineNodeTest, FilesThatThisUserMayNotOpen) {
  Put("/proc/driver/nvidia/version", kVersion550);
  CGPU_NEED(Device("nvidiactl", 195, 255, 0600) && seteuid(kSomeUser) == 0);
  machine_.ask = AskThroughFiles;
  const Error error = ErrorOf();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(error.code, Code::kPermission);
  EXPECT_THAT(error.what, HasSubstr("this user may not use it"));
  EXPECT_THAT(error.hint, HasSubstr("ls -l /dev/nvidia*"));
}

TEST_F(MachineNodeTest, AShimsOwnUserMustBeAbleToOpenWhatIsGranted) {
  CGPU_NEED(Load({0, 1}) && Device("nvidia-uvm", 510, 0, 0600));
  const auto found = FindMachineNode(machine_);
  ASSERT_TRUE(found.ok()) << found.error().what;
  const Grant grant{{{(*found)->gpus[1], 1 << 30}}};
  EXPECT_TRUE(CheckOpenToShims(**found, grant).ok());
  ASSERT_EQ(chmod((machine_.root + "/dev/nvidia0").c_str(), 0660), 0);
  EXPECT_TRUE(CheckOpenToShims(**found, grant).ok());  // not granted
  for (const char* name : {"nvidia1", "nvidiactl"}) {
    const std::string path = machine_.root + "/dev/" + name;
    ASSERT_EQ(chmod(path.c_str(), 0664), 0);
    const auto checked = CheckOpenToShims(**found, grant);
    ASSERT_FALSE(checked.ok()) << name;
    EXPECT_EQ(checked.error().code, Code::kPermission);
    EXPECT_THAT(checked.error().what, HasSubstr(path));
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  }
}

TEST_F(MachineNodeTest, FindNodeTakesTheMachinesDriverAndNeverASimulatedNodeForABrokenOne) {
  Put("/proc/driver/nvidia/version", kVersion550);
  const auto broken = FindNode("", machine_);
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().what, HasSubstr("/dev/nvidiactl is not there"));
  CGPU_NEED(Load({0}));
  const auto node = FindNode("", machine_);
  ASSERT_TRUE(node.ok()) << node.error().what;
  EXPECT_EQ(node->name, "");
  asked_.clear();
  const auto named = FindNode("no-such-node-of-this-test", machine_);
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().code, Code::kNotFound);
  EXPECT_EQ(asked_, "");
  EXPECT_EQ(FindSimulatedNode("").error().code, Code::kInvalid);
}

}  // namespace
}  // namespace cgpu
