"""Compute shares: what containers get of a simulated GPU, by its engines' own accounting, while cgpud holds
them to the GPU's policy. Cases by name, see tests/lib/cgpu_test.py.

Slices hold in the GPU's own time, however late anybody is: shares by them are asserted closely. A
duty cycle is the shim's, by the machine's clock: on a busy machine it comes to less, and how much less
is asserted loosely here, and measured by `make bench-share-error`."""
import json
import os
import re
import signal
import subprocess
import time

import cgpu_test as t
import engines
import isolation
from engines import start_cgpud

KERNELS = os.path.abspath(os.path.join(t.TEST_BIN, "kernels"))
BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
MS = 1000000  # nanoseconds
STANDARD_US = 1049


def _is_cgpud(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            return file.read() == "cgpud\n"
    except OSError:
        return False


def _groups(node, card=0):
    """The channel groups of containers: not the idle one, which is cgpud's own."""
    return [group for group in t.groups(node.books()["gpus"][card]) if not _is_cgpud(group["pid"])]


class Member:
    """A container that keeps a queue full of kernels of so many microseconds: 64 of them, so that the
    GPU has work from it also while the machine does not let it run for a second."""

    def __init__(self, node, name, *flags, kernel=20000, words=(), plain=False):
        self.node, self.name = node, name
        before = {group["pid"] for group in _groups(node)}
        argv = [KERNELS, str(kernel), *words]
        self.process = (node.exec(argv, name=name) if plain else
                        node.run(argv, flags=("--name", name, *flags), name=name))
        self.process.expect("^ready$")
        # For the driver all of a container's clients are its shim's.
        (self.shim,) = {group["pid"] for group in _groups(node)} - before

    def feed(self):
        self.process.say("feed")
        self.process.expect("^feeding$")
        return self

    def stop(self):
        self.process.say("")
        self.process.expect("^fed ")

    def end(self):
        t.check(self.process.end() == 0, "%s failed" % self.name)

    def tell(self, line):
        self.process.say(line)
        self.process.expect("^%s$" % line.replace("preempt", "preempted").replace("park", "parked"))

    def group(self):
        (group,) = [group for group in _groups(self.node) if group["pid"] == self.shim]
        return group

    def slice_us(self):
        return self.group()["timeslice_us"]


def _times(node, members, card=0):
    groups = _groups(node, card)
    return [sum(group["gpu_time_ns"] for group in groups if group["pid"] == member.shim)
            for member in members]


def gets(node, members, enough, card=0):
    """Returns what each gets of the GPU from now on until that is enough, in nanoseconds."""
    end = time.monotonic() + t.DEADLINE
    first, got = _times(node, members, card), [0] * len(members)
    while not enough(got):
        t.check(time.monotonic() < end, "they get no more: %s" % _groups(node, card))
        t.pause()
        got = [now - then for now, then in zip(_times(node, members, card), first)]
    return got


def shares(node, *members, total_ms=2000, card=0):
    """Returns each member's part of the time that they get together from now on, in percent, until
    they have had so much."""
    got = gets(node, members, lambda got: sum(got) >= total_ms * MS, card)
    return [100.0 * one / sum(got) for one in got]


def _engine(node):
    engine = t.graphics(node.books()["gpus"][0])
    return engine["busy_ns"], t.counted_ns(engine)


def of_card(node, member, total_ms=2000):
    """Returns what it gets of the GPU, in percent of the time that passes on it."""
    def look():
        return _times(node, [member])[0], _engine(node)[1]

    first, passed, got = look(), 0, 0
    while passed < total_ms * MS:
        t.pause()
        mine, now = look()
        got, passed = mine - first[0], now - first[1]
    return 100.0 * got / passed


def capped(node, member, least, most):
    """In all it gets less than `most` percent of the GPU, never much more, and more than `least` where the
    machine is quiet for a moment: windows that begin late are lost, and those that end late are paid for by
    the next ones."""
    looks = []

    def look():
        looks.append(of_card(node, member))
        in_all = sum(looks) / len(looks)
        print("it gets %.1f %%, in all %.1f %%" % (looks[-1], in_all))
        t.check(looks[-1] < (most + 100) / 2, "it gets %.1f %% of at most %d" % (looks[-1], most))
        return looks[-1] > least and in_all < most

    t.wait_for(look, "it does not get more than %d and less than %d %%" % (least, most))


def close(measured, wanted, points=2):
    t.check(all(abs(a - b) <= points for a, b in zip(measured, wanted)),
            "%s instead of %s" % (["%.1f" % one for one in measured], wanted))


def weights(node, _):
    """By weight among those that have work; what one leaves the other has."""
    a = Member(node, "three", "--weight", "3").feed()
    b = Member(node, "seven", "--weight", "7").feed()
    t.wait_for(lambda: (a.slice_us(), b.slice_us()) == (3600, 8400), lambda: "no slices: %s" % _groups(node))
    close(shares(node, a, b), [30, 70])
    t.check("GPU 0: weight (2)" in t.command(t.CGPU, "policy", "--node", node.name), "the policy")
    t.command(t.CGPU, "set", "three", "--weight", "63")
    t.wait_for(lambda: a.slice_us() == 13500, lambda: "the weight did not change: %s" % _groups(node))
    close(shares(node, a, b), [90, 10])
    b.stop()
    b.end()
    t.wait_for(lambda: a.slice_us() == 6000, lambda: "the slices of one alone: %s" % _groups(node))
    a.stop()
    a.end()


def equal(node, daemon):
    """Without a word everybody has as much, whatever cgpud does meanwhile."""
    members = [Member(node, "m%d" % i, kernel=kernel).feed()
               for i, kernel in enumerate((10000, 20000, 50000))]
    t.wait_for(lambda: all(one.slice_us() == 6000 for one in members), lambda: "no slices: %s" % _groups(node))
    close(shares(node, *members), [100 / 3] * 3)
    daemon.stop(signal.SIGKILL)
    close(shares(node, *members), [100 / 3] * 3)
    # Nobody is there to tell them; the slices that they have are still in proportion.
    members[0].stop()
    members[0].end()
    close(shares(node, *members[1:]), [50, 50])
    daemon.start()
    t.wait_for(lambda: all(one.slice_us() == 6000 for one in members[1:]), "other slices")
    for one in members[1:]:
        one.stop()
        one.end()


def policies(node, _):
    """A request that a GPU's policy cannot honour is refused; a policy that is set stays and holds
    at once."""
    first = Member(node, "first").feed()
    second = Member(node, "second").feed()

    def refused(*flags, says):
        done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "100MiB", *flags, "--", "true",
                         ok=False)
        t.check(done.returncode == 125 and says in done.stderr, "%s: %s" % (flags, done))

    t.command(t.CGPU, "policy", "0", "preempt", "--node", node.name)
    refused("--weight", "2", says="policy preempt, which knows no weights")
    refused("--compute", "30", says="knows no percentages")
    refused("--compute", "60", "--compute-max", "50", says="--compute-max is less than --compute")
    refused("--compute", "0", says="--compute")
    t.command(t.CGPU, "policy", "0", "native", "--node", node.name)
    t.wait_for(lambda: {first.slice_us(), second.slice_us()} == {STANDARD_US}, "slices under native")
    t.command(t.CGPU, "policy", "0", "soft", "--node", node.name)
    t.command(t.CGPU, "set", "first", "--compute", "20")
    t.command(t.CGPU, "set", "second", "--compute", "80")
    t.wait_for(lambda: second.slice_us() == 4 * first.slice_us() > 0, lambda: "20 and 80: %s" % _groups(node))
    close(shares(node, first, second), [20, 80])
    # A small change is one, too.
    t.command(t.CGPU, "set", "first", "--compute", "18")
    t.wait_for(lambda: (first.slice_us(), second.slice_us()) == (2204, 9795), lambda: "18 and 80: %s" % _groups(node))
    t.command(t.CGPU, "set", "first", "--compute", "20")
    refused("--compute", "1", says="has 0 % of its compute time left")
    done = t.command(t.CGPU, "policy", "0", "weight", "--node", node.name, ok=False)
    t.check(done.returncode == 125 and "was promised what the policy weight cannot give" in done.stderr,
            "cgpu policy: %s" % done)
    t.command(t.CGPU, "set", "second", "--compute", "none")
    t.command(t.CGPU, "set", "first", "--compute", "40")
    t.wait_for(lambda: 2 * second.slice_us() == 3 * first.slice_us() > 0, lambda: "40 and the rest: %s" % _groups(node))
    t.command(t.CGPU, "set", "first", "--compute", "none")
    t.wait_for(lambda: second.slice_us() == first.slice_us() > 0, lambda: "equal parts: %s" % _groups(node))
    t.command(t.CGPU, "policy", "0", "weight", "--node", node.name)
    t.command(t.CGPU, "policy", "0", "soft", "--node", node.name)
    for one in (first, second):
        one.stop()
        one.end()
    # It was set, so no newcomer chooses another.
    refused("--weight", "2", says="policy soft, which knows no weights")


