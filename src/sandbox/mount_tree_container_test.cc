#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "sandbox/mount_tree.h"
#include "sandbox/mount_tree_testing.h"

namespace cgpu {
namespace {

// A container as an OCI runtime has it when it calls the hook: in the namespaces of the test, with
// its image in a folder of the host.
class ContainerTreeTest : public testing::TestWithParam<uid_t> {
 protected:
  void SetUp() override {
    if (GetParam() != 0 && geteuid() != 0) {
      GTEST_SKIP() << "only root can become another user";
    }
    for (const char* folder : {"/dev", "/proc", "/sys", "/volume"}) {
      std::filesystem::create_directories(rootfs_ + folder);
    }
    std::filesystem::permissions(rootfs_, std::filesystem::perms::all);
  }

  static GpuTree FoldersOf(GpuTree tree) {
    std::erase_if(tree.devices, [](const DeviceFile& device) { return !device.via_folder; });
    return tree;
  }

  // Makes the steps in this order; returns what is wrong.
  static std::string All(std::initializer_list<std::string> steps) {
    std::string wrong;
    for (const std::string& step : steps) {
      wrong += step;
    }
    return wrong;
  }

  // Mounts what a runtime mounts. Returns what is wrong.
  std::string MakeContainer() const {
    return All({Mount(rootfs_, rootfs_, MS_BIND | MS_REC), MountDev(), BindTo("/proc", "/proc"),
                BindTo("/sys", "/sys")});
  }
  std::string MountDev() const {
    return mount("tmpfs", (rootfs_ + "/dev").c_str(), "tmpfs", MS_NOSUID, "mode=755") == 0
               ? ""
               : "cannot mount /dev";
  }
  std::string BindTo(const std::string& source, const std::string& place) const {
    return Mount(source, rootfs_ + place, MS_BIND | MS_REC);
  }
  static std::string Mount(const std::string& source, const std::string& target,
                           unsigned long flags) {
    return mount(source.c_str(), target.c_str(), nullptr, flags, nullptr) == 0
               ? ""
               : "cannot mount " + target;
  }

  // Runs `make`, and if that returns nothing, mounts in a container and runs `check` in it.
  void InContainer(const GpuTree& tree, const std::function<std::string()>& make,
                   const std::function<std::string(const Result<>&)>& check) const {
    const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
      const std::string wrong = make();
      return wrong.empty() ? check(MountGpuTreeAt(tree, rootfs_)) : wrong;
    });
    if (outcome.status == kSkip) {
      GTEST_SKIP() << "no namespaces here: " << outcome.message;
    }
    EXPECT_EQ(outcome.message, "");
    EXPECT_EQ(outcome.status, 0);
  }

  static std::string Text(const Result<>& done) {
    return done.ok() ? std::string() : FormatError(done.error());
  }

  // Expects that /dev is refused for this reason as `make` leaves it, and has nothing more in it.
  void ExpectRefused(const std::string& says, const std::function<std::string()>& make,
                     const GpuTree& tree) const {
    UniqueFd dev;
    std::set<std::string> before;
    const auto list = [&] { return List("/proc/self/fd/" + std::to_string(dev.get())); };
    const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
      if (const std::string wrong = make(); !wrong.empty()) {
        return wrong;
      }
      // Leads beyond the container's root, in which there may be no /proc.
      const UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
      dev.reset(open((rootfs_ + "/dev").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      before = list();
      const auto done = MountGpuTreeAt(tree, rootfs_);
      if (done.ok() || done.error().code != Code::kConflict ||
          done.error().what.find(says) == std::string::npos) {
        return "not refused: " + Text(done);
      }
      return fchdir(root.get()) == 0 && chroot(".") == 0 && list() == before ? ""
                                                                             : "/dev was changed";
    });
    if (outcome.status == kSkip) {
      GTEST_SKIP() << "no namespaces here: " << outcome.message;
    }
    EXPECT_EQ(outcome.message, "");
  }

  NodeFolder node_;
  std::string rootfs_ = node_.root() + "/image";
};

TEST_P(ContainerTreeTest, ShowsTheGivenGpuAndNoOther) {
  InContainer(
      FoldersOf(node_.Slice()), [&] { return MakeContainer(); },
      [&](const Result<>& done) -> std::string {
        const std::set<std::string> only{"0000:01:00.0"};
        if (!done.ok()) {
          return FormatError(done.error());
        }
        if (List("/dev") != std::set<std::string>{".nvidia", "nvidia1", "nvidiactl"} ||
            Read("/dev/nvidia1") != "GPU 1" || Read("/dev/nvidiactl") != "control") {
          return "/dev is wrong";
        }
        if (List("/proc/driver/nvidia/gpus") != only || List("/sys/bus/pci/devices") != only ||
            Read("/proc/driver/nvidia/version") != "NVRM version: test\n") {
          return "/proc or /sys are wrong";
        }
        struct statvfs fs{};
        for (const char* folder : {"/proc/driver/nvidia", "/sys/bus/pci"}) {
          if (statvfs(folder, &fs) != 0 || (fs.f_flag & ST_RDONLY) == 0) {
            return std::string(folder) + " is writable";
          }
        }
        return "";
      });
}

