"""Attacks by GPU mappings that RM makes itself (mappings.cc): their page tables lie on the GPU."""
from attack import argv, at_least, counted, more_than, within, without
from cgpu_test import MIB, Node, check, main

SLICE = 16  # MiB
WANTED = 24
FULL = SLICE * MIB // 4096 * 9 // 10  # tables that a slice has room for at least


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
          "spaces": spaces})
