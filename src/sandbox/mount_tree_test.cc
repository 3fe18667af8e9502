#include "sandbox/mount_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "base/fd.h"
#include "sandbox/mount_tree_parts.h"
#include "sandbox/mount_tree_testing.h"

namespace cgpu {
namespace {

class MountTreeTest : public testing::TestWithParam<uid_t> {
 protected:
  void SetUp() override {
    if (GetParam() != 0 && geteuid() != 0) {
      GTEST_SKIP() << "only root can become another user";
    }
  }

  void Check(const std::function<std::string()>& body) { Check(node_.Slice(), body); }

  static void Check(const GpuTree& tree, const std::function<std::string()>& body) {
    const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
      if (const auto mounted = MountGpuTree(tree); !mounted.ok()) {
        return FormatError(mounted.error());
      }
      return body();
    });
    if (outcome.status == kSkip) {
      GTEST_SKIP() << "no namespaces here: " << outcome.message;
    }
    EXPECT_EQ(outcome.status, 0) << outcome.message;
    EXPECT_EQ(outcome.message, "");
  }

  NodeFolder node_;
};

TEST_P(MountTreeTest, DevHoldsTheGivenFilesAndNoOthersOfNvidia) {
  Check([&]() -> std::string {
    std::set<std::string> found;
    for (const std::string& name : List("/dev")) {
      if (name.starts_with("nvidia") || name == "dri") {
        found.insert(name);
      }
    }
    if (found != std::set<std::string>{"nvidia-test", "nvidia1", "nvidiactl"}) {
      return "/dev has " + std::to_string(found.size()) + " files of NVIDIA's";
    }
    if (List("/dev/.nvidia") != std::set<std::string>{"ctl", "gpu1"}) {
      return "/dev/.nvidia is wrong";
    }
    struct stat st{};
    if (stat("/dev/nvidia-test", &st) != 0 || st.st_rdev != makedev(1, 3)) {
      return "the device node is not bound";
    }
    return Read("/dev/nvidia1") == "GPU 1" && Read("/dev/nvidiactl") == "control"
               ? ""
               : "the files' content is wrong";
  });
}

// A machine's own device nodes are bound as they are. A process that watches such an inode, as a
// shim does, must learn of the closes behind the bind.
TEST_P(MountTreeTest, ADeviceNodeKeepsItsNumberWorksAndIsWatchedThroughItsBind) {
  const std::string node = node_.root() + "/nvidia7";
  struct statvfs fs{};
  if (mknod(node.c_str(), S_IFCHR, makedev(1, 3)) != 0 || chmod(node.c_str(), 0666) != 0 ||
      statvfs(node_.root().c_str(), &fs) != 0 || (fs.f_flag & ST_NODEV) != 0) {
    GTEST_SKIP() << "device nodes cannot be made or used here";
  }
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(inotify_add_watch(watch.get(), node.c_str(), IN_CLOSE), 0);
  const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
    GpuTree tree = node_.Slice();
    tree.devices = {{"nvidia7", node, false}};
    if (const auto mounted = MountGpuTree(tree); !mounted.ok()) {
      return FormatError(mounted.error());
    }
    const UniqueFd fd(open("/dev/nvidia7", O_RDWR | O_CLOEXEC));
    struct stat st{};
    if (!fd.valid() || fstat(fd.get(), &st) != 0 || !S_ISCHR(st.st_mode) ||
        st.st_rdev != makedev(1, 3)) {
      return "the node's number is lost";
    }
    return write(fd.get(), "x", 1) == 1 ? "" : "the device does not work";
  });
  if (outcome.status == kSkip) {
    GTEST_SKIP() << "no namespaces here: " << outcome.message;
  }
  EXPECT_EQ(outcome.message, "");
  inotify_event event{};
  ASSERT_EQ(read(watch.get(), &event, sizeof(event)), static_cast<ssize_t>(sizeof(event)));
  EXPECT_EQ(event.mask & IN_CLOSE_WRITE, static_cast<std::uint32_t>(IN_CLOSE_WRITE));
}

