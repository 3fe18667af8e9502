"""A test that starts container engines, apart from the machine: nothing of what it starts, mounts
or writes outlives it, however it ends.

enter() divides the calling process in three:

  keeper   the process that was there: waits for the test, reaps orphans (engines look with
           kill(pid, 0) whether their helpers are gone) and ends with the test's status
  test     goes on in namespaces (mount, network, cgroup) and cgroups of its own
  guard    waits until the keeper is gone or done, kills what is left in the cgroups, removes them

The test sees the machine's files but for /run and /opt, which are empty, and /etc and /var, whose
changes are its own. /run/cgpu, /run/cgpu-sim, /run/containerd and so on are therefore this test's alone.
"""
import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import cgpu_test
from cgpu_test import DEADLINE, Failure, skip

_CLONE_NEWNS, _CLONE_NEWCGROUP, _CLONE_NEWNET = 0x00020000, 0x02000000, 0x40000000
_PR_SET_CHILD_SUBREAPER = 36
_CGROUPS = "/sys/fs/cgroup"
_libc = ctypes.CDLL(None, use_errno=True)

# This test's cgroup in the version 2 hierarchy, which every process that it starts stays below.
_whole = None
# The test's cgroups, as the machine sees them.
folders = []


class _Hierarchy:
    """One hierarchy of cgroups, and the test's part of it."""

    def __init__(self, mount, controllers, version, name):
        self.version = version
        self.controllers = controllers  # "cpu,cpuacct", "name=systemd"; "" of version 2
        self.parent = mount
        self.path = os.path.join(mount, name)

    def make(self):
        os.mkdir(self.path)
        if "cpuset" in self.controllers.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):
                there = _read(os.path.join(self.parent, file)).strip()
                _write(os.path.join(self.path, file), there)

    def join(self, below=""):
        _write(os.path.join(self.path, below, "cgroup.procs"), "0")

    def remove(self):
        for folder, _, _ in os.walk(self.path, topdown=False):
            os.rmdir(folder)


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def _hierarchies(name):
    """Those that are mounted where they usually are, each at the cgroup that this process is in."""
    mine = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mine[frozenset(controllers.split(","))] = (controllers, path)
    found = {}
    for line in _read("/proc/self/mountinfo").splitlines():
        before, after = line.split(" - ", 1)
        root, mount = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind not in ("cgroup", "cgroup2") or not mount.startswith(_CGROUPS):
            continue
        for key, (controllers, path) in mine.items():
            if key == {""} if kind == "cgroup2" else key <= set(options.split(",")):
                found[controllers] = _Hierarchy(
                    os.path.normpath(os.path.join(mount, os.path.relpath(path, root))),
                    controllers, 2 if kind == "cgroup2" else 1, name)
    return list(found.values())


def _call(name, *arguments):
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (name, os.strerror(code)))


def _mount(*words):
    done = subprocess.run(["mount", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False)
    if done.returncode != 0:
        skip("no private mounts on this machine: " + done.stdout.strip())


def _mount_cgroups(hierarchies):
    """Mounts them anew, so that ours look like the whole. Version 2 is left out beside version 1:
    crun 1.8.1 refuses to run where both are."""
    subprocess.run(["umount", "-l", "-R", _CGROUPS], check=True, timeout=DEADLINE)
    old = [h for h in hierarchies if h.version == 1]
    if not old:
        _mount("-t", "cgroup2", "cgroup2", _CGROUPS)
        return
    _mount("-t", "tmpfs", "-o", "mode=755", "cgroup", _CGROUPS)
    for hierarchy in old:
        named = hierarchy.controllers.startswith("name=")
        folder = hierarchy.controllers.removeprefix("name=")
        os.mkdir(os.path.join(_CGROUPS, folder))
        _mount("-t", "cgroup", "-o", ("none," if named else "") + hierarchy.controllers, "cgroup",
               os.path.join(_CGROUPS, folder))
        for alias in folder.split(",") if "," in folder else ():
            os.symlink(folder, os.path.join(_CGROUPS, alias))


def _mounted_below(folder):
    """The deepest first."""
    lines = _read("/proc/self/mountinfo").splitlines()
    return [path for path in (line.split()[4] for line in reversed(lines))
            if path.startswith(folder + "/")]


def _raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING: linux/sockios.h, linux/if.h.
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x1 | 0x40))


def _become_test(hierarchies):
    global _whole
    folders.extend(h.path for h in hierarchies)
    _whole = os.open(next(h.path for h in hierarchies if h.version == 2), os.O_RDONLY)
    only_new = all(h.version == 2 for h in hierarchies)
    for hierarchy in hierarchies:
        hierarchy.join()
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWCGROUP | _CLONE_NEWNET)
    if only_new:  # a cgroup with processes of its own can have no controllers for those below
        os.mkdir(os.path.join(hierarchies[0].path, "test"))
        hierarchies[0].join("test")
    _mount("--make-rprivate", "/")
    # podman's user namespaces expect it; nothing reaches the machine's own mounts any more.
    _mount("--make-rshared", "/")
    _mount_cgroups(hierarchies)
    _raise_loopback()
    for path in _mounted_below("/run"):  # nodes of other tests; they may be gone by now
        subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL, check=False,
                       timeout=DEADLINE)
    for folder in ("/run", "/opt"):
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    os.mkdir("/run/lock")
    for folder in ("/etc", "/var"):
        changes = "/run/changes" + folder
        for part in ("new", "work"):
            os.makedirs(os.path.join(changes, part))
        _mount("-t", "overlay", "-o", "lowerdir={0},upperdir={1}/new,workdir={1}/work".format(
            folder, changes), "overlay", folder)


