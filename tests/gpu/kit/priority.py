"""High priority: which interleave levels the driver takes, and what a container of high priority waits
beside others that always want the GPU."""
import contextlib
import statistics

from kit import daemon
from kit.burns import Burn
from kit.compute import Beside, BYSTANDER_US, lines_of, steps_per_us
from kit.report import Skip

NEIGHBOURS, NEIGHBOUR_US = 2, 1000
SECONDS = 3


def levels(report, per_us):
    done = report.do(*report.plain(report.tool("gpu-orders"), "levels", "--kernel-us", "1000", "--steps",
                                   str(int(per_us * 1000))), seconds=30)
    said = [line for line in lines_of(done) if "level" in line]
    report.keep("levels", [done.status, said, done.errors])
    if not said:
        report.judge("interleave levels", False, done.last_words())
    for line in said:
        report.row("interleave level " + line["level"], "pass", "the driver says %s; %d launches of 1 ms ended after it in "
                   "0.3 s" % (line["says"], line["ended"]))


def waits(report, per_us, flags):
    """How long launches of a container took, in us, or what it said instead."""
    neighbours = ["--kernel-us", str(NEIGHBOUR_US), "--steps", str(int(per_us * NEIGHBOUR_US))]
    with contextlib.ExitStack() as ends:
        burns = [ends.enter_context(Burn(report, neighbours, ["--mem", "2GiB"])) for _ in range(NEIGHBOURS)]
        begun = all([burn.wait(1) for burn in burns])
        beside = Beside(report, per_us, BYSTANDER_US, "bystander", flags=["--mem", "2GiB", *flags])
        ends.callback(beside.kill)
        begun = begun and beside.ready(30)
        # Its orders are given within the first second.
        count = len(burns[0].seconds()) + 1 + (1 if report.quick else SECONDS)
        begun = begun and burns[0].wait(count)
        if not begun:
            return None, "one of them does not begin"
        launches, errors = beside.says("launches", 30)
    if not launches:
        return None, errors or "no launch of it ended"
    skipped = launches[0][0] + 1000000
    return [us for begin, us in launches if begin >= skipped], "none after the first second"


def latency(report, per_us):
    found = {}
    for name, flags in (("normal", []), ("high", ["--priority", "high"])):
        report.need(8)
        title = "launches of %d us in a container of %s priority, beside %d full ones" % (BYSTANDER_US, name, NEIGHBOURS)
        took, instead = waits(report, per_us, flags)
        report.keep(title, took and took[:2000])
        if not took:
            report.judge(title, False, instead)
            continue
        took.sort()
        found[name] = statistics.median(took)
        report.row(title, "pass", "median %d us, 99 %% within %d us, the longest %d us, of %d" % (
            found[name], took[len(took) * 99 // 100], took[-1], len(took)))
    if len(found) == 2:
        report.judge("high priority waits less", report.node is not None or found["high"] < found["normal"],
                     "%d us instead of %d us" % (found["high"], found["normal"]))


def check(report):
    report.require_cuda()
    per_us = steps_per_us(report)
    levels(report, per_us)
    report.require_cgpu()
    if not daemon.answers():
        raise Skip("no cgpud runs here")
    latency(report, per_us)
