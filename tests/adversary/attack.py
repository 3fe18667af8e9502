"""Running one attack twice: on a node without cgpu, where it must get what it is after (else it
proves nothing), and in a slice, where it must not and a neighbour must not notice."""
import contextlib
import glob
import os

from cgpu_test import MIB, TEST_BIN, Node, Peak, Process, check

ADVERSARY = os.path.join(TEST_BIN, "adversary")
LIMIT = 1024  # MiB, of the attacker's slice
NEIGHBOUR = 512  # MiB, all of the neighbour's slice, and it uses all of it


def argv(*words):
    return [ADVERSARY] + [str(word) for word in words]


@contextlib.contextmanager
def neighbour(node, flags=("--gpus", "1")):
    """A container beside the attacker's. It must go on afterwards as before."""
    process = node.run(argv("neighbour", NEIGHBOUR), mem="%dMiB" % NEIGHBOUR, flags=flags,
                       name="neighbour")
    process.expect("holding")
    yield process
    process.say("go on")
    process.expect("undisturbed")
    status = process.end()
    check(status == 0, "the neighbour ended with %d" % status)


def more_than(limit):
    """For the run without cgpu: the accounting says that it got more than `limit` MiB."""

    def judge(node, _process):
        used = node.used() // MIB
        check(used > limit, "without cgpu the attack got %d MiB only: it proves nothing" % used)

    return judge


def at_least(mib):
    """For the run with cgpu: the slice is usable all the same."""

    def judge(node, _process):
        used = node.used() // MIB - NEIGHBOUR
        check(used >= mib, "the slice has %d MiB, not %d, in use" % (used, mib))

    return judge


def nothing(_node, _process):
    pass


def counted(node, limit=LIMIT):
    """Bytes that cgpu counts in the attacker's slice, told from others by its limit."""
    return sum(gpu["used_bytes"] for container in node.containers()
               for gpu in container["gpus"] if gpu["limit_bytes"] == limit * MIB)


def balanced(node, _process=None):
    """cgpu counts what the driver does: no byte less, and nothing for ever that is gone."""
    for _ in range(1000):  # closes are seen some time after
        node.sync()
        ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
        if ours == drivers:
            return
    check(False, "cgpu counts %d bytes, the driver %d" % (ours, drivers))


def hold(process, _node):
    """The usual course of an attack: it holds what it got until its stdin is closed."""
    process.expect("^holding$")


def without(words, judge, course=hold, gpus="v100-16g:1", driver=None):
    with Node(gpus, driver) as node:
        process = node.exec(argv(*words), name="without cgpu")
        course(process, node)
        judge(node, process)
        process.end()
        node.wait_used(0, "after the attack without cgpu")


def within(words, judge=nothing, course=hold, gpus="v100-16g:1", mem="%dMiB" % LIMIT, limit=LIMIT,
           flags=("--gpus", "1"), status=0, driver=None, **options):
    """With cgpu: never a byte above the limit, the neighbour goes on, everything is given back."""
    with Node(gpus, driver) as node:
        with neighbour(node), Peak(node) as peak:
            process = node.run(argv(*words), mem=mem, flags=flags, name="with cgpu", **options)
            course(process, node)
            used = node.used()
            check(used <= (limit + NEIGHBOUR) * MIB,
                  "%d bytes are in use: more than both slices" % used)
            judge(node, process)
            ended = process.end()
            check(status is None or ended == status, "the attack ended with %d" % ended)
            node.wait_used(NEIGHBOUR * MIB, "after the attack's end")
        check(peak.readings > 0, "the books were never read")
        check(peak.bytes <= (limit + NEIGHBOUR) * MIB,
              "at some time %d bytes were in use: more than both slices" % peak.bytes)
        node.wait_used(0, "after the neighbour's end")


def twice(words, usable=0, course=hold, wants=LIMIT):
    without(words, more_than(wants), course)
    within(words, at_least(usable), course)


def _status(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    except OSError:
        return {}


def outer_number(number, word):
    """The thread of the attack `word` that calls itself `number`, as it is numbered here."""
    found = []
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*/status"):
        status = _status(path)
        if status.get("Name") == "adversary" and status["NSpid"].split()[-1] == str(number):
            with open("/proc/%s/cmdline" % status["Tgid"], "rb") as file:
                if word.encode() in file.read().split(b"\0"):
                    found.append(int(status["Pid"]))
    check(len(found) == 1, "the thread %d is there %d times" % (number, len(found)))
    return found[0]


def give_out_next(number):
    """The next thread or process of the machine gets it, if nobody else is faster."""
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
        file.write(str(number - 1))


__all__ = ["ADVERSARY", "LIMIT", "NEIGHBOUR", "Process", "argv", "at_least", "balanced", "counted", "give_out_next",
           "hold", "more_than", "neighbour", "nothing", "outer_number", "twice", "within", "without"]
