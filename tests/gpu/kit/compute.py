"""Orders about channels as cgpu gives them: does the driver take them, how long do they take while kernels
of different lengths run, what do they hold up for others, do they work; and the shares that time slices
give. By gpu-orders: a CUDA program and beside it a client of its own, in one process, as all clients of
a container are its shim's. So all of it but the last rows is asked without cgpu. These are of containers:
their own orders stop nothing, and where cgpud runs they get what their weights say."""
import contextlib
import json
import select
import statistics
import subprocess

from kit import daemon
from kit.burns import Burn
from kit.report import Skip

KERNELS_US = (100, 1000, 10000, 100000)
PERSISTENT_US = 20000000
RATIOS = (1, 2, 3, 4, 6, 9)  # to one
BUSY_US, BYSTANDER_US = 1000, 50  # kernels of one program, and of another one beside it
PERIOD_US = 20000  # of two slices together
SHARE_POINTS = 3
# Speed of the simulated node's libcuda; on a busy machine it cannot be measured there.
SIMULATED_STEPS_PER_US = 1000
WEIGHTS = (3, 9)  # to one


def lines_of(done):
    return [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]


def length(kernel_us):
    return "a persistent kernel" if kernel_us == PERSISTENT_US else "kernels of %g ms" % (kernel_us / 1000)


def events(report):
    """Whether the driver tells who was on the GPU when: cgpu measures by nothing else."""
    done = report.do(*report.plain(report.tool("gpu-orders"), "events", "--seconds", "0.5"))
    report.keep("events", [done.status, done.output, done.errors])
    report.judge("context switches in an event buffer that may only be read", done.status == 0,
                 done.last_words())


