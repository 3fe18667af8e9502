"""Adversaries of compute shares: containers that want more of a simulated GPU than their share, beside a
neighbour that keeps a queue full and does nothing else. By the accounting of the GPU's engines the one gets no
more than its share and the other no less. Cases by name, see tests/lib/cgpu_test.py.

Shares by slices are asserted closely, duty cycles loosely, for the reasons in compute_test.py."""
import contextlib
import os
import signal
import socket

import cgpu_test as t
import isolation
from compute_test import KERNELS, MS, STANDARD_US, Crowd, Member, _groups, close, run, shares

POINTS = 4

# Microseconds of a steady neighbour's kernels: 64 of them are 13 s of work, however late the machine lets
# it make more. A neighbour that runs out of work has less than its share, and nobody took it.
LONG_US = 200000


def _pair(node, *flags):
    """The adversary, which does nothing yet, and its neighbour, which has work; each has half."""
    bad, good = Member(node, "bad", *flags), Member(node, "good", *flags).feed()
    t.wait_for(lambda: bad.slice_us() == good.slice_us() == 6000, lambda: "no slices: %s" % _groups(node))
    return bad, good


class Look:
    """Measures what passed on the GPU and what members got of it, in percent, from then to now."""

    def __init__(self, node, *members):
        self._node, self._members = node, members
        self._first = self._now()

    def _now(self):
        gpu = self._node.books()["gpus"][0]  # once: all of the same moment
        times = [sum(group["gpu_time_ns"] for group in t.groups(gpu) if group["pid"] == member.shim)
                 for member in self._members]
        return times, t.graphics(gpu)

    def until(self, total_ms):
        """One percentage for each member, and one for switches."""
        first_times, first = self._first
        while True:
            times, engine = self._now()
            passed = t.counted_ns(engine) - t.counted_ns(first)
            if passed >= total_ms * MS:
                got = [100.0 * (b - a) / passed for a, b in zip(first_times, times)]
                lost, idle = (100.0 * (engine[key] - first[key]) / passed for key in ("switching_ns", "idle_ns"))
                print("%s %% of the card, switches %.1f %%, idle %.1f %%" %
                      (["%.1f" % one for one in got], lost, idle))
                return got, lost


def _end(*members):
    for member in members:
        member.stop()
        member.end()


def without(node, daemon):
    """Without cgpu each gets what it is after."""
    daemon.stop()
    good = Member(node, "good", plain=True).feed()
    bad = Member(node, "bad", plain=True)
    bad.tell("slice 100000")
    bad.feed()
    got, _ = Look(node, good, bad).until(2000)
    t.check(got[0] < 10, "with a slice of its own it leaves %.1f %%" % got[0])
    bad.stop()
    bad.end()
    more = [Member(node, "bad%d" % i, plain=True).feed() for i in range(16)]
    (got,), _ = Look(node, good).until(2000)
    t.check(got < 10, "with 16 processes it leaves %.1f %%" % got)
    _end(good, *more)
    daemon.start()


def sets(node, _):
    """Sets its own slice and its interleave level."""
    bad, good = _pair(node)
    for line in ("slice 1000000", "interleave 2"):
        bad.tell(line)
    group = bad.group()
    t.check(group["timeslice_us"] == 6000 and group["interleave"] == 0, "it is obeyed: %s" % group)
    bad.feed()
    close(shares(node, good, bad), [50, 50], POINTS)
    _end(bad, good)


def hammers(node, _):
    """Makes calls on the scheduling of its own channels all the time, of every kind that there is."""
    _hammered(node, "orders", 3)


def resubmits(node, _):
    """Has the GPU's list of groups submitted all the time, which ends everybody's turn."""
    _hammered(node, "schedule", 6)


def makes_groups(node, _):
    """Makes groups and frees them all the time."""
    _hammered(node, "groups", 3)


def _hammered(node, kind, groups):
    good = Member(node, "good", "--weight", "90", kernel=LONG_US).feed()
    script = "for i in 1 2 3; do (echo hammer %s; exec sleep 1000) | %s 20000 & done; wait"
    bad = Crowd(node, "bad", script % (kind, KERNELS), "--weight", "10")
    for _ in range(3):
        bad.process.expect("^hammering$")
    t.wait_for(lambda: len(bad.groups(node)) >= groups, "it has not all its groups")
    (got, _), _ = Look(node, good, bad).until(2000)
    t.check(got > 90 - POINTS, "the neighbour has %.1f %% of the card" % got)
    t.command(t.CGPU, "upgrade", "bad")  # however busy it keeps its shim
    bad.process.kill()
    _end(good)


