"""Attacks by GPU mappings that RM makes itself (mappings.cc): their page tables lie on the card."""
from attack import at_least, counted, more_than, within, without
from cgpu_test import MIB, check, main

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


if __name__ == "__main__":
    main({"dma-tables": tables, "dma-tables-again": again, "intervals": intervals,
          "spaces": spaces})
