"""Attacks on what the filter and the decoder look at (calls.cc)."""
import errno

from attack import (LIMIT, NEIGHBOUR, at_least, counted, hold, more_than, nothing, twice, within,
                    without)
from cgpu_test import MIB, check, main


def raw():
    """Bare ioctls of a static binary. In the slice at least 99 % of the limit can be had."""
    twice(["raw", 4096], usable=LIMIT * 99 // 100)


def xfer():
    twice(["xfer", 4096], usable=LIMIT * 99 // 100)


def types():
    """256 type bytes with 4 pairs of direction bits; the driver takes every one of them."""

    def all_of_them(node, process):
        made = process.number(r"^allocations (\d+)$")
        check(made == 1024, "the driver took %d of 1024 requests" % made)
        more_than(LIMIT)(node, process)

    without(["types"], all_of_them)
    within(["types"])


def upper():
    """The kernel takes each with junk in the upper halves, so the driver sees them."""

    def all_of_them(node, process):
        made = process.number(r"^allocations (\d+)$")
        check(made == 99, "the driver took %d of 99 requests" % made)
        more_than(LIMIT)(node, process)

    without(["upper"], all_of_them)
    within(["upper"])


def _door(name):
    twice(["door", name, 4096])


def heap():
    _door("heap")


def small():
    """4 KiB pages are reported as asked and take 64 KiB of the GPU each."""
    twice(["door", "small", 30_000], usable=LIMIT * 99 // 100)


def aligned():
    """A fixed address takes all of the alignment asked for, whatever the size says."""
    twice(["door", "aligned", 64])


def long():
    _door("long")


def system():
    """System memory, also such that asks for GPU memory or for any: the driver takes none of a
    GPU for it, and neither may a slice."""
    def none_of_it(node, _process):
        check(node.used() == 0, "system memory took %d bytes of a card" % node.used())

    for door in ("system", "heap-any", "heap-pci"):
        without(["door", door, 4096], none_of_it)
        within(["door", door, 4096])


def range_():
    """Other functions of VID_HEAP_CONTROL: refused in a slice, whatever the driver would do."""
    for function in ("range", "tiled"):
        without(["door", function, 4096], nothing)
        within(["door", function, 4096])


# Beyond its tables an interval of addresses is charged what it could need where it begins in the
# middle of one: a table of each of five kinds twice, where all of them have the others in common.
INTERVAL = 10 * 4096


def mixed():
    """Virtual memory that is said to lie on the GPU, GPU memory in the system's and the like:
    what takes GPU memory counts, and only that."""
    def close(node, intervals):
        node.sync()
        ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
        check(drivers <= ours <= drivers + intervals * INTERVAL,
              "cgpu counts %d bytes, the driver %d, with %d intervals" % (ours, drivers, intervals))

    def course_of(see):
        def course(process, node):
            made = process.expect(r"^one of each (\d+) intervals (\d+)$")
            check(int(made.group(1)) > int(made.group(2)) > 0, "all was refused")
            see(node, int(made.group(2)))
            process.say("on")
            process.expect("^holding$")

        return course

    def all_counted(node, process):
        close(node, process.number(r"^in all \d+ intervals (\d+)$"))
        at_least(LIMIT * 9 // 10)(node, process)

    without(["mixed"], more_than(LIMIT), course_of(lambda node, intervals: None))
    within(["mixed"], all_counted, course_of(close))


def open_complete():
    """An escape for whose answer the driver of branch 550 does not ask whether there is room. In a
    slice the driver is asked with the right size alone."""
    def answers(process, kind):
        return [int(m.group(1)) for m in process.said(r" %s errno (\d+)$" % kind)]

    def taken(_node, process):
        check(len(answers(process, "odd")) == 40 and len(answers(process, "whole")) == 8,
              "it said %s" % process.lines)
        check(0 in answers(process, "odd"), "the driver refused every size: it proves nothing")

    def refused(_node, process):
        check(set(answers(process, "odd")) == {errno.EINVAL}, "it said %s" % process.lines)
        check(set(answers(process, "whole")) == {0}, "it said %s" % process.lines)

    without(["open-complete"], taken)
    within(["open-complete"], refused)


def groups():
    """The context buffers of channel groups count: 20,000 groups do not fit into a GPU, and those
    that a slice may have do not take it above its limit."""

    def took_memory(node, process):
        check(process.number(r"^allocations (\d+)$") > 0, "no channel group was made")
        check(node.used() > 64 * MIB, "channel groups took %d bytes" % node.used())

    without(["door", "groups", 20_000], took_memory)
    within(["door", "groups", 20_000], mem="256MiB", limit=256)


def i386():
    """int 0x80 with buffers below 4 GiB: where the kernel has it, it works; in a slice it kills."""
    _entry("i386")


def x32():
    """Most kernels have no x32 calls; in a slice they kill all the same."""
    _entry("x32")


def _entry(name):
    def works(node, process):
        if process.said("^entry works$") and name == "i386":
            more_than(LIMIT)(node, process)
        elif not process.said("^entry works$"):
            print("this kernel has no %s entry: without cgpu nothing to show" % name)

    without(["entry", name], works)

    def kills(_node, process):
        check(process.said("^entry (kills|missing)$"), "the entry works in a slice")
        check(process.said(r"^killed by \d+$") and not process.said("^status 0$"),
              "a call by that entry was not answered by death: %s" % process.lines)

    within(["entry", name], kills, hold)


main({"raw": raw, "xfer": xfer, "types": types, "upper": upper, "heap": heap, "small": small,
      "aligned": aligned, "long": long, "system": system, "functions": range_, "mixed": mixed,
      "open-complete": open_complete, "groups": groups,
      "i386": i386, "x32": x32})