TEST_P(MountTreeTest, TheRestOfDevIsStillThereAndWorks) {
  std::set<std::string> before = List("/dev");
  std::erase_if(before, [](const std::string& name) {
    return name.starts_with("nvidia") || name == "dri" || name == ".nvidia";
  });
  Check([&]() -> std::string {
    const std::set<std::string> after = List("/dev");
    for (const std::string& name : before) {
      if (!after.contains(name)) {
        return name + " is missing";
      }
    }
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    char byte = 1;
    const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
    if (write(null.get(), "x", 1) != 1 || read(zero.get(), &byte, 1) != 1 || byte != 0) {
      return "/dev/null or /dev/zero do not work";
    }
    // A path of a pipe is a link through /dev/fd and /proc.
    return access("/dev/fd/0", F_OK) == 0 || !before.contains("fd") ? "" : "/dev/fd is broken";
  });
}

TEST_P(MountTreeTest, ProcAndPciShowOnlyTheGivenGpus) {
  Check([&]() -> std::string {
    if (Read("/proc/driver/nvidia/version") != "NVRM version: test\n") {
      return Read("/proc/driver/nvidia/version");
    }
    if (Read("/proc/driver/nvidia/params") !=
        "EnableMSI: 1\nModifyDeviceFiles: 0\nDeviceFileMode: 438\n") {
      return "device files are to be made: " + Read("/proc/driver/nvidia/params");
    }
    const std::set<std::string> only{"0000:01:00.0"};
    if (List("/proc/driver/nvidia/gpus") != only || List("/sys/bus/pci/devices") != only) {
      return "other GPUs are shown";
    }
    if (Read("/proc/driver/nvidia/gpus/0000:01:00.0/information") !=
        "information of 0000:01:00.0") {
      return "information is wrong";
    }
    if (Read("/sys/bus/pci/devices/0000:01:00.0/vendor") != "0x10de\n") {
      return "vendor is wrong";
    }
    struct statvfs fs{};
    return statvfs("/sys/bus/pci", &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0 ? "" : "writable";
  });
}

TEST_P(MountTreeTest, HiddenFoldersAreEmptyAndReadOnly) {
  Check([&]() -> std::string {
    if (!List(node_.root() + "/secret").empty()) {
      return "the folder is not hidden";
    }
    const UniqueFd fd(
        open((node_.root() + "/secret/new").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return fd.valid() ? "the cover is writable" : "";
  });
}

TEST_P(MountTreeTest, AStrictUmaskLocksNobodyOut) {
  Check([&]() -> std::string {
    struct stat st{};
    if (stat("/dev/.nvidia", &st) != 0 || (st.st_mode & 0777) != 0755) {
      return "/dev/.nvidia is not for everyone";
    }
    return "";
  });
}

TEST_P(MountTreeTest, NothingOutsideChanges) {
  const std::set<std::string> dev = List("/dev");
  const std::set<std::string> bus = List("/sys/bus");
  const std::string mounts = Read("/proc/self/mountinfo");
  Check([] { return std::string(); });
  EXPECT_EQ(List("/dev"), dev);
  EXPECT_EQ(List("/sys/bus"), bus);
  EXPECT_EQ(Read("/proc/self/mountinfo"), mounts);
}

TEST_P(MountTreeTest, AMissingSourceIsNamed) {
  const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
    GpuTree tree = node_.Slice();
    tree.devices[1].source = node_.root() + "/dev/gpu7";
    const auto mounted = MountGpuTree(tree);
    return !mounted.ok() && mounted.error().what.find("/dev/gpu7") != std::string::npos
               ? ""
               : "the missing folder went unnoticed";
  });
  if (outcome.status == kSkip) {
    GTEST_SKIP() << "no namespaces here: " << outcome.message;
  }
  EXPECT_EQ(outcome.message, "");
}

// /sys/bus/pci vanishes under a mirrored /sys/bus, as on a machine without PCI.
TEST_P(MountTreeTest, WorksWhereTheMachineHasNoPciBus) {
  const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
    GpuTree first;
    first.hide = {"/sys/bus"};
    if (const auto hidden = MountGpuTree(first); !hidden.ok()) {
      return FormatError(hidden.error());
    }
    if (const auto mounted = MountGpuTree(node_.Slice()); !mounted.ok()) {
      return FormatError(mounted.error());
    }
    return Read("/sys/bus/pci/devices/0000:01:00.0/class") == "0x030200\n" ? "" : "class is wrong";
  });
  if (outcome.status == kSkip) {
    GTEST_SKIP() << "no namespaces here: " << outcome.message;
  }
  EXPECT_EQ(outcome.message, "");
}

