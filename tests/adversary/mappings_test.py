"""Attacks by GPU mappings that RM makes itself (mappings.cc): their page tables lie on the GPU."""
from attack import argv, at_least, counted, more_than, within, without
import cgpu_test as t
from cgpu_test import MIB, Node, check, main

SLICE = 16  # MiB
WANTED = 24
# Tables that a slice has room for at least. Each is charged with a small one for pages of 64 KiB.
FULL = SLICE * MIB // (4096 + 256) * 9 // 10


def _charged(node, process):
    check(process.number(r"^tables (\d+)$") >= FULL, "the slice is not usable")
    node.sync()
    (gpu,) = node.books()["gpus"]
    check(gpu["page_table_bytes"] >= FULL * 4096, "the driver has not as many tables")
    check(counted(node, SLICE) <= SLICE * MIB, "more is counted than may be had")


def tables():
    """One small object mapped at every second MiB."""
    without(["dma-tables", WANTED], more_than(WANTED - 1))
    within(["dma-tables", WANTED], _charged, mem="%dMiB" % SLICE, limit=SLICE)


def again():
    """Tables go with their range and with the memory in it, and can be had again."""
    def same(_node, process):
        found = [int(line.split()[1]) for line in process.lines if line.startswith("tables ")]
        check(len(found) == 3 and min(found) >= FULL and max(found) - min(found) <= 4,
              "three times: %s" % found)

    without(["dma-tables-again", WANTED], more_than(WANTED - 1))
    within(["dma-tables-again", WANTED], same, mem="%dMiB" % SLICE, limit=SLICE)


def intervals():
    """Intervals of addresses have tables from the start; their duplicates keep them."""
    without(["intervals", WANTED], more_than(WANTED - 1))
    within(["intervals", WANTED], at_least(SLICE * 3 // 4), mem="%dMiB" % SLICE, limit=SLICE)


def spaces():
    """Address spaces have their first tables from the start."""
    without(["spaces", WANTED], more_than(WANTED - 2), gpus="t4:1")
    within(["spaces", WANTED], _charged, mem="%dMiB" % SLICE, limit=SLICE, gpus="t4:1")


def _bar1(node):
    node.sync()
    return node.books()["gpus"][0]["bar1_used_bytes"]


def _leaves(way, lives):
    """Whatever the way in which a client is left, its part of BAR1 comes back; where its file is closed by
    a process that `lives`, it does so at once."""
    with Node("t4:1") as node:
        for _ in range(3):
            process = node.run(argv("leaves", way), name=way)
            if way == "moves":
                process.expect("^moved$")
                t.wait_for(lambda: _bar1(node) > 0, "nothing is mapped")
                process.say("close")
            process.expect("^mapped$")
            if lives:
                t.wait_for(lambda: _bar1(node) == 0, "a part of BAR1 stays")
            else:
                check(_bar1(node) > 0, "nothing is mapped")
            if way == "dies":
                process.kill()
            else:
                process.end()
            t.wait_for(lambda: not node.containers(), "the container does not end")
            t.wait_for(lambda: _bar1(node) == 0, "a part of BAR1 stays")
            node.wait_used(0, "after it")
        check(node.books()["leaked_mappings"] == 0, "the driver has forgotten mappings")


# Whether the process that closes the file goes on.
LEAVES = {"exits": False, "dies": False, "forks": False, "closes": True, "moves": True, "parks": False,
          "registers": True}


def _global(how):
    def addresses(start):
        """Where the driver puts the same memory of a victim and of who comes after it."""
        with Node("v100-16g:1") as node:
            found = []
            running = [start(node, who) for who in ("victim", "spy")]
            for process in running:
                found.append(process.expect(r"^(?:address|refused) (0x[0-9a-f]+)$").group(1))
                process.expect("^holding$")
            lines = [line for process in running for line in process.lines]
            for process in running:
                check(process.end() == 0, "the attack failed")
            node.wait_used(0, "after it")
            return found, lines

    def case():
        words = argv("global", how)
        found, _ = addresses(lambda node, who: node.exec(words, name=who))
        check(found[0] != found[1], "without cgpu both have %s: it proves nothing" % found[0])
        found, lines = addresses(lambda node, who: node.run(words, mem="64MiB", name=who))
        if how == "index":
            check(found == ["0x1f", "0x1f"], "it is not refused: %s" % found)
        else:
            check(found[0] == found[1], "the victim's address moves the spy's: %s" % found)
            check(lines.count("share 0x0") == 2, "it is not as it was given: %s" % lines)
    case.__doc__ = "The address space that a card has for all clients that name no other: %s." % how
    return case


if __name__ == "__main__":
    main({"global-share": _global("share"), "global-bare": _global("bare"),
          "global-index": _global("index"),
          "dma-tables": tables, "dma-tables-again": again, "intervals": intervals,
          "spaces": spaces, **{"leaves-" + way: lambda way=way: _leaves(way, LEAVES[way])
                               for way in LEAVES}})
