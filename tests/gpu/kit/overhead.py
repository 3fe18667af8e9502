"""Measures what cgpu costs a program: the same work with it and without, in turn. The work is
queued kernels, launches that are waited for and graphs by a program of ours, and multiplications,
training steps and a loop as of decoding where there is PyTorch. Each has one program with cgpu and
one without, and while one works the other waits for its turn. Also measures how long it takes to
make a context."""
import json
import os
import select
import statistics
import subprocess
import sys
import time

from kit.report import HERE, Skip

PAIRS = 5
SECONDS = 5.0
BAR = 0.5  # percent, of the mean
KERNEL_US = 20
START_SECONDS = 90
KEEP_SECONDS = 15  # of the whole budget, for what is under way to end


class Worker:
    """A program that does the work of kit/loops.py."""

    def __init__(self, report, argv):
        self._process = report.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL)
        self._text = b""

    def line(self, seconds):
        """Returns its next line; "" if there is none in time, or it has ended."""
        until = time.monotonic() + seconds
        while b"\n" not in self._text:
            if not select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                return ""
            data = os.read(self._process.stdout.fileno(), 4096)
            if not data:
                return ""
            self._text += data
        line, self._text = self._text.split(b"\n", 1)
        return line.decode()

    def begin(self, name, seconds, steps):
        try:
            self._process.stdin.write(b"%s %g %d\n" % (name.encode(), seconds, steps))
            self._process.stdin.flush()
        except OSError:
            pass  # its line will lack

    def per_second(self, seconds):
        """How often a second it did what it began; None if it failed, or does not say so in time."""
        try:
            return json.loads(self.line(seconds))["per_s"]
        except (OSError, ValueError, KeyError):
            return None

    def rate(self, name, seconds, steps):
        self.begin(name, seconds, steps)
        return self.per_second(seconds + START_SECONDS)

    def end(self):
        self._process.kill()
        self._process.communicate()


class Both:
    """The same program without cgpu and with it."""

    def __init__(self, report, kind, mem):
        self._report = report
        words = [sys.executable, os.path.join(HERE, "kit", "loops.py"), kind]
        self.workers = (Worker(report, report.plain(*words)),
                        Worker(report, report.slice(*words, flags=["--mem", mem])))

    def ready(self):
        return all(worker.line(min(START_SECONDS, self._report.left())) == "ready" for worker in self.workers)

    def pair(self, name, seconds, steps, swap):
        """(without, with); None if one failed."""
        rates = {}
        for which in (1, 0) if swap else (0, 1):
            rates[which] = self.workers[which].rate(name, seconds, steps)
        return None if None in rates.values() else (rates[0], rates[1])

    def end(self):
        for worker in self.workers:
            worker.end()


def contexts(report, pairs):
    """The time to make one is calls of the driver alone: reported, and held to no bar."""
    took = []
    for number in range(pairs):
        runs = [report.plain(*report.cuda()), report.slice(*report.cuda(), flags=["--mem", "2GiB"])]
        ms = {}
        for which in (1, 0) if number % 2 else (0, 1):
            done = report.do(*runs[which])
            try:
                ms[which] = json.loads(done.output.strip().splitlines()[-1])["context_ms"]
            except (ValueError, IndexError, KeyError):
                report.judge("making a context", False, done.last_words())
                return
        took.append((ms[0], ms[1]))
    report.keep("making a context, ms", took)
    report.row("making a context", "pass", "%.1f ms with cgpu, %.1f ms without (medians of %d)" % (
        statistics.median(within for _, within in took), statistics.median(without for without, _ in took),
        len(took)))


def say(report, name, pairs, failed):
    report.keep(name, pairs)
    if failed or not pairs:
        report.row(name, "FAIL" if failed else "skip",
                   "it failed after %d pairs" % len(pairs) if failed else "the time is over")
        return
    costs = [100 * (without - within) / without for without, within in pairs]
    report.judge(name, report.node is not None or statistics.mean(costs) <= BAR,
                 "%.2f %% mean of %d pairs (%s); without cgpu %.4g a second%s" % (
                     statistics.mean(costs), len(costs), ", ".join("%.2f" % cost for cost in costs),
                     statistics.median(without for without, _ in pairs),
                     "; not judged on a simulated node" if report.node else ""))


def works(report, started):
    """(what, program, name of the work)"""
    kinds = [("cuda", "2GiB", (("queued kernels of %d us" % KERNEL_US, "queued"),
                               ("launch, wait, launch of %d us" % KERNEL_US, "waited"),
                               ("graphs of 50 kernels of %d us" % KERNEL_US, "graphs")))]
    if report.node is None and report.do(sys.executable, "-c", "import torch; torch.zeros(1).cuda()").status == 0:
        kinds.append(("torch", "6GiB", (("PyTorch: multiplications", "gemm"),
                                        ("PyTorch: training steps", "train"),
                                        ("PyTorch: a loop as of decoding", "decode"))))
    for kind, mem, named in kinds:
        both = Both(report, kind, mem)
        started.append(both)
        if both.ready():
            yield from ((what, both, name) for what, name in named)
        else:
            report.judge("programs of " + kind, False, "one does not begin")


def measure(report, todo, pairs):
    calibrated = todo[0][1].workers[0].rate("calibrate", 0.3, 0)
    if calibrated is None:
        raise Skip("a kernel's length cannot be found out")
    steps = max(1, int(calibrated * KERNEL_US))
    for what, both, name in todo:  # what each needs is made, and clocks rise
        both.pair(name, 0.2, steps, False)
    seconds = max(0.5, min(SECONDS, (report.left() - KEEP_SECONDS) / (2 * pairs * len(todo))))
    seconds = 0.3 if report.quick else seconds
    report.keep("a run's seconds and a kernel's steps", [seconds, steps])
    got = {what: [] for what, _, _ in todo}
    failed = set()
    for number in range(pairs):
        for what, both, name in todo:
            if what in failed or report.left() < 2 * seconds:
                continue
            rates = both.pair(name, seconds, steps, number % 2 == 1)
            if rates is None:
                failed.add(what)
            else:
                got[what].append(rates)
    for what, _, _ in todo:
        say(report, what, got[what], what in failed)


def check(report):
    report.require_cuda()
    report.require_cgpu()
    pairs = 1 if report.quick else PAIRS
    contexts(report, pairs)
    report.need(2 * KEEP_SECONDS)
    started = []
    try:
        todo = list(works(report, started))
        if todo:
            measure(report, todo, pairs)
    finally:
        for both in started:
            both.end()
