"""Compute time: does each tenant get its share of the GPU, and does high priority go first?"""
import json
import statistics

import cgpu_test as t
import priority_wait
import share_error
import shares
from report.findings import Section, at_most, percentiles

# Policies by which containers ask for shares; and those that promise each the same: (words of `cgpu policy`, shares).
ASKED = ("weight", "fixed", "soft")
SAME = {"preempt": ((), (50, 50)), "fair": (("--max-inst", "4"), (25, 25))}
KERNEL_US = 1000
WAIT_GOAL_US = 1500  # bench-priority-wait
ERROR_GOAL, WORST_GOAL = 1.5, 3  # points; bench-share-error
GREEDY_US = (20000,)  # kernels of the neighbour
SHORT_US = 100  # and of the work that is to go first, on a real GPU


class Rates:
    """The same as shares.Loads for loads whose time nobody counts: each says every second how much it did.
    A share is its part of what one of them does alone, in percent."""

    def __init__(self, host, members, words, alone):
        self._host, self._members, self._words, self._alone = host, members, words, alone

    def __enter__(self):
        self.processes = [self._host.run(self._words, mem="2048MiB", flags=flags, name="m%d" % number,
                                         env=self._host.cuda_environment())
                          for number, (flags, _) in enumerate(self._members)]
        for process in self.processes:
            process.expect('"second"')
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()

    def rates(self, seconds):
        """Launches a second of each, over whole seconds of their own."""
        for process in self.processes:
            process.pass_over()
        return [statistics.mean(json.loads(process.expect('^{"second".*').group(0))["launches"]
                                for _ in range(max(1, round(seconds)))) for process in self.processes]

    def window(self, seconds):
        return [100 * rate / self._alone for rate in self.rates(seconds)]


def steps_of(host):
    """Steps of cgpu-burn's kernels by CUDA in a microsecond, as it finds out on the idle GPU."""
    process = host.run([shares.BURN, "--cuda", "--json", "--seconds", "1"], mem="2048MiB", name="alone",
                       env=host.cuda_environment())
    begin = json.loads(process.expect('^{"gpu".*').group(0))
    process.end()
    return begin["steps"] / begin["kernel_us"]


def _burn(steps, kernel_us, *words):
    """The words of cgpu-burn by CUDA, with kernels of this length."""
    return [shares.BURN, "--cuda", "--json", "--kernel-us", str(kernel_us), "--steps", str(round(steps * kernel_us)),
            *map(str, words)]


class Meter:
    """Measures what tenants get: by the simulated engines' accounting, or by what the loads say."""

    def __init__(self, host, settle_s, window_s, tries):
        self._host, self._settle_s, self._window_s, self._tries = host, settle_s, window_s, tries
        self.windows = self.late = 0
        self.by_accounting = host.simulated and host.load is None
        if not self.by_accounting:
            self._words = host.load or _burn(steps_of(host), KERNEL_US, "--queue", 16)
            with Rates(host, [((), ())], self._words, 1) as one:
                (self._alone,) = one.rates(max(2, window_s))

    def shares(self, flags):
        """Percent that each gets."""
        members = [(one, shares.queued(KERNEL_US)) for one in flags]
        self.windows += 1
        if self.by_accounting:
            got, late = shares.window(self._host, members, self._settle_s, self._window_s, self._tries)
            self.late += late != ""
            return got
        with Rates(self._host, members, self._words, self._alone) as loads:
            loads.rates(self._settle_s)
            return loads.window(self._window_s)

    def notes(self, section):
        section.note("Times are those that the simulated engines count." if self.by_accounting else
                     "Shares are what each load says that it did, over what one did alone.")
        if self.late:
            section.note("In %d of %d windows the machine itself was late.%s" % (
                self.late, self.windows, " Then the policy fixed comes to less." if self._host.cgpu else ""))


def set_policy(host, *words):
    """Gives these words to `cgpu policy`. Waits for the end of containers first: a policy that cannot give what
    one was promised would be refused."""
    t.wait_for(lambda: not host.containers(), "a container is left")
    where = ("--node", host.name) if host.simulated else ()
    t.command(t.CGPU, "policy", "0", *words, *where)


def _mixes(policy, quick):
    """Lists what tenants are promised, and the flags by which they ask for it."""
    if policy in SAME:
        return [(SAME[policy][1], [()] * len(SAME[policy][1]))]
    names = ("25/75",) if quick else ("25/75", "10/90", "25x4")
    # Without cgpu, too, the words of others may name the share.
    return [(share_error.MIXES[name], [share_error.flags(policy, one) for one in share_error.MIXES[name]])
            for name in names]


