"""How far what containers get of a GPU is from what they were promised: root's `cgpu run` on a
simulated GPU, by the accounting of its engines. Windows of 10 s after 1 s of settling.

Each mix of shares and each length of kernels meets each of the policies weight, fixed and soft;
FULL=1: in every combination. POLICIES="fixed soft": these alone. In a window of the first kind all
members keep a queue full, so that each wants everything and its fair share is what it was promised.
In one of the second kind the first member launches, waits and launches again: its fair share is
that part of the GPU which it takes alone, if that is less, and the other has the rest, as far as
its policy lets it.

An error is the difference in points of the GPU's time, of which switches between containers are
a part that nobody gets. A window in which the machine itself was late is repeated, twice at the
most, and counted. Needs root; prints every window; the last line is the figure of the first kind.
"""
import os
import statistics

import shares

MIXES = {"50/50": (50, 50), "30/70": (30, 70), "25/75": (25, 75), "10/90": (10, 90),
         "25x4": (25,) * 4, "12.5x8": (12.5,) * 8, "2/98": (2, 98), "1/99": (1, 99)}
KERNELS = {"0.1 ms": 100, "1 ms": 1000, "10 ms": 10000}
POLICIES = os.environ.get("POLICIES", "weight fixed soft").split()
FULL = os.environ.get("FULL") == "1"
WINDOW_S, SETTLE_S = 10, 1


def flags(policy, share):
    """Returns the flags of a member. Those of 12.5 % ask for nothing: all have as much."""
    if share != int(share):
        return ()
    return ("--weight" if policy == "weight" else "--compute", share)


class Table:
    def __init__(self, node):
        self._node = node
        self.errors = {"queued": [], "launch-wait-launch": []}

    def measure(self, members):
        return shares.window(self._node, members, SETTLE_S, WINDOW_S)

    def add(self, kind, title, members, fair):
        got, late = self.measure(members)
        errors = [a - b for a, b in zip(got, fair)]
        self.errors[kind] += map(abs, errors)
        print("%s: %s of %s, worst by %.2f points%s" %
              (title, shares.percent(got), shares.percent(fair), max(map(abs, errors)), late),
              flush=True)

    def tell(self):
        print("windows repeated because the machine was late: %d; late all the same: %d" %
              (shares.window.repeated, shares.window.late))
        for kind in ("launch-wait-launch", "queued"):
            errors = self.errors[kind]
            name = "share-error" if kind == "queued" else "share-error, " + kind
            if errors:
                print("%s: %.2f points (worst %.2f)" % (name, statistics.mean(errors), max(errors)))


def all_queued(table, policy):
    for row, (mix, promised) in enumerate(MIXES.items()):
        for column, (kernel, kernel_us) in enumerate(KERNELS.items()):
            if FULL or (row + column) % 2 == 0:
                table.add("queued", "%s %s, kernels of %s" % (policy, mix, kernel),
                          [(flags(policy, one), shares.queued(kernel_us)) for one in promised],
                          promised)


def one_waits(table, policy, demands):
    for kernel, kernel_us in KERNELS.items():
        fair = min(50, demands[kernel])
        rest = 50 if policy == "fixed" else 100 - fair
        table.add("launch-wait-launch", "%s 50/50, the first waits, kernels of %s" % (policy, kernel),
                  [(flags(policy, 50), ("--kernel-us", kernel_us, "--queue", 1)),
                   (flags(policy, 50), shares.queued(kernel_us))], (fair, rest))


def measure(node, _):
    table = Table(node)
    shares.set_policy(node, "preempt")
    demands = {}
    for kernel, kernel_us in KERNELS.items():
        (demands[kernel],), late = table.measure([((), ("--kernel-us", kernel_us, "--queue", 1))])
        print("launch, wait, launch alone, kernels of %s: %.1f %%%s" % (kernel, demands[kernel], late),
              flush=True)
    for policy in POLICIES:
        shares.set_policy(node, policy)
        all_queued(table, policy)
        one_waits(table, policy, demands)
    table.tell()


if __name__ == "__main__":
    shares.run(measure)