def _processes(whole):
    """The processes in a cgroup (an open folder) and below, those that have ended but were not
    reaped left out: number -> command line."""
    found = {}
    for _, _, _, fd in os.fwalk(".", dir_fd=whole):
        with contextlib.suppress(OSError):  # a cgroup that has gone just now
            with open(os.open("cgroup.procs", os.O_RDONLY, dir_fd=fd), encoding="utf-8") as file:
                for pid in map(int, file.read().split()):
                    found[pid] = _command_line(pid)
    return {pid: line for pid, line in found.items() if line}


def _command_line(pid):
    try:
        return _read("/proc/%d/cmdline" % pid).replace("\0", " ").strip()
    except OSError:
        return ""


def processes():
    """Returns the processes that this test has started, directly or not, and that still run: number
    -> command line."""
    return {pid: line for pid, line in _processes(_whole).items() if pid != os.getpid()}


def wait_alone(but=()):
    """Waits until nothing runs that this test has started but the processes numbered in `but`."""
    until = time.monotonic() + DEADLINE
    while set(processes()) - set(but):
        if time.monotonic() > until:
            raise Failure("still there: %s" % {pid: line for pid, line in processes().items()
                                               if pid not in but})
        select.select([], [], [], 0.01)


def containers_cgroups():
    """The cgroups that hold or held a container: those two levels down, as all engines make them.
    One is podman's own."""
    return sorted({os.path.join(os.path.basename(folder), name)
                   for top, _, _ in os.walk(_CGROUPS) for folder in [top]
                   if folder.count("/") == _CGROUPS.count("/") + 2
                   for name in os.listdir(folder)
                   if os.path.isdir(os.path.join(folder, name))} - {"libpod_parent/conmon"})


def _guard(alive, done, hierarchies):
    """Never returns. Cleans up once nobody holds `alive`'s other end; then closes `done`."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.read(alive, 1)
    for freezer in (h for h in hierarchies if "freezer" in h.controllers.split(",")):
        for folder, _, _ in os.walk(freezer.path):  # who is frozen does not die
            if os.path.exists(os.path.join(folder, "freezer.state")):
                _write(os.path.join(folder, "freezer.state"), "THAWED")
    whole = next(h.path for h in hierarchies if h.version == 2)
    _write(os.path.join(whole, "cgroup.kill"), "1")
    until = time.monotonic() + DEADLINE
    with open(os.path.join(whole, "cgroup.events"), encoding="utf-8") as events:
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while "populated 1" in events.read() and time.monotonic() < until:
            poll.poll(1000)
            events.seek(0)
    complaints = []
    for hierarchy in hierarchies:
        try:
            hierarchy.remove()
        except OSError as error:
            complaints.append(str(error))
    os.write(done, "; ".join(complaints).encode())
    os._exit(0)


def _start_guard(hierarchies):
    """A process that is nobody's child: our end is told when it is done."""
    alive, ours = os.pipe()
    told, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(ours)
        os.close(told)
        if os.fork() == 0:
            try:
                _guard(alive, done, hierarchies)
            finally:
                os._exit(1)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(alive)
    os.close(done)
    return ours, told


def _keep(test, ours, told):
    """Never returns."""
    status = 1
    while True:
        pid, how = os.wait()
        if pid == test:
            code = os.waitstatus_to_exitcode(how)
            status = code if code >= 0 else 128 - code
            break
    os.close(ours)
    complaints = b""
    while data := os.read(told, 4096):
        complaints += data
    if complaints:
        print("FAILED: not cleaned up: " + complaints.decode())
        status = status or 1
    sys.stdout.flush()
    os._exit(status)


def enter():
    """Returns in the test. Skips it where the machine cannot hold such a test."""
    if os.geteuid() != 0:
        skip("container engines are started by root")
    name = os.path.basename(tempfile.mktemp(prefix="cgpu-test-"))
    hierarchies = _hierarchies(name)
    if not any(h.version == 2 for h in hierarchies):
        skip("no cgroup hierarchy of version 2 is mounted below " + _CGROUPS)
    try:
        for hierarchy in hierarchies:
            hierarchy.make()
    except OSError as error:
        for hierarchy in hierarchies:
            hierarchy.remove()
        skip("no cgroups of one's own on this machine: %s" % error)
    sys.stdout.flush()
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, told = _start_guard(hierarchies)
    test = os.fork()
    if test:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _keep(test, ours, told)
    os.close(ours)
    os.close(told)
    _become_test(hierarchies)


def main(cases, outside=()):
    """Runs the case named on the command line, apart from the machine but for those in
    `outside`."""
    if sys.argv[1:2] and sys.argv[1] in cases and sys.argv[1] not in outside:
        enter()
    cgpu_test.main(cases, apart=False)