TEST_P(ContainerTreeTest, AReadOnlyDevStaysSo) {
  InContainer(
      FoldersOf(node_.Slice()),
      [&] {
        return All({MakeContainer(),
                    Mount("", rootfs_ + "/dev", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)});
      },
      [&](const Result<>& done) -> std::string {
        if (!done.ok()) {
          return FormatError(done.error());
        }
        return Read("/dev/nvidia1") == "GPU 1" && mkdir("/dev/new", 0755) != 0 && errno == EROFS
                   ? ""
                   : "/dev is wrong";
      });
}

TEST_P(ContainerTreeTest, WhereProcAndSysAreNoneNothingIsMade) {
  std::filesystem::remove(rootfs_ + "/proc");
  std::filesystem::create_directories(rootfs_ + "/sys/bus/pci");
  node_.Put("image/sys/bus/pci/mine", "mine");
  InContainer(
      FoldersOf(node_.Slice()), [&] { return All({Mount(rootfs_, rootfs_, MS_BIND), MountDev()}); },
      [&](const Result<>& done) -> std::string {
        if (!done.ok()) {
          return FormatError(done.error());
        }
        return Read("/dev/nvidia1") == "GPU 1" && access("/proc", F_OK) != 0 &&
                       Read("/sys/bus/pci/mine") == "mine"
                   ? ""
                   : "something was made in the image";
      });
}