def chosen(node, _):
    """Containers that ask for nothing leave the choice of the policy to one that asks."""
    first = Member(node, "first").feed()
    second = Member(node, "second", "--compute", "30").feed()
    t.wait_for(lambda: second.slice_us() != first.slice_us(), lambda: "no orders: %s" % _groups(node))
    capped(node, second, 15, 33)
    for one in (first, second):
        one.stop()
        one.end()
    one = Member(node, "one", "--weight", "1").feed()
    three = Member(node, "three", "--weight", "3").feed()
    t.wait_for(lambda: three.slice_us() == 3 * one.slice_us() > 0, lambda: "no slices: %s" % _groups(node))
    close(shares(node, one, three), [25, 75])
    for member in (one, three):
        member.stop()
        member.end()


def fixed(node, _):
    """A percentage and never more, also while nobody else wants the GPU."""
    one = Member(node, "thirty", "--compute", "30").feed()
    t.wait_for(lambda: one.slice_us() != STANDARD_US, lambda: "no orders: %s" % _groups(node))
    capped(node, one, 15, 33)
    other = Member(node, "fifty", "--compute", "50").feed()
    capped(node, one, 15, 33)
    capped(node, other, 35, 53)
    t.command(t.CGPU, "set", "thirty", "--compute", "50")
    capped(node, one, 35, 53)
    for member in (one, other):
        member.stop()
        member.end()
    t.wait_for(lambda: not any(node.books()["gpus"][0][kind] for kind in ("groups", "channels")),
               lambda: "something is left: %s" % node.books()["gpus"][0])


