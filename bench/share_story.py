"""The two stories of docs/explanation/compute.md, on a simulated GPU: samples and pictures of them, in docs/pictures or
in the folder that is named.

* shares: three containers with full queues of kernels of 1 ms live through changes of weights, policy and
  work; what each has of the GPU in windows of 100 ms, by the accounting of the GPU's engines.
* priority: an online service (1000 requests at times of chance, always the same ones, 40 a second, each a kernel of 2 ms) alone and
  beside offline jobs (full queues of kernels of 10 to 100 ms), under the policies native and preempt, and
  with `--priority high`. A latency is cgpu-burn's own: from when a request was due until its end was seen.
  The node's other GPU is at work meanwhile: the engines of one that is idle altogether look for work only
  each millisecond, which no real GPU does, and which would make the service slowest where it is alone.

What is measured while the machine itself was late is repeated, twice at the most. STORIES="shares": that
one alone. Needs root; prints what the pictures tell.
"""
import json
import os
import signal
import sys
import time

import draw_shares
import shares
from shares import t

STORIES = os.environ.get("STORIES", "shares priority").split()
TRIES = 3
S = 1000000000
FIRST_CARD = ("--gpus", "device=0")
STEP_S = 0.1


def burn_of(process):
    """The cgpu-burn that this `cgpu run` runs."""
    waiting = [process.popen.pid]
    while waiting:
        pid = waiting.pop()
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            if file.read().strip() == "cgpu-burn":
                return pid
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="utf-8") as file:
            waiting += map(int, file.read().split())
    raise t.Failure("%s runs no cgpu-burn" % process.name)


def cgpu_set(name, *words):
    t.command(t.CGPU, "set", name, *map(str, words))


class Story:
    """Containers a, b and c, and what happens to them. Times are of the GPU, from the begin."""

    NAMES = ("a", "b", "c")
    # Not much in the queue: one that stops has soon nothing more to do.
    LOAD = ("--kernel-us", 1000, "--queue", 30)

    def __init__(self, node):
        self._node = node
        self.events = []  # (seconds, text, {name: percent promised from then on})
        self._shims = {}

    def _now(self):
        return (self._sampler.samples[-1][0] - self._begin) / S

    def _until(self, seconds):
        self._sampler.sleep_until(self._begin + seconds * S)

    def _event(self, seconds, text, promised, *steps):
        self._until(seconds)
        self.events.append((self._now(), text, promised))
        for step in steps:
            step()

    def _pause(self, loads, how):
        return lambda: os.kill(burn_of(loads.processes()[0]), how)

    def _commands(self, loads, guest):
        """All but the begin: who has what is what docs/explanation/compute.md says, of those who have work."""
        a_stops, a_goes_on = (self._pause(loads, how) for how in (signal.SIGSTOP, signal.SIGCONT))
        c_stops, c_goes_on = (self._pause(guest, how) for how in (signal.SIGSTOP, signal.SIGCONT))
        self._event(7, "cgpu set a --weight 5", {"a": 62.5, "b": 12.5, "c": 25},
                    lambda: cgpu_set("a", "--weight", 5))
        self._event(10, "c has no work: a and b have its part", {"a": 100 * 5 / 6, "b": 100 / 6, "c": 0}, c_stops)
        self._event(13, "c has work again", {"a": 62.5, "b": 12.5, "c": 25}, c_goes_on)
        # Weights are taken back first: a policy that knows none is refused while somebody has one.
        self._event(16, "cgpu policy 0 soft; --compute 50, 30 and 20",
                    {"a": 50, "b": 30, "c": 20},
                    lambda: cgpu_set("a", "--weight", 1), lambda: cgpu_set("c", "--weight", 1),
                    lambda: shares.set_policy(self._node, "soft"),
                    lambda: cgpu_set("a", "--compute", 50), lambda: cgpu_set("b", "--compute", 30),
                    lambda: cgpu_set("c", "--compute", 20))
        self._event(19, "a has no work: soft lends its part", {"a": 0, "b": 60, "c": 40}, a_stops)
        self._event(22, "cgpu policy 0 fixed: its part stays unused", {"a": 0, "b": 30, "c": 20},
                    lambda: shares.set_policy(self._node, "fixed"))
        self._event(25, "a has work again", {"a": 50, "b": 30, "c": 20}, a_goes_on)
        self._event(28, "c ends", {"a": 50, "b": 30, "c": 0}, guest.kill)
        self._event(31, "cgpu set b --compute 50", {"a": 50, "b": 50, "c": 0},
                    lambda: cgpu_set("b", "--compute", 50))
        self._until(34 + STEP_S)

    def play(self):
        """Returns the clock."""
        shares.set_policy(self._node, "weight")
        with shares.Loads(self._node, [(FIRST_CARD, self.LOAD)] * 2, names=self.NAMES[:2]) as loads:
            loads.window(1)
            with shares.Sampler(self._node, 0.005) as self._sampler, shares.Clock() as clock:
                self._begin = self._sampler.samples[0][0]
                self.events.append((0, "a and b, policy weight", {"a": 50, "b": 50, "c": 0}))
                self._until(3)
                guest = shares.Loads(self._node, [((*FIRST_CARD, "--weight", 2), self.LOAD)], names=self.NAMES[2:])
                guest.__enter__()
                self._shims = dict(zip(self.NAMES, loads.shims() + guest.shims()))
                arrival = next(passed for passed, groups in self._sampler.samples
                               if self._shims["c"] in groups)
                self.events.append(((arrival - self._begin) / S, "c comes: cgpu run --weight 2",
                                    {"a": 25, "b": 25, "c": 50}))
                self._commands(loads, guest)
        return clock

    def _had(self, shim):
        """Its time at the end of each window, between two samples in proportion."""
        had, at, last = [], 0, 0
        samples = self._sampler.samples
        for number in range(round(34 / STEP_S) + 1):
            when = self._begin + number * STEP_S * S
            while at + 1 < len(samples) and samples[at + 1][0] <= when:
                at += 1
            (begin, before), (end, after) = samples[at], samples[at + 1]
            # One that is gone keeps what it had.
            low = before.get(shim, last)
            high = after.get(shim, low)
            last = low + (high - low) * (when - begin) / (end - begin)
            had.append(last)
        return had

    def samples(self, when):
        members = []
        for name in self.NAMES:
            had = self._had(self._shims[name])
            members.append({
                "name": name,
                "measured": [round(100 * (b - a) / (STEP_S * S), 2) for a, b in zip(had, had[1:])],
                "promised": [[round(at, 3), round(promised[name], 2)]
                             for at, _, promised in self.events]})
        return {"kind": "shares", "title": "Who has how much of a GPU, while things change",
                "note": "Simulated A10, %s, windows of 100 ms. All queues are full; a and b begin, with equal weights." % when,
                "step_s": STEP_S, "members": members,
                "events": [{"at_s": round(at, 3), "text": text} for at, text, _ in self.events[1:]]}


