"""Attacks with processes, filters and signals (processes.cc)."""
import os
import random
import signal

from attack import LIMIT, NEIGHBOUR, argv, neighbour, nothing, twice, within, without
from cgpu_test import MIB, Failure, Node, Peak, check, main, skip, wait_for
from old_kernel import WAIT_KILLABLE_RECV, seccomp_without

USABLE = LIMIT * 9 // 10


def filter_allow():
    """A filter that allows everything does not undo the one that asks."""
    twice(["filter", "allow", 4096], usable=USABLE)


def filter_trace():
    """A filter that asks a tracer, who lets every call through."""
    twice(["filter", "trace", 4096], usable=USABLE)


def filter_listener():
    """A listener of one's own: the kernel has one per task; in a slice it is taken."""
    def installed(_node, process):
        check(process.said("^listener installed$"), "without cgpu there is no listener")

    without(["filter", "listener", 64], installed)

    def refused(_node, process):
        check(process.said("^listener ") and not process.said("^listener installed$"),
              "a second listener was installed in a slice")

    within(["filter", "listener", 4096], refused)


def filter_errno():
    """Calls that the tenant's own filter swallows: nothing happens on either side; the strongest
    that can be said is that the slice and its neighbour live on."""
    without(["filter", "errno", 256], nothing)
    within(["filter", "errno", 256])


def chain():
    """Fork and exec, eight deep, with an empty environment."""
    twice(["chain", 8, 4096], usable=USABLE)


def daemon():
    """Out of the session and away from the parent."""
    twice(["daemon", 4096], usable=USABLE)