TEST_P(ContainerTreeTest, LinksOfTheImageLeadNowhereElse) {
  std::filesystem::remove(rootfs_ + "/proc");
  std::filesystem::remove(rootfs_ + "/sys");
  std::filesystem::create_symlink("/sys", rootfs_ + "/proc");
  std::filesystem::create_symlink(std::string("../../../../../..") + node_.root() + "/secret",
                                  rootfs_ + "/sys");
  GpuTree tree = FoldersOf(node_.Slice());
  tree.hide = {"/to-secret"};
  std::filesystem::create_symlink(node_.root() + "/secret", rootfs_ + "/to-secret");
  const UniqueFd secret(
      open((node_.root() + "/secret").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  InContainer(
      tree, [&] { return All({Mount(rootfs_, rootfs_, MS_BIND), MountDev()}); },
      [&](const Result<>& done) -> std::string {
        // The mount namespace is the same: a mount on the folder would be found on this way.
        const UniqueFd file(openat(secret.get(), "../secret/file", O_RDONLY | O_CLOEXEC));
        return !done.ok() ? FormatError(done.error()) : file.valid() ? "" : "the folder is covered";
      });
}

TEST_P(ContainerTreeTest, WhatIsHiddenIsFoundThroughLinksWithinTheImage) {
  std::filesystem::create_directories(rootfs_ + "/real/secret");
  node_.Put("image/real/secret/file", "secret");
  std::filesystem::create_symlink("/real", rootfs_ + "/link");
  GpuTree tree = FoldersOf(node_.Slice());
  tree.hide = {"/link/secret", "/none"};
  InContainer(
      tree, [&] { return MakeContainer(); },
      [&](const Result<>& done) -> std::string {
        return !done.ok()                     ? FormatError(done.error())
               : List("/real/secret").empty() ? ""
                                              : "the folder is not hidden";
      });
}

TEST_P(ContainerTreeTest, WhatIsOursIsCoveredWhateverTheMountIsCalled) {
  std::filesystem::create_directories(node_.root() + "/alias");
  std::filesystem::create_directories(rootfs_ + "/above");
  GpuTree tree = FoldersOf(node_.Slice());
  tree.hide = {};
  tree.own = {node_.root() + "/secret", "/none"};
  const std::string alias = node_.root() + "/alias";
  InContainer(
      tree,
      [&] {
        return All({MakeContainer(), Mount(node_.root() + "/secret", alias, MS_BIND),
                    BindTo(alias, "/volume"), Mount(node_.root(), alias, MS_BIND),
                    BindTo(alias, "/above")});
      },
      [&](const Result<>& done) -> std::string {
        return !done.ok()                           ? FormatError(done.error())
               : !List("/volume").empty()           ? "the folder is seen"
               : !List("/above/secret").empty()     ? "it is seen in the folder above"
               : List("/above/dev").contains("ctl") ? ""
                                                    : "more is covered";
      });
  ExpectRefused(
      "of cgpu itself",
      [&] {
        const std::string wrong = MakeContainer();
        return WriteFile(rootfs_ + "/file", "").ok()
                   ? wrong + BindTo(node_.root() + "/secret/file", "/file")
                   : "cannot write";
      },
      tree);
}

TEST_P(ContainerTreeTest, ADevThatIsNotTheContainersOwnIsRefused) {
  const GpuTree tree = FoldersOf(node_.Slice());
  ExpectRefused("no tmpfs of its own", [&] { return Mount(rootfs_, rootfs_, MS_BIND); }, tree);
  ExpectRefused(
      "no tmpfs of its own",
      [&] {
        return All({Mount(rootfs_, rootfs_, MS_BIND), BindTo(node_.root() + "/secret", "/dev")});
      },
      tree);
  const auto bind_tmpfs = [&](const std::string& of) {
    std::string wrong = Mount(rootfs_, rootfs_, MS_BIND);
    if (mount("tmpfs", "/mnt", "tmpfs", 0, "") != 0 || mkdir("/mnt/part", 0755) != 0) {
      wrong += "cannot mount a tmpfs";
    }
    return wrong + BindTo("/mnt" + of, "/dev");
  };
  ExpectRefused("mounted elsewhere", [&] { return bind_tmpfs(""); }, tree);
  ExpectRefused("no tmpfs of its own", [&] { return bind_tmpfs("/part"); }, tree);
  if (GetParam() == 0) {  // locked together with the mount below it
    ExpectRefused(
        "no tmpfs of its own",
        [&] { return All({Mount(rootfs_, rootfs_, MS_BIND), BindTo("/dev", "/dev")}); }, tree);
  }
  std::filesystem::remove(rootfs_ + "/dev");
  std::filesystem::create_symlink(node_.root() + "/secret", rootfs_ + "/dev");
  ExpectRefused("no folder", [&] { return Mount(rootfs_, rootfs_, MS_BIND); }, tree);
}

TEST_P(ContainerTreeTest, FilesOfNvidiasThatAreNotOursAreRefused) {
  for (const char* name : {"nvidia0", "nvidia1", "nvidia-caps", "nvidiactl"}) {
    ExpectRefused(
        std::string("has a file ") + name + " already",
        [&] {
          const std::string wrong = MakeContainer();
          return WriteFile(rootfs_ + "/dev/" + name, "").ok() ? wrong : "cannot write";
        },
        FoldersOf(node_.Slice()));
  }
  ExpectRefused(
      "has a file .nvidia already",
      [&] {
        const std::string wrong = MakeContainer();
        const std::string link = rootfs_ + "/dev/.nvidia";
        return symlink("/volume", link.c_str()) == 0 ? wrong : "cannot link";
      },
      FoldersOf(node_.Slice()));
}

TEST_P(ContainerTreeTest, TheRuntimesDeviceFilesMustBeThereAndThemselves) {
  const auto with = [&](const char* node) {
    return [this, node] {
      const std::string file = rootfs_ + "/dev/nvidia-test";
      std::string wrong = MakeContainer();
      if (node != nullptr) {
        wrong += WriteFile(file, "").ok() ? Mount(node, file, MS_BIND) : "cannot write";
      }
      return wrong;
    };
  };
  ExpectRefused("has no device file nvidia-test", with(nullptr), node_.Slice());
  ExpectRefused("has no device file nvidia-test", with("/dev/zero"), node_.Slice());
  InContainer(node_.Slice(), with("/dev/null"), Text);
}

// Other namespaces share all mounts: they must see as many as before.
TEST_P(ContainerTreeTest, NothingShowsInNamespacesThatShareItsMounts) {
  GpuTree tree = FoldersOf(node_.Slice());
  tree.hide = {"/volume"};
  const Outcome outcome = InNamespaces(GetParam(), [&]() -> std::string {
    const std::string wrong = MakeContainer();
    if (!wrong.empty() || mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) != 0) {
      return "cannot share: " + wrong;
    }
    const std::string before = Read("/proc/self/mountinfo");
    const pid_t child = fork();
    if (child == 0) {
      // A new namespace of the same owner: its mounts are peers of ours.
      const bool done = unshare(CLONE_NEWNS) == 0 && MountGpuTreeAt(tree, rootfs_).ok() &&
                        Read("/dev/nvidia1") == "GPU 1" && List("/volume").empty();
      _exit(done ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      return "the tree was not made";
    }
    return Read("/proc/self/mountinfo") == before ? "" : "mounts show outside";
  });
  if (outcome.status == kSkip) {
    GTEST_SKIP() << "no namespaces here: " << outcome.message;
  }
  EXPECT_EQ(outcome.message, "");
}

INSTANTIATE_TEST_SUITE_P(AsRootAndAsUser, ContainerTreeTest, testing::Values(0, kSomeUser),
                         [](const testing::TestParamInfo<uid_t>& param) {
                           return param.param == 0 ? "AsCaller" : "AsOrdinaryUser";
                         });

}  // namespace
}  // namespace cgpu
