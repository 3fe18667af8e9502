"""Whether a GPU's time is shared out as docs/explanation/compute.md promises beyond what share-error asks: root's
`cgpu run` on a simulated GPU, by the accounting of its engines.

* Fixed means fixed: 30 % alone on an idle GPU is 30 %, and the rest is idle. Kernels of 0.1, 1 and 10 ms.
* fair leaves idle slots idle: one and two containers get 1/max_inst each, with a max_inst of 20 (the
  default) and of 4, and the rest is idle. Kernels of 1 ms.
* soft gives back at once: one of 70 % has nothing to do while one of 30 %, maximum 100, has the whole GPU;
  then it gets work for about a second, 25 times. Until its first kernel runs, by the GPU's own record of
  starts, the switch to it included; and the end of the first window of 100 ms of the GPU's time, from that
  kernel on, from which on all windows for a second are within 3 points of 70 and 30.

Queues are always full, windows 10 s long, WINDOWS each. An error is the difference in points of the GPU's
time, also of what is to be idle; switches are part of either. What is measured while the machine itself was
late is repeated, and counted. Needs root; the last line is the worst error of the first two.
"""
import math
import os
import time

import share_settle
import shares
from priority_wait import Record
from shares import t

WINDOWS = int(os.environ.get("WINDOWS", "2"))
ARRIVALS = int(os.environ.get("ARRIVALS", "25"))
WINDOW_S, SETTLE_S = 10, 1
TRIES, REPEATED = 3, 20
MS = 1000000
KERNELS = {"0.1 ms": 100, "1 ms": 1000, "10 ms": 10000}
# 750 ms of work, which take 1.07 s at 70 %, each 2.5 s.
BURST = ("--kernel-us", 1000, "--queue", 750, "--duty", 30, "--period-ms", 2500)
IDLE_S = 0.2


class Windows:
    """Measures loads that are to get so many percent each, and to leave the rest."""

    def __init__(self, node):
        self._node = node
        self._repeated = self._still_late = 0
        self.worst = 0

    def _measure(self, members):
        for tried in range(1, TRIES + 1):
            with shares.Loads(self._node, members) as loads:
                loads.window(SETTLE_S)
                got, clock = loads.window(WINDOW_S)
            if not clock.late():
                return got, loads.idle, ""
            self._repeated += tried < TRIES
        self._still_late += 1
        return got, loads.idle, "; the machine was late by %.0f ms" % (1000 * clock.worst)

    def add(self, title, members, promised):
        for _ in range(WINDOWS):
            got, idle, late = self._measure(members)
            wanted = [promised] * len(members) + [100 - promised * len(members)]
            error = max(abs(a - b) for a, b in zip([*got, idle], wanted))
            self.worst = max(self.worst, error)
            print("%s: %s of %s each, idle %.1f, worst by %.2f points%s" %
                  (title, shares.percent(got), "%g" % promised, idle, error, late), flush=True)

    def tell(self):
        print("windows repeated because the machine was late: %d; late all the same: %d" %
              (self._repeated, self._still_late))


def fixed(node, windows):
    shares.set_policy(node, "fixed")
    for kernel, kernel_us in KERNELS.items():
        windows.add("fixed, 30 %% alone, kernels of %s" % kernel,
                    [(("--compute", 30), shares.queued(kernel_us))], 30)


def fair(node, daemon, windows):
    """Places of 20 and of 4, for which cgpud is started anew."""
    for max_inst in (20, 4):
        daemon.stop()
        daemon = shares.start_cgpud(node, shares.RUNC, "max_inst: %d\n" % max_inst)
        shares.set_policy(node, "fair")
        for count in (1, 2):
            windows.add("fair, max_inst %d, containers: %d" % (max_inst, count),
                        [((), shares.queued(1000))] * count, 100 / max_inst)
    daemon.stop()


