"""Attacks with pointers inside parameters (pointers.cc)."""
from attack import LIMIT, at_least, balanced, more_than, within, without
from cgpu_test import Node, check, main


OLD = "535"  # has the commands with lists elsewhere in memory


def _unwritable(what):
    """Objects whose maker is told that it failed, since the answer cannot be written: they are there,
    in the driver and so in the ledger."""
    def run():
        def all_counted(node, process):
            balanced(node)
            at_least(LIMIT * 9 // 10)(node, process)

        def unseen(node, process):
            check(process.number(r"^tries \d+ done (\d+)$") == 0, "the page could be written")
            more_than(LIMIT)(node, process)

        without(["unwritable", what, 4096], unseen)
        within(["unwritable", what, 4096], all_counted)

    return run


def vanishing():
    """Parameters on a page that another thread takes away, locks and puts back all the time."""
    def some_of_each(node, process):
        check(process.number(r"^done \d+ faults (\d+)$") > 0, "the page was always there")
        more_than(LIMIT)(node, process)

    without(["vanishing", 65_536], some_of_each)
    within(["vanishing", 65_536], balanced)


def overlap():
    """Lists laid over the parameters and the call itself: every byte is as without cgpu, and the
    whole GPU's size cannot be read this way either."""
    pages = {}

    def judge_of(with_cgpu):
        def judge(_node, process):
            pages[with_cgpu] = [line for line in process.lines if " page 0x" in line]
            seen = process.number(r"^seen (\d+)$")
            check((seen == 0) == with_cgpu, "the card's size was seen %d times" % seen)

        return judge

    with Node() as node:
        total = node.books()["gpus"][0]["memory_bytes"] // 1024
    without(["overlap", total], judge_of(False), driver=OLD)
    within(["overlap", total], judge_of(True), driver=OLD)
    done = [line for line in pages[False] if "status 0x0 " in line]
    check(len(pages[False]) == 144 + 12 and any(line.startswith("classes ") for line in done) and
          any(line.startswith("twice ") for line in done),
          "the driver refused too much: %s" % pages[False])
    different = [pair for pair in zip(pages[False], pages[True]) if pair[0] != pair[1]]
    check(not different, "%d answers differ: %s" % (len(different), different[:3]))


def edges():
    """Lists that leave the tenant's memory and counts that overflow: refused on both sides, nothing
    is written, and everything goes on."""
    said = {}

    def judge_of(with_cgpu):
        def judge(_node, process):
            said[with_cgpu] = {m.group(1): m.groups()[1:] for m in
                               process.said(r"^edge (\S+) (\S+) untouched (errno .*)$")}
            check(not process.said(" written "), "something was written: %s" % process.lines)
            check(process.said("^afterwards 0x0$"), "it does not go on: %s" % process.lines)

        return judge

    without(["edges"], judge_of(False), driver=OLD)
    within(["edges"], judge_of(True), driver=OLD)
    for name, verdict in (("ending", "done"), ("crossing", "fault"), ("wraps-to-8", "refused")):
        check(said[False][name][0] == verdict, "the driver says %s" % said[False])
    # A slice's answers are written as a debugger writes: also to the tenant's own locked pages.
    for answers in said.values():
        answers.pop("read-only")
    check(said[False] == said[True], "the answers differ: %s" % said)


CASES = {"vanishing": vanishing, "overlap": overlap, "edges": edges}
for WHAT in ("image", "params", "heap", "dup"):
    CASES["unwritable-" + WHAT] = _unwritable(WHAT)
main(CASES)
