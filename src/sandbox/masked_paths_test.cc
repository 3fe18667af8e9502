#include "sandbox/masked_paths.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "os/mounts.h"
#include "os/namespaces.h"
#include "sandbox/machine_devices.h"
#include "sandbox/mount_tree.h"

namespace cgpu {
namespace {

constexpr int kSkip = 77;
constexpr uid_t kSomeUser = 47110;

// Runs `body` in a child in mount and pid namespaces of its own with a /proc of its own, as a slice
// has them. `body` returns what is wrong, or nothing.
void InWorld(uid_t uid, const std::function<std::string()>& prepare,
             const std::function<std::string()>& body) {
  if (uid != 0 && geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t outer = fork();
  if (outer == 0) {
    if (uid != 0 && (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0)) {
      _exit(kSkip);
    }
    if (!EnterPrivateNamespaces(CLONE_NEWPID).ok()) {
      _exit(kSkip);
    }
    const pid_t inner = fork();
    if (inner == 0) {
      std::string wrong;
      if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
        _exit(kSkip);
      }
      wrong = prepare();
      GpuTree tree;
      tree.mask_machine = true;
      const auto mounted = wrong.empty() ? MountGpuTree(tree) : Result<>();
      wrong = mounted.ok() && wrong.empty() ? body() : wrong + FormatError(mounted.error());
      (void)WriteAll(to.get(), wrong);
      _exit(wrong.empty() ? 0 : 1);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  to.reset();
  std::string message;
  char buffer[512];
  for (ssize_t n; (n = read(from.get(), buffer, sizeof(buffer))) > 0;) {
    message.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  waitpid(outer, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkip) {
    GTEST_SKIP() << "no namespaces here";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(message, "");
}

std::string Nothing() {
  return "";
}

class MaskedPathsTest : public testing::TestWithParam<uid_t> {};

// Returns the result of a write to each: nothing but EROFS, for a user who may write there.
std::string Writable(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() && (errno == EROFS || errno == ENOENT || errno == EACCES)) {
    return errno == EACCES && geteuid() == 0 ? path + ": EACCES for root\n" : "";
  }
  return path + " can be written\n";
}

TEST_P(MaskedPathsTest, ControlsAreReadOnly) {
  InWorld(GetParam(), Nothing, [] {
    std::string wrong;
    for (const char* path :
         {"/proc/sysrq-trigger", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern",
          "/proc/sys/vm/drop_caches", "/proc/irq/default_smp_affinity", "/sys/kernel/profiling",
          "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs"}) {
      wrong += Writable(path);
    }
    if (mkdir("/sys/fs/cgroup/cgpu-test", 0755) == 0) {
      rmdir("/sys/fs/cgroup/cgpu-test");
      wrong += "a control group can be made\n";
    }
    return wrong;
  });
}

TEST_P(MaskedPathsTest, AllOfSysIsReadOnlyWithWhatIsMountedBelow) {
  InWorld(GetParam(), Nothing, []() -> std::string {
    const auto mounts = ReadMounts();
    if (!mounts.ok()) {
      return FormatError(mounts.error());
    }
    for (const MountEntry& mount : *mounts) {
      const bool below = mount.point == "/sys" || mount.point.starts_with("/sys/");
      if (below && IsOnTop(mount) && access(mount.point.c_str(), W_OK) == 0) {
        return mount.point + " can be written";
      }
    }
    return access("/sys/kernel", R_OK) == 0 || access("/sys", R_OK) != 0 ? "" : "/sys is empty";
  });
}

TEST_P(MaskedPathsTest, WhatShowsTheKernelIsEmpty) {
  InWorld(GetParam(), Nothing, [] {
    std::string wrong;
    for (const char* path : {"/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/kernel/debug",
                             "/sys/kernel/tracing", "/sys/fs/bpf"}) {
      std::error_code none;
      if (std::filesystem::is_directory(path, none) && !std::filesystem::is_empty(path, none)) {
        wrong += std::string(path) + " is not empty\n";
      }
    }
    for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/vmcore"}) {
      const auto text = ReadFile(path);
      if (text.ok() && !text->empty()) {
        wrong += std::string(path) + " is not empty\n";
      }
    }
    return wrong;
  });
}

// Checks every node that a walk through /dev finds, and so everything below its folders.
TEST_P(MaskedPathsTest, DevHasNoDisksNoMemoryAndNoConsoleOfTheMachine) {
  InWorld(GetParam(), Nothing, [] {
    std::string wrong;
    std::error_code none;
    for (auto i = std::filesystem::recursive_directory_iterator("/dev", none);
         i != std::filesystem::end(i); i.increment(none)) {
      struct stat st{};
      const std::string path = i->path().string();
      if (lstat(path.c_str(), &st) == 0 &&
          (S_ISBLK(st.st_mode) || IsMachineDevice(path.substr(5), st, OwnTerminals())) &&
          !path.starts_with("/dev/pts/")) {
        wrong += path + " is there\n";
      }
    }
    for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"}) {
      const UniqueFd fd(open(path, O_RDWR | O_CLOEXEC));
      wrong += fd.valid() ? "" : std::string(path) + " does not open\n";
    }
    return wrong;
  });
}

// Runs as root of a user namespace of its own: a slice's process can become nothing more.
TEST_P(MaskedPathsTest, ALessPrivilegedMountNamespaceCannotUndoIt) {
  InWorld(GetParam(), Nothing, []() -> std::string {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) != 0) {
      return "";  // then nobody can try it
    }
    const pid_t child = fork();
    if (child == 0) {
      int wrong = 0;
      const char* const paths[] = {"/sys",          "/proc/sys", "/proc/sysrq-trigger",
                                   "/sys/firmware", "/dev",      "/proc"};
      for (const char* path : paths) {
        wrong += umount2(path, MNT_DETACH) == 0 ? 1 : 0;
        wrong += path != paths[4] && path != paths[5] &&
                         mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0
                     ? 1
                     : 0;
      }
      wrong += mount("proc", "/mnt", "proc", 0, nullptr) == 0 ? 1 : 0;
      wrong += mount("sysfs", "/mnt", "sysfs", 0, nullptr) == 0 ? 1 : 0;
      wrong += mount("/proc", "/mnt", nullptr, MS_BIND, nullptr) == 0 ? 1 : 0;
      wrong += mount("/dev", "/mnt", nullptr, MS_BIND, nullptr) == 0 ? 1 : 0;
      _exit(wrong);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "some of it was undone";
  });
}

// A machine may mount the same file systems for a chroot.
TEST(MaskCopiesTest, OfTheMachinesFileSystemsElsewhereAreMaskedToo) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can mount what this is about";
  }
  char pattern[] = "/tmp/cgpu masked-XXXXXX";  // a space, which the kernel writes as \040
  ASSERT_NE(mkdtemp(pattern), nullptr);
  const std::string root = pattern;
  for (const char* folder : {"/proc", "/sys", "/dev", "/trace"}) {
    ASSERT_EQ(mkdir((root + folder).c_str(), 0755), 0);
  }
  InWorld(
      0,
      [&]() -> std::string {
        const bool mounted =
            mount("/proc", (root + "/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
            mount("/sys", (root + "/sys").c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
            mount("d", (root + "/dev").c_str(), "devtmpfs", 0, nullptr) == 0;
        (void)mount("t", (root + "/trace").c_str(), "tracefs", 0, nullptr);  // some have none
        return mounted ? "" : "cannot mount";
      },
      [&]() -> std::string {
        std::string wrong =
            Writable(root + "/proc/sysrq-trigger") + Writable(root + "/sys/kernel/profiling");
        for (const auto& entry : std::filesystem::directory_iterator(root + "/dev")) {
          wrong += entry.is_block_file() ? entry.path().string() + "\n" : "";
        }
        return std::filesystem::is_empty(root + "/trace") ? wrong : wrong + "tracefs is shown";
      });
  std::filesystem::remove_all(root);
}

INSTANTIATE_TEST_SUITE_P(AsRootAndAsUser, MaskedPathsTest, testing::Values(0, kSomeUser),
                         [](const testing::TestParamInfo<uid_t>& param) {
                           return param.param == 0 ? "AsCaller" : "AsOrdinaryUser";
                         });

struct stat Node(mode_t mode, unsigned major, unsigned minor, gid_t group = 0) {
  struct stat st{};
  st.st_mode = mode;
  st.st_rdev = makedev(major, minor);
  st.st_gid = group;
  return st;
}

TEST(MachineDevicesTest, DisksAndMemoryAreTheMachinesWhoeverMayOpenThem) {
  const std::pair<const char*, struct stat> nodes[] = {
      {"sda", Node(S_IFBLK | 0666, 8, 0)},
      {"mapper/root", Node(S_IFBLK | 0660, 253, 0, 6)},
      {"mem", Node(S_IFCHR | 0640, 1, 1, 15)},
      {"kmem", Node(S_IFCHR | 0640, 1, 2, 15)},
      {"port", Node(S_IFCHR | 0640, 1, 4, 15)},
      {"kmsg", Node(S_IFCHR | 0666, 1, 11)},
      {"nvram", Node(S_IFCHR | 0666, 10, 144)},
      {"sg0", Node(S_IFCHR | 0660, 21, 0, 6)},
      {"ng0n1", Node(S_IFCHR | 0666, 241, 0)},
      {"nvme0", Node(S_IFCHR | 0666, 240, 0)},
      {"bsg/0:0:0:0", Node(S_IFCHR | 0666, 248, 0)},
      {"vfio/vfio", Node(S_IFCHR | 0666, 10, 196)},
      {"cpu/0/msr", Node(S_IFCHR | 0666, 202, 0)},
      {"cpu", Node(S_IFDIR | 0755, 0, 0)},
      {"uio0", Node(S_IFCHR | 0666, 243, 0)},
      {"tty1", Node(S_IFCHR | 0600, 4, 1)},
      {"other", Node(S_IFCHR | 0644, 245, 0)}};
  for (const auto& [path, st] : nodes) {
    EXPECT_TRUE(IsMachineDevice(path, st, {})) << path;
  }
}

TEST(MachineDevicesTest, WhatUsersAreGivenStays) {
  const std::pair<const char*, struct stat> nodes[] = {
      {"null", Node(S_IFCHR | 0666, 1, 3)},
      {"urandom", Node(S_IFCHR | 0644, 1, 9)},
      {"fuse", Node(S_IFCHR | 0600, 10, 229)},
      {"net/tun", Node(S_IFCHR | 0600, 10, 200)},
      {"kvm", Node(S_IFCHR | 0660, 10, 232, 104)},
      {"video0", Node(S_IFCHR | 0660, 81, 0, 44)},
      {"infiniband/uverbs0", Node(S_IFCHR | 0666, 231, 192)},
      {"ngrok", Node(S_IFCHR | 0666, 242, 0)},
      {"net", Node(S_IFDIR | 0755, 0, 0)},
      {"disk", Node(S_IFLNK | 0777, 0, 0)},
      {"log", Node(S_IFSOCK | 0666, 0, 0)}};
  for (const auto& [path, st] : nodes) {
    EXPECT_FALSE(IsMachineDevice(path, st, {})) << path;
  }
  EXPECT_FALSE(IsMachineDevice("tty1", Node(S_IFCHR | 0600, 4, 1), {makedev(4, 1)}));
}

TEST(MountsTest, AMountTableIsRead) {
  const auto mounts = ParseMounts(
      "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw\n"
      "garbage\n"
      "37 35 0:5 / /proc rw - proc proc rw\n");
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].id, 36U);
  EXPECT_EQ(mounts[0].root, "/mnt1");
  EXPECT_EQ(mounts[0].point, "/mnt 2");
  EXPECT_EQ(mounts[0].type, "ext3");
  EXPECT_EQ(mounts[1].type, "proc");
}

}  // namespace
}  // namespace cgpu
