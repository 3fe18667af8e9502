"""Attacks by page tables for which no mapping is asked (tables.cc): they lie on the GPU, and count. The
simulated driver does not keep the tables of sparse ranges, so these cases judge by what cgpu charges."""
from attack import argv, counted, more_than, within, without
from cgpu_test import MIB, Node, check, main

SLICE = 16  # MiB
WANTED = 24
# Tables that a slice has room for at least. Each is charged with a small one for pages of 64 KiB.
FULL = SLICE * MIB // (4096 + 256) * 9 // 10
TABLE = 4096
REFUSED = "0x1a"  # NV_ERR_INSUFFICIENT_RESOURCES
POOLS = 256  # MiB of semaphore pools that a container may have


def _covered(said, least):
    """It made at least so many, and the driver has no byte that cgpu does not count."""
    def judge(node, process):
        made = process.number(said)
        check(made >= least, "it made %d only: the slice is not usable" % made)
        node.sync()
        ours, (gpu,) = counted(node, SLICE), node.books()["gpus"]
        check(gpu["page_table_bytes"] <= ours <= SLICE * MIB,
              "cgpu counts %d bytes, the driver has %d of tables" % (ours, gpu["page_table_bytes"]))

    return judge


def _tables(words, said):
    without([*words, WANTED], more_than(WANTED - 1))
    within([*words, WANTED], _covered(said, FULL), mem="%dMiB" % SLICE, limit=SLICE)


def pools_early():
    """Semaphore pools of a space that has no GPU's address space yet; those that leave room for one get it."""
    def mapped(node, process):
        check(process.said("^registered 0x0$"), "it said %s" % process.lines)
        _covered(r"^pools (\d+)$", some)(node, process)
        check(node.books()["gpus"][0]["page_table_bytes"] >= some * TABLE, "the driver maps no pools")

    less = SLICE // 2
    some = less * MIB // TABLE
    _tables(["pools", "early"], r"^pools (\d+)$")
    within(["pools", "early", less], mapped, mem="%dMiB" % SLICE, limit=SLICE)


def pools_again():
    """Semaphore pools of a space whose GPU's address space goes and comes back."""
    _tables(["pools", "again"], r"^pools (\d+)$")


def _pools(node):
    """The bytes of semaphore pools by the driver's books."""
    node.sync()
    return sum(one["length"] for file in node.books()["uvm"] for one in file["ranges"]
               if one["kind"] == "semaphore_pool")


def pools_host():
    """Semaphore pools are memory of the host: one of 300 GiB, and many of 32 MiB."""
    huge, each = 300 * 1024, 32

    def had(mib):
        def judge(node, _process):
            check(_pools(node) == mib * MIB, "the driver has %d MiB of pools" % (_pools(node) // MIB))

        return judge

    def refused(pools, then=None):
        def judge(node, process):
            found = process.said(r"^pools (\d+) status (\w+)$")[0]
            check(found.groups() == (str(pools), REFUSED), "it said %s" % process.lines)
            check(then is None or process.said("^another %s$" % then), "it said %s" % process.lines)
            had(POOLS if pools else 0)(node, process)

        return judge

    without(["host-pools", huge, 1], had(huge))
    within(["host-pools", huge, 1], refused(0))
    without(["host-pools", each, 20], had(each * 20))
    within(["host-pools", each, 20], refused(POOLS // each, "0x0"))


def mixed():
    """Pages of 4 KiB and of 64 KiB in the same 2 MiB, mapped by nvidia-uvm."""
    _tables(["pages-mixed", "uvm"], r"^places (\d+)$")


def mixed_rm():
    """The same, mapped by RM."""
    _tables(["pages-mixed", "rm"], r"^places (\d+)$")


def _charged(words, grows):
    """Returns the bytes that cgpu counts before the attack has its ranges, with them, and when they are gone."""
    with Node() as node:
        process = node.exec(argv(*words), name="without cgpu")
        process.expect("^(range|space)$")
        process.say("go on")
        process.expect(grows)
        process.say("go on")
        process.expect("^freed 0x0$")
        check(process.end() == 0, "the attack failed")
    with Node() as node:
        process = node.run(argv(*words), mem="64MiB", flags=("--gpus", "1"), name="with cgpu")
        process.expect("^(range|space)$")
        before = counted(node, 64)
        process.say("go on")
        process.expect(grows)
        most = counted(node, 64)
        process.say("go on")
        process.expect("^freed 0x0$")
        process.expect("^holding$")
        after = counted(node, 64)
        check(process.end() == 0, "the attack failed")
        node.wait_used(0, "after it")
        return before, most, after


def sparse():
    """A sparse range keeps the table of each mapping that was made in it and undone."""
    places = 1000
    before, most, after = _charged(["sparse", places], r"^undone %d status 0x0$" % places)
    check(most - before >= places * TABLE, "%d bytes are counted for it" % (most - before))
    check(after <= before, "%d bytes are counted when the range is gone" % (after - before))


def sparse_ranges():
    """A sparse range has tables of its own, though it is others' to manage."""
    ranges = 100
    charges = {}
    for whose in ("plain", "managed"):
        before, most, after = _charged(["sparse-ranges", whose, ranges],
                                       r"^ranges %d status 0x0$" % ranges)
        check(after == before, "%d bytes are counted when the ranges are gone" % (after - before))
        charges[whose] = most - before
    check(charges["managed"] >= charges["plain"] >= ranges * TABLE, "counted: %s" % charges)


main({"pools-early": pools_early, "pools-again": pools_again, "pools-host": pools_host,
      "tables-mixed": mixed, "tables-mixed-rm": mixed_rm, "tables-sparse": sparse,
      "tables-sparse-ranges": sparse_ranges})