AMPERE_COMPUTE_B = 0xc7c0


def check_hung(node):
    hung = [channel for channel in node.books()["gpus"][0]["channels"] if channel["hung"]]
    t.check(not hung, "these hang: %s" % hung)


def starts(node, _):
    """Programs start under a duty cycle, and their container has its share. A channel that is taken off in a
    way that some GPU might not like hangs here (cgpu sim start --hang-rules)."""
    feeds = "(echo feed; exec sleep 1000) | %s 20000 &" % KERNELS
    for percent in (2, 10, 30):
        crowd = Crowd(node, "at%d" % percent, "%s read line; %s wait" % (feeds, feeds), "--compute", str(percent))
        t.wait_for(lambda crowd=crowd: [one for one in crowd.groups(node) if one["gpu_time_ns"]], "it does not run")
        # The second program has a channel that is not scheduled yet while others are taken off and put back.
        node.hold(1, cls=AMPERE_COMPUTE_B)
        crowd.process.say("")
        node.wait_held(1)
        of_card(node, crowd, total_ms=300)
        node.release()
        t.wait_for(lambda crowd=crowd: len([one for one in crowd.groups(node) if one["gpu_time_ns"]]) == 2,
                   lambda: "the second does not run: %s" % node.books()["gpus"][0]["channels"])
        capped(node, crowd, percent / 2, percent + 3)
        check_hung(node)
        crowd.process.kill()


def maximum(node, _):
    """Guaranteed beside others, more while they leave time, and never more than its maximum."""
    one = Member(node, "thirty", "--compute", "30", "--compute-max", "60").feed()
    t.wait_for(lambda: one.slice_us() != STANDARD_US, lambda: "no orders: %s" % _groups(node))
    capped(node, one, 45, 63)
    other = Member(node, "seventy", "--compute", "70").feed()
    t.wait_for(lambda: other.slice_us() != STANDARD_US, lambda: "no orders: %s" % _groups(node))
    capped(node, one, 15, 45)
    capped(node, other, 55, 85)
    for member in (one, other):
        member.stop()
        member.end()