def _storm(**options):
    count = 10_000

    def once(node, process):
        found = process.said(r"^made (\d+) freed (\d+) twice (\d+) failed (\d+) signals (\d+)$")[0]
        made, freed, double, failed, signals = (int(group) for group in found.groups())
        check(signals > 100, "a storm of %d signals is none" % signals)
        check((made, freed, double, failed) == (count, count // 2, 0, 0),
              "made %d, freed %d, twice %d, failed %d" % (made, freed, double, failed))
        objects = max(client["objects"] for client in node.books()["clients"])
        # The client may count itself; device and subdevice are objects, too.
        check(count // 2 + 2 <= objects <= count // 2 + 3,
              "%d objects exist, not %d" % (objects, count // 2))

    without(["storm", count], once)
    within(["storm", count], once, mem="2048MiB", limit=2048, **options)


def storm():
    """Signals without pause: each call is executed exactly once."""
    _storm()


def storm_unkillable():
    """The same on a kernel where a signal interrupts a call that the shim has received: the call is
    made again, and answered from the record of the first time."""
    _storm(preexec_fn=lambda: seccomp_without(WAIT_KILLABLE_RECV))


def again():
    """The same calls, again and again, are new calls each time."""
    def as_often(_node, process):
        check(process.number(r"^wrong (\d+)$") == 0, "a repeated call was not executed")

    without(["again"], as_often)
    within(["again"], as_often)
    within(["again"], as_often, preexec_fn=lambda: seccomp_without(WAIT_KILLABLE_RECV))


# Commands of the vendor whose calls the tests make the driver hold.
NAME_STRING = 0x20800110  # NV2080_CTRL_CMD_GPU_GET_NAME_STRING
ATTACHED_IDS = 0x0201  # NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS
LOCAL_USER = 0x40  # NV01_MEMORY_LOCAL_USER


def _blocked(kind, rule, in_driver):
    """300 calls that do not come back. Without cgpu all of them are in the driver; with it as many
    as a container may have there at once. In both cases what is given back is given back."""
    threads = 300

    def course(node, process, held):
        process.expect("^ready$")
        node.hold(held, **rule)
        process.say("go")
        process.expect("^started$")
        node.wait_held(held)
        process.say("free")
        process.expect(r"^freed 4 while")
        check(node.containers() is not None, "cgpu ps does not answer")

    with Node() as node:
        process = node.exec(argv("blocked", threads, kind), name="without cgpu")
        course(node, process, threads)
        node.release()
        process.say("join")
        process.expect("^all back %d$" % threads)
        process.end()
        node.wait_used(0, "after the attack without cgpu")
    with Node() as node:
        with neighbour(node) as other:
            process = node.run(argv("blocked", threads, kind), flags=("--gpus", "1"),
                               name="with cgpu")
            course(node, process, in_driver)
            other.say("go on")
            other.expect("^undisturbed$")
            node.release()
            process.say("join")
            process.expect("^all back %d$" % threads)
            process.expect("^holding$")
            check(process.end() == 0, "the blocked container failed")
            node.wait_used(NEIGHBOUR * MIB, "after the attack's end")


def blocked_alloc():
    """All on one client, whose calls are in order: one is in the driver, the others wait."""
    _blocked("alloc", {"cls": LOCAL_USER}, 1)


def blocked_control():
    """On a GPU: at most two of a container are in the driver."""
    _blocked("control", {"control": NAME_STRING}, 2)


def blocked_client():
    """On no GPU: two of a container as well, for they take the driver's locks."""
    _blocked("client", {"control": ATTACHED_IDS}, 2)


def _outer_pid(inner, name):
    """The number of a container's process as the machine has it."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/status" % entry, encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        except OSError:
            continue
        numbers = status.get("NSpid", "").split()
        if status.get("Name") == name and len(numbers) == 2 and numbers[1] == str(inner):
            return int(entry)
    return None


def pid_reuse():
    """A caller dies inside a slow call and another process of the container gets its number: what
    the call brings must not land there. Without cgpu there is no one in between who could confuse
    the two."""
    last_pid = "/proc/sys/kernel/ns_last_pid"
    if not os.path.exists(last_pid):
        skip("this kernel does not let a test choose process numbers (%s)" % last_pid)
    with Node() as node:
        with neighbour(node):
            process = node.run(argv("pid-reuse"), flags=("--gpus", "1"), name="with cgpu")
            process.expect("^ready$")
            node.hold(1, control=NAME_STRING)
            process.say("go")
            inner = int(process.expect(r"^calling (\d+)$").group(1))
            node.wait_held(1)
            victim = _outer_pid(inner, "adversary")
            check(victim, "the victim's number was not found")
            process.say("kill")
            process.expect("^killed$")
            for _ in range(200):
                with open(last_pid, "w", encoding="utf-8") as file:
                    file.write(str(victim - 1))
                process.say("fork")
                heir = int(process.expect(r"^forked (\d+)$").group(1))
                if _outer_pid(heir, "adversary") == victim:
                    break
                process.say("discard")
                process.expect("^discarded$")
            else:
                check(False, "process number %d could not be had again: others take it" % victim)
            node.release()
            node.sync()
            node.containers()
            process.say("check")
            check(process.expect(r"^changed (\d+)$").group(1) == "0",
                  "bytes of another process were changed")
            process.expect("^holding$")
            check(process.end() == 0, "the attack failed")


def vfork():
    """A process that shared its parent's memory when it was first seen has its own after an exec."""
    def apart(_node, process):
        check(process.said(r"^status 0x0 named [1-9]"), "the executed program got no results")
        check(process.said(r"^exited 0 changed 0$"), "the parent's memory was changed")

    without(["vfork"], apart)
    within(["vfork"], apart)


def kill():
    """kill -9 at any moment of any work: nothing is left, neither on the GPU nor in the ledger."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed %d" % seed)
    dice = random.Random(seed)
    with Node() as node:
        process = node.exec(argv("churn", 3), name="without cgpu")
        process.expect("churning")
        for _ in range(50):
            if node.used() > 0:
                break
        else:
            raise Failure("without cgpu nothing was ever in use")
        process.kill()
        node.wait_used(0, "after the kill without cgpu")
        with neighbour(node):
            for turn in range(10):
                process = node.run(argv("churn", 3), flags=("--gpus", "1", "--name", "churn"),
                                   name="churn %d" % turn)
                process.expect("churning")
                _some_moment(dice)
                victim = [c["pid"] for c in node.containers() if c["name"] == "churn"]
                check(len(victim) == 1, "cgpu ps shows %s" % node.containers())
                os.kill(victim[0], signal.SIGKILL)
                status = process.end()
                check(status == 128 + signal.SIGKILL, "the killed container ended with %d" % status)
                node.wait_used(NEIGHBOUR * MIB, "after kill %d" % turn)
                check([c["name"] for c in node.containers() if c["name"] == "churn"] == [],
                      "cgpu ps still shows what was killed")
        node.wait_used(0, "after the neighbour's end")


def _shims(node):
    """The shims on the node: to the driver they are the callers."""
    pids = {client["pid"] for client in node.books()["clients"]}
    for pid in pids:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            check(file.read() == "cgpu-shim\n", "process %d is no shim" % pid)
    return pids


def _shimless(node, others, held):
    """A slice whose shim is killed, with `held` calls in the driver."""
    process = node.run(argv("hammer"), flags=("--gpus", "1", "--name", "hammer"), name="hammer")
    process.expect("^hammering ")
    process.expect("^hammering ")
    if held:
        node.hold(held, cls=LOCAL_USER)
        node.wait_held(held)
    mine = _shims(node) - others
    check(len(mine) == 1, "the attacked slice's shims are %s" % mine)
    os.kill(mine.pop(), signal.SIGKILL)
    if held:
        node.release()
    status = process.wait()  # with its stdin open: it would not end by itself
    process.end()
    check(status == 125, "the container without a shim ended with %d" % status)
    check(not process.said("answered"), "a call was answered without a shim")
    node.wait_used(NEIGHBOUR * MIB, "after the shim's end")
    check(not [c for c in node.containers() if c["name"] == "hammer"],
          "cgpu ps still shows a container without a shim")
    wait_for(lambda: {client["pid"] for client in node.books()["clients"]} == others,
             "clients are left")


def shim_kill():
    """kill -9 of the shim while its container calls it from all sides: its calls fail, it is ended,
    nothing of it is left, its neighbour goes on, and its name and memory can be had again."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed %d" % seed)
    dice = random.Random(seed)
    with Node() as node:
        process = node.exec(argv("hammer", 4, 2048), name="without cgpu")
        process.expect("^hammering ")
        process.expect("^hammering ")
        for _ in range(1000):
            if node.used() > LIMIT * MIB:
                break
        check(node.used() > LIMIT * MIB, "without cgpu the attack takes little: it proves nothing")
        process.kill()
        node.wait_used(0, "after the kill without cgpu")
    with Node() as node:
        with neighbour(node), Peak(node) as peak:
            others = _shims(node)
            for turn in range(6):
                _some_moment(dice)
                _shimless(node, others, turn % 3)
            process = node.run(argv("raw", 4096), flags=("--gpus", "1", "--name", "hammer"),
                               name="the next one")
            process.expect("^holding$")
            check(process.number(r"^got (\d+) MiB$") == LIMIT, "the slice cannot be had again")
            check(process.end() == 0, "the next container failed")
        check(peak.bytes <= (LIMIT + NEIGHBOUR) * MIB, "%d bytes were in use" % peak.bytes)
        node.wait_used(0, "after the neighbour's end")


def _some_moment(dice):
    """Not a wait for anything: only some other moment than the last time."""
    for _ in range(dice.randrange(100_000)):
        pass


main({"filter-allow": filter_allow, "filter-trace": filter_trace,
      "filter-listener": filter_listener, "filter-errno": filter_errno, "chain": chain,
      "daemon": daemon, "storm": storm, "storm-unkillable": storm_unkillable, "again": again,
      "kill": kill, "shim-kill": shim_kill,
      "blocked-alloc": blocked_alloc, "blocked-control": blocked_control,
      "blocked-client": blocked_client, "pid-reuse": pid_reuse, "vfork": vfork})
