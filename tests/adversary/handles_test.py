"""Attacks with what belongs to others, and with files that hold exported objects (handles.cc)."""
from attack import (LIMIT, NEIGHBOUR, argv, at_least, balanced, more_than, neighbour, twice, within,
                    without)
from cgpu_test import MIB, Node, check, main, wait_for

SIZE = 512  # MiB of the victim's memory
OK = "0x0"


def _start(node, with_cgpu, words, mem, name):
    if with_cgpu:
        return node.run(argv(*words), mem="%dMiB" % mem, flags=("--gpus", "1"), name=name)
    return node.exec(argv(*words), name=name)


def _status(process, what):
    return process.expect(r"^%s (0x[0-9a-f]+)$" % what).group(1)


def foreign():
    """The victim lets everybody copy its memory; whoever is in another slice cannot even ask."""
    for with_cgpu in (False, True):
        with Node() as node:
            victim = _start(node, with_cgpu, ["victim", SIZE], SIZE, "victim")
            check(_status(victim, "shared") == OK, "the victim cannot share its memory")
            found = victim.expect(r"^client (\d+) object (\d+)$")
            victim.expect("^holding$")
            attacker = _start(node, with_cgpu, ["foreign", *found.groups()], 256, "attacker")
            attacker.expect("^holding$")
            dup = attacker.said(r"^dup (0x[0-9a-f]+)$")[0].group(1)
            check((dup == OK) != with_cgpu, "copying the victim's memory gave %s" % dup)
            for what in ("free", "free-client", "heap-free", "control", "alloc"):
                # These need the victim's own file; the driver itself refuses them.
                status = attacker.said(r"^%s (0x[0-9a-f]+)$" % what)[0].group(1)
                check(status != OK, "%s on the victim's client succeeded" % what)
            if with_cgpu:
                exists = attacker.said(r"^exists (0x[0-9a-f]+)$")[0].group(1)
                check(exists != OK, "the victim's client can be asked about")
            check(node.used() == SIZE * MIB, "the victim's memory is not what it was")
            check(victim.end() == 0, "the victim failed")
            check(victim.said("^undisturbed 0x0$"), "the victim was disturbed: %s" % victim.lines)
            node.sync()
            left = node.used() // MIB
            check(left == (0 if with_cgpu else SIZE),
                  "%d MiB are left of the victim's memory in the attacker's hands" % left)
            attacker.end()
            node.wait_used(0, "after both have ended")


def _import(words, owner="exporter", receiver="importer"):
    for with_cgpu in (False, True):
        with Node() as node:
            name = "cgpu-%s" % node.name
            victim = _start(node, with_cgpu, [owner, name, SIZE], SIZE, "victim")
            victim.expect("^listening$")
            attacker = _start(node, with_cgpu, [receiver, name, *words], 256, "attacker")
            status = _status(attacker, "import")
            attacker.expect("^holding$")
            if not words:
                check((status == OK) != with_cgpu, "importing the victim's memory gave %s" % status)
            victim.expect("^holding$")
            victim.end()
            node.sync()
            left = node.used() // MIB
            check(left <= 256 if with_cgpu else left >= SIZE,
                  "%d MiB are left in the attacker's hands" % left)
            attacker.end()
            node.wait_used(0, "after both have ended")


def imported():
    """A neighbour's exported memory, received over a socket."""
    _import([])


def import_reopened():
    """The same, when the file looks like one that the attacker exported to itself."""
    _import(["reopen"])


def table():
    """A neighbour's file of several objects, to which the attacker adds one of its own."""
    _import([], "table-owner", "table-guest")


