"""Attacks between check and use (races.cc)."""
from attack import LIMIT, NEIGHBOUR, argv, hold, more_than, neighbour, twice, within, without
from cgpu_test import MIB, Node, check, main


def _rounds(node_limit, tries, stop_when_won):
    """Follows the attack's rounds, looking at the books after each, while nothing is freed. Without
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


def flip_size():
    """The size flips between 1 MiB and 2 GiB; a million tries."""
    _flip("size", 1_000_000)


def flip_pointer():
    """The pointer to the parameters flips between modest ones and immodest ones."""
    _flip("pointer", 100_000)


def flip_class():
    """The class flips between system memory and card memory."""
    _flip("class", 100_000, huge=64)


def flip_xfer():
    """The pointer of NV_ESC_IOCTL_XFER_CMD flips."""
    _flip("xfer", 100_000)


def flip_attr():
    """The location of a VID_HEAP_CONTROL allocation flips between system and card."""
    _flip("attr", 100_000, huge=64)


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


main({"flip-size": flip_size, "flip-pointer": flip_pointer, "flip-class": flip_class,
      "flip-xfer": flip_xfer, "flip-attr": flip_attr, "dup2-null": dup2_null,
      "dup2-file": dup2_file, "own-table": own_table, "hidden-table": hidden_table})