def recreates(node, _):
    """Makes channels anew all the time, four processes at once. At first it may do so as fast as it can, as
    programs that start do."""
    good = Member(node, "good", kernel=LONG_US).feed()
    submitted = lambda: node.books()["received"].get("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", 0)
    before = submitted()
    loop = ("while :; do echo 'run 100' | sh -c 'echo $$; exec %s 20000' |"
            " { read pid; read ready; sleep 0.2; kill -9 $pid; }; done" % KERNELS)
    bad = Crowd(node, "bad", " & ".join(["(%s)" % loop] * 4) + " & wait")
    t.wait_for(lambda: submitted() > before + 200, "it does not make them")
    (got,), lost = Look(node, good).until(3000)
    t.check(got > (100 - lost) / 2 - POINTS, "the neighbour has %.1f %% of the card" % got)
    bad.process.kill()
    _end(good)


def _spawns(count, flags, share):
    def case(node, _):
        good = Member(node, "good", *flags[0], kernel=LONG_US).feed()
        script = "i=0; while [ $i -lt %d ]; do (echo feed; exec sleep 1000) | %s 20000 & i=$((i+1)); done; wait"
        bad = Crowd(node, "bad", script % (count, KERNELS), *flags[1])
        t.wait_for(lambda: len(bad.groups(node)) == count and all(g["gpu_time_ns"] for g in bad.groups(node)),
              "not all of them feed")
        slices = {group["timeslice_us"] for group in bad.groups(node)}
        t.check(len(slices) == 1, "they have different slices: %s" % slices)
        (got, _), _ = Look(node, good, bad).until(3000)
        t.check(got > share - POINTS, "the neighbour has %.1f %% of the card" % got)
        bad.process.kill()
        _end(good)
    case.__doc__ = "Spawns processes, each with a channel group."
    return case


def forks(node, _):
    """Forks while it is suspended: what its children make anew waits for its window too."""
    bad = Member(node, "bad", "--compute", "20", kernel=20000)
    good = Member(node, "good", "--compute", "60").feed()
    bad.process.say("fork 10")
    for _ in range(10):
        bad.process.expect("^child$")
    got, _ = Look(node, bad, good).until(3000)
    t.check(got[0] < 20 + 15 and got[1] > 60 - 20, "%s of 20 and 60 %%" % got)
    _end(good)
    bad.process.kill()


def parks(node, daemon):
    """Parks its control file in a message that nobody receives: its channels end, and the neighbour has the
    GPU."""
    bad, good = _pair(node)
    bad.tell("park")
    bad.feed()
    t.wait_for(lambda: {group["pid"] for group in _groups(node)} == {good.shim},
               lambda: "its channels live on: %s" % _groups(node))
    (got,), _ = Look(node, good).until(1000)
    t.check(got > 90, "the neighbour has %.1f %%" % got)
    bad.process.kill()
    _end(good)


def idles(node, _):
    """Waits, for seconds, until its suspended channel is idle: nobody else waits for it."""
    bad = Member(node, "bad", "--compute", "5")
    good = Member(node, "good", "--compute", "60").feed()
    bad.process.say("hammer orders")
    bad.process.expect("^hammering$")
    for share in (50, 60):  # an order reaches both
        t.command(t.CGPU, "set", "good", "--compute", str(share))
    got, _ = Look(node, bad, good).until(2000)
    t.check(got[0] < 5 + 15 and got[1] > 60 - 15, "%s of 5 and 60 %%" % got)
    bad.process.say("")
    t.check(int(bad.process.expect("^hammered ([0-9]+)$")[1]) > 100, "its calls wait")
    bad.process.kill()
    _end(good)


def rigid(node, _):
    """Kernels that cannot be preempted run to their end, and no longer: of two in turn the one has its
    slice and the other a kernel."""
    bad = Member(node, "bad", kernel=24000, words=("--not-preemptible",))
    good = Member(node, "good").feed()
    t.wait_for(lambda: bad.slice_us() == good.slice_us() == 6000, lambda: "no slices: %s" % _groups(node))
    bad.feed()
    close(Look(node, good, bad).until(3000)[0], [20, 80], POINTS)
    bad.process.kill()
    _end(good)


