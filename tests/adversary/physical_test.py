"""Attacks with classes that name memory by where it lies (physical.cc)."""
from attack import argv
from cgpu_test import MIB, Node, check, main

OK = "0x0"
VICTIM = 512  # MiB
SLICE = 256  # MiB
LARGE = 4096  # MiB, of a view; larger than the attacker's slice
# From the driver's list of classes (resource_list.h): for administrators, for everybody.
ADMIN = {"physical", "list-fbmem", "list-system", "list-object", "older"}
ANYBODY = {"descriptor", "fabric", "multicast", "registers"}
# Objects without GPU memory, which a slice is given too.
SLICED = {"older", "registers"}


def _physical(who, gets):
    def run():
        for with_cgpu in (False, True):
            with Node("a100-80g:1") as node:
                words = argv("victim", VICTIM, "private")
                victim = (node.run(words, mem="%dMiB" % VICTIM, flags=("--gpus", "1"), name="victim")
                          if with_cgpu else node.exec(words, name="victim"))
                found = victim.expect(r"^client (\d+) object (\d+)$")
                victim.expect("^holding$")
                words = argv("physical", who, LARGE * MIB, *found.groups())
                attacker = (node.run(words, mem="%dMiB" % SLICE, flags=("--gpus", "1"), name="attacker")
                            if with_cgpu else node.exec(words, name="attacker"))
                attacker.expect("^holding$")
                _judge(node, attacker, SLICED if with_cgpu else gets, with_cgpu)
                attacker.end()
                check(victim.end() == 0 and victim.said("^undisturbed 0x0$"),
                      "the victim was disturbed")
                node.wait_used(0, "after both have ended")

    return run


def _judge(node, attacker, gets, with_cgpu):
    said = {m.group(1): (m.group(2), m.group(3)) for m in
            attacker.said(r"^class (\S+) (0x[0-9a-f]+) mapped (0x[0-9a-f]+)$")}
    check(len(said) == 13, "it said %s" % attacker.lines)
    got = {name for name, (status, _) in said.items() if status == OK}
    check(got == gets, "it got %s, not %s: %s" % (sorted(got), sorted(gets), said))
    card = node.books()["gpus"][0]
    # Three views of the GPU and one of the victim's memory, for an administrator.
    seen, wanted = card["bar1_used_bytes"] // MIB, 3 * LARGE + 64 if "physical" in gets else 0
    check(seen == wanted, "%d MiB of the card are seen, not %d" % (seen, wanted))
    limit = attacker.number(r"^older limit (\d+)$")
    size = SLICE * MIB if with_cgpu else card["memory_bytes"]
    check((limit + 1 == size) == ("older" in gets), "the size was answered as %d" % limit)
    mapped = {name for name, (_, mapping) in said.items() if mapping == OK}
    check(not with_cgpu or not mapped, "it sees %s" % mapped)


# Without the privilege RM_ALLOC_MEMORY gives an object without memory, and the GPU's size; in a
# slice it gives the slice's.
main({"physical-admin": _physical("admin", ADMIN | ANYBODY),
      "physical-user": _physical("user", ANYBODY | {"older"})})
