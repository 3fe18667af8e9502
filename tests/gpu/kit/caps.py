"""Percentages under the policy `fixed`: what holds, a cap or a share alone; and whether a program starts
under each."""
import json
import statistics

from kit import daemon
from kit.burns import Burn
from kit.compute import pair, steps_per_us
from kit.report import Skip

PERCENTS = (2, 10, 30, 50)
BEGIN_SECONDS = 12  # a program that has not computed by then hangs
POINTS = 3  # more than its cap: more than that is none
SIMULATED_POINTS = 20  # the same on a simulated node, whose time is not the machine's
PAIR = (10, 30)


def top(report, name):
    """Returns what cgpud says of the GPU and the container: (whether it caps, percent of the time that it keeps
    it off); None where it says nothing."""
    node = ["--node", report.node] if report.node else []
    done = report.do(report.tool("cgpu"), "top", "--json", "--count", "3", "--delay", "0.5", *node)
    said = [(gpu.get("caps", False), one["throttled_percent"]) for line in done.output.splitlines() if line.startswith("[")
            for gpu in json.loads(line) for one in gpu["containers"] if one["name"] == name]
    return said[-1] if said else None


def alone(report, per_us, percent):
    """One container that always wants the GPU."""
    title, name = "a percentage of %d, alone" % percent, "kit-cap-%d" % percent
    count = 2 if report.quick else 3
    with Burn(report, ["--kernel-us", "1000", "--steps", str(int(per_us * 1000))],
              ["--mem", "2GiB", "--compute", str(percent), "--name", name], BEGIN_SECONDS) as burn:
        began = burn.computes()
        first = len(burn.seconds()) + 1
        whole = began and burn.wait(first + count)
        said = top(report, name)
        got = [second["kernel_ms_per_s"] for second in burn.seconds()[first:first + count]]
        text = burn.text()
    report.keep(title, {"ms each second": got, "top": said, "said": text[-2000:]})
    if not began:
        report.judge(title, False, "the program HANGS at its start: it has computed nothing for %d s, and was ended" %
                     BEGIN_SECONDS)
        return
    if not whole or said is None:
        report.judge(title, False, "cgpu top does not name it" if whole else "it computes no more: " +
                     text.strip().split("\n")[-1][-300:])
        return
    caps, throttled = said
    mean = statistics.mean(got)
    what = "%.0f ms of kernels a second; kept off for %.0f %% of the time: " % (mean, throttled)
    if caps:
        report.judge(title, mean / 10 <= percent + (SIMULATED_POINTS if report.node else POINTS), what + "a cap")
    else:
        report.judge(title, throttled == 0, what + "a share, no cap, as cgpu promises for this GPU")


def check(report):
    report.require_cuda()
    report.require_cgpu()
    if not daemon.answers():
        raise Skip("no cgpud runs here")
    per_us = steps_per_us(report)
    for percent in PERCENTS[1:3] if report.quick else PERCENTS:
        report.need(10)
        alone(report, per_us, percent)
    report.need(10)
    pair(report, per_us, "percentages of %d and %d beside one another" % PAIR,
         [["--compute", str(percent)] for percent in PAIR], 100 * PAIR[0] / sum(PAIR))