def rigid_fixed(node, _):
    """Under a percentage such kernels are paid for: their owner's next windows are nobody's."""
    bad = Member(node, "bad", "--compute", "20", kernel=12000, words=("--not-preemptible",)).feed()
    good = Member(node, "good", "--compute", "80").feed()
    t.wait_for(lambda: STANDARD_US not in (bad.slice_us(), good.slice_us()), lambda: "no slices: %s" % _groups(node))
    (_, got), _ = Look(node, good, bad).until(3000)
    t.check(2 < got < 40, "it has %.1f %% of the card" % got)  # windows that are not paid for: 50
    bad.process.kill()
    _end(good)


def _faulty(flag, fault):
    def case(node, _):
        bad = Member(node, "bad", kernel=1000, words=(flag,))
        good = Member(node, "good").feed()
        bad.process.say("run 1")
        bad.process.expect("^failed %d$" % fault)
        books = node.books()["gpus"][0]
        faults = {group["pid"]: group["fault"] for group in books["groups"]}
        t.check(faults == {bad.shim: fault, good.shim: 0}, "channel errors: %s" % faults)
        got, _ = Look(node, good).until(2000)
        t.check(got[0] > 100 - POINTS, "the neighbour has %.1f %% of the card" % got[0])
        bad.process.kill()
        _end(good)
    case.__doc__ = "What a container's kernel does wrong ends its own channels alone."
    return case


def daemon_killed(node, daemon):
    """Without cgpud shares hold, and after."""
    a, b = Member(node, "thirty", "--weight", "30").feed(), Member(node, "seventy", "--weight", "70").feed()
    t.wait_for(lambda: 3 * b.slice_us() == 7 * a.slice_us() > 0, lambda: "no slices: %s" % _groups(node))
    before = _groups(node)
    daemon.stop(signal.SIGKILL)
    got, _ = Look(node, a, b).until(10000)
    t.check(abs(got[0] - 30) <= 3 and abs(got[1] - 70) <= 3, "%s %%, with %s before and %s after" %
            (got, before, _groups(node)))
    daemon.start()
    close(Look(node, a, b).until(2000)[0], [30, 70], 3)
    _end(a, b)


def daemon_killed_fixed(node, daemon):
    """Without cgpud nothing remains suspended, whenever it was killed."""
    one = Member(node, "twenty", "--compute", "20").feed()
    for _ in range(3):
        t.wait_for(lambda: _suspended(node, one), "it is never taken off the card")
        daemon.stop(signal.SIGKILL)
        (got,), _ = Look(node, one).until(1000)
        t.check(5 < got < 20 + 15, "it has %.1f %% of the card" % got)
        daemon.start()
    t.command(t.CGPU, "policy", "0", "soft", "--node", node.name)
    t.wait_for(lambda: Look(node, one).until(200)[0][0] > 90, "it is held back still")
    t.check(not _suspended(node, one), "its channels are off still")
    _end(one)


def _suspended(node, member):
    channels = [one for one in node.books()["gpus"][0]["channels"] if one["pid"] == member.shim]
    t.check(channels, "it has no channels")
    return all(one["disabled"] for one in channels)


def _stop_while_suspended(node, member):
    """Stops its shim while its channels are off."""
    def stopped():
        os.kill(member.shim, signal.SIGSTOP)
        node.sync()
        if _suspended(node, member):
            return True
        os.kill(member.shim, signal.SIGCONT)
        return False

    t.wait_for(stopped, "it is never taken off the card")


def shim_stopped(node, _):
    """A shim that does nothing any more leaves its own container off the GPU; no other waits for it."""
    one, good = Member(node, "one", "--compute", "20").feed(), Member(node, "good", "--compute", "60").feed()
    _stop_while_suspended(node, one)
    (got, share), _ = Look(node, one, good).until(2000)
    t.check(got == 0 and share > 60 - 15, "they have %.1f and %.1f %%" % (got, share))
    t.command(t.CGPU, "set", "good", "--compute", "40")
    t.wait_for(lambda: Look(node, good).until(1000)[0][0] < 40 + 10, "the other's new share does not come")
    os.kill(one.shim, signal.SIGCONT)
    t.wait_for(lambda: Look(node, one).until(1000)[0][0] > 20 - 15, "it does not come back")
    _end(one, good)


