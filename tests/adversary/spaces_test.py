"""Attacks on who managed memory is charged to: it lives in an address space, and not with the
process or the thread that mapped it (spaces.cc)."""
from attack import (LIMIT, NEIGHBOUR, argv, at_least, counted, give_out_next, more_than, outer_number,
                    within, without)
from cgpu_test import MIB, check, main

WANTED = 6144


def _all_counted(node, process):
    """Returns the MiB that the attack got: all of it is there, and counted."""
    got = process.number(r"^got (\d+) MiB$")
    node.sync()
    ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
    check(ours >= drivers >= got * MIB, "of %d MiB cgpu counts %d bytes, the driver %d" %
          (got, ours, drivers))
    return got


def _had_again(process, got):
    process.say("on")
    again = int(process.expect(r"^again (\d+) MiB$").group(1))
    process.expect("^holding$")
    check(again == got > 0, "%d MiB of %d could be had again" % (again, got))


def _left(way):
    words = ["left", way, WANTED] if way else ["vforked", WANTED]

    def course(process, _node):
        process.expect(r"^got (\d+) MiB$")

    def judge(node, process):
        """Nothing of it is forgotten while it is there, and all of it can be had afterwards."""
        got = _all_counted(node, process)
        if way:  # else of a process that is gone nobody knows what its memory has unmapped
            _had_again(process, got)

    def run():
        without(words, more_than(LIMIT), course)
        within(words, judge, course)

    run.__doc__ = "A process maps, leaves its memory to another, and is gone: %s." % (way or "vfork")
    return run


def unmapped():
    """Processes map and end, and the kernel is kept from unmapping what they had."""
    def course(process, node):
        node.sim("keep-mapped")
        process.say("go")
        process.expect(r"^got (\d+) MiB$")

    def judge(node, process):
        got = _all_counted(node, process)
        node.release()
        _had_again(process, got)

    without(["unmapped", WANTED], more_than(LIMIT), course)
    within(["unmapped", WANTED], judge, course)


def twins():
    """The same addresses in ever new address spaces, of which each outlives its process."""
    def judge(node, process):
        at_least(LIMIT // 2)(node, process)
        check(process.number(r"^left (\d+)$") > 0, "all of it was mapped")

    without(["twins", WANTED // 256], more_than(LIMIT))
    within(["twins", WANTED // 256], judge)


def reused():
    """A child that has the number of a thread which made a call and ended."""
    def course(process, _node):
        while not process.said("^holding$"):
            if process.expect(r"^(number \d+|holding)$").group(1) == "holding":
                break
            number = outer_number(int(process.lines[-1].split()[1]), "reused")
            process.say("end")
            process.expect("^ended$")
            child = None
            for _ in range(1000):  # others may be given the number
                give_out_next(number)
                process.say("fork")
                child = outer_number(int(process.expect(r"^number (\d+)$").group(1)), "reused")
                process.say("map" if child == number else "drop")
                if child == number:
                    break
            check(child == number, "the number %d is not given out again" % number)
            process.expect("^child (mapped|refused)$")
            if process.lines[-1].endswith("refused"):
                process.expect("^holding$")

    without(["reused", WANTED], more_than(LIMIT), course)
    within(["reused", WANTED], at_least(LIMIT // 2), course)


def _evades(*words, alone=(), says=None):
    """Hides mappings, moves them away and back, or claims more than 64 bits hold. `alone`: words for the
    run without cgpu; `says`: how the attack tells that it came as far as it can."""
    def judge(node, process):
        check(says is None or process.said("^%s$" % says), "the attack has not come to its point")
        node.sync()
        ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
        check(ours >= drivers, "cgpu counts %d bytes, the driver %d" % (ours, drivers))

    def run():
        without([*words, *alone], more_than(LIMIT))
        within(words, judge)

    return run


main({"spaces-forgotten": _evades("forgotten", WANTED, alone=[1], says="forgotten"), "spaces-moved": _evades("moved", 12, 500),
      "spaces-sums": _evades("sums", WANTED), "spaces-exit": _left("exit"), "spaces-exec": _left("exec"),
      "spaces-thread-exec": _left("thread-exec"), "spaces-vfork": _left(None),
      "spaces-unmapped": unmapped, "spaces-twins": twins, "spaces-numbers": reused})
