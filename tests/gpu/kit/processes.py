"""Processes that the kit starts, and those that they start: found in /proc, ended by their numbers."""
import collections
import contextlib
import ctypes
import os
import select
import signal
import time

MARK = "CGPU_KIT"  # in the environment of what a lease starts: mark_of() the folder of its results
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
END_SECONDS = 10
SHIM = "cgpu-shim"
LIBC = ctypes.CDLL(None)

# `begin` is when it began, in the clock's ticks: with the number it names a process for good.
Process = collections.namedtuple("Process", "pid parent begin name")


def mark_of(folder):
    """Returns what names a folder for good: its path is another one in another mount namespace."""
    info = os.stat(folder)
    return "%d:%d" % (info.st_dev, info.st_ino)


def adopt():
    """Makes orphans of what the kit starts its own children, so that below() finds them."""
    LIBC.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent():
    """Runs in a child before its program: the kernel ends it when the kit has ended."""
    LIBC.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _look_at(pid):
    """Returns a process that has not ended, or None."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
    except OSError:
        return None
    words = after.split()
    return None if words[0] in "ZX" else Process(pid, int(words[1]), int(words[19]), before.partition("(")[2])


def running():
    """Returns all processes, by number."""
    found = (_look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in found if one}


def below(root, keep=()):
    """Returns the processes that `root` started, and those that they started, but not those in `keep`
    and below."""
    children, found, todo = collections.defaultdict(list), [], [root]
    for one in running().values():
        children[one.parent].append(one)
    while todo:
        more = [one for one in children[todo.pop()] if one.pid not in keep]
        found += more
        todo += [one.pid for one in more]
    return found


def marked(mark, keep=()):
    """Returns the processes that were started with this mark, but not this one and those in `keep`."""
    found, wanted = [], ("%s=%s" % (MARK, mark)).encode()
    for one in running().values():
        with contextlib.suppress(OSError), open("/proc/%d/environ" % one.pid, "rb") as file:
            if wanted in file.read().split(b"\0") and one.pid not in (os.getpid(), *keep):
                found.append(one)
    return found


def end(found, seconds=END_SECONDS):
    """Kills them; returns those that do not end. A shim ends with its container, and gives back what that
    had: it is killed if it does not."""
    with contextlib.ExitStack() as stack:
        files = []
        for one in found:
            with contextlib.suppress(OSError):
                file = os.pidfd_open(one.pid)
                stack.callback(os.close, file)
                if _is_same(one):
                    files.append((one, file))
        until = time.monotonic() + seconds
        _kill([pair for pair in files if pair[0].name != SHIM])
        left = _wait(files, until - seconds / 2)
        _kill(left)
        return [one for one, _ in _wait(left, until)]


def _kill(files):
    for _, file in files:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(file, signal.SIGKILL)


def _wait(files, until):
    """Returns those that have not ended by then."""
    return [(one, file) for one, file in files
            if not select.select([file], [], [], max(0.0, until - time.monotonic()))[0]]


def _is_same(one):
    """Whether it is still that process; it may have a new parent or name."""
    now = _look_at(one.pid)
    return now is not None and now.begin == one.begin


def reap():
    """Takes the statuses of ended children that nobody waits for: no program may be under way."""
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            pass


def names(found):
    counted = collections.Counter(one.name for one in found)
    return ", ".join(name if count == 1 else "%s x%d" % (name, count) for name, count in counted.items())