def late(node, _):
    """Windows that end late, because the machine has no processor free, are paid for by the next."""
    one = Member(node, "twenty", "--compute", "20").feed()
    t.wait_for(lambda: one.slice_us() != STANDARD_US, lambda: "no orders: %s" % _groups(node))
    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(6 * os.cpu_count())]
    try:
        # The median: beyond 200 ms' worth nothing is owed for a stop of the whole machine.
        got = [of_card(node, one, 4000) for _ in range(3)]
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    print("beside %d spinning processes: %s" % (len(spinning), ["%.1f %%" % share for share in got]))
    t.check(2 < sorted(got)[1] < 22, "it gets %s %% of the card" % got)
    one.stop()
    one.end()


def upgraded(node, _):
    """Orders are handed over; while a shim becomes another nothing is suspended for good."""
    one = Member(node, "thirty", "--compute", "30").feed()
    t.wait_for(lambda: one.slice_us() != STANDARD_US, lambda: "no orders: %s" % _groups(node))
    for _ in range(3):
        t.command(t.CGPU, "upgrade", "thirty")
        t.wait_for(lambda: 15 < of_card(node, one, total_ms=500) < 33, "an upgrade changed its share")
    t.command(t.CGPU, "policy", "0", "soft", "--node", node.name)
    t.wait_for(lambda: of_card(node, one, total_ms=200) > 90, "it is held back still")
    one.stop()
    one.end()


def told(node, daemon):
    """A user that asks for a share is told when nothing is there to hold the others to it."""
    def said(*words):
        return t.command(t.CGPU, *words, ok=False).stderr

    plain = ("run", "--node", node.name, "--mem", "100MiB", "--", "true")
    one = Member(node, "one")
    asking = (("policy", "0", "weight", "--node", node.name), ("set", "one", "--weight", "2"),
              (*plain[:-2], "--weight", "2", *plain[-2:]))
    for words in asking:
        t.check(not said(*words), "cgpud runs, and it says something")
    daemon.stop()
    for words in asking:
        t.check("cgpud" in said(*words), "nobody is told that cgpud does not run by %s" % words[0])
    t.check(not said(*plain), "who asks for no share is told of it")
    one.end()
    daemon.start()


def greedy(node, _):
    """A container that gives orders about the scheduling of its own channels gets an answer, and
    nothing is done."""
    one, other = Member(node, "greedy"), Member(node, "other").feed()
    t.wait_for(lambda: (one.slice_us(), other.slice_us()) == (6000, 6000), lambda: "no slices: %s" % _groups(node))
    for line in ("slice 1000000", "preempt"):
        one.tell(line)
    t.check(one.slice_us() == 6000, "it set its own slice: %s" % one.group())
    t.check(one.group()["preemptions"] == 0, "it was preempted: %s" % one.group())
    one.feed()
    close(shares(node, one, other), [50, 50])
    one.stop()
    one.tell("slice 1000000")
    t.check(one.slice_us() == 6000, "it set its own slice: %s" % one.group())
    other.stop()
    for member in (one, other):
        member.end()


class Crowd:
    """A container of several processes, each with channels of its own, all of which feed."""

    def __init__(self, node, name, script, *flags):
        before = {group["pid"] for group in _groups(node)}
        self.process = node.run(["sh", "-c", script], flags=("--name", name, *flags), name=name)
        begun = set()  # its groups may be gone again at once

        def has_begun():
            begun.update({group["pid"] for group in _groups(node)} - before)
            return begun

        t.wait_for(has_begun, "it begins nothing")
        (self.shim,) = begun

    def groups(self, node):
        return [group for group in _groups(node) if group["pid"] == self.shim]


def many(node, _):
    """Eight processes get no more than one."""
    one = Member(node, "one").feed()
    script = "for i in 1 2 3 4 5 6 7 8; do (echo feed; exec sleep 1000) | %s 20000 & done; wait"
    crowd = Crowd(node, "crowd", script % KERNELS)
    t.wait_for(lambda: [group["timeslice_us"] for group in crowd.groups(node)] == [618] * 8,
          lambda: "its slice is not divided: %s" % _groups(node))
    t.wait_for(lambda: all(group["gpu_time_ns"] for group in crowd.groups(node)), "not all of them feed")
    # Eight turns cost eight switches, which are not the other's time: 8 times 618 us to 6000.
    close(shares(node, one, crowd), [54.8, 45.2])
    crowd.process.kill()
    one.stop()
    one.end()