def events_of_work(report):
    """The same while two programs take turns: it must name them. It is read every 0.2 ms, to see when
    the driver writes."""
    burns = [report.start(report.plain(report.tool("cgpu-burn"), "--cuda", "--steps", "1000000", "--seconds", "20"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
             for _ in range(2)]
    try:
        for burn in burns:
            burn.stdout.readline()  # that it begins
        done = report.do(*report.plain(report.tool("gpu-orders"), "events", "--seconds", "10", "--enough",
                                       "100" if report.quick else "1000", "--every-us", "200"))
    finally:
        for burn in burns:
            burn.kill()
            burn.communicate()
    said = lines_of(done)
    report.keep("events of work", [done.status, said, done.errors])
    name = "two programs' context switches are told, with their processes"
    if done.status != 0 or not said:
        report.judge(name, False, done.last_words())
        return
    found = said[0]
    report.judge(name, 0 < found["switches"] == found["named"], "%d, %d of them with a process" % (
        found["switches"], found["named"]))
    waits = found["between_reads_us"] or {"p50": 0, "p90": 0, "max": 0}
    report.judge("the list of context switches, read every 0.2 ms, loses none", found["lost"] == found["backwards"] == 0,
                 "%d reads found some, %d at the most; %d us from one to the next (median), %d at the longest; "
                 "%d us between two records at the longest; records were lost before %d reads; %d are older than the "
                 "one before" % (found["reads"], found["most"], waits["p50"], waits["max"], found["longest_us"],
                                 found["lost"], found["backwards"]))


def one_order(report, kernel_us, said):
    name = "%s, %s" % (said["order"], length(kernel_us))
    detail = "%s; median %s us, longest %s us of %d" % (
        said["says"], said["us"]["p50"], said["us"]["max"], said["tries"])
    if said["undo_us"]:
        detail += "; undone in %s us, longest %s us; %d launches ended before, %d while it held" % (
            said["undo_us"]["p50"], said["undo_us"]["max"], said["ended_on"], said["ended_off"])
    detail += "; another client waited %d us at the most, %d us without it" % (
        said["neighbour_us"], said["neighbour_calm_us"])
    # Nobody can tell whether a persistent kernel stopped.
    works = not said["undo_us"] or kernel_us == PERSISTENT_US or said["ended_off"] * 2 <= said["ended_on"]
    # An order that cgpu does not rely on may be as it is.
    good = said["errno"] == said["status"] == 0 and not said["broken"] and (
        works or said["order"] != "FIFO_DISABLE_CHANNELS")
    report.judge(name, good, detail + ("" if works else "; it does not stop the work") + (
        "; " + said["broken"] if said["broken"] else ""))


def orders(report, per_us, kernel_us, first):
    """Steps in a microsecond. With the first, what else is asked."""
    seconds = "0.1" if report.quick else "1.5"
    words = ["orders", "--kernel-us", str(kernel_us), "--seconds", seconds]
    if per_us:
        words += ["--steps", str(int(per_us * kernel_us))]
    done = report.do(*report.plain(report.tool("gpu-orders"), *words))
    said = lines_of(done)
    report.keep("orders, " + length(kernel_us), [done.status, said, done.errors])
    if done.status != 0 or not said:
        report.judge("orders, " + length(kernel_us), False, done.last_words())
        return per_us
    for line in said:
        if "order" in line:
            one_order(report, kernel_us, line)
        elif first and "dup" in line:
            # A channel alone is not duplicated: what the driver says to it is kept.
            report.row("duplicating a %s of another client of the same process" % line["dup"],
                       "pass" if line["dup"] == "channel" or line["status"] == 0 else "FAIL", line["says"])
        elif first and "foreign" in line:
            report.row("%s by its owner's handles on another file" % line["foreign"], "pass", line["says"])
    return said[0]["steps"] / kernel_us


class Beside:
    """gpu-orders in the background, which says that it is ready and then waits for a line."""

    def __init__(self, report, per_us, kernel_us, *words, flags=None):
        """In a slice with these flags, if there are any."""
        self._report = report
        argv = [report.tool("gpu-orders"), *words, "--kernel-us", str(kernel_us), "--steps",
                str(int(per_us * kernel_us))]
        self.process = report.start(
            report.slice(*argv, flags=flags) if flags else report.plain(*argv),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ready(self, seconds):
        """Whether it says so in time."""
        return bool(select.select([self.process.stdout], [], [], min(seconds, max(1, self._report.left())))[0]
                    and self.process.stdout.readline())

    def begin(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def says(self, name, seconds):
        """Returns what it says at its end, or None with what it said instead."""
        try:
            output, errors = self.process.communicate(timeout=min(seconds, max(1, self._report.left())))
        except subprocess.TimeoutExpired:
            return None, "no end within %d s" % seconds
        try:
            return json.loads(output.splitlines()[-1])[name], ""
        except (ValueError, KeyError, IndexError):
            return None, errors.strip()

    def kill(self):
        self.process.kill()
        self.process.communicate()


def shares(report, per_us, ratio):
    """Two programs with slices in this ratio."""
    seconds = 0.5 if report.quick else 3
    slices = (PERIOD_US // (1 + ratio), PERIOD_US * ratio // (1 + ratio))
    sharers = [Beside(report, per_us, 1000, "share", "--slice-us", str(slice_us), "--seconds", str(seconds))
               for slice_us in slices]
    name = "slices 1:%d of two programs that always want the card" % ratio
    try:
        if not all(sharer.ready(60) for sharer in sharers):
            report.judge(name, False, "one does not begin")
            return
        for sharer in sharers:
            sharer.begin()
        got = [sharer.says("ended", 30 + seconds) for sharer in sharers]
    finally:
        for sharer in sharers:
            sharer.kill()
    report.keep(name, got)
    if any(ended is None for ended, _ in got) or not sum(ended for ended, _ in got):
        report.judge(name, False, "; ".join(errors for _, errors in got))
        return
    wanted = 100 / (1 + ratio)
    percent = 100 * got[0][0] / (got[0][0] + got[1][0])
    # A simulated GPU's shares are exact in its own time, which this does not see.
    report.judge(name, report.node is not None or abs(percent - wanted) <= SHARE_POINTS,
                 "%.1f %% of %.1f %%; %d launches in %g s" % (
                     percent, wanted, got[0][0] + got[1][0], seconds))


def overlapping(launches, spans):
    """How long those took that were under way while one of the spans was."""
    return [us for begin, us in launches
            if any(begin < at + took and at < begin + us for at, took in spans)]


def held_up(report, per_us):
    """Measures how long the orders about one program hold up another one's kernels, by that one's
    clock."""
    title = "another process's kernels of %d us beside %s" % (BYSTANDER_US, length(BUSY_US))
    beside = Beside(report, per_us, BYSTANDER_US, "bystander")
    try:
        ready = beside.ready(60)
        done = report.do(*report.plain(
            report.tool("gpu-orders"), "orders", "--kernel-us", str(BUSY_US), "--steps",
            str(int(per_us * BUSY_US)), "--seconds", "0.1" if report.quick else "1"))
        launches, errors = beside.says("launches", 60) if ready else (None, "it does not begin")
    finally:
        beside.kill()
    made = [line for line in lines_of(done) if "order" in line]
    if not launches or not made:
        report.judge(title, False, errors or done.last_words())
        return
    # From the first order on the other program has the GPU's queue full.
    launches = [launch for launch in launches if launch[0] >= made[0]["at"][0][0]]
    orders_at = [span for line in made for span in line["at"] + line["undo_at"]]
    calm = [us for begin, us in launches if not overlapping([(begin, us)], orders_at)]
    for line in made:
        during = overlapping(launches, line["at"] + line["undo_at"])
        report.keep("%s, %s" % (title, line["order"]), {"during": during, "calm": calm[:1000]})
        report.judge("%s, %s" % (title, line["order"]), bool(during and calm),
                     "the longest took %d us of %d that it fell on, %d us of %d others (median %d us)" % (
                         max(during), len(during), max(calm), len(calm), statistics.median(calm))
                     if during and calm else "no kernel of it ran then")


def in_a_slice(report, per_us):
    """A container may take its own channels off the GPU."""
    done = report.do(*report.slice(report.tool("gpu-orders"), "own", "--kernel-us", "1000", "--steps",
                                   str(int(per_us * 1000)), "--seconds", "2", flags=["--mem", "2GiB"]))
    said = lines_of(done)
    report.keep("own orders in a slice", [done.status, said, done.errors])
    # Kernels of 1 ms would all end.
    report.judge("in a slice FIFO_DISABLE_CHANNELS stops the container's own channels",
                 done.status == 0 and bool(said) and said[0]["ended"] < 10,
                 "%s; %d launches ended after it" % (said[0]["says"], said[0]["ended"])
                 if said else done.last_words())


def steps_per_us(report):
    """How far a kernel counts in a microsecond; asked of the GPU once, while nothing else runs."""
    if report.node:
        return SIMULATED_STEPS_PER_US
    if "steps per us" not in report.raw:
        done = report.do(*report.plain(report.tool("cgpu-burn"), "--cuda", "--json", "--kernel-us", "1000",
                                       "--count", "1"), seconds=30)
        said = lines_of(done)
        if done.status != 0 or not said or not said[0].get("steps"):
            raise Skip("a kernel's length cannot be found out: " + done.last_words())
        report.raw["steps per us"] = said[0]["steps"] / 1000
    return report.raw["steps per us"]


def pair(report, per_us, name, flags, wanted):
    """Two containers with these flags that always want the GPU; the first one is to get so many
    percent of what they get together."""
    words = ["--kernel-us", "1000", "--steps", str(int(per_us * 1000))]
    settle, count = (1, 2) if report.quick else (2, 5)
    with contextlib.ExitStack() as ends:
        more = ends.enter_context(Burn(report, words, ["--mem", "2GiB", *flags[1]]))
        both = more.begins()  # what it asks for chooses the policy
        less = ends.enter_context(Burn(report, words, ["--mem", "2GiB", *flags[0]]))
        both = both and more.wait(1) and less.wait(1)
        first = [len(one.seconds()) + settle for one in (less, more)]
        both = both and all([one.wait(begin + count) for one, begin in zip((less, more), first)])
        got = [[second["kernel_ms_per_s"] for second in one.seconds()[begin:begin + count]]
               for one, begin in zip((less, more), first)]
        said = [one.text()[-2000:] for one in (less, more)]
    report.keep(name, {"ms each second": got, "said": said})
    if not both or not sum(map(sum, got)):
        report.judge(name, False, "; ".join(one.strip().split("\n")[-1] for one in said))
        return
    means = [statistics.mean(one) for one in got]
    percent = 100 * means[0] / sum(means)
    report.judge(name, report.node is not None or abs(percent - wanted) <= SHARE_POINTS,
                 "%.1f %% of %.1f %%; together %.0f ms of kernels a second" % (percent, wanted, sum(means)))


def check(report):
    events(report)
    report.require_cuda()
    events_of_work(report)
    per_us = SIMULATED_STEPS_PER_US if report.node else None
    for kernel_us in KERNELS_US[:2] if report.quick else KERNELS_US + (PERSISTENT_US,):
        report.need(20)
        per_us = orders(report, per_us, kernel_us, kernel_us == KERNELS_US[0])
    if not per_us:
        raise Skip("gpu-orders does not work here, see above")
    report.need(20)
    held_up(report, per_us)
    for ratio in RATIOS[2:3] if report.quick else RATIOS:
        report.need(20)
        shares(report, per_us, ratio)
    report.require_cgpu()
    in_a_slice(report, per_us)
    if not daemon.answers():
        raise Skip("shares of containers: no cgpud runs here")
    for weight in WEIGHTS[:1] if report.quick else WEIGHTS:
        report.need(30)
        pair(report, per_us, "containers of weights 1:%d that always want the card" % weight,
             (["--weight", "1"], ["--weight", str(weight)]), 100 / (1 + weight))
