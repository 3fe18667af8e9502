#include "doctor/kernel.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>
#include <vector>

#include "doctor/reading.h"
#include "os/mounts.h"

namespace cgpu::doctor {
namespace {

// mount_setattr(2) is the youngest call that cgpu cannot do without.
constexpr Numbers kOldestKernel = {5, 12, 0};
// The least that a host with a few dozen slices can do with; the kernel's own defaults are 128 and
// 8192 or more.
constexpr unsigned long kInstances = 64;
constexpr unsigned long kWatches = 1024;

std::string Refusal(int error, const std::string& name) {
  return ErrnoError(Code::kUnsupported, error, "the kernel refuses " + name).what;
}

Finding Answered(const Facts& facts, Question question, const std::string& name) {
  const int error = facts.Ask(question);
  return error == 0 ? Right("the kernel has " + name) : Wrong(Refusal(error, name));
}

// Returns the types of the file systems that are mounted.
std::vector<std::string> MountedTypes(const Facts& facts) {
  std::vector<std::string> types;
  for (const MountEntry& mount : ParseMounts(TextOf(facts, "/proc/self/mountinfo") + "\n")) {
    types.push_back(mount.type);
  }
  return types;
}

// Judges a switch of the kernel that allows something unless it is 0.
Finding Allowed(const Facts& facts, const std::string& path) {
  const auto value = facts.Read(path);
  if (!value.ok()) {
    return Right("this kernel has no " + path);
  }
  return Trimmed(*value) == "0" ? Wrong(path + " is 0") : Right(path + " is " + Trimmed(*value));
}

Finding AtLeast(const Facts& facts, const std::string& path, unsigned long least) {
  const auto number = NumberOf(facts, path);
  if (!number) {
    return Skipped("cannot read " + path);
  }
  const std::string text = path + " is " + std::to_string(*number);
  return *number < least ? Wrong(text + ", less than " + std::to_string(least)) : Right(text);
}

}  // namespace

Finding KernelVersion(const Facts& facts) {
  const std::string release = TextOf(facts, "/proc/sys/kernel/osrelease");
  const auto version = FirstVersion(release);
  if (!version) {
    return Skipped("cannot read /proc/sys/kernel/osrelease");
  }
  return *version < kOldestKernel ? Wrong("this is Linux " + release) : Right("Linux " + release);
}

Finding KernelMachine(const Facts& facts) {
  const std::string machine = Trimmed(OutputOrNothing(facts, {"uname", "-m"}));
  if (machine.empty()) {
    return Skipped("uname -m says nothing");
  }
  return machine == "x86_64" ? Right(machine) : Wrong("this machine is " + machine);
}

Finding SeccompNotify(const Facts& facts) {
  return Answered(facts, Question::kSeccompNotify, "seccomp user notification");
}

Finding SeccompSizes(const Facts& facts) {
  return facts.Ask(Question::kSeccompSizes) == E2BIG
             ? Wrong("this kernel's seccomp notifications are larger than this cgpu knows")
             : Right("seccomp notifications have a known size");
}

Finding SeccompKillable(const Facts& facts) {
  return Answered(facts, Question::kWaitKillable, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV");
}

Finding SeccompListener(const Facts& facts) {
  const int error = facts.Ask(Question::kListener);
  if (error == EBUSY) {
    return Wrong("a filter around this program has a listener already");
  }
  return error == 0 ? Right("programs can be held by a filter with a listener")
                    : Wrong(Refusal(error, "a filter with a listener"));
}

Finding SeccompWakeUp(const Facts& facts) {
  return Answered(facts, Question::kSyncWakeUp, "SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP");
}

Finding SeccompAround(const Facts& facts) {
  for (const std::string& line : LinesOf(TextOf(facts, "/proc/self/status"))) {
    if (line.starts_with("Seccomp:")) {
      const std::string mode = Trimmed(line.substr(line.find(':') + 1));
      return mode == "0" ? Right("no filter holds this program")
                         : Wrong("a seccomp filter holds this program (mode " + mode + ")");
    }
  }
  return Skipped("/proc/self/status says nothing of seccomp");
}

Finding PidfdOpen(const Facts& facts) {
  return Answered(facts, Question::kPidfdOpen, "pidfd_open(2)");
}

Finding PidfdGetfd(const Facts& facts) {
  return Answered(facts, Question::kPidfdGetfd, "pidfd_getfd(2)");
}

Finding PidfdThread(const Facts& facts) {
  return Answered(facts, Question::kPidfdThread, "PIDFD_THREAD");
}

Finding Kcmp(const Facts& facts) {
  return Answered(facts, Question::kKcmp, "kcmp(2)");
}

Finding MountCalls(const Facts& facts) {
  Finding tree = Answered(facts, Question::kOpenTree, "open_tree(2)");
  return tree.kind == Finding::Kind::kWrong
             ? tree
             : Answered(facts, Question::kMountSetattr, "mount_setattr(2)");
}

Finding CloseRange(const Facts& facts) {
  return Answered(facts, Question::kCloseRange, "close_range(2)");
}

// Documentation/admin-guide/LSM/Yama.rst: with 3, no process may attach to another, whatever
// capabilities it has; with 0 to 2, one with CAP_SYS_PTRACE may.
Finding Yama(const Facts& facts) {
  const auto scope = facts.Read("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.ok()) {
    return Right("this kernel has no Yama");
  }
  const std::string text = "kernel.yama.ptrace_scope is " + Trimmed(*scope);
  return Trimmed(*scope) == "3" ? Wrong(text) : Right(text);
}

Finding Selinux(const Facts& facts) {
  return TextOf(facts, "/sys/fs/selinux/enforce") == "1" ? Wrong("SELinux is enforcing")
                                                         : Right("SELinux does not enforce");
}

Finding AppArmorUserNamespaces(const Facts& facts) {
  const std::string path = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
  return TextOf(facts, path) == "1" ? Wrong(path + " is 1")
                                    : Right("AppArmor does not restrict user namespaces");
}

Finding UserNamespacesLimit(const Facts& facts) {
  return Allowed(facts, "/proc/sys/user/max_user_namespaces");
}

Finding UserNamespacesClone(const Facts& facts) {
  return Allowed(facts, "/proc/sys/kernel/unprivileged_userns_clone");
}

Finding UserNamespacesMade(const Facts& facts) {
  return Answered(facts, Question::kUserNamespace, "a user namespace to this user");
}

Finding CgroupsMounted(const Facts& facts) {
  const auto types = MountedTypes(facts);
  return Has(types, "cgroup") || Has(types, "cgroup2") ? Right("control groups are mounted")
                                                       : Wrong("no control groups are mounted");
}

Finding CgroupsVersion(const Facts& facts) {
  const auto types = MountedTypes(facts);
  return Has(types, "cgroup") ? Wrong("control groups of version 1 are mounted")
                              : Right("control groups have version 2");
}

Finding CgroupsDevices(const Facts& facts) {
  if (!Has(MountedTypes(facts), "cgroup")) {
    return Right("version 2 holds devices by BPF");
  }
  for (const std::string& line : LinesOf(TextOf(facts, "/proc/cgroups"))) {
    std::istringstream words(line);
    std::string name;
    std::string hierarchy;
    std::string groups;
    std::string enabled;
    if (words >> name >> hierarchy >> groups >> enabled && name == "devices") {
      return enabled == "1" ? Right("the controller \"devices\" is enabled")
                            : Wrong("the controller \"devices\" is disabled");
    }
  }
  return Wrong("version 1 is mounted, and the kernel has no controller \"devices\"");
}

Finding Systemd(const Facts& facts) {
  return Exists(facts, "/run/systemd/system") ? Right("systemd manages this host")
                                              : Wrong("systemd does not manage this host");
}

Finding SystemdRun(const Facts& facts) {
  if (!Exists(facts, "/run/systemd/system")) {
    return Skipped("systemd does not manage this host");
  }
  return FindProgram(facts, "systemd-run") ? Right("systemd-run is here")
                                           : Wrong("there is no program systemd-run");
}

Finding InotifyInstances(const Facts& facts) {
  const int error = facts.Ask(Question::kInotify);
  return error == 0
             ? AtLeast(facts, "/proc/sys/fs/inotify/max_user_instances", kInstances)
             : Wrong(
                   ErrnoError(Code::kExhausted, error, "this user gets no inotify instance").what);
}

Finding InotifyWatches(const Facts& facts) {
  return AtLeast(facts, "/proc/sys/fs/inotify/max_user_watches", kWatches);
}

// proc_sys_fs(5), file-nr: allocated, free, most.
Finding OpenFiles(const Facts& facts) {
  std::istringstream words(TextOf(facts, "/proc/sys/fs/file-nr"));
  double used = 0;
  double unused = 0;
  double most = 0;
  if (!(words >> used >> unused >> most)) {
    return Skipped("cannot read /proc/sys/fs/file-nr");
  }
  return used > most * 0.9 ? Wrong("more than 90 % of the kernel's open files are in use")
                           : Right("the kernel has room for open files");
}

Finding Fuse(const Facts& facts) {
  return Exists(facts, "/dev/fuse") ? Right("/dev/fuse is here") : Wrong("there is no /dev/fuse");
}

}  // namespace cgpu::doctor