def fresh(node, _):
    """A container that makes new channels all the time gets no time beyond its windows: they are
    taken off the GPU as soon as they are scheduled."""
    script = "while :; do (echo 'run 100'; sleep 0.05) | timeout 0.04 %s 1000 >/dev/null; done"
    crowd = Crowd(node, "fresh", script % KERNELS, "--compute", "20")
    first, passed = _engine(node), 0
    while passed < 3000 * MS:
        t.pause()
        busy, now = _engine(node)
        share, passed = 100.0 * (busy - first[0]) / max(now - first[1], 1), now - first[1]
    print("it got %.1f %% of the card" % share)
    t.check(0 < share < 30, "it got %.1f %%" % share)
    crowd.process.kill()


def waiting(node, daemon):
    """One that launches a kernel and waits for it gets its part beside a full queue: its neighbour's
    turns become shorter, and as long as before when it is gone."""
    full = Member(node, "full").feed()
    log = node.run([BURN, "--kernel-us", "1000", "--queue", "1"], flags=("--name", "waits"),
                   name="waits")
    t.wait_for(lambda: len(_groups(node)) == 2, "it does not begin")
    waiter = Member.__new__(Member)
    waiter.node, waiter.process = node, log
    (waiter.shim,) = {group["pid"] for group in _groups(node)} - {full.shim}
    # A kernel for each turn of 3 ms would be a quarter of the GPU.
    t.wait_for(lambda: shares(node, waiter, full, total_ms=500)[0] > 38, "it does not get its part")
    t.check(full.slice_us() < 4000, "by what? %s" % _groups(node))
    daemon.stop(signal.SIGKILL)  # what was found holds
    t.wait_for(lambda: shares(node, waiter, full, total_ms=1000)[0] > 35, "it gets less without cgpud")
    t.check(full.slice_us() < 4000, "its turns are long again: %s" % _groups(node))
    daemon.start()
    t.wait_for(lambda: shares(node, waiter, full, total_ms=500)[0] > 38, "it does not get its part again")
    log.popen.send_signal(signal.SIGTERM)
    log.end()
    t.wait_for(lambda: full.slice_us() == 6000, lambda: "its turns stay short: %s" % _groups(node))
    full.stop()
    full.end()


def asked_node(*words, gpus=1):
    """A node that stands for real GPUs, for `cgpu calibrate`."""
    return t.Node("a10:%d" % gpus, "580", "--no-caps", "--copy-gbps", "2", *words)


def calibrate(node):
    t.command(t.CGPU, "calibrate", "--node", node.name, "--interruptions", "1")


def restarted(_, daemon):
    """A GPU may take time slices only when its list of groups is restarted. Once that is known, shares hold;
    and a container cannot make the shim restart the list again and again."""
    daemon.stop()
    with asked_node("--slices-take-effect", "restart") as node:
        calibrate(node)
        daemon = start_cgpud(node, engines.RUNC)
        a = Member(node, "three", "--weight", "3").feed()
        b = Member(node, "seven", "--weight", "7").feed()
        close_in_time(node, a, b, [30, 70])
        t.command(t.CGPU, "set", "three", "--weight", "63")
        close_in_time(node, a, b, [90, 10])
        t.command(t.CGPU, "upgrade", "three")
        daemon.stop(signal.SIGKILL)
        b.stop()  # its successor restarts the list by itself, with the helper that it was handed
        b.feed()
        close_in_time(node, a, b, [90, 10])
        daemon.start()
        for helper in _helpers():
            os.kill(helper, signal.SIGKILL)
        t.command(t.CGPU, "set", "three", "--weight", "7")
        close_in_time(node, a, b, [50, 50])
        before, (_, begin) = restarts(node), _engine(node)
        crowd = Crowd(node, "fresh", "while :; do (echo 'run 1'; sleep 0.01) | %s 1000 >/dev/null; done" % KERNELS)
        t.wait_for(lambda: _engine(node)[1] - begin > 3e9, "the GPU's time stands still")
        passed_s = (_engine(node)[1] - begin) / 1e9
        done = restarts(node) - before
        print("%d restarts in %.1f s" % (done, passed_s))
        t.check(0 < done < 64 + 20 * passed_s, "%d restarts in %.1f s" % (done, passed_s))
        crowd.process.kill()
        for member in (a, b):
            member.stop()
            member.end()
        daemon.stop()
    daemon.start()


def restarts(node):
    return t.graphics(node.books()["gpus"][0])["restarts"]