class Arrivals:
    """Measures a member that had nothing to do when it comes to a GPU that another has
    meanwhile."""

    def __init__(self, node, loads):
        self._node = node
        self._comer, self._other = loads.shims()
        self._record = Record(node)
        self.waits_us, self.settled_ms, self.lent = [], [], []
        self.repeated = 0

    def _of_comer(self, sample):
        return sample[1][self._comer]

    def _idle_part(self, samples):
        """Returns the other's part of the GPU while the one that came had nothing, in percent."""
        (begin, had), (end, has) = samples[0], samples[-1]
        return 100.0 * (has[self._other] - had[self._other]) / (end - begin)

    def _wait_idle(self):
        """Until it has had nothing for a while."""
        with shares.Sampler(self._node, 0.01) as sampler:
            def resting():
                end, has = sampler.samples[-1]
                before = [one for one in sampler.samples if one[0] <= end - IDLE_S * 1000 * MS]
                return before and self._of_comer(before[-1]) == has[self._comer]
            until = time.monotonic() + t.DEADLINE
            while not resting():
                t.check(time.monotonic() < until, "it is never idle")
                time.sleep(0.02)

    def _next(self):
        """Samples from its first kernel's begin for a second, when that was, what the other had before, and the
        wait."""
        self._wait_idle()
        self._record.since()
        with shares.Sampler(self._node) as sampler, shares.Clock() as clock:
            nothing = self._of_comer(sampler.samples[0])
            until = time.monotonic() + t.DEADLINE
            while self._of_comer(sampler.samples[-1]) == nothing:
                t.check(time.monotonic() < until, "it gets nothing")
                time.sleep(0.005)
            at = next(i for i, one in enumerate(sampler.samples) if self._of_comer(one) > nothing)
            # All that it has had of the GPU by then it had since its first kernel began.
            begin = sampler.samples[at][0] - (self._of_comer(sampler.samples[at]) - nothing)
            horizon = share_settle.HORIZON_MS + share_settle.WINDOW_MS // 2
            sampler.sleep_until(begin + horizon * MS)
        gpu = self._record.since()
        (group,) = [one["key"] for one in t.groups(gpu) if one["pid"] == self._comer]
        start = next(one for one in gpu["starts"] if one["group"] == group)
        wait_us = (start["start_ns"] - start["visible_ns"]) / 1000
        return sampler.samples[at - 1:], begin, self._idle_part(sampler.samples[:at]), wait_us, clock

    def measure(self):
        while len(self.waits_us) < ARRIVALS:
            samples, begin, lent, wait_us, clock = self._next()
            settled = share_settle.settled_ms(samples, begin, {self._comer: 70, self._other: 30})
            late = clock.late() and self.repeated < REPEATED
            if late:
                self.repeated += 1
            else:
                self.waits_us.append(wait_us)
                self.settled_ms.append(settled)
                self.lent.append(lent)
            print("arrival %d: the other had %.1f %%; the first kernel after %.2f ms, 70 and 30 from %.0f ms on%s" %
                  (len(self.waits_us), lent, wait_us / 1000, settled,
                   ", not counted: the machine was late by %.0f ms" % (1000 * clock.worst) if late else ""),
                  flush=True)

    def tell(self):
        print("arrivals repeated because the machine was late: %d" % self.repeated)
        print("soft lends: the other has %.1f %% of the GPU at the least while nobody else has work" %
              min(self.lent))
        for what, figures, unit in (
                ("its first kernel runs after", [one / 1000 for one in self.waits_us], "%.2f"),
                ("70 and 30 from the end of a window at", self.settled_ms, "%.0f")):
            form = "soft gives back: %s p50 U, p90 U, worst U ms (%d arrivals)".replace("U", unit)
            print(form % (what, percentile(figures, 0.5), percentile(figures, 0.9), max(figures), len(figures)))


def percentile(figures, part):
    return sorted(figures)[math.ceil(part * len(figures)) - 1]


def soft(node):
    shares.set_policy(node, "soft")
    members = [(("--compute", 70), BURST),
               (("--compute", 30, "--compute-max", 100), shares.queued(1000))]
    with shares.Loads(node, members) as loads:
        arrivals = Arrivals(node, loads)
        arrivals.measure()
    return arrivals


def measure(node, daemon):
    windows = Windows(node)
    fixed(node, windows)
    arrivals = soft(node)
    fair(node, daemon, windows)
    windows.tell()
    arrivals.tell()
    print("share-promises: %.2f points" % windows.worst)


if __name__ == "__main__":
    shares.run(measure)
