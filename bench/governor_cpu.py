"""Measures the processor time that it takes to hold containers to their shares: of cgpud and the
shims of 16 containers, by /proc/PID/schedstat over 60 s, in percent of one processor. Measures
three times: under the policy weight with loads that come and go, under fixed, which takes channels
off the GPU and puts them back by the clock, and under weight with containers that have no work.
Needs root; the last line is the figure.
"""
import os
import time

import shares
from shares import t

CONTAINERS = 16
SECONDS = 60
SETTLE_S = 3
BURST = ("--kernel-us", 1000, "--duty", 50, "--period-ms", 200)
# One launch, and the next in a quarter of an hour.
IDLE = ("--kernel-us", 1, "--queue", 1, "--gap-us", 10 ** 9)


def processor_ns(pids):
    """The processor time that these have had, all their threads together."""
    taken = 0
    for pid in pids:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, thread), encoding="utf-8") as file:
                taken += int(file.read().split()[0])
    return taken


def percent(node, daemon, policy, flags, words):
    shares.set_policy(node, policy)
    with shares.Loads(node, [(flags, words)] * CONTAINERS) as loads:
        time.sleep(SETTLE_S)
        pids = {"cgpud": [daemon.popen.pid], "the shims": loads.shims()}
        before = {name: processor_ns(which) for name, which in pids.items()}
        got, clock = loads.window(SECONDS)
        took = {name: (processor_ns(which) - before[name]) / 1e7 / SECONDS
                for name, which in pids.items()}
    print("%s, %s: %s; the containers had %.1f %% of the GPU%s" %
          (policy, " ".join(map(str, words)),
           ", ".join("%s %.3f %%" % pair for pair in took.items()), sum(got),
           "; the machine was late by %.0f ms" % (1000 * clock.worst) if clock.late() else ""),
          flush=True)
    return sum(took.values())


def measure(node, daemon):
    busy = percent(node, daemon, "weight", ("--weight", 2), BURST)
    fixed = percent(node, daemon, "fixed", ("--compute", 6), BURST)
    idle = percent(node, daemon, "weight", ("--weight", 2), IDLE)
    print("governor-cpu: %.2f %% (fixed %.2f, idle %.3f)" % (busy, fixed, idle))


if __name__ == "__main__":
    shares.run(measure)
