"""Attacks with processes, filters and signals (processes.cc)."""
import os
import random
import signal

from attack import LIMIT, NEIGHBOUR, argv, neighbour, nothing, twice, within, without
from cgpu_test import MIB, Failure, Node, check, main

USABLE = LIMIT * 9 // 10


def filter_allow():
    """A filter that allows everything does not undo the one that asks."""
    twice(["filter", "allow", 4096], usable=USABLE)


def filter_trace():
    """A filter that asks a tracer, who lets every call through."""
    twice(["filter", "trace", 4096], usable=USABLE)


def filter_listener():
    """A listener of one's own: the kernel has one per task; in a slice it is taken."""
    def installed(_node, process):
        check(process.said("^listener installed$"), "without cgpu there is no listener")

    without(["filter", "listener", 64], installed)

    def refused(_node, process):
        check(process.said("^listener ") and not process.said("^listener installed$"),
              "a second listener was installed in a slice")

    within(["filter", "listener", 4096], refused)


def filter_errno():
    """Calls that the tenant's own filter swallows: nothing happens on either side; the strongest
    that can be said is that the slice and its neighbour live on."""
    without(["filter", "errno", 256], nothing)
    within(["filter", "errno", 256])


def chain():
    """Fork and exec, eight deep, with an empty environment."""
    twice(["chain", 8, 4096], usable=USABLE)


def daemon():
    """Out of the session and away from the parent."""
    twice(["daemon", 4096], usable=USABLE)


def _storm(flags=()):
    count = 10_000

    def once(node, process):
        found = process.said(r"^made (\d+) freed (\d+) twice (\d+) failed (\d+) signals (\d+)$")[0]
        made, freed, double, failed, signals = (int(group) for group in found.groups())
        check(signals > 100, "a storm of %d signals is none" % signals)
        check((made, freed, double, failed) == (count, count // 2, 0, 0),
              "made %d, freed %d, twice %d, failed %d" % (made, freed, double, failed))
        objects = max(client["objects"] for client in node.books()["clients"])
        # The client may count itself; device and subdevice are objects, too.
        check(count // 2 + 2 <= objects <= count // 2 + 3,
              "%d objects exist, not %d" % (objects, count // 2))

    without(["storm", count], once)
    within(["storm", count], once, mem="2048MiB", limit=2048, flags=("--gpus", "1", *flags))


def storm():
    """Signals without pause: each call is executed exactly once."""
    _storm()


def again():
    """The same calls, again and again, are new calls each time."""
    def as_often(_node, process):
        check(process.number(r"^wrong (\d+)$") == 0, "a repeated call was not executed")

    without(["again"], as_often)
    within(["again"], as_often)


def kill():
    """kill -9 at any moment of any work: nothing is left, neither on the card nor in the ledger."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed %d" % seed)
    dice = random.Random(seed)
    with Node() as node:
        process = node.exec(argv("churn", 3), name="without cgpu")
        process.expect("churning")
        for _ in range(50):
            if node.used() > 0:
                break
        else:
            raise Failure("without cgpu nothing was ever in use")
        process.kill()
        node.wait_used(0, "after the kill without cgpu")
        with neighbour(node):
            for turn in range(10):
                process = node.run(argv("churn", 3), flags=("--gpus", "1", "--name", "churn"),
                                   name="churn %d" % turn)
                process.expect("churning")
                _some_moment(dice)
                victim = [c["pid"] for c in node.containers() if c["name"] == "churn"]
                check(len(victim) == 1, "cgpu ps shows %s" % node.containers())
                os.kill(victim[0], signal.SIGKILL)
                status = process.end()
                check(status == 128 + signal.SIGKILL, "the killed container ended with %d" % status)
                node.wait_used(NEIGHBOUR * MIB, "after kill %d" % turn)
                check([c["name"] for c in node.containers() if c["name"] == "churn"] == [],
                      "cgpu ps still shows what was killed")
        node.wait_used(0, "after the neighbour's end")


def _some_moment(dice):
    """Not a wait for anything: only some other moment than the last time."""
    for _ in range(dice.randrange(100_000)):
        pass


main({"filter-allow": filter_allow, "filter-trace": filter_trace,
      "filter-listener": filter_listener, "filter-errno": filter_errno, "chain": chain,
      "daemon": daemon, "storm": storm, "again": again, "kill": kill})