def export_many():
    """Objects exported many at a time and freed: counted by file, and then as imported."""
    def all_again(_node, process):
        exported, imported = (process.number(r"^%s (\d+)$" % what)
                              for what in ("exported", "imported"))
        check(exported == imported > 0, "%d exported, %d imported" % (exported, imported))

    def more(node, process):
        more_than(LIMIT)(node, process)
        all_again(node, process)

    def usable(node, process):
        at_least(LIMIT * 3 // 4)(node, process)
        all_again(node, process)
        balanced(node, process)

    without(["export-many", 4096], more)
    within(["export-many", 4096], usable)


def overwrite():
    """Many exports to one inode: every one of them is counted."""
    twice(["overwrite", 4096])


def shell_game():
    """Files of exported objects that pass from hand to hand without rest: they are counted."""
    twice(["shell-game", 4096, 100])


def files():
    """GPU files passed to another container: neither the sender's client nor its GPU is for
    whoever receives them."""
    for with_cgpu in (False, True):
        with Node("v100-16g:2") as node:
            name = "cgpu-%s" % node.name
            if with_cgpu:
                sender = node.run(argv("file-sender", name), mem="2048MiB",
                                  flags=("--gpus", "device=1"), name="sender")
            else:
                sender = node.exec(argv("file-sender", name), name="sender")
            client = sender.expect(r"^client (\d+)$").group(1)
            words = ["file-receiver", name, client, 2048]
            if with_cgpu:
                receiver = node.run(argv(*words), mem="256MiB", flags=("--gpus", "device=0"),
                                    name="receiver")
            else:
                receiver = node.exec(argv(*words), name="receiver")
            receiver.expect("^holding$")
            posing = receiver.number(r"^got (\d+) MiB$")
            if with_cgpu:
                check(posing == 0, "%d MiB were had on the sender's client" % posing)
                check(node.used(1) == 0, "%d bytes are in use on the sender's card" % node.used(1))
                check(node.used(0) <= 256 * MIB, "%d bytes are in use" % node.used(0))
            else:
                check(posing == 2048, "without cgpu only %d MiB were had" % posing)
            sender.expect("^holding$")
            sender.end()
            receiver.end()
            node.wait_used(0, "after both have ended")


def kept():
    """Files with memory on them that another slice keeps when the first is over: the memory goes all the
    same."""
    with Node() as node:
        name = "cgpu-%s" % node.name
        sender = node.run(argv("file-sender", name, SIZE), mem="%dMiB" % SIZE,
                          flags=("--gpus", "1", "--name", "sender-" + node.name), name="sender")
        sender.expect("^client ")
        keeper = node.run(argv("file-keeper", name), mem="64MiB", flags=("--gpus", "1"),
                          name="keeper")
        keeper.expect("^holding$")
        sender.expect("^holding$")
        node.sync()
        check(node.used() == SIZE * MIB, "the kept memory is not what it was")
        check(sender.end() == 0, "the sender failed")
        node.wait_used(0, "after the sender's end")
        wait_for(lambda: len(node.containers()) == 1, lambda: "a container is left: %s" % node.containers())
        check(keeper.end() == 0, "the keeper failed")
        wait_for(lambda: not node.containers(), lambda: "a container is left: %s" % node.containers())


def parked():
    """A control file in flight. No process has it, so a slice loses the client on it after a while, and the
    file comes back without. Its memory is counted as long as the driver has it."""
    with Node() as node:
        process = node.exec(argv("parked", SIZE, 2048), name="without cgpu")
        first = int(process.expect(r"^parked (\d+) MiB$").group(1))
        node.sync()
        check(node.used() >= first * MIB, "the parked file's memory is gone")
        process.say("more")
        more = int(process.expect(r"^more (\d+) MiB$").group(1))
        check(first + more > LIMIT, "without cgpu only %d MiB: it proves nothing" % (first + more))
        process.say("receive")
        check(process.expect(r"^received (\d+) MiB$").group(1) == "64", "the file is of no use")
        process.expect("^holding$")
        node.wait_used(0, "after the files were closed")
        process.end()
    with Node() as node:
        with neighbour(node):
            process = node.run(argv("parked", SIZE, 2048), flags=("--gpus", "1"), name="with cgpu")
            first = int(process.expect(r"^parked (\d+) MiB$").group(1))
            check(first == SIZE, "the slice gave %d MiB" % first)
            node.wait_used(NEIGHBOUR * MIB, "while the file is in a socket")
            _wait_counted(node)
            process.say("more")
            more = int(process.expect(r"^more (\d+) MiB$").group(1))
            check(more >= SIZE, "only %d MiB can be had again" % more)
            check(node.used() <= (LIMIT + NEIGHBOUR) * MIB, "%d bytes are in use" % node.used())
            process.say("receive")
            check(process.expect(r"^received (\d+) MiB$").group(1) == "0", "the client is there")
            process.expect("^holding$")
            node.wait_used(NEIGHBOUR * MIB, "after the files were closed")
            _wait_counted(node)
            check(process.end() == 0, "the attack failed")


def _wait_counted(node):
    """Waits until cgpu's own ledger is empty too."""
    for _ in range(1000):
        if not any(gpu["limit_bytes"] == LIMIT * MIB and gpu["used_bytes"] > 0
                   for container in node.containers() for gpu in container["gpus"]):
            return
        node.sync()
    check(False, "cgpu ps still counts closed memory: %s" % node.containers())


main({"foreign": foreign, "import": imported, "import-reopened": import_reopened,
      "overwrite": overwrite, "export-many": export_many, "export-table": table, "kept": kept,
      "shell-game": shell_game, "files": files, "parked": parked})
