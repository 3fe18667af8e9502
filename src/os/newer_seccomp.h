// <linux/seccomp.h> with what Linux 6.6 added, which Debian 12's headers lack.
#ifndef CGPU_OS_NEWER_SECCOMP_H_
#define CGPU_OS_NEWER_SECCOMP_H_

#include <linux/seccomp.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#endif  // CGPU_OS_NEWER_SECCOMP_H_
