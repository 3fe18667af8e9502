"""Attacks on the memory of the host (heavy.cc): a shim is in no container's cgroup, so what it takes
for a tenant the host pays. Without cgpu the driver keeps little for longer than a call: there is
nothing to compare with, and the shim of a neighbour that does nothing is the measure."""
import os
import re

from attack import LIMIT, within
from cgpu_test import check, main, shim_at

THREADS = 1200
KIB = 16 * 1024  # beyond the shim at rest
WORKERS, IDLE = 256, 4  # worker_pool.h: in calls at most, and those that wait for the next
LARGEST = 512 << 20  # bytes that no shim may have more than, whatever is found one day


def _of(pid):
    """Returns the most memory that a process has had, in KiB, and its threads and descriptors."""
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as file:
        said = dict(re.findall(r"^(\w+):\s+(\d+)", file.read(), re.M))
    return int(said["VmHWM"]), int(said["Threads"]), len(os.listdir("/proc/%d/fd" % pid))


def _heavy(kind):
    def judge(node, process):
        shims = {gpu["limit_bytes"] == LIMIT << 20: shim_at("/run/cgpu/%s.sock" % one["id"])
                 for one in node.containers() for gpu in one["gpus"]}
        with open("/proc/%d/limits" % shims[True], encoding="ascii") as file:
            (limit,) = [line[26:].split()[0] for line in file if line.startswith("Max data size")]
        check(int(limit) == LARGEST, "the shim may have %s bytes" % limit)
        before = _of(shims[False])
        most = [0, 0, 0]
        for _ in range(200):  # asks the driver each time: other calls are under way meanwhile
            node.sync()
            most = [max(pair) for pair in zip(most, _of(shims[True]))]
        print("%s: the shim had %d KiB, %d threads, %d descriptors; one at rest %d, %d, %d" %
              (kind, *most, *before))
        check(most[0] <= before[0] + KIB, "the shim took %d KiB" % most[0])
        check(most[1] <= before[1] + WORKERS + IDLE, "the shim has %d threads" % most[1])
        # One for each thread of the tenant's, and two for each call that a worker handles.
        check(most[2] <= before[2] + THREADS + 2 * WORKERS, "it has %d descriptors" % most[2])

    within(["heavy", kind, THREADS], judge)


main({"heavy-strings": lambda: _heavy("strings"), "heavy-lists": lambda: _heavy("lists"),
      "heavy-params": lambda: _heavy("params")})
