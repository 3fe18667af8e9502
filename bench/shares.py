"""Parts of the benchmarks of compute shares: containers of root's `cgpu run` with cgpu-burn on a
simulated GPU, held to the GPU's policy by a cgpud of the benchmark's own, and what they got by the
accounting of the GPU's engines.
"""
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CGPU_BIN", os.path.join(ROOT, "build", "bin"))
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from engines import RUNC, start_cgpud  # noqa: E402

BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
QUEUED_MS = 100  # of work: a program that wakes up late does not run dry
LATE_S = 0.020  # a wake-up later than this; or all of them together, by this part of the time
LATE_PART = 0.01


class Clock:
    """How late the machine is: a thread that sleeps 10 ms again and again."""

    def __enter__(self):
        self.worst = self.total = 0.0
        self._begin = time.monotonic()
        self._stop = False
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def _loop(self):
        while not self._stop:
            before = time.monotonic()
            time.sleep(0.010)
            late = time.monotonic() - before - 0.010
            self.worst = max(self.worst, late)
            self.total += max(0.0, late - 0.001)

    def __exit__(self, *_):
        self._stop = True
        self._thread.join()
        self._took = time.monotonic() - self._begin

    def late(self):
        return self.worst > LATE_S or self.total > LATE_PART * self._took


class Loads:
    """Containers on one GPU; ends them with the block. Each of `members` is (flags of `cgpu run`,
    words of cgpu-burn). They are called m0, m1 and so on, or m`first` and so on; or as `names` says."""

    def __init__(self, node, members, first=0, names=None):
        self._node = node
        self._members = members
        self._names = names or ["m%d" % number for number in range(first, first + len(members))]
        self.idle = None  # what of the GPU's time nobody had in the last window, in percent
        self._processes = []
        self._shims = []

    def __enter__(self):
        for name, (flags, words) in zip(self._names, self._members):
            before = {group["pid"] for group in self._groups()}
            process = self._node.run([BURN, "--json", *map(str, words)], mem="512MiB",
                                     flags=("--name", name, *map(str, flags)), name=name)
            self._processes.append(process)
            quietly(process, '^{"gpu":')
            # For the driver all of a container's clients are its shim's.
            (shim,) = {group["pid"] for group in self._groups()} - before
            self._shims.append(shim)
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        for process in self._processes:
            process.popen.send_signal(signal.SIGTERM)
        for process in self._processes:
            with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
                process.end()
        self._wait_gone()

    def kill(self):
        """Ends them at once, in place of the end of the block."""
        for process in self._processes:
            process.kill()
        self._wait_gone()

    def _wait_gone(self):
        deadline = time.monotonic() + t.DEADLINE
        while {group["pid"] for group in self._groups()} & set(self._shims):
            t.check(time.monotonic() < deadline, "groups are left on the GPU")

    def shims(self):
        """The processes that serve them."""
        return list(self._shims)

    def processes(self):
        """Returns the processes of `cgpu run`, one each."""
        return list(self._processes)

    def _groups(self):
        return t.groups(self._node.books()["gpus"][0])

    def _look(self):
        gpu = self._node.books()["gpus"][0]
        engine = t.graphics(gpu)
        times = {group["pid"]: group["gpu_time_ns"] for group in gpu["groups"]}
        return [times[shim] for shim in self._shims], t.counted_ns(engine), engine["idle_ns"]

    def window(self, seconds):
        """Returns what each gets of the GPU in the next `seconds`, in percent of the time that
        passes on it; and the clock."""
        first, begin, idle = self._look()
        with Clock() as clock:
            time.sleep(seconds)
            last, end, idle_then = self._look()
        self.idle = 100.0 * (idle_then - idle) / (end - begin)
        return [100.0 * (b - a) / (end - begin) for a, b in zip(first, last)], clock


class Sampler:
    """Reads the engines' accounting again and again, on a thread: what passed on the GPU, and what each shim's
    groups had, in nanoseconds."""

    def __init__(self, node, every_s=0.001):
        self._every_s = every_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(node.folder + "/control.sock")
        self._stream = self._socket.makefile("rw", encoding="utf-8")
        self._stop = False
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self.samples = []

    def books(self):
        self._stream.write('{"command": "books", "mappings": false}\n')
        self._stream.flush()
        reply = json.loads(self._stream.readline())
        t.check("result" in reply, "no books: %s" % reply)
        return reply["result"]

    def look(self):
        gpu = self.books()["gpus"][0]
        return t.counted_ns(t.graphics(gpu)), {group["pid"]: group["gpu_time_ns"] for group in gpu["groups"]}

    def _loop(self):
        while not self._stop:
            self.samples.append(self.look())
            time.sleep(self._every_s)

    def __enter__(self):
        self.samples = [self.look()]
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop = True
        self._thread.join()
        self._socket.close()

    def sleep_until(self, passed):
        while self.samples[-1][0] < passed:
            t.check(self._thread.is_alive(), "the books cannot be read")
            time.sleep(0.01)


def quietly(process, pattern):
    """Waits for a line, whose echo nobody wants."""
    with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        process.expect(pattern)


def window(node, members, settle_s, window_s, tries=3):
    """Returns what each member gets in a window, and a remark if the machine was late. Repeats a window in
    which it was late, `tries` in all; the last one counts. `window.repeated` and `window.late` count them."""
    for tried in range(tries):
        with Loads(node, members) as loads:
            loads.window(settle_s)
            got, clock = loads.window(window_s)
        if not clock.late():
            return got, ""
        window.repeated += tried < tries - 1
    window.late += 1
    return got, "; the machine was late by %.0f ms" % (1000 * clock.worst)


window.repeated = window.late = 0


def queued(kernel_us):
    """Words of cgpu-burn for a load that always wants the GPU."""
    return ("--kernel-us", kernel_us, "--queue", max(16, QUEUED_MS * 1000 // kernel_us))


def set_policy(node, name):
    t.command(t.CGPU, "policy", "0", name, "--node", node.name)


def percent(numbers):
    return " ".join("%.1f" % number for number in numbers)


def go_first():
    """The machine's other processes, builds for one, are to keep none of ours from waking up in time:
    the cgroup that all of ours are in has the greatest weight there is. Without such a cgroup, late
    windows are repeated."""
    for file, weight in (("cpu/cpu.shares", 262144), ("cpu.weight", 10000)):
        with contextlib.suppress(OSError), \
                open("/sys/fs/cgroup/" + file, "w", encoding="utf-8") as out:
            out.write(str(weight))


def run(measure, cards="a10:1"):
    """measure(node, daemon), with a GPU and its cgpud, apart from the machine."""
    t.require_machine()
    isolation.enter()
    go_first()
    try:
        with t.Node(cards, "580") as node:
            daemon = start_cgpud(node, RUNC)
            measure(node, daemon)
            daemon.stop()
    except t.Failure as failure:
        t.Process.end_all()
        sys.exit("FAILED: %s" % failure)
