"""Checks the machine: the kernel's interfaces that the shim needs, the driver and its files."""
import ctypes
import errno
import glob
import os
import re
import stat

LIBC = ctypes.CDLL(None, use_errno=True)
# x86-64's system calls, <linux/seccomp.h> and <sched.h>.
SECCOMP, PIDFD_OPEN, PIDFD_GETFD = 317, 434, 438
SET_MODE_FILTER, GET_ACTION_AVAIL, GET_NOTIF_SIZES = 1, 2, 3
RET_USER_NOTIF = 0x7FC00000
NEW_LISTENER, WAIT_KILLABLE = 1 << 3, 1 << 5
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000


def syscall(number, *words):
    """The result, or minus the errno."""
    ctypes.set_errno(0)
    result = LIBC.syscall(number, *[ctypes.c_long(word) if isinstance(word, int) else word
                                    for word in words])
    return -ctypes.get_errno() if result < 0 else result


def in_child(action):
    """The errno that `action` returns in a child process; it may do what it likes to itself."""
    child = os.fork()
    if child == 0:
        os._exit(action())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def unshare(flags):
    return in_child(lambda: 0 if LIBC.unshare(flags) == 0 else ctypes.get_errno())


def name_of(error):
    return "ok" if error == 0 else errno.errorcode.get(error, str(error))


def kernel(report):
    report.keep("libc", os.confstr("CS_GNU_LIBC_VERSION"))
    report.row("kernel", "pass", "%s %s" % (os.uname().release, os.uname().machine))
    action = ctypes.c_uint32(RET_USER_NOTIF)
    notify = syscall(SECCOMP, GET_ACTION_AVAIL, 0, ctypes.byref(action))
    sizes = (ctypes.c_uint16 * 3)()
    sized = syscall(SECCOMP, GET_NOTIF_SIZES, 0, sizes)
    report.judge("seccomp user notification", notify == 0 and sized == 0,
                 "%s, sizes %s" % (name_of(-notify), list(sizes)))
    # With no filter the kernel says EFAULT if it knows the flags, EINVAL if it does not.
    killable = syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE, 0)
    report.row("killable waits (5.19)", "pass" if killable == -errno.EFAULT else "skip",
               name_of(-killable))
    own = syscall(PIDFD_OPEN, os.getpid(), 0)
    taken = syscall(PIDFD_GETFD, own, 0, 0) if own >= 0 else own
    report.judge("pidfd_getfd", taken >= 0, name_of(max(0, -taken)))
    try:
        with open("/proc/self/mem", "rb", buffering=0) as file:
            word = ctypes.create_string_buffer(b"cgpu")
            file.seek(ctypes.addressof(word))
            report.judge("/proc/PID/mem", file.read(4) == b"cgpu")
    except OSError as error:
        report.judge("/proc/PID/mem", False, str(error))
    report.judge("mount namespaces", unshare(CLONE_NEWNS) == 0, name_of(unshare(CLONE_NEWNS)))
    users = unshare(CLONE_NEWUSER)
    report.row("user namespaces", "pass" if users == 0 else "skip", name_of(users))


def driver(report):
    text = ""
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        try:
            with open(path, encoding="utf-8") as file:
                text += file.read()
        except OSError as error:
            report.keep(path, str(error))
    version = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    report.keep("version text", text)
    report.keep("driver", version.group(0) if version else "?")
    report.judge("driver", version is not None, "%s, %s kernel modules" % (
        version.group(0) if version else "none is loaded", "open" if "Open" in text else "proprietary"))
    files = {}
    for path in sorted(glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia-caps/*")):
        info = os.stat(path)
        files[path] = "%s %d:%d" % (stat.filemode(info.st_mode), os.major(info.st_rdev),
                                    os.minor(info.st_rdev))
    report.keep("device files", files)
    report.row("device files", "pass" if "/dev/nvidiactl" in files else "FAIL", ", ".join(files))
    for path in sorted(glob.glob("/proc/driver/nvidia/params")
                       + glob.glob("/proc/driver/nvidia/gpus/*/information")):
        with open(path, encoding="utf-8", errors="replace") as file:
            report.keep(path, file.read())


def check(report):
    kernel(report)
    if report.node is None:
        driver(report)
    info = report.do(*report.plain(report.tool("rmtool"), "info"))
    report.judge("a raw client asks the driver", info.status == 0, info.output.strip() or info.last_words())
    names = re.findall(r"GPU \d+: (.+?) \(UUID", info.output)
    report.keep("gpu", names[0].strip() if names else "a GPU")
    if not report.notification:
        report.row("cgpu run -- true", "skip", "there is no user notification here")
        return
    run = report.do(*report.slice("true"))
    report.judge("cgpu run -- true", run.status == 0, run.last_words())
