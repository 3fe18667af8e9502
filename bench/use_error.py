"""How far what `cgpu top` says each container used is from the accounting of the GPU's engines, with
the switches: root's `cgpu run` on a simulated GPU, under all six policies, with loads that fill the
GPU and loads that pause. Windows of 4 s (SECONDS=4), WINDOWS=3 of each mix, in points of the GPU's time.

Where the GPU is full, or one container has it for itself, the driver's lists say all. Where several
pause at times of chance, whose pause was how long is an estimate (src/governor/use_counter.h): mixes
of the second kind. POLICIES="fixed soft": these alone. Needs root; prints every window; the last line
is the worst of all.
"""
import bisect
import json
import os
import subprocess

import shares
from shares import t

POLICIES = os.environ.get("POLICIES", "fair preempt weight fixed soft native").split()
SECONDS = float(os.environ.get("SECONDS", "4"))
WINDOWS = int(os.environ.get("WINDOWS", "3"))

QUEUED = shares.queued(1000)


def service(rate, us, seed):
    return ("--rate", rate, "--kernel-us", us, "--seed", seed)


MIXES = {
    "plain": {
        "full": [QUEUED],
        "full, full": [QUEUED, QUEUED],
        "full, service": [QUEUED, service(40, 2000, 1)],
        "full, waits": [QUEUED, ("--queue", 1, "--kernel-us", 1000)],
        "full, full, idle": [QUEUED, QUEUED, service(1, 100, 2)],
        "service": [service(40, 5000, 3)],
    },
    "pauses": {
        "duty 30, duty 10": [("--duty", 30, "--period-ms", 100), ("--duty", 10, "--period-ms", 70)],
        "services 20, 10": [service(40, 5000, 4), service(20, 5000, 5)],
        "services 5, 5": [service(50, 1000, 6), service(5, 10000, 7)],
        "three": [service(40, 5000, 8), service(10, 10000, 9), service(100, 1000, 10)],
    },
}


def flags(policy, members):
    share = {"fixed": ("--compute", 90 // members), "soft": ("--compute", 90 // members),
             "weight": ("--weight", 2)}
    return share.get(policy, ())


class Truth:
    """The engines' accounting over time: points of (time, what each shim's groups had by then)."""

    def __init__(self, samples):
        self._times = [time for time, _ in samples]
        self._had = [had for _, had in samples]

    def at(self, time_ns, shim):
        after = bisect.bisect(self._times, time_ns)
        t.check(0 < after < len(self._times), "no sample around %d" % time_ns)
        begin, end = self._times[after - 1], self._times[after]
        low, high = (self._had[i].get(shim, 0) for i in (after - 1, after))
        return low + (high - low) * (time_ns - begin) / (end - begin)


class TimedSampler(shares.Sampler):
    """Counts the switch to a group as its use, as the driver's samples do."""

    def look(self):
        books = self.books()
        return shares.time.monotonic_ns(), {group["pid"]: t.use_ns(books, group)
                                            for group in books["gpus"][0]["groups"]}


def measure(node, title, policy, members, errors):
    with shares.Loads(node, [(flags(policy, len(members)), words) for words in members]) as loads:
        with TimedSampler(node, 0.004) as sampler:
            out = subprocess.run([t.CGPU, "top", "--json", "-n", str(WINDOWS + 1), "-d", str(SECONDS),
                                  "--node", node.name], check=True, stdout=subprocess.PIPE, text=True)
        truth = Truth(sampler.samples)
        for line in out.stdout.splitlines()[1:]:  # the first has the beginning in it
            (card,) = json.loads(line)
            span = card["to_ns"] - card["from_ns"]
            said = {row["name"]: row["used_percent"] for row in card["containers"]}
            said = [said["m%d" % i] for i in range(len(members))]
            had = [100 * (truth.at(card["to_ns"], shim) - truth.at(card["from_ns"], shim)) / span
                   for shim in loads.shims()]
            worst = max(abs(a - b) for a, b in zip(said, had))
            errors.append(worst)
            print("%s, %s: %s of %s, off by %.2f points" %
                  (policy, title, shares.percent(said), shares.percent(had), worst), flush=True)


def main(node, _):
    errors = {kind: [] for kind in MIXES}
    for policy in POLICIES:
        shares.set_policy(node, policy)
        for kind, mixes in MIXES.items():
            for title, members in mixes.items():
                measure(node, title, policy, members, errors[kind])
    for kind, values in errors.items():
        print("%s: mean %.2f, worst %.2f points, %d windows" %
              (kind, sum(values) / len(values), max(values), len(values)))
    print("use-error: %.2f points" % max(max(values) for values in errors.values()))


if __name__ == "__main__":
    shares.run(main)
