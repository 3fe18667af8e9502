"""Attacks with what calls name: handles inside parameters, files that are registered with each
other, objects that others depend on (references.cc)."""
import os
import tempfile

from attack import (LIMIT, NEIGHBOUR, argv, at_least, balanced, counted, more_than, within,
                    without)
from cgpu_test import MIB, Node, check, main
from old_kernel import WAIT_KILLABLE_RECV, seccomp_without

OK = "0x0"
SIZE = 512  # MiB of the victim's memory


def _balanced_and(judge):
    def both(node, process):
        balanced(node)
        judge(node, process)

    return both


def heap_free():
    """VID_HEAP_CONTROL's FREE of unknown objects and of another client's: the driver says that all
    went well and frees nothing, so nothing may leave the ledger either."""
    def course(process, node):
        process.expect("^got ")
        accepted = process.number(r"^accepted (\d+)$")
        check(accepted > 0, "the driver took no FREE of an unknown object: it proves nothing")

    def rest(process, node):
        process.say("on")
        process.expect("^object 0x0$")
        yield
        process.say("on")
        process.expect("^device 0x0$")
        yield
        process.say("on")
        check(process.expect(r"^again (\d+) MiB$").group(1) == "512", "what was freed is not free")
        process.expect("^client 0x0$")
        process.expect("^holding$")
        yield

    def more(node, process):
        more_than(LIMIT)(node, process)
        for _ in rest(process, node):
            pass

    def all_counted(node, process):
        check(node.used() == (LIMIT + NEIGHBOUR) * MIB, "%d bytes are in use" % node.used())
        balanced(node)
        for _ in rest(process, node):
            balanced(node)
        check(counted(node) == 0, "%d bytes are counted of what is freed" % counted(node))

    without(["heap-free", 4096], more, course)
    within(["heap-free", 4096], all_counted, course)


