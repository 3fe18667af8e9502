"""How long cgpud takes to be whole again: it is killed with -9 and started again with 64 containers,
until it says that it serves, which it does when it watches all their shims. Needs root and runc;
prints every round; the last line is the figure.
"""
import os
import signal
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build", "bin")
os.environ.setdefault("CGPU_BIN", BIN)
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from bundles import Runc  # noqa: E402
from engines import RUNC, start_cgpud  # noqa: E402

CONTAINERS = 64
ROUNDS = 20


def watched(daemon):
    """How many shims it is connected to: connections of its that are not its own socket."""
    sockets = 0
    for fd in os.listdir("/proc/%d/fd" % daemon.popen.pid):
        try:
            sockets += os.readlink("/proc/%d/fd/%s" % (daemon.popen.pid, fd)).startswith("socket:")
        except FileNotFoundError:
            pass  # closed meanwhile
    return sockets - 1


def settle(daemon):
    """It has had a connection to each shim since it said that it serves; the socket over which it
    said so and those with which it gives orders go again."""
    deadline = time.monotonic() + t.DEADLINE
    while (count := watched(daemon)) != CONTAINERS:
        t.check(count > CONTAINERS, "it watches %d shims" % count)
        t.check(time.monotonic() < deadline, "it keeps %d connections" % count)


def measure():
    with t.Node("v100-16g:1") as node, Runc(os.path.join(BIN, "cgpu-runtime")) as engine:
        daemon = start_cgpud(node, RUNC, "max_inst: %d\n" % CONTAINERS)
        names = ["c%d" % number for number in range(CONTAINERS)]
        for name in names:
            engine.run(name, ["sleep", "100000"], detach=True, env={"CGPU_MEM": "100MiB"})
        times = []
        for number in range(ROUNDS):
            daemon.stop(signal.SIGKILL)
            begin = time.monotonic()
            daemon.start()
            times.append(1000 * (time.monotonic() - begin))
            settle(daemon)
            print("round %d: %.1f ms" % (number + 1, times[-1]), flush=True)
        for name in names:
            engine.remove(name)
        daemon.stop()
        print("reattach: %.1f ms" % statistics.median(times))


if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    measure()
