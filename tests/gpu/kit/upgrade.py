"""`cgpu upgrade` and `cgpu set` while programs run: they go on, and the limit is the new one. Programs:
one that fills the GPU's queue, one that makes calls of the driver without end, and PyTorch's training."""
import contextlib
import json
import os
import sys

from kit.burns import Burn
from kit.compute import steps_per_us
from kit.frameworks import has
from kit.overhead import START_SECONDS, Worker
from kit.report import HERE

SECONDS = 4
MEM, NEW_MIB = "4GiB", 6144


def workers(report, ends, tag):
    """{container: (program, what it does)} of those that begin."""
    kinds = {"calls": ("cuda", "allocations")}
    if report.node is None and has("torch"):
        kinds["torch"] = ("torch", "train")
    found = {}
    for name, (kind, work) in kinds.items():
        worker = Worker(report, report.slice(sys.executable, os.path.join(HERE, "kit", "loops.py"), kind,
                                             flags=["--mem", MEM, "--name", "%s-%s" % (tag, name)]))
        ends.callback(worker.end)
        found["%s-%s" % (tag, name)] = (worker, work)
    for name, (worker, work) in list(found.items()):
        if worker.line(min(START_SECONDS, report.left())) != "ready" or worker.rate(work, 0.2, 1) is None:
            report.judge("a program that is to be upgraded (%s)" % work, False, "it does not begin")
            del found[name]
    return found


def upgrade(report, names):
    """Upgrades these; how long their calls waited, in ms."""
    done = report.do(report.tool("cgpu"), "upgrade", "--json", *names, seconds=30)
    try:
        said = {one["name"]: one for one in json.loads(done.output)}
    except (ValueError, KeyError):
        said = {}
    report.keep("upgrade", [done.status, done.output, done.errors])
    good = done.status == 0 and all(said.get(name, {}).get("upgraded") for name in names)
    waits = [one.get("waited_us", 0) / 1000 for one in said.values()]
    report.judge("cgpu upgrade while %d programs run" % len(names), good, "their calls waited %s ms" % ", ".join(
        "%.1f" % wait for wait in waits) if good else done.last_words())


def change(report, name):
    """Gives one a new limit; what `cgpu ps` says of it then."""
    done = report.do(report.tool("cgpu"), "set", name, "--mem", "%dMiB" % NEW_MIB)
    listed = report.do(report.tool("cgpu"), "ps", "--json")
    try:
        (limit,) = [one["gpus"][0]["limit_bytes"] for one in json.loads(listed.output) if one["name"] == name]
    except (ValueError, KeyError, IndexError):
        limit = 0
    report.judge("cgpu set --mem while it runs, after the upgrade (%s)" % name.rpartition("-")[2], done.status == 0 and limit == NEW_MIB << 20,
                 "%d MiB" % (limit >> 20) if done.status == 0 else done.last_words())


def check(report):
    report.require_cuda()
    report.require_cgpu()
    tag = "kit-%d" % os.getpid()
    seconds = 1 if report.quick else SECONDS
    steps = ["--kernel-us", "1000", "--steps", str(int(steps_per_us(report) * 1000))]
    with contextlib.ExitStack() as ends:
        programs = workers(report, ends, tag)
        burn = ends.enter_context(Burn(report, steps, ["--mem", MEM, "--name", tag + "-queue"], 30))
        begun = burn.wait(1)
        for worker, work in programs.values():
            worker.begin(work, seconds, 1)
        names = [tag + "-queue", *programs]
        upgrade(report, names)
        for name in names:
            change(report, name)
        rates = {name: worker.per_second(seconds + 30) for name, (worker, _) in programs.items()}
        after = {name: worker.rate(work, 0.5, 1) for name, (worker, work) in programs.items()}
        goes_on = begun and burn.wait(len(burn.seconds()) + 2)
        status = burn.stop()
        ran = all(second["launches"] > 0 for second in burn.seconds())
        text = burn.text().strip().split("\n")[-1][-300:]
    report.keep("rates", [rates, after])
    report.judge("a full queue computes on", goes_on and ran and status == 0, text)
    for name, (_, work) in programs.items():
        report.judge("%s go on" % work, bool(rates[name] and after[name]), "%s a second during it, %s after it" % (
            rates[name] and "%.1f" % rates[name], after[name] and "%.1f" % after[name]))