def close_in_time(node, a, b, wanted):
    t.wait_for(lambda: abs(shares(node, a, b, total_ms=500)[0] - wanted[0]) < 3,
               lambda: "not %s: %s" % (wanted, _groups(node)))
    close(shares(node, a, b), wanted)


def unasked(_, daemon):
    """On a GPU that was never asked how it takes orders, as on all real ones, time slices stay as planned;
    and they stay if it was asked and does not take them from programs that run."""
    daemon.stop()
    said, before = "stay as planned", 0  # bytes of the log, which all of them share
    for effect, corrected in (("at-once", True), ("never", False)):
        with asked_node("--slices-take-effect", effect) as node:
            for is_asked in (False, True):
                if is_asked:
                    calibrate(node)
                daemon = start_cgpud(node, engines.RUNC)
                full = Member(node, "full").feed()
                log = node.run([BURN, "--kernel-us", "1000", "--queue", "1"], flags=("--name", "waits"))
                t.wait_for(lambda: len(_groups(node)) == 2 and full.slice_us() == 6000, "it does not begin")
                if is_asked and corrected:
                    t.wait_for(lambda: full.slice_us() < 4000, "nothing is corrected on a GPU that was asked")
                    t.check(said not in daemon.log()[before:], daemon.log())
                else:
                    t.wait_for(lambda: said in daemon.log()[before:], "it does not say so: %s" % daemon.log())
                    gets(node, [full], lambda got: got[0] > 2e9)
                    t.check(full.slice_us() == 6000, "%s, asked: %s: %s" % (effect, is_asked, full.group()))
                log.popen.send_signal(signal.SIGTERM)
                log.end()
                full.stop()
                full.end()
                daemon.stop()
                before = len(daemon.log())
    daemon.start()


SWITCH_US = 150
SET_INTERLEAVE_LEVEL, NOT_SUPPORTED = 0xa06c0107, 0x56


