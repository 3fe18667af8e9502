"""Attacks by way of the GPU's firmware, to which the driver hands some controls unseen, and with what
a slice may ask of it (firmware.cc)."""
from attack import argv
from cgpu_test import Node, check, main
from tenant import FOREIGN, OK, OTHERS, REFUSED, Tenant, answer, start

NO_PERMISSION = "0x1b"  # NV_ERR_INSUFFICIENT_PERMISSIONS
WRONG_SIZE = "0x1f"  # NV_ERR_INVALID_ARGUMENT
NO_MORE = "0x69"  # NV_ERR_MAX_SESSION_LIMIT_REACHED
SUBDEVICE = 0xcaf00002  # of every attacker's and tenant's client (common.h)
SESSIONS = 8  # of a GPU


def _attack(node, with_cgpu, words, mem=OTHERS):
    attacker = start(node, with_cgpu, words, mem, "attacker")
    attacker.expect("^holding$")
    return attacker


def unlisted():
    """Numbers, objects and sizes that the driver hands to the firmware and a slice does not."""
    for with_cgpu in (False, True):
        with Node() as node:
            victim = Tenant(node, with_cgpu)
            attacker = _attack(node, with_cgpu, ["firmware-unlisted", victim.client, SUBDEVICE])
            check(answer(attacker, "listed") == OK, "what is listed is refused")
            foreign = answer(attacker, "foreign")
            # The driver asks neither whose the client is nor by which file.
            check(foreign == (FOREIGN if with_cgpu else OK), "another's subdevice gave %s" % foreign)
            for what in ("device", "group"):
                status = answer(attacker, what)
                check(status == (REFUSED if with_cgpu else OK), "%s gave %s" % (what, status))
            # Without cgpu it runs as root, and the firmware knows no such command.
            privileged = answer(attacker, "privileged")
            check(privileged == (NO_PERMISSION if with_cgpu else REFUSED),
                  "a command for administrators gave %s" % privileged)
            check(answer(attacker, "unlisted") == REFUSED, "a number of no command's succeeded")
            check(answer(attacker, "load") == (REFUSED if with_cgpu else OK), "the card's load: %s" %
                  answer(attacker, "load"))
            used = node.used() & 0xFFFFFFFF
            seen = {int(found.group(1)) for found in attacker.said(r"^word (\d+)$")}
            check((used in seen) != with_cgpu, "%d bytes are used, seen: %s" % (used, seen))
            for size in (1, 331, 333, 1 << 20):
                status = attacker.said(r"^size %d (0x[0-9a-f]+)$" % size)[0].group(1)
                check(not with_cgpu or status == WRONG_SIZE, "%d bytes gave %s" % (size, status))
            if with_cgpu:
                received = node.books()["received"]
                check(not any("2080a0ff" in name or "2080c001" in name for name in received),
                      "the driver was asked: %s" % received)
                victim.must_go_on()
            attacker.end()


def forwarded():
    """Every command on an object of NV2081_BINAPI reaches the firmware, whatever its number."""
    for with_cgpu in (False, True):
        with Node() as node:
            victim = Tenant(node, with_cgpu)
            attacker = _attack(node, with_cgpu,
                               ["firmware-forwarded", victim.client, victim.channel])
            check(answer(attacker, "listed") == OK, "what is listed is refused")
            status = answer(attacker, "disable")
            check(status == (REFUSED if with_cgpu else OK), "the tenant's channel: %s" % status)
            off = [row["disabled"] for row in node.books()["gpus"][0]["channels"]
                   if row["client"] == victim.client]
            check(off == [not with_cgpu], "the tenant's channel is off: %s" % off)
            if with_cgpu:
                victim.must_go_on()
            attacker.end()


def _sessions(node):
    return node.books()["gpus"][0]["encoder_sessions"]


def _taken(process):
    (found,) = process.said(r"^sessions (\d+), then (0x[0-9a-f]+)$")
    return int(found.group(1)), found.group(2)


def encoders():
    """One takes all encoder sessions of the GPU: with cgpu a neighbour has one all the same."""
    for with_cgpu in (False, True):
        with Node() as node:
            attacker = _attack(node, with_cgpu, ["encoders"])
            taken, status = _taken(attacker)
            check(status == NO_MORE, "it ended with %s" % status)
            check((taken == SESSIONS) != with_cgpu and taken >= 1, "it has %d" % taken)
            check(_sessions(node) == taken, "the driver counts %d" % _sessions(node))
            neighbour = start(node, with_cgpu, ["encoders", 1], OTHERS, "neighbour")
            neighbour.expect("^holding$")
            check((_taken(neighbour)[0] == 1) == with_cgpu, "the neighbour's session")
            neighbour.end()
            attacker.end()
            node.sync()
            check(_sessions(node) == 0, "%d are taken after all have ended" % _sessions(node))


def encoders_given():
    """Gives back more than it has taken: with cgpu those of its neighbour stay."""
    for with_cgpu in (False, True):
        with Node() as node:
            neighbour = _attack(node, with_cgpu, ["encoders", 1])
            attacker = start(node, with_cgpu, ["encoders", 1, "give"], OTHERS, "giver")
            attacker.expect("^holding$")
            (found,) = attacker.said(r"^given (\d+)$")
            given = int(found.group(1))
            check((given == 1) == with_cgpu, "it gave back %d" % given)
            check(_sessions(node) == (1 if with_cgpu else 0), "%d are left" % _sessions(node))
            attacker.end()
            neighbour.end()


def encoders_killed():
    """Killed with sessions taken, again and again: the slice is no poorer for it."""
    with Node() as node:
        for _ in range(3):
            attacker = _attack(node, True, ["encoders"])
            check(_taken(attacker)[0] >= 1, "it has none")
            attacker.kill()
            node.wait_used(0, "after it was killed")
            node.sync()


def cuda_limit():
    """Limits the clocks of the GPU for everybody: answered, and the GPU knows nothing of it."""
    for with_cgpu in (False, True):
        with Node() as node:
            attacker = _attack(node, with_cgpu, ["cuda-limit"])
            check(answer(attacker, "limit") == OK, "it gave %s" % answer(attacker, "limit"))
            limit = node.books()["gpus"][0]["cuda_limit"]
            check(bool(limit) != with_cgpu, "the card's clocks are limited: %s" % limit)
            attacker.end()


main({"firmware-unlisted": unlisted, "firmware-forwarded": forwarded, "encoders": encoders,
      "encoders-given": encoders_given, "encoders-killed": encoders_killed,
      "cuda-limit": cuda_limit})
