#include <cerrno>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

Fault Refused(const std::string& id, Question question, int error = ENOSYS) {
  return {id, "refuses", [=](FakeHost& host) { host.refused[question] = error; }};
}

}  // namespace

std::vector<Fault> KernelFaults() {
  const std::string mounts = "/proc/self/mountinfo";
  const std::string version_1 = "30 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
  return {
      Changed("kernel-version", "Linux 5.10.0-28", "/proc/sys/kernel/osrelease", "5.10.0-28\n"),
      {"kernel-machine", "aarch64", [](FakeHost& host) { host.Says("uname -m", "aarch64\n"); }},
      Refused("seccomp-notify", Question::kSeccompNotify, EOPNOTSUPP),
      {"seccomp-sizes", "larger",
       [](FakeHost& host) { host.refused[Question::kSeccompSizes] = E2BIG; }},
      Refused("seccomp-killable", Question::kWaitKillable, EINVAL),
      {"seccomp-listener", "has a listener already",
       [](FakeHost& host) { host.refused[Question::kListener] = EBUSY; }},
      Refused("seccomp-listener", Question::kListener, EACCES),
      Refused("seccomp-wake", Question::kSyncWakeUp, EINVAL),
      Changed("seccomp-around", "mode 2", "/proc/self/status", "Name:\tx\nSeccomp:\t2\n"),
      Refused("pidfd-open", Question::kPidfdOpen),
      Refused("pidfd-getfd", Question::kPidfdGetfd),
      Refused("pidfd-thread", Question::kPidfdThread, EINVAL),
      Refused("kcmp", Question::kKcmp),
      Refused("mount-calls", Question::kOpenTree),
      Refused("mount-calls", Question::kMountSetattr),
      Refused("close-range", Question::kCloseRange),
      Changed("yama", "is 3", "/proc/sys/kernel/yama/ptrace_scope", "3\n"),
      Changed("selinux", "enforcing", "/sys/fs/selinux/enforce", "1"),
      Changed("apparmor-userns", "is 1", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
              "1\n"),
      Changed("userns-limit", "is 0", "/proc/sys/user/max_user_namespaces", "0\n"),
      Changed("userns-clone", "is 0", "/proc/sys/kernel/unprivileged_userns_clone", "0\n"),
      Refused("userns-made", Question::kUserNamespace, EPERM),
      Changed("cgroups-mounted", "no control groups", mounts, "25 1 0:1 / / rw - ext4 a rw\n"),
      Changed("cgroups-version", "version 1", mounts, version_1),
      {"cgroups-devices", "disabled",
       [=](FakeHost& host) {
         host.files[mounts] = version_1;
         host.files["/proc/cgroups"] =
             "#subsys_name\thierarchy\nmemory\t2\t5\t1\ndevices\t1\t5\t0\n";
       }},
      {"cgroups-devices", "has no controller",
       [=](FakeHost& host) { host.files[mounts] = version_1; }},
      {"systemd", "does not manage", [](FakeHost& host) { host.Remove("/run/systemd"); }},
      {"systemd-run", "no program", [](FakeHost& host) { host.Remove("/usr/bin/systemd-run"); }},
      {"inotify-instances", "gets no inotify instance",
       [](FakeHost& host) { host.refused[Question::kInotify] = EMFILE; }},
      Changed("inotify-instances", "is 8, less than", "/proc/sys/fs/inotify/max_user_instances",
              "8\n"),
      Changed("inotify-watches", "is 16, less than", "/proc/sys/fs/inotify/max_user_watches",
              "16\n"),
      Changed("open-files", "90 %", "/proc/sys/fs/file-nr", "95000\t0\t100000\n"),
      {"fuse", "no /dev/fuse", [](FakeHost& host) { host.Remove("/dev/fuse"); }},
  };
}

}  // namespace cgpu::doctor