def tell_shares(samples):
    """Prints the labels of the picture, and how far each is from what was promised."""
    worst = 0
    for since, until, measured in draw_shares.Shares(samples).spans():
        promised = [[percent for at, percent in one["promised"] if at <= since][-1]
                    for one in samples["members"]]
        worst = max([worst] + [abs(a - b) for a, b in zip(measured, promised)])
        print("%4.1f to %4.1f s: %s of %s" % (since, until, shares.percent(measured), shares.percent(promised)))
    print("once settled, worst by %.2f points" % worst)


def story_of_shares(node, when):
    for tried in range(1, TRIES + 1):
        story = Story(node)
        clock = story.play()
        if not clock.late():
            break
        print("try %d: the machine was late by %.0f ms" % (tried, 1000 * clock.worst))
    samples = story.samples(when)
    tell_shares(samples)
    return samples


REQUESTS, RATE = 1000, 40
SERVICE = ("--kernel-us", 2000, "--queue", 64, "--rate", RATE, "--count", REQUESTS, "--each", "--seed", 1)
JOBS_US = {"beside one offline job": (20000,), "beside four": (10000, 20000, 50000, 100000)}
CASES = {"beside them, policy native": ("native", ()), "beside them, policy preempt": ("preempt", ()),
         "with --priority high": ("preempt", ("--priority", "high"))}
WINDOW_S = 20  # of the 25 that the requests take


def requests(node, policy, flags, jobs_us):
    """Latencies in microseconds, and what the jobs have of the GPU."""
    shares.set_policy(node, policy)
    members = [(FIRST_CARD, shares.queued(one)) for one in jobs_us] + [((*FIRST_CARD, *flags), SERVICE)]
    for tried in range(1, TRIES + 1):
        with shares.Loads(node, members) as loads, shares.Clock() as clock:
            (*_, service) = loads.processes()
            got, _ = loads.window(WINDOW_S)
            shares.quietly(service, '^{"launches":')
            latencies = [round(json.loads(one[0])["each_us"]) for one in service.said('^{"each_us":.*')]
        t.check(len(latencies) == REQUESTS, "%d requests only" % len(latencies))
        if not clock.late():
            break
        print("try %d: the machine was late by %.0f ms" % (tried, 1000 * clock.worst))
    return sorted(latencies), sum(got[:-1])


def curve(name, latencies, kept):
    p50, p99 = (draw_shares.at_part(latencies, part) / 1000 for part in (0.5, 0.99))
    print("  %s: p50 %.1f ms, p99 %.1f ms, worst %.1f ms; the jobs have %s of the GPU" %
          (name, p50, p99, latencies[-1] / 1000, kept), flush=True)
    return {"name": name, "us": latencies, "values": ["%.1f ms" % p50, "%.1f ms" % p99, kept]}


def story_of_priority(node, when):
    awake = node.run([shares.BURN, "--json", "--gpu", "0"], flags=("--gpus", "device=1"), name="awake")
    shares.quietly(awake, '^{"gpu":')
    print("an online service:")
    alone, _ = requests(node, "preempt", (), ())
    panels = []
    for title, jobs_us in JOBS_US.items():
        print("%s:" % title)
        curves = [curve("alone", alone, "-")]
        for name, (policy, flags) in CASES.items():
            latencies, kept = requests(node, policy, flags, jobs_us)
            curves.append(curve(name, latencies, "%.1f %%" % kept))
        panels.append({"title": title, "curves": curves})
    awake.kill()
    return {"kind": "latencies", "title": "An online service beside offline jobs",
            "note": "Simulated A10, %s: %d requests of 2 ms at times of chance, %d a second; the jobs' queues are "
                    "full" % (when, REQUESTS, RATE),
            "columns": ["p50", "p99", "the jobs have"], "panels": panels}


def write(folder, name, samples):
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(samples, separators=(",", ":")).replace("},{", "},\n{") + "\n")
    with open(os.path.join(folder, name + ".svg"), "w", encoding="utf-8") as file:
        file.write(draw_shares.draw(samples))


def measure(node, _):
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(shares.ROOT, "docs", "pictures")
    os.makedirs(folder, exist_ok=True)
    when = time.strftime("%Y-%m-%d", time.gmtime())
    for name, story in (("shares", story_of_shares), ("priority", story_of_priority)):
        if name in STORIES:
            write(folder, name, story(node, when))


if __name__ == "__main__":
    shares.run(measure, "a10:2")