def _errors(host, meter, policy, rounds, quick):
    """How far each tenant is from its promise, a list for each window; and the bars of the first round."""
    errors, bars = [], []
    for number in range(rounds):
        for promised, flags in _mixes(policy, quick):
            got = meter.shares(flags)
            errors.append([abs(a - b) for a, b in zip(got, promised)])
            if number == 0 and not bars:
                bars = [("%s, %g %%" % (policy if host.cgpu else "promised", one), share, one)
                         for share, one in zip(got, promised)]
    return errors, bars


def measure_shares(host, rounds, quick):
    section = Section("shares", "Shares of compute time", "Tenants that always have work, in kernels of 1 ms. An error is "
                      "how far a tenant is from its promised share, in points of the GPU's time.")
    meter = Meter(host, 0.5 if quick else 1, 2 if quick else 5, 1 if quick else 2)
    bars = []
    for policy in (*ASKED, *SAME) if host.cgpu else ("none",):
        if host.cgpu:
            set_policy(host, policy, *SAME.get(policy, ((), ()))[0])
        errors, drawn = _errors(host, meter, policy, rounds, quick)
        bars += drawn
        named = "Policy %s" % policy if host.cgpu else "No policy"
        section.figure(policy + "_mean", named + ": error, mean of the tenants", "points",
                       [statistics.mean(window) for window in errors], at_most(ERROR_GOAL))
        section.figure(policy + "_worst", named + ": error, the tenant that is furthest off", "points",
                       [max(window) for window in errors], at_most(WORST_GOAL), worst=True)
    if host.cgpu:
        set_policy(host, "--reset")
    section.bars("What two tenants got; the lines are what they were promised", "%", bars)
    meter.notes(section)
    return section


def _waits(host, record, flags, seconds, tries):
    """How long starts waited, in microseconds, in a window in which the machine was not late if there is one."""
    for _ in range(tries):
        waits, _, clock = priority_wait.window(host, record, "busy", GREEDY_US, seconds, flags)
        if not clock.late():
            break
    return waits


def latencies(host, steps, flags, greedy, count):
    """Latencies of a service's launches by cgpu-burn, in microseconds, beside a greedy neighbour or alone."""
    environment = host.cuda_environment()
    if greedy:
        neighbour = host.run(_burn(steps, GREEDY_US[0], "--queue", 16), mem="2048MiB", name="greedy", env=environment)
        neighbour.expect('"second"')
    gaps = priority_wait.GAPS["busy"]
    service = host.run(_burn(steps, SHORT_US, "--queue", 1, *gaps, "--each", "--count", count), mem="2048MiB",
                       flags=flags, name="service", env=environment)
    service.expect('^{"launches":')
    if greedy:
        neighbour.kill()
    return [json.loads(one.string)["each_us"] for one in service.said('^{"each_us"')]


def _cases(host, seconds, tries):
    """{name: microseconds} of work beside a greedy neighbour, with and without priority."""
    asked = {"ordinary": ()}
    if host.cgpu:
        set_policy(host, "preempt")
        asked["high priority"] = priority_wait.HIGH
    if host.simulated:
        record = priority_wait.Record(host)
        return {name: _waits(host, record, flags, seconds, tries) for name, flags in asked.items()}
    steps, count = steps_of(host), round(seconds * 50)
    found = {"alone": latencies(host, steps, (), False, count)}
    found.update({name: latencies(host, steps, flags, True, count) for name, flags in asked.items()})
    return found


def measure_priority(host, rounds, quick):
    section = Section("priority", "Priority", "Short work comes now and then, beside a greedy neighbour that keeps its queue "
                      "full of kernels of %d ms.%s" % (GREEDY_US[0] // 1000, " A wait is from when the GPU can see the work "
                                                       "until it runs." if host.simulated else ""))
    if host.load:
        section.give_up("it needs cgpu-burn, which says how long each launch took; --load names another program.")
        return section
    found = {}
    for _ in range(rounds):
        for name, waits in _cases(host, *((2, 1) if quick else (10, 2))).items():
            found.setdefault(name, []).append(waits)
    what = "wait" if host.simulated else "launch until its end"
    for name, lists in found.items():
        goal = at_most(WAIT_GOAL_US) if name == "high priority" and host.simulated else None
        for part, label in ((0.5, "p50"), (0.99, "p99")):
            section.figure("%s_%s" % (name.replace(" ", "_"), label), "%s: %s, %s" % (name.capitalize(), what, label), "µs",
                           [percentiles(waits, (part,))[0] for waits in lists], goal if label == "p99" else None)
    section.curves("How long this part of all work %s at most" % ("waits" if host.simulated else "takes"), "µs",
                   {name: sum(lists, []) for name, lists in found.items()})
    if not host.cgpu:
        section.note("Without cgpu no tenant has priority.")
    return section