def waits(node, member, count=100):
    """How long each of so many launches waited for its turn, less the switch to it: in microseconds
    of the GPU's own time, in which slices hold however late anybody is."""
    known = node.books(starts_from=0)["gpus"][0]["starts"]
    first = known[-1]["number"] + 1 if known else 0
    for _ in range(count):
        member.process.say("run 1")
        member.process.expect("^ran 1$")
    key = member.group()["key"]
    starts = [start for start in node.books(starts_from=first)["gpus"][0]["starts"]
              if start["group"] == key]
    # A launch that comes before the GPU has left the one before is no start.
    t.check(len(starts) >= count // 2, "%d starts were recorded" % len(starts))
    return [(start["start_ns"] - start["visible_ns"]) / 1000 - SWITCH_US * start["switched"]
            for start in starts]


def _status(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def _helpers():
    return [pid for pid, line in isolation.processes().items()
            if line.split() == ["cgpu-shim", "interleave"]]


CAP_SYS_NICE = 1 << 23


def _helper(member):
    """The one process that may set levels; the shim, which makes tenants' calls, may not."""
    t.wait_for(lambda: len(_helpers()) == 1, "helpers: %s" % _helpers())  # one that was replaced ends
    (pid,) = _helpers()
    status, shim = _status(pid), _status(member.shim)
    for name in ("CapEff", "CapPrm", "CapBnd"):
        t.check(int(status[name], 16) == CAP_SYS_NICE, "the helper has others: %s" % status)
    t.check(int(shim["CapBnd"], 16) & CAP_SYS_NICE == 0, "the shim has CAP_SYS_NICE")
    t.check(status["Uid"] == shim["Uid"] and status["Uid"].split()[1] != "0", "as %s" % status["Uid"])
    t.check((status["Seccomp"], status["NoNewPrivs"]) == ("2", "1"), "it is not confined")
    return pid


def priority(node, daemon):
    """One of high priority waits for one slice of others, however many there are; its level is put
    back; nobody sets his own."""
    others = [Member(node, "m%d" % i).feed() for i in range(4)]
    urgent = Member(node, "urgent")
    t.wait_for(lambda: urgent.slice_us() == 6000, lambda: "no slices: %s" % _groups(node))
    t.check(max(waits(node, urgent, count=10)) > 1000 and not _helpers(), "it has priority already")
    t.command(t.CGPU, "set", "urgent", "--priority", "high")
    # 90 % of a round: 9 times the others' slices, in four turns.
    t.wait_for(lambda: (urgent.group()["interleave"], urgent.slice_us()) == (2, 10800) and
          all(one.slice_us() == 1200 for one in others), lambda: "no priority: %s" % _groups(node))
    # One slice, and the switch to it that was under way.
    t.check(max(waits(node, urgent)) < 1200 + SWITCH_US + 1, "it waits for more than one slice")
    helper = _helper(urgent)
    urgent.tell("level 0")
    others[0].stop()
    others[0].tell("level 2")
    t.check([one.group()["interleave"] for one in (urgent, others[0])] == [2, 0],
            lambda: "it set its own level: %s" % _groups(node))
    others[0].feed()
    urgent.feed()
    close(shares(node, urgent, *others), [90] + [2.5] * 4)
    urgent.stop()
    t.command(t.CGPU, "upgrade", "urgent")
    t.check(_helpers() == [helper] and urgent.group()["interleave"] == 2, "after an upgrade")
    # Nobody is there to tell it; then it is told once more, by whoever came back, and gets another.
    daemon.stop(signal.SIGKILL)
    t.check(max(waits(node, urgent, count=20)) < 1200 + SWITCH_US + 1, "without cgpud it waits")
    daemon.start()
    t.wait_for(lambda: helper not in _helpers() and _helpers(), "the helper is the old one")
    os.kill(_helper(urgent), signal.SIGKILL)
    t.wait_for(lambda: not _helpers(), "it cannot be killed")
    t.command(t.CGPU, "set", "urgent", "--priority", "normal")
    t.wait_for(lambda: (urgent.group()["interleave"], urgent.slice_us()) == (0, 6000),
          lambda: "it has priority still: %s" % _groups(node))
    t.wait_for(lambda: not _helpers(), "the helper is still there")
    # A GPU that knows no levels: longer slices are all that it gets.
    node.fault("--status", NOT_SUPPORTED, control=SET_INTERLEAVE_LEVEL, count=1000)
    t.command(t.CGPU, "set", "urgent", "--priority", "high")
    t.wait_for(lambda: (urgent.group()["interleave"], urgent.slice_us()) == (0, 43200),
          lambda: "no longer slice: %s" % _groups(node))
    t.wait_for(lambda: not _helpers(), "a helper that is of no use")
    for one in others:
        one.stop()
    node.clear()
    others.pop().end()  # orders are sent anew
    t.wait_for(lambda: urgent.group()["interleave"] == 2 and _helpers(), lambda: "no priority: %s" % _groups(node))
    for one in (urgent, *others):
        one.end()
    t.wait_for(lambda: not _helpers(), "a helper outlives its container")


def elsewhere(_, __):
    """cgpud does not know whether channels may be taken off GPUs that are not its node's."""
    with t.Node("a10:1", "580") as other:
        one = Member(other, "thirty", "--compute", "30").feed()
        t.wait_for(lambda: one.slice_us() == 6000, "no slice: %s" % _groups(other))
        # A busy machine lets it idle at times. Taken off, it would have 30 at the most.
        t.wait_for(lambda: of_card(other, one, total_ms=500) > 90, "it is taken off")
        one.stop()
        one.end()


def capless(_, daemon):
    """On GPUs that do not cap, as all real ones today, a percentage is a share, and whoever asks is told."""
    daemon.stop()
    with t.Node("a10:1", "580", "--no-caps") as node:
        daemon = start_cgpud(node, engines.RUNC)
        one = Member(node, "thirty", "--compute", "30").feed()
        other = Member(node, "ten", "--compute", "10")
        told = "cgpu: a percentage is a share on these GPUs, and no cap"
        run_words = (t.CGPU, "run", "--node", node.name, "--mem", "100MiB")
        for words, is_told in ((("--compute", "5"), True), ((), False)):
            said = t.command(*run_words, *words, "--", "true", ok=False).stderr
            t.check((told in said) == is_told, "with %s it says %s" % (words, said))
        t.check(told in t.command(t.CGPU, "set", "ten", "--compute", "20", ok=False).stderr, "who sets it is not told")
        t.check(of_card(node, one, total_ms=500) > 90, "it is taken off")
        other.feed()
        close(shares(node, one, other), [60, 40])
        policy = t.command(t.CGPU, "policy", "--node", node.name)
        t.check("GPU 0: fixed (3), max-inst 20, prio-ratio 90; shares, no caps" in policy, policy)
        (said,) = json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))
        t.check(said["caps"] is False, "it says %s" % said)
        top = t.command(t.CGPU, "top", "-n", "1", "-d", "1", "--node", node.name)
        t.check(re.search(r"^GPU 0: fixed, busy (100.0|9[7-9]\.\d) %; shares, no caps$", top, re.M), top)
        for member in (one, other):
            member.stop()
            member.end()
        daemon.stop()
    daemon.start()


