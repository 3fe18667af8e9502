"""Sixteen containers at once: all start, all compute, and nothing of them is left."""
import contextlib
import json
import os
import statistics
import time

from kit.burns import Burn
from kit.compute import steps_per_us
from kit.memory import used_mib

CONTAINERS = 16
MEM = "1GiB"
LEFT_MIB = 64  # more in use than before: something is left
LEFT_SECONDS = 10


def listed(report, names):
    """How many of them `cgpu ps` names."""
    done = report.do(report.tool("cgpu"), "ps", "--json")
    try:
        return sum(one["name"] in names for one in json.loads(done.output))
    except (ValueError, KeyError):
        return 0


def gone(report, before):
    """The MiB more in use than before, once they are few or the time is over."""
    until = time.monotonic() + LEFT_SECONDS
    while (used := used_mib(report)) is not None:
        if used - before <= LEFT_MIB or time.monotonic() > until:
            return used - before
    return None


def check(report):
    report.require_cuda()
    report.require_cgpu()
    words = ["--kernel-us", "1000", "--queue", "8", "--steps", str(int(steps_per_us(report) * 1000))]
    names = ["kit-%d-%d" % (os.getpid(), number) for number in range(CONTAINERS)]
    before = used_mib(report)
    with contextlib.ExitStack() as ends:
        begin = time.monotonic()
        burns = [ends.enter_context(Burn(report, words, ["--mem", MEM, "--name", name])) for name in names]
        begun = [burn.wait(1) for burn in burns]
        took = time.monotonic() - begin
        seen = listed(report, names)
        first = [len(burn.seconds()) for burn in burns]
        count = 1 if report.quick else 3
        goes_on = all([burn.wait(at + count) for burn, at, there in zip(burns, first, begun) if there])
        got = [statistics.mean(second["kernel_ms_per_s"] for second in burn.seconds()[at:] or [{"kernel_ms_per_s": 0}])
               for burn, at in zip(burns, first)]
        for burn in burns:
            burn.tell()
        statuses = [burn.stop() for burn in burns]
        said = [burn.text().strip().split("\n")[-1][-300:] for burn in burns]
    report.keep("containers", {"begun": begun, "ms each second": got, "statuses": statuses, "said": said})
    report.judge("%d containers start at once" % CONTAINERS, all(begun) and seen == CONTAINERS,
                 "%d compute, cgpu ps names %d; %.1f s until the last one's first second; %s" % (
                     sum(begun), seen, took, next((text for text, there in zip(said, begun) if not there), "")))
    report.judge("all compute, and end in order", goes_on and all(got) and statuses == [0] * CONTAINERS,
                 "%.0f ms of kernels a second together, from %.1f to %.1f; statuses %s" % (
                     sum(got), min(got), max(got), sorted(set(map(str, statuses)))))
    left = None if before is None else gone(report, before)
    report.judge("their memory is back", left is not None and left <= LEFT_MIB, "%s MiB more in use than before" % left)
