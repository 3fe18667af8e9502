"""Attacks by the call that pins a tenant's own pages, which the tenant executes itself: a word of it
is another one for the driver than for the shim (swaps.cc)."""
from attack import LIMIT, NEIGHBOUR, argv, counted, more_than, within, without
from cgpu_test import MIB, check, main

PARENT, HANDLE, CLASS, WORDS, REGISTERS = 1, 2, 3, 12, 100
ROUNDS = 8


def _course(process, node):
    check(int(process.expect(r"^served (\d+)$").group(1)) == ROUNDS, "not every call was made as it should")
    process.uses = int(process.expect(r"^uses (\d+)$").group(1))
    node.sync()
    process.held = node.used()
    process.say("go on")
    process.expect("^freed$")
    node.sync()


def _covered(node, process):
    """The driver holds no byte that cgpu does not count, and writes to no memory that is gone."""
    ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
    print("uses %d, counted %d, in use %d, stray writes %d"
          % (process.uses, ours, drivers, node.books()["stray_writes"]))
    check(drivers <= ours, "%d bytes are in use, cgpu counts %d" % (drivers, ours))
    check(node.books()["stray_writes"] == 0, "%d stray writes" % node.books()["stray_writes"])
    process.say("go on")
    process.expect(r"^got \d+ MiB$")
    check(process.expect("^holding$"), "it does not hold")
    check(node.used() <= (LIMIT + NEIGHBOUR) * MIB, "%d bytes are in use" % node.used())


def _took(node, process):
    """Without cgpu nobody reads the call before the driver: what was pinned can be used."""
    check(process.uses > 0, "nothing used what was pinned: it proves nothing")
    check(process.held > 0, "no memory depended on it: it proves nothing")
    process.say("go on")
    process.expect(r"^got \d+ MiB$")
    more_than(LIMIT)(node, process)


def _wrote(node, process):
    strays = node.books()["stray_writes"]
    check(strays == ROUNDS, "without cgpu the driver wrote %d times to memory that is gone" % strays)
    process.say("go on")
    process.expect(r"^got \d+ MiB$")


def _unused(node, process):
    check(process.uses == 0, "%d uses of what is not as the shim has read it" % process.uses)
    _covered(node, process)


def parent():
    """Another parent: what the ledger drops with the one, the driver keeps with the other."""
    without(["swaps", PARENT, ROUNDS, "memory"], _took, _course)
    within(["swaps", PARENT, ROUNDS, "memory"], _unused, _course)


def handle():
    """Another handle: memory that the ledger does not know is freed under a channel."""
    without(["swaps", HANDLE, ROUNDS, "notifier"], _wrote, _course)
    within(["swaps", HANDLE, ROUNDS, "notifier"], _unused, _course)


def class_():
    """Another class: memory of the host, or a window onto registers."""
    without(["swaps", CLASS, ROUNDS, "memory"], _took, _course)
    for word in (CLASS, REGISTERS):
        within(["swaps", word, ROUNDS, "memory"], _unused, _course)


def words():
    """Each word in turn, and what the other cases do with it."""
    for word in range(WORDS):
        for use in ("memory", "notifier"):
            print("word %d, %s:" % (word, use), end=" ")
            within(["swaps", word, ROUNDS, use], _covered, _course)


main({"swaps-parent": parent, "swaps-handle": handle, "swaps-class": class_, "swaps-words": words})
