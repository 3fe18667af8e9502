"""Attacks between check and use (races.cc).

  races_test.py CASE                once, without cgpu and with it
  races_test.py soak-KIND SECONDS   with it alone, counting tries: docs/reference/adversaries.md
"""
import re
import time

from attack import LIMIT, NEIGHBOUR, argv, hold, more_than, neighbour, twice, within, without
from cgpu_test import MIB, Node, check, main


def _rounds(node_limit, tries, stop_when_won):
    """Follows the attack's rounds, looking at the accounting after each, while nothing is freed. Without
    cgpu one round in which it won is enough."""

    def course(node):
        def follow(process):
            won = 0
            while True:
                tried = int(process.expect(r"^round (\d+) tries").group(1))
                used = node.used()
                won += used > node_limit * MIB
                if stop_when_won:
                    if won:
                        process.close()
                        break
                else:
                    check(not won, "after %d tries %d bytes are in use" % (tried, used))
                if tried >= tries:
                    process.close()
                    break
                process.say("on")
            if stop_when_won:
                check(won, "without cgpu the attack never won in %d tries: it proves nothing" % tries)
            process.expect("^holding$")

        return follow

    return course


def _flip(what, tries, huge=2048):
    """`tries` in the slice; without cgpu one success is enough."""
    with Node() as node:
        process = node.exec(argv("flip", what, 200_000, 1, huge), name="without cgpu")
        _rounds(LIMIT, 200_000, True)(node)(process)
        process.end()
        node.wait_used(0, "after the attack without cgpu")
    with Node() as node:
        with neighbour(node):
            process = node.run(argv("flip", what, tries, 1, huge), flags=("--gpus", "1"),
                               name="with cgpu")
            _rounds(LIMIT + NEIGHBOUR, tries, False)(node)(process)
            check(process.said(r"tries [1-9]\d* succeeded"), "not one allocation succeeded")
            process.end()
            node.wait_used(NEIGHBOUR * MIB, "after the attack's end")


def flip_size(tries="20000"):
    """The size flips between 1 MiB and 2 GiB."""
    _flip("size", int(tries))


def flip_pointer(tries="20000"):
    """The pointer to the parameters flips between modest ones and immodest ones."""
    _flip("pointer", int(tries))


def flip_class(tries="20000"):
    """The class flips between system memory and GPU memory."""
    _flip("class", int(tries), huge=64)


def flip_xfer(tries="20000"):
    """The pointer of NV_ESC_IOCTL_XFER_CMD flips."""
    _flip("xfer", int(tries))


def flip_attr(tries="20000"):
    """The location of a VID_HEAP_CONTROL allocation flips between system and GPU."""
    _flip("attr", int(tries), huge=64)


# A try is a call that was issued while the flipping went on; flips alone do not count. What the check
# is to see must be allowed for as long as a round goes on, else it is refused whatever is flipped: 900
# times 1 MiB are less than the limit. Where the other side of the flip takes no GPU memory there is
# no such bound.
_SOAKED = {"size": (2048, 900), "pointer": (2048, 900), "xfer": (2048, 900),
           "class": (64, 4000), "attr": (64, 4000)}
_DUP2_TRIES = 100_000  # of one process


def _soak_flip(what, seconds):
    huge, per_round = _SOAKED[what]
    until = time.monotonic() + float(seconds)
    tried, answers = 0, [0, 0]
    with Node() as node:
        process = node.run(argv("flip", what, 1 << 60, 1, huge, per_round), flags=("--gpus", "1"),
                           name="flip " + what)
        while True:
            found = process.expect(r"^round (\d+) tries (\d+) succeeded (\d+) refused$")
            used = node.used()
            tried = int(found.group(1))
            answers = [answers[0] + int(found.group(2)), answers[1] + int(found.group(3))]
            check(used <= LIMIT * MIB, "won: after %d tries %d bytes are in use" % (tried, used))
            if time.monotonic() > until:
                break
            process.forget()
            process.say("on")
        process.end()
    check(min(answers) > 0, "one side of the flip was never seen: it proves nothing")
    print("soak-flip-%s: tries %d, wins 0; %d succeeded, %d refused" % (what, tried, *answers))


def _soak_dup2(other, seconds):
    until = time.monotonic() + float(seconds)
    tried, elsewhere = 0, 0
    with Node() as node:
        while time.monotonic() < until:
            process = node.run(argv("dup2", other, _DUP2_TRIES, _DUP2_TRIES), flags=("--gpus", "1"),
                               name="dup2 " + other)
            process.expect("^holding$")
            used = node.used()
            counts = re.findall(r"\d+", process.said("^tries ")[0].string)
            tried += int(counts[0])
            elsewhere += int(counts[3])
            check(used <= LIMIT * MIB, "won: after %d tries %d bytes are in use" % (tried, used))
            process.end()
            node.wait_used(0, "after the attack")
    check(0 < elsewhere < tried, "one of the files was never seen: it proves nothing")
    print("soak-dup2-%s: tries %d, wins 0; %d on the other file" % (other, tried, elsewhere))


def dup2_null():
    twice(["dup2", "null"])


def dup2_file():
    twice(["dup2", "file"])


def own_table():
    """Another file under the same number in a thread's own table: the thread's file counts."""

    def own_file(_node, process):
        check(process.number(r"^own client (0x[0-9a-f]+)$") == 0,
              "the thread's own file was not used")
        check(process.number(r"^leader's client (0x[0-9a-f]+)$") != 0,
              "the leader's file was used for the thread's call")

    def without_cgpu(node, process):
        own_file(node, process)
        more_than(LIMIT)(node, process)

    without(["own-table"], without_cgpu)
    within(["own-table"], own_file, hold)


def hidden_table():
    twice(["hidden-table"], usable=LIMIT * 9 // 10)


SOAKS = {"soak-" + what: (lambda seconds, what=what: _soak_flip(what, seconds)) for what in _SOAKED}
SOAKS |= {"soak-dup2-" + other: (lambda seconds, other=other: _soak_dup2(other, seconds))
          for other in ("null", "file")}
main(SOAKS | {"flip-size": flip_size, "flip-pointer": flip_pointer, "flip-class": flip_class,
      "flip-xfer": flip_xfer, "flip-attr": flip_attr, "dup2-null": dup2_null,
      "dup2-file": dup2_file, "own-table": own_table, "hidden-table": hidden_table})