def _registering(kind):
    def took_it(node, process):
        check(process.number(r"^registered (\d+)$") > 0, "the driver registered no %s file" % kind)
        more_than(LIMIT)(node, process)

    without(["registered", kind, 4096], took_it)
    within(["registered", kind, 4096], _balanced_and(at_least(LIMIT * 3 // 4)))


def registered():
    """A control file with an export that is registered to one with another export: what is imported
    from the first would be taken for what lies on the second."""
    _registering("ctl")


def registered_card():
    """A GPU's file that is registered to a control file keeps it, and what was exported to it."""
    _registering("card")


def stale_tag():
    """Clients with the handles of tags whose files have just been closed: the exports would be
    counted for ever, and other files be taken for those."""
    def course(process, node):
        process.expect("^tries ")
        taken = process.number(r"^taken (\d+)$")
        check(taken > 20 if not node.containers() else taken == 0,
              "%d clients with a tag's handle were had" % taken)

    def rest(node, process):
        process.say("on")
        process.expect("^holding$")
        return process.number(r"^got (\d+) MiB$")

    def more(node, process):
        rest(node, process)
        more_than(LIMIT)(node, process)

    def all_counted(node, process):
        balanced(node)
        got = rest(node, process)
        balanced(node)
        check(LIMIT * 9 // 10 < got <= LIMIT, "%d MiB of the slice could be had" % got)

    without(["stale-tag"], more, course)
    within(["stale-tag"], all_counted, course)


# The victim waits for input that never comes and never ends.
KEPT = """mkfifo "$PIPE"; "$0" victim %d private 0<>"$PIPE" &
read line; kill -9 $!; echo killed; read line""" % SIZE


def _counts_nothing(node):
    for _ in range(1000):  # closes are seen some time after
        if counted(node) == 0:
            return
        node.sync()
    check(False, "cgpu counts %d bytes of nobody" % counted(node))


def takeover():
    """The handle of another container's client, taken in the moment in which that one's process is
    killed: the other container would seem to hold the memory for as long as the thief likes."""
    for with_cgpu in (False, True):
        with Node() as node, tempfile.TemporaryDirectory(prefix="cgpu-adversary-") as folder:
            words = ["env", "PIPE=%s/pipe" % folder, "sh", "-c", KEPT] + argv("victim")[:1]
            victim = (node.run(words, mem="%dMiB" % SIZE, flags=("--gpus", "1"), name="victim")
                      if with_cgpu else node.exec(words, name="victim"))
            client = victim.expect(r"^client (\d+) object \d+$").group(1)
            victim.expect("^holding$")
            words = argv("takeover", client)
            attacker = (node.run(words, mem="256MiB", flags=("--gpus", "1"), name="attacker")
                        if with_cgpu else node.exec(words, name="attacker"))
            attacker.expect("^first ")
            victim.say("kill it")
            last = attacker.expect(r"^last (0x[0-9a-f]+)$").group(1)
            victim.expect("^killed$")
            node.wait_used(0, "after the victim's process")
            if with_cgpu:
                _counts_nothing(node)
            check((last == OK) != with_cgpu, "the handle was taken with %s" % last)
            victim.say("end")
            victim.end()
            attacker.end()


WAYS = ("event", "address-space", "target", "share-with", "share-of", "dup")


def inside():
    """Another container's client in every parameter that takes a client. The driver lets anybody
    hang an event on it, use its address space and give itself the right to copy its memory; whoever
    is in another slice learns not even that it exists."""
    for with_cgpu in (False, True):
        with Node() as node:
            if with_cgpu:
                victim = node.run(argv("victim", SIZE, "private"), mem="%dMiB" % SIZE,
                                  flags=("--gpus", "1"), name="victim")
            else:
                victim = node.exec(argv("victim", SIZE, "private"), name="victim")
            found = victim.expect(r"^client (\d+) object (\d+)$")
            victim.expect("^holding$")
            words = argv("inside", *found.groups())
            attacker = (node.run(words, mem="256MiB", flags=("--gpus", "1"), name="attacker")
                        if with_cgpu else node.exec(words, name="attacker"))
            attacker.expect("^holding$")
            for way in WAYS:
                said = [attacker.said(r"^%s %s (0x[0-9a-f]+)$" % (whose, way))[0].group(1)
                        for whose in ("victim's", "nobody's", "own")]
                check(said[2] == OK, "%s with one's own client gave %s" % (way, said[2]))
                check((said[0] == OK) != with_cgpu, "%s of the victim gave %s" % (way, said[0]))
                check(not with_cgpu or said[0] == said[1],
                      "%s tells a client that exists (%s) from one that does not (%s)" %
                      (way, said[0], said[1]))
            check(victim.end() == 0 and victim.said("^undisturbed 0x0$"),
                  "the victim was disturbed")
            node.sync()
            left = node.used() // MIB
            check((left < SIZE) == with_cgpu, "%d MiB are left in the attacker's hands" % left)
            attacker.end()
            node.wait_used(0, "after both have ended")


def dependants():
    """Address spaces freed before the channels and context shares on them: what goes with them
    leaves the ledger when it leaves the GPU, no sooner and no later."""
    steps = {}

    def course_of(with_cgpu):
        def course(process, node):
            said = []
            for _ in range(15):
                name, status = process.expect(r"^step (.*) (0x[0-9a-f]+)$").groups()
                check(status == OK, "%s gave %s" % (name, status))
                if with_cgpu:
                    balanced(node)
                said.append((name, node.used() - (NEIGHBOUR * MIB if with_cgpu else 0)))
                process.say("on")
            steps[with_cgpu] = said
            process.expect("^holding$")
            check(process.number(r"^failed (\d+)$") == 0, "channel groups could not be had again")

        return course

    def goes_up_and_down(_node, _process):
        used = [bytes for _, bytes in steps[False]]
        check(used[1] > 0 and used[-1] == 0 and len(set(used)) >= 4,
              "without cgpu the steps take nothing: %s" % steps[False])

    without(["dependants"], goes_up_and_down, course_of(False))
    within(["dependants"], _balanced_and(at_least(LIMIT * 9 // 10)), course_of(True))
    check(steps[True] == steps[False], "with cgpu the driver holds %s, without it %s" %
          (steps[True], steps[False]))


def _throng(**options):
    seed = int.from_bytes(os.urandom(3), "little")
    rounds = 10
    print("seed %d" % seed)

    def course_of(see):
        def course(process, node):
            for _ in range(rounds):
                process.expect("^churned$")
                see(node)
                process.say("on")
            process.expect("^freed$")
            see(node)
            process.say("grab")
            process.expect("^holding$")

        return course

    def all_of_it(node, process):
        balanced(node)
        at_least(LIMIT * 9 // 10)(node, process)

    without(["throng", seed, rounds], more_than(LIMIT), course_of(lambda node: None))
    within(["throng", seed, rounds], all_of_it, course_of(balanced), **options)


def throng():
    """Threads that make, copy, export, import and free under the same few handles, clients and
    devices among them: in the end cgpu counts what the driver does, and all of it can be had
    again."""
    _throng()


def throng_unkillable():
    """The same where a signal can interrupt a call that the shim has received."""
    _throng(preexec_fn=lambda: seccomp_without(WAIT_KILLABLE_RECV))


def rights():
    """RM_ALLOC's long form with rights and without parameters: the same answers on both sides."""
    said = []

    def remember(node, process):
        said.append([line for line in process.lines if line.startswith("class ")])
        check(process.number(r"^got (\d+) MiB$") == 512, "no memory could be had afterwards")

    without(["rights"], remember)
    within(["rights"], _balanced_and(remember))
    check(len(said[0]) == 36 and any(line.endswith("status 0x0") for line in said[0]),
          "nothing was allocated: %s" % said[0])
    check(said[0] == said[1], "the answers differ: %s" %
          [pair for pair in zip(*said) if pair[0] != pair[1]])


def kept():
    """Memory freed that a channel's error notifiers or USERD lie in: the driver keeps pointers to
    it, and writes there whoever has it by then."""
    ways = ("errors", "group", "userd", "heap", "device")

    def judge(strays, freed):
        def course(node, process):
            for way in ways:
                check(process.said("^%s channel 0x0$" % way), "no channel for %s" % way)
                check(process.said("^%s freed %s channel 0x0 then 0x0$" % (way, freed)),
                      "%s went otherwise" % way)
            check(node.books()["stray_writes"] == strays,
                  "%d stray writes" % node.books()["stray_writes"])

        return course

    without(["kept"], judge(len(ways), "0x0"))
    within(["kept"], _balanced_and(judge(0, "0x63")))


main({"heap-free": heap_free, "registered": registered, "registered-card": registered_card,
      "stale-tag": stale_tag, "takeover": takeover, "inside": inside, "dependants": dependants, "throng": throng,
      "throng-unkillable": throng_unkillable, "rights": rights, "kept-memory": kept})
