"""Attacks that carry others' objects away in files (transfers.cc)."""
from attack import argv
from cgpu_test import MIB, Failure, Node, check, main, wait_for
from tenant import OK, OTHERS, SIZE, Tenant, answer, answers, start


def _carried(words, expected):
    """The attacker holds but files; the tenant ends, and what is left in use is what was carried
    away. `expected`: what succeeds without cgpu and never with it."""
    for with_cgpu in (False, True):
        with Node() as node:
            victim = Tenant(node, with_cgpu)
            attacker = start(node, with_cgpu, words(victim), OTHERS, "attacker")
            attacker.expect("^holding$")
            check(answer(attacker, "freed") == OK, "the attacker's own client could not be freed")
            for what in expected:
                status = answer(attacker, what)
                check((status == OK) != with_cgpu, "%s gave %s" % (what, status))
            for what in ("foreign", "posing"):
                for status in answers(attacker, what):  # the driver itself refuses these
                    check(status != OK, "%s gave %s" % (what, status))
            victim.must_go_on()
            check(victim.process.end() == 0, "the tenant failed")
            if with_cgpu:
                node.wait_used(0, "after the tenant's end")
            else:
                node.sync()
                check(node.used() >= SIZE * MIB, "%d MiB are left of the tenant's memory" %
                      (node.used() // MIB))
            attacker.end()
            node.wait_used(0, "after both have ended")


def dma_buf():
    """EXPORT_TO_DMABUF_FD of another client's memory."""
    _carried(lambda t: ["dma-buf", t.client, t.memory], ("dma-buf", "wrapped"))


def extract():
    """EXPORT_OBJECT_TO_FD of a copy that the attacker lets itself make."""
    _carried(lambda t: ["extract", t.client, t.memory, "single"], ("allow", "dup", "export"))


def extract_many():
    """EXPORT_OBJECTS_TO_FD of the same."""
    _carried(lambda t: ["extract", t.client, t.memory, "many"], ("allow", "dup", "export"))


def export_info():
    """GET_EXPORT_OBJECT_INFO of a file out of another slice: how many objects, and what the owner
    wrote about them."""
    for with_cgpu in (False, True):
        for owner in ("exporter", "table-owner"):
            with Node() as node:
                name = "cgpu-%s" % node.name
                victim = start(node, with_cgpu, [owner, name, SIZE], SIZE, "victim")
                victim.expect("^listening$")
                attacker = start(node, with_cgpu, ["export-info", name], OTHERS, "attacker")
                attacker.expect("^holding$")
                status = answer(attacker, "info")
                check((status == OK) != with_cgpu, "a file with exports was told of: %s" % status)
                check(answer(attacker, "own info") == OK, "nothing is told of one's own export")
                victim.expect("^holding$")
                check(victim.end() == 0, "the victim failed")
                attacker.end()
                node.wait_used(0, "after both have ended")


def space_files():
    """nvidia-uvm's file of another slice, with the address space on it: no memory can be had there,
    and what is mapped there stays. A file that is mapped as managed memory in spite of all ends the
    container that did it."""
    for with_cgpu in (False, True):
        with Node() as node:
            name = "cgpu-%s" % node.name
            victim = start(node, with_cgpu, ["space-sender", name], 256, "victim")
            victim.expect("^listening$")
            before = node.used()
            attacker = start(node, with_cgpu, ["space-receiver", name], 512, "attacker")
            victim.expect("^sent$")
            if not with_cgpu:
                attacker.expect("^holding$")
                check(attacker.number(r"^managed (\d+) MiB$") == 4096, "no managed memory was had")
                for what in ("range", "unmap", "free"):
                    check(answer(attacker, what) == OK, "%s: %s" % (what, answer(attacker, what)))
                check(node.used() > before + 4000 * MIB, "%d bytes are in use" % node.used())
            else:
                attacker.expect("^own range 0x0$")
                for what in ("range", "unmap", "free"):
                    check(answer(attacker, what) != OK, "%s gave %s" % (what, answer(attacker, what)))
                check(attacker.number(r"^managed (\d+) MiB$") == 0, "managed memory was had")
                check(node.used() <= before + 512 * MIB, "%d bytes are in use" % node.used())
            victim.say("go on")
            victim.expect("^undisturbed$" if with_cgpu else "^disturbed$")
            attacker.end()
            check(victim.end() == 0, "the victim failed")
            node.wait_used(0, "after both have ended")


def space_guests():
    """The same by a process that has no GPU registered itself, so that nothing says where its memory lies; and by
    one that lets the number lead to an ordinary file while the shim looks."""
    for with_cgpu, words in ((False, ()), (True, ()), (True, ("swap",))):
        with Node() as node:
            name = "cgpu-%s" % node.name
            victim = start(node, with_cgpu, ["space-sender", name], 256, "victim")
            victim.expect("^listening$")
            before = node.used()
            attacker = start(node, with_cgpu, ["space-guest", name, *words], 512, "attacker")
            victim.expect("^sent$")
            ended = False
            try:
                attacker.expect("^holding$")
            except Failure:  # one that has won more than it may is ended
                ended = True
            got = 0 if ended else attacker.number(r"^managed (\d+) MiB$")
            node.sync()
            if not with_cgpu:
                check(got == 4096 and node.used() > before + 4000 * MIB, "%d MiB were had" % got)
            else:
                check(words or got == 0, "managed memory was had: %d MiB" % got)
                check(node.used() <= before + 512 * MIB, "%d bytes are in use" % node.used())
                charged = sum(gpu["used_bytes"] for row in node.containers() for gpu in row["gpus"])
                check(charged >= node.used(), "cgpu counts %d bytes, the driver %d" % (charged, node.used()))
            if not ended:
                attacker.end()
            check(victim.end() == 0, "the victim failed")
            node.wait_used(0, "after both have ended")


def _questions(node):
    return node.books()["received"].get("UVM_CREATE_EXTERNAL_RANGE", 0)


def space_outside():
    """The same by a process that is in no slice: the slice that let its file out is ended, and the driver keeps
    nothing, although the process lives on. It holds the memory, or moves all the time, or lies where the slice
    may have channels. What it leaves when it ends is cleaned up. Without it the slice goes on."""
    for with_cgpu, way in ((False, "holds"), (True, "holds"), (True, "moves"), (True, "hides"), (True, "ends")):
        with Node() as node:
            name = "cgpu-%s" % node.name
            neighbour = Tenant(node, with_cgpu)
            before = node.used()
            window = [16384] if way == "hides" else []
            victim = start(node, with_cgpu, ["space-sender", name, *window], 256, "victim")
            victim.expect("^listening$")
            if with_cgpu:  # the shim has looked more than twice
                wait_for(lambda node=node: _questions(node) >= 30, lambda node=node: "%d questions" % _questions(node))
            outsider = start(node, False, ["space-guest", name, *["moves"][way != "moves":]], 0, "outsider")
            victim.expect("^sent$")
            check(int(outsider.expect(r"^managed (\d+) MiB$").group(1)) == 4096, "it could not map")
            if way == "ends":
                outsider.expect("^holding$")
                outsider.end()

            def over(way=way, before=before, node=node, victim=victim):
                node.sync()  # the simulated driver hears of no mapping by itself
                return node.used() < before + 256 * MIB if way == "ends" else victim.popen.poll() is not None

            if not with_cgpu:
                node.sync()
                check(node.used() > before + 4000 * MIB, "%d bytes are in use" % node.used())
            else:
                wait_for(over, "the memory is there still")
            if way != "ends" and with_cgpu:
                check(victim.wait() != 0, "it ended by itself")
                node.wait_used(before, "but for the neighbour's, while the other lives")
            else:
                check(victim.end() == 0, "the victim failed")
            neighbour.must_go_on()
            outsider.kill()
            check(neighbour.process.end() == 0, "the neighbour failed")
            node.wait_used(0, "after all have ended")


main({"space-files": space_files, "space-guests": space_guests, "space-outside": space_outside,
      "dma-buf": dma_buf, "extract": extract,
      "extract-many": extract_many, "export-info": export_info})
