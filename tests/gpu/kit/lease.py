"""The steps for a GPU that is here for some minutes: the most wanted first, each with a limit of its own. A
step that reaches its limit is ended with all that it started, and the next one begins. A second run with
the same folder goes on where the first one ended."""
import collections
import os
import signal
import time

from kit import (calibrate, caps, compute, crowd, faults, frameworks, ground, hang, memory, overhead, priority,
                 processes, start, upgrade)
from kit.daemon import Daemon, answers
from kit.report import FAIL, LEAST_SECONDS, NoTime, Over, Report, Skip, SKIP

AGAIN_SECONDS = 5  # after a limit: until what is being cleaned up is ended, too


def begin(report):
    """CUDA's start, and PyTorch's in a slice, also where the first cannot be asked."""
    try:
        start.check(report)
    except NoTime:
        raise
    except Skip as reason:
        report.row("the rest of CUDA's start", SKIP, str(reason))
    frameworks.torch(report)


def switches(report):
    report.require_cuda()
    compute.events_of_work(report)


Step = collections.namedtuple("Step", "name seconds check")
STEPS = (Step("ground", 20, ground.check), Step("start", 120, begin), Step("memory", 90, memory.check),
         Step("faults", 25, faults.check), Step("calibrate", 60, calibrate.check), Step("hang", 90, hang.check), Step("caps", 75, caps.check),
         Step("priority", 45, priority.check), Step("switches", 25, switches), Step("sixteen", 45, crowd.check),
         Step("upgrade", 60, upgrade.check), Step("frameworks", 100, frameworks.check),
         Step("overhead", 120, overhead.check))
NAMES = [step.name for step in STEPS]


class LeaseReport(Report):
    """A report whose rows stand in the order of the steps, and that goes on where another one ended."""

    def __init__(self, *words):
        super().__init__(*words)
        self.grace, self._check = 2 * AGAIN_SECONDS, "lease"
        self.go_on()
        self.raw.setdefault("lacking", {})  # named first from the start, also while it is nothing

    def keep_log(self, text):
        """Adds what the kit's cgpud has said."""
        self.raw["cgpud"] = self.raw.get("cgpud", "") + text
        self._write(to_disk=True)

    def _write(self, to_disk=False):
        self.rows.sort(key=lambda row: NAMES.index(row[0]) if row[0] in NAMES else -1)
        super()._write(to_disk)


class Limit:
    """Ends what runs, and then the step, when its time is over: `with Limit(...) as limit`. It does so
    again while the step has not ended, because cleaning up may wait for something, too."""

    def __init__(self, report, seconds, found, outcome, why):
        self._report, self._seconds, self._found, self._outcome, self._why = report, seconds, found, outcome, why
        self._over = None

    def __enter__(self):
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, self._seconds), AGAIN_SECONDS)
        return self

    def __exit__(self, kind, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._over and not (kind and issubclass(kind, Over)):
            raise self._over  # something made another exception of it

    def _end(self, *_):
        found = self._found()
        left = processes.end(found, AGAIN_SECONDS / 2)
        self._over = self._over or Over(self._outcome, "%s, while this ran: %s (the last program: %s)%s" % (
            self._why, processes.names(found) or "nothing", self._report.last,
            "; these do not end: " + processes.names(left) if left else ""))
        raise self._over


class Lease:
    """Makes the steps. `limits` has seconds by step, in place of those above."""

    def __init__(self, report, limits):
        self._report, self._limits, self._daemon = report, limits, None
        self._all = report.until

    def run(self, names):
        """Makes the steps of these names; without any, those that are not whole yet."""
        processes.adopt()
        os.environ[processes.MARK] = processes.mark_of(self._report.folder)
        self._end_left("an earlier run")
        with Daemon(self._report) as self._daemon:
            if self._report.notification and not answers():
                print("no cgpud runs here, and none starts: %s" % self._daemon.text().strip(), flush=True)
            try:
                for step in self._chosen(names):
                    self._make(step)
            finally:
                self._end_left("the last step")
                self._report.keep_log(self._daemon.text())

    def _chosen(self, names):
        states = self._report.states
        if names:
            return [step for step in STEPS if step.name in names]
        for step in STEPS:
            if states.get(step.name) == "whole":
                print("%-9s is whole, and is not made again" % step.name, flush=True)
        # Those that had their time come last: they may take all of it again.
        return sorted((step for step in STEPS if states.get(step.name) != "whole"),
                      key=lambda step: states.get(step.name) == "cut off")

    def _make(self, step):
        report, state = self._report, "cut off"
        if report.left() < LEAST_SECONDS and step.name in report.states:
            return  # its rows of an earlier run remain
        report.forget(step.name)
        report.set_state(step.name, "begun")
        seconds = self._limits.get(step.name, step.seconds)
        outcome, why = FAIL, "it was ended at its limit of %g s" % seconds
        if report.left() < seconds:
            seconds, outcome, why = report.left(), SKIP, "it was ended with the time for all, after %d s" % report.left()
        report.until = time.monotonic() + seconds

        def check(of):
            with Limit(report, seconds, self._below, outcome, why):
                step.check(of)
        try:
            state = "whole" if report.run(step.name, check) else state
        finally:
            report.set_state(step.name, state)
            self._end_left("the step")
            report.until = self._all

    def _below(self):
        """Returns what the kit runs, but for its cgpud."""
        keep = {self._daemon.pid} if self._daemon and self._daemon.pid else set()
        found = processes.below(os.getpid(), keep)
        known = {one.pid for one in found}
        return found + [one for one in processes.marked(os.environ[processes.MARK], keep) if one.pid not in known]

    def _end_left(self, whose):
        """Ends what is left, and says so."""
        found = self._below()
        left = processes.end(found)
        processes.reap()
        if found:
            print("left of %s, and ended: %s" % (whose, processes.names(found)), flush=True)
        if left:
            self._report.row("what is left of " + whose, FAIL, "does not end: " + processes.names(left))
