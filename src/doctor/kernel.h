// Checks of the kernel, and of what protects it. Rows of check_table.cc say what each is about.
#ifndef CGPU_DOCTOR_KERNEL_H_
#define CGPU_DOCTOR_KERNEL_H_

#include "doctor/check.h"

namespace cgpu::doctor {

[[nodiscard]] Finding KernelVersion(const Facts& facts);
[[nodiscard]] Finding KernelMachine(const Facts& facts);
[[nodiscard]] Finding SeccompNotify(const Facts& facts);
[[nodiscard]] Finding SeccompSizes(const Facts& facts);
[[nodiscard]] Finding SeccompKillable(const Facts& facts);
[[nodiscard]] Finding SeccompListener(const Facts& facts);
[[nodiscard]] Finding SeccompWakeUp(const Facts& facts);
[[nodiscard]] Finding SeccompAround(const Facts& facts);
[[nodiscard]] Finding PidfdOpen(const Facts& facts);
[[nodiscard]] Finding PidfdGetfd(const Facts& facts);
[[nodiscard]] Finding PidfdThread(const Facts& facts);
[[nodiscard]] Finding Kcmp(const Facts& facts);
[[nodiscard]] Finding MountCalls(const Facts& facts);
[[nodiscard]] Finding CloseRange(const Facts& facts);
[[nodiscard]] Finding Yama(const Facts& facts);
[[nodiscard]] Finding Selinux(const Facts& facts);
[[nodiscard]] Finding AppArmorUserNamespaces(const Facts& facts);
[[nodiscard]] Finding UserNamespacesLimit(const Facts& facts);
[[nodiscard]] Finding UserNamespacesClone(const Facts& facts);
[[nodiscard]] Finding UserNamespacesMade(const Facts& facts);
[[nodiscard]] Finding CgroupsMounted(const Facts& facts);
[[nodiscard]] Finding CgroupsVersion(const Facts& facts);
[[nodiscard]] Finding CgroupsDevices(const Facts& facts);
[[nodiscard]] Finding Systemd(const Facts& facts);
[[nodiscard]] Finding SystemdRun(const Facts& facts);
[[nodiscard]] Finding InotifyInstances(const Facts& facts);
[[nodiscard]] Finding InotifyWatches(const Facts& facts);
[[nodiscard]] Finding OpenFiles(const Facts& facts);
[[nodiscard]] Finding Fuse(const Facts& facts);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_KERNEL_H_
