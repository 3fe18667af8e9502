"""How long it takes until containers have what they are to have after a change: root's `cgpu run` on a
simulated GPU, by the accounting of its engines. Kernels of 1 ms, queues always full.

40 changes of each kind: of a share (`cgpu set`), of the policy (soft and fixed in turn), a container that
comes, one that goes. From the moment before the change is asked for (of one that comes: from when its first
channel group is on the GPU) windows of 250 ms of the GPU's time begin every 10 ms, for a second. The figure
of a change is the end of the first window from which on in all windows everybody is within 3 points of the
fair share; 1000 ms where there is none. A change during which the machine itself was late is repeated, 20 of
a kind at the most, and counted. With each change stands for how long the accounting, read each millisecond, could
not be read: so long a duty cycle's window may have ended late, and 7.5 ms are 3 points of 250 ms. Needs root; prints
every change; the last line is the 90th percentile of all.
"""
import os
import statistics
import sys

import shares
import cgpu_test as t  # noqa: E402

CHANGES = int(os.environ.get("CHANGES", "40"))
REPEATED = 20
# Twenty rounds of two containers' time slices: in fewer, whole time slices are more than the points.
WINDOW_MS, STEP_MS, HORIZON_MS, POINTS = 250, 10, 1000, 3
MS = 1000000
LOAD = shares.queued(1000)


def settled_ms(samples, begin, fair):
    """The figure of a change at `begin`; `fair`: percentages by shim. Windows begin and end at samples."""
    found = None
    at = 0
    for start in range(0, HORIZON_MS - WINDOW_MS + 1, STEP_MS):
        while samples[at][0] < begin + start * MS:
            at += 1
        first = samples[at]
        last = min(samples, key=lambda one: abs(one[0] - first[0] - WINDOW_MS * MS))
        length = last[0] - first[0]
        good = all(abs(100.0 * (last[1].get(shim, 0) - first[1].get(shim, 0)) / length - share) <= POINTS
                   for shim, share in fair.items())
        if not good:
            found = None
        elif found is None:
            found = (last[0] - begin) / MS
    return HORIZON_MS if found is None else found


class Changes:
    def __init__(self, node):
        self._node = node
        self.figures = {}
        self._late = 0

    def measure(self, kind, change, fair, begin=None):
        """One change. `fair()`: what each shim is to have then; `begin(samples)`: when it was."""
        with shares.Sampler(self._node) as sampler, shares.Clock() as clock:
            asked = sampler.samples[-1][0]
            change()
            if begin is not None:
                asked = begin(sampler.samples)
            sampler.sleep_until(asked + (HORIZON_MS + WINDOW_MS // 2) * MS)
        figure = settled_ms(sampler.samples, asked, fair())
        figures = self.figures.setdefault(kind, [])
        late = clock.late() and self._late < REPEATED
        times = [passed for passed, _ in sampler.samples if passed >= asked]
        gap = max(b - a for a, b in zip(times, times[1:])) / MS
        if late:
            self._late += 1
        elif len(figures) < CHANGES:
            figures.append(figure)
        print("%s %d: %.0f ms; not read for %.1f ms%s" %
              (kind, len(figures), figure, gap, ", not counted: the machine was late by %.0f ms" %
               (1000 * clock.worst) if late else ""), flush=True)

    def of(self, kind):
        return self.figures.get(kind, [])

    def begin(self):
        self._late = 0

    def repeated(self):
        return self._late


def until_counted(changes, kinds, one_round):
    changes.begin()
    number = 0
    while any(len(changes.of(kind)) < CHANGES for kind in kinds):
        one_round(number)
        number += 1
    print("%s: %d repeated because the machine was late" % (" and ".join(kinds), changes.repeated()))


def of_share(node, changes):
    shares.set_policy(node, "soft")
    with shares.Loads(node, [(("--compute", 30), LOAD), (("--compute", 40), LOAD)]) as loads:
        loads.window(1)

        def one(number):
            wanted = (60, 30)[number % 2]
            fair = dict(zip(loads.shims(), (100 * wanted / (wanted + 40), 100 * 40 / (wanted + 40))))
            changes.measure("share", lambda: t.command(t.CGPU, "set", "m0", "--compute", str(wanted)),
                            lambda: fair)

        until_counted(changes, ["share"], one)


def of_policy(node, changes):
    with shares.Loads(node, [(("--compute", 30), LOAD), (("--compute", 30), LOAD)]) as loads:
        loads.window(1)

        def one(number):
            policy, share = (("fixed", 30), ("soft", 50))[number % 2]
            fair = dict.fromkeys(loads.shims(), share)
            changes.measure("policy", lambda: shares.set_policy(node, policy), lambda: fair)

        until_counted(changes, ["policy"], one)


def of_members(node, changes):
    shares.set_policy(node, "preempt")
    with shares.Loads(node, [((), LOAD)] * 2) as loads:
        loads.window(1)

        def one(_):
            guest = shares.Loads(node, [((), LOAD)], first=2)
            changes.measure("arrival", guest.__enter__,
                            lambda: dict.fromkeys(loads.shims() + guest.shims(), 100 / 3),
                            lambda samples: next(passed for passed, groups in samples
                                                 if guest.shims()[0] in groups))
            changes.measure("exit", guest.kill, lambda: dict.fromkeys(loads.shims(), 50))

        until_counted(changes, ["arrival", "exit"], one)


def p90(figures):
    return statistics.quantiles(figures, n=10, method="inclusive")[8]


def measure(node, _):
    changes = Changes(node)
    of_share(node, changes)
    of_policy(node, changes)
    of_members(node, changes)
    for kind, figures in changes.figures.items():
        print("%s: p50 %.0f, p90 %.0f, worst %.0f ms of %d changes" %
              (kind, statistics.median(figures), p90(figures), max(figures), len(figures)))
    print("share-settle: %.0f ms" % p90([one for figures in changes.figures.values() for one in figures]))


if __name__ == "__main__":
    sys.setswitchinterval(0.001)
    shares.run(measure)