// Somebody with a hand in the image puts a link in a folder's place while the folder is copied.
TEST_P(MountTreeTest, AFolderThatBecomesALinkShowsNothingOfWhereItLeads) {
  node_.Put("image/folder/hidden", "");
  const std::string image = node_.root() + "/image";
  const std::string secret = node_.root() + "/secret";
  std::filesystem::permissions(image, std::filesystem::perms::all);
  const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
    const UniqueFd old(open(image.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bool replaced = false;
    const auto mirrored =
        MirrorDirectory(image, 0, [&](const std::string& path, const struct stat& /*st*/) {
          if (path != "folder/hidden") {
            return false;
          }
          replaced = renameat(old.get(), "folder", old.get(), "before") == 0 &&
                     symlinkat(secret.c_str(), old.get(), "folder") == 0;
          return true;
        });
    if (!mirrored.ok()) {
      return FormatError(mirrored.error());
    }
    if (!replaced) {
      return "the folder was not replaced";
    }
    return List(image + "/folder").empty() ? "" : "the folder shows what the link leads to";
  });
  if (outcome.status == kSkip) {
    GTEST_SKIP() << "no namespaces here: " << outcome.message;
  }
  EXPECT_EQ(outcome.message, "");
}

// sysfs has links in its pci folder, and the devices elsewhere.
TEST_P(MountTreeTest, WherePciHasLinksOtherNvidiaGpusAreHiddenAndNothingElse) {
  // A root port of NVIDIA's with the given GPU below it, another GPU, another maker's device.
  const std::string port = "devices/0000:00:00.0";
  const std::string given = port + "/0000:01:00.0";
  const std::string other = "devices/0000:02:00.0";
  const std::string amd = "devices/0000:03:00.0";
  GpuTree tree = node_.Slice();
  tree.pci_source = node_.root() + "/links";
  std::filesystem::create_directories(node_.root() + "/links/devices");
  for (const auto& [device, vendor, kind] :
       {std::tuple{port, "0x10de\n", "0x060400\n"}, std::tuple{given, "0x10de\n", "0x030200\n"},
        std::tuple{other, "0x10de\n", "0x030200\n"}, std::tuple{amd, "0x1002\n", "0x030000\n"}}) {
    node_.Put(device + "/vendor", vendor);
    node_.Put(device + "/class", kind);
    const std::string bdf = device.substr(device.rfind('/') + 1);
    std::filesystem::create_symlink("../../" + device, tree.pci_source + "/devices/" + bdf);
  }
  Check(tree, [&]() -> std::string {
    for (const std::string& shown : {port, given, amd}) {
      if (!List(node_.root() + "/" + shown).contains("vendor")) {
        return shown + " is hidden";
      }
    }
    if (!List("/sys/bus/pci/devices").contains("0000:01:00.0")) {
      return "the link to the given GPU is gone";
    }
    return List(node_.root() + "/" + other).empty() ? "" : "another GPU is shown";
  });
}

INSTANTIATE_TEST_SUITE_P(AsRootAndAsUser, MountTreeTest, testing::Values(0, kSomeUser),
                         [](const testing::TestParamInfo<uid_t>& param) {
                           return param.param == 0 ? "AsCaller" : "AsOrdinaryUser";
                         });

}  // namespace
}  // namespace cgpu