def windows(node, _):
    """High priority takes its part of each window, and the windows' owners what it leaves, also where
    each has a window of its own."""
    others = [Member(node, "m%d" % i, "--compute", "25").feed() for i in range(4)]
    urgent = Member(node, "urgent", "--priority", "high").feed()
    t.wait_for(lambda: (urgent.group()["interleave"], urgent.slice_us()) == (2, 1125) and
          all(one.slice_us() == 500 for one in others), lambda: "no priority: %s" % _groups(node))
    # A window that begins late is lost.
    t.wait_for(lambda: 88 < (got := shares(node, urgent, *others))[0] < 95 and min(got[1:]) > 1,
          "it does not come to 90 and 2.5 each")
    for one in (urgent, *others):
        one.stop()
        one.end()


def top(node, _):
    """cgpu top says what the accounting says."""
    three = Member(node, "three", "--weight", "3").feed()
    seven = Member(node, "seven", "--weight", "7").feed()
    t.wait_for(lambda: (three.slice_us(), seven.slice_us()) == (3600, 8400), lambda: "no slices: %s" % _groups(node))

    def look(count=1):
        """The last of so many looks: by name, and the GPU's own."""
        out = t.command(t.CGPU, "top", "--node", node.name, "--json", "-n", str(count), "-d", "0.5")
        (card,) = json.loads(out.splitlines()[-1])
        return {one["name"]: one for one in card["containers"]}, card

    def fits(line, share):
        return (abs(line["share_percent"] - share) < 0.1 and abs(line["used_percent"] - share) < 4 and
                abs(line["waiting_percent"] - (100 - share)) < 8 and line["throttled_percent"] == 0 and
                line["limit_bytes"] == 1 << 30)

    def right():
        lines, card = look()
        print(card)
        return (card["policy"] == "weight" and card["busy_percent"] > 90 and
                fits(lines["three"], 30) and fits(lines["seven"], 70))

    t.wait_for(right, "it says something else")
    seven.stop()
    seven.end()
    t.wait_for(lambda: look()[0]["three"]["used_percent"] > 85, "one alone uses nothing")
    three.stop()
    t.wait_for(lambda: look(2)[0]["three"]["used_percent"] == 0, "it uses more than nothing")
    table = t.command(t.CGPU, "top", "--node", node.name, "-n", "1", "-d", "0.1")
    t.check("GPU 0: weight" in table and "three" in table and "THROTTLED" in table, table)
    three.end()


def used(node, _):
    """cgpu top says what the accounting says where the clock keeps containers off the GPU, so that it is
    idle between them."""
    first = Member(node, "first", "--compute", "30").feed()
    second = Member(node, "second", "--compute", "30").feed()

    def right(*members):
        (card,) = json.loads(t.command(t.CGPU, "top", "--node", node.name, "--json", "-n", "1", "-d", "2"))
        said = {one["name"]: one["used_percent"] for one in card["containers"]}
        got = {member.name: of_card(node, member) for member in members}
        print(said, got, card["busy_percent"])
        return (all(abs(said[name] - got[name]) < 3 for name in got) and
                abs(sum(said.values()) - card["busy_percent"]) < 0.1)

    t.wait_for(lambda: right(first, second), "it says something else")
    second.stop()
    t.wait_for(lambda: right(first, second), "it says something else of one that has stopped")
    first.stop()
    for one in (first, second):
        one.end()


CASES = {"top": top, "used": used, "priority": priority, "windows": windows, "capless": capless, "unasked": unasked, "restarted": restarted, "elsewhere": elsewhere, "waits": waiting, "greedy": greedy, "many": many, "fresh": fresh, "told": told, "weights": weights, "equal": equal, "policies": policies, "chosen": chosen, "fixed": fixed, "starts": starts, "maximum": maximum, "late": late,
         "upgraded": upgraded}


def run(function):
    with t.Node("a10:1", "580") as node:
        daemon = start_cgpud(node, engines.RUNC)
        function(node, daemon)
        node.wait_used(0, "after the containers")
        daemon.stop()


if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