def shim_killed(node, _):
    """A container whose shim dies while it is suspended ends, and leaves nothing on the GPU."""
    node.may_leak = True
    one, good = Member(node, "one", "--compute", "20").feed(), Member(node, "good", "--compute", "60").feed()
    _stop_while_suspended(node, one)
    os.kill(one.shim, signal.SIGKILL)
    t.check(one.process.wait() != 0, "it ended well")
    t.wait_for(lambda: {group["pid"] for group in _groups(node)} == {good.shim}, "groups are left")
    (got,), _ = Look(node, good).until(2000)
    t.check(got > 60 - 15, "the neighbour has %.1f %%" % got)
    _end(good)


def shim_busy(node, _):
    """An order that does not reach a shim reaches it later, also if nothing else changes."""
    # With maxima nothing is measured, so that there is no other reason to send orders.
    one = Member(node, "one", "--compute", "20", "--compute-max", "90").feed()
    good = Member(node, "good", "--compute", "80", "--compute-max", "90").feed()
    t.wait_for(lambda: good.slice_us() > 4 * one.slice_us() and good.slice_us() != STANDARD_US,
          lambda: "no slices: %s" % _groups(node))
    before = good.slice_us()
    (row,) = [row for row in node.containers() if row["name"] == "one"]
    os.kill(one.shim, signal.SIGSTOP)
    waiting = []
    with contextlib.suppress(BlockingIOError):
        while True:  # until it has no place for another
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            waiting[-1].connect("/run/cgpu/%s.sock" % row["id"])
    t.command(t.CGPU, "set", "good", "--compute", "20")
    t.wait_for(lambda: good.slice_us() < before, "the other has no new slice")
    for connection in waiting:
        connection.close()
    os.kill(one.shim, signal.SIGCONT)
    t.wait_for(lambda: one.slice_us() == good.slice_us() > 0, lambda: "it never has its new slice: %s" % _groups(node))
    _end(one, good)


ADVERSARY = os.path.abspath(os.path.join(t.TEST_BIN, "adversary"))


def _unreachable(*words):
    """A container that does what it can to keep orders from its shim has what it is given all the same."""
    def case(node, _):
        script = "(echo feed; exec sleep 1000) | %s 20000 & exec %s" % (KERNELS, " ".join([ADVERSARY, *words]))
        bad = Crowd(node, "bad", script, "--weight", "9")
        said = bad.process.expect("^(holding|unsupported: .*)$").group(1)
        if said != "holding":
            t.skip(said)
        good = Member(node, "good", "--weight", "1").feed()

        def within(least, most):
            slices = [group["timeslice_us"] for group in bad.groups(node)]
            return slices and least <= min(slices) and max(slices) <= most

        # A turn of 6000 us is divided; who gets more than it was promised has less of that.
        for weight, least, most in (("1", 1, 6000), ("9", 6001, 13500), ("1", 1, 6000)):
            t.command(t.CGPU, "set", "bad", "--weight", weight)
            t.wait_for(lambda least=least, most=most: within(least, most), lambda: "it keeps its slice: %s" % _groups(node))
        close(shares(node, bad, good), [50, 50], POINTS)
        t.command(t.CGPU, "set", "bad", "--mem", "512MiB")
        bad.process.kill()
        _end(good)

    return case


CASES = {"without": without, "sets": sets, "hammers": hammers, "resubmits": resubmits, "makes-groups": makes_groups,
         "recreates": recreates,
         "spawns": _spawns(32, ((), ()), 50),
         "spawns-more": _spawns(16, (("--weight", "90"), ("--weight", "10")), 90), "forks": forks, "parks": parks, "idles": idles, "rigid": rigid,
         "rigid-fixed": rigid_fixed, "traps": _faulty("--traps", 13), "accesses": _faulty("--accesses", 31),
         "daemon-killed": daemon_killed, "daemon-killed-fixed": daemon_killed_fixed,
         "shim-busy": shim_busy, "shim-stopped": shim_stopped, "shim-killed": shim_killed,
         "unreachable-fuse": _unreachable("fuse-fill", "25000"),
         "unreachable-hoard": _unreachable("hoard", "100", "300", "900")}


if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
