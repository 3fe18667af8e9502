#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

void AddKernel(FakeHost& host) {
  host.files["/proc/sys/kernel/osrelease"] = "6.12.43+deb13-amd64\n";
  host.files["/proc/self/status"] = "Name:\tcgpu\nSeccomp:\t0\nSeccomp_filters:\t0\n";
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n";
  host.files["/proc/sys/user/max_user_namespaces"] = "63432\n";
  host.files["/proc/sys/kernel/unprivileged_userns_clone"] = "1\n";
  host.files["/proc/self/mountinfo"] =
      "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  host.files["/proc/sys/fs/inotify/max_user_instances"] = "128\n";
  host.files["/proc/sys/fs/inotify/max_user_watches"] = "65536\n";
  host.files["/proc/sys/fs/file-nr"] = "2048\t0\t9223372036854775807\n";
  host.files["/run/systemd/system/x"] = "";
  host.Install("/usr/bin/systemd-run");
  host.AddDevice("/dev/fuse", 10, 229);
  host.Says("uname -m", "x86_64\n");
}

}  // namespace

FakeHost HealthyHost() {
  FakeHost host;
  AddKernel(host);
  return host;
}

}  // namespace cgpu::doctor
