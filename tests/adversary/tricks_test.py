"""Attacks with numbers that are chosen, memory that comes when the tenant likes, more processes than
anybody has, and sandboxes within (tricks.cc, faults.cc)."""
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import stat
import tempfile
import urllib.parse

from attack import (LIMIT, NEIGHBOUR, argv, at_least, balanced, counted, give_out_next, more_than, neighbour,
                    nothing, outer_number, within, without)
from cgpu_test import BIN, CGPU, MIB, TEST_BIN, Node, check, command, main, skip, wait_for

USABLE = LIMIT * 8 // 10
WANTED = 6144
LESS = 768  # MiB, what `cgpu set` makes of the limit


def _supported(process):
    """Waits for its first line, which says where the machine lets no tenant do such a thing."""
    process.expect("^.")
    if process.lines[0].startswith("unsupported"):
        skip(process.lines[0])


def _row(node):
    (row,) = [row for row in node.containers() if row["gpus"][0]["limit_bytes"] != NEIGHBOUR * MIB]
    return row


def _others(node):
    """The shims that are there: to the driver they are the callers."""
    return {client["pid"] for client in node.books()["clients"]}


def _reached(node, upgrade=True):
    """Its shim does at once what root says; `upgrade`: False where it can only say why it cannot."""
    row = _row(node)
    check(row["state"] == "running", "cgpu ps says %s" % row["state"])
    for mib in (LESS, LIMIT):
        command(CGPU, "set", row["id"], "--mem", "%dMiB" % mib)
        check(_row(node)["gpus"][0]["limit_bytes"] == mib * MIB, "it has its old limit")
    done = command(CGPU, "upgrade", row["id"], ok=False)
    said = done.stdout + done.stderr
    if upgrade:
        check("upgraded; its calls waited" in said, said)
    else:
        check(done.returncode != 0 and "it is in " in said, said)
    check(_row(node)["state"] == "running", "it does not answer after the upgrade")


# --- Numbers


def _all_counted(node, _process):
    at_least(USABLE)(node, _process)
    node.sync()
    ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
    check(ours >= drivers, "cgpu counts %d bytes, the driver %d" % (ours, drivers))


def set_tid():
    """Children with the numbers of threads that made a call and ended: who may choose numbers has no more by
    it. In the container's own namespace nobody in it may."""
    def refused(_node, process):
        check(process.said("^refused Operation not permitted$"), "it chose a number: %s" % process.lines)

    without(["set-tid", "here", WANTED], more_than(LIMIT))
    within(["set-tid", "here", WANTED], refused)
    without(["set-tid", "within", WANTED], more_than(LIMIT))
    within(["set-tid", "within", WANTED], _all_counted)


OWN, PARENTS = 4, 300  # MiB


def heir():
    """A child that has, as the machine counts, the number of a thread that made a call and ended: its own
    memory is read, and not that of the process which the number was of."""
    def course(process, _node):
        number = outer_number(int(process.expect(r"^number (\d+)$").group(1)), "heir")
        process.say("end")
        process.expect("^ended$")
        for _ in range(1000):  # others may be given the number
            give_out_next(number)
            process.say("fork")
            child = outer_number(int(process.expect(r"^number (\d+)$").group(1)), "heir")
            process.say("call" if child == number else "drop")
            process.expect("^over$")
            if child == number:
                break
        check(child == number, "the number %d is not given out again" % number)
        check(process.said("^status 0x0$"), "it got nothing: %s" % process.lines)

    def own(rest):
        def judge(node, _process):
            used = node.used() // MIB - rest
            check(used == OWN, "%d MiB are in use, the child asked for %d" % (used, OWN))

        return judge

    without(["heir", OWN, PARENTS], own(0), course)
    within(["heir", OWN, PARENTS], own(NEIGHBOUR), course)


# --- Memory that comes when the tenant likes


def page_flip():
    """Parameters that are modest and immodest by turns, each time that somebody reads them: what is decided
    on is what is executed."""
    def course(process, _node):
        _supported(process)
        process.expect("^holding$")

    def some(node, process):
        done, refused, reads = map(int, process.said(r"done (\d+) refused (\d+) reads (\d+)$")[0].groups())
        check(done > 0 and refused > 0 and reads >= done + refused,
              "of %d readings %d were modest, %d immodest" % (reads, done, refused))
        check(node.used() // MIB - NEIGHBOUR == done, "%d calls of 1 MiB succeeded" % done)
        balanced(node)

    without(["page-flip", 300], more_than(LIMIT), course)
    within(["page-flip", 300], some, course)


def page_wait():
    """Parameters that do not come. Who waits for them is no bar to others, and they are read when they come."""
    calls = 40
    with Node() as node, neighbour(node) as other:
        process = node.run(argv("page-wait", calls), flags=("--gpus", "1"), name="with cgpu")
        _supported(process)
        check(process.lines[0] == "waiting %d" % calls, process.lines[0])
        process.say("go on")
        process.expect("^meanwhile 64 MiB$")
        _reached(node, upgrade=False)
        other.say("go on")
        other.expect("^undisturbed$")
        process.say("come")
        process.expect("^back %d$" % calls)
        check(node.used() == (NEIGHBOUR + calls + 64) * MIB, "%d bytes are in use" % node.used())
        balanced(node)
        _reached(node)
        check(process.end() == 0, "it ended badly")
        node.wait_used(NEIGHBOUR * MIB, "after its end")


def page_late():
    """Results that find a page which does not come: what was made is charged, and nobody else waits."""
    with Node() as node, neighbour(node) as other:
        process = node.run(argv("page-late"), flags=("--gpus", "1"), name="with cgpu")
        _supported(process)
        node.hold(1, cls=0x40)  # NV01_MEMORY_LOCAL_USER
        process.say("call")
        node.wait_held(1)
        process.say("replace")
        process.expect("^replaced$")
        node.release()
        process.expect("^waiting$")
        check(node.used() == (NEIGHBOUR + 64) * MIB, "%d bytes are in use" % node.used())
        balanced(node)
        process.say("go on")
        process.expect("^meanwhile 64 MiB$")
        _reached(node, upgrade=False)
        other.say("go on")
        other.expect("^undisturbed$")
        process.say("come")
        process.expect("^back 0x0$")
        _reached(node)
        check(process.end() == 0, "it ended badly")
        node.wait_used(NEIGHBOUR * MIB, "after its end")


def uffd():
    """The call itself on a page by userfaultfd. Of such a page nothing is read, by nobody who is not the
    process itself: the call fails, nobody waits, and nothing is made. In a slice only faults of the process's
    own can be had; also those of the kernel where the machine has a device file for them that it may open."""
    filled = r"^faults (\d+) of (\d+) filled (\d+)$"

    def refused(_node, process):
        check(process.said("^refused Operation not permitted$"), "it has one: %s" % process.lines)

    def fails(node, process):
        faults, rounds, fills = map(int, process.said(filled)[0].groups())
        check(faults == rounds > 0 == fills, "%s" % process.lines)
        check(process.said("^afterwards 64 MiB$"), "the slice is of no use: %s" % process.lines)
        check(node.used() == (NEIGHBOUR + 64) * MIB, "%d bytes are in use" % node.used())

    try:
        number = os.stat("/dev/userfaultfd").st_rdev
    except OSError as error:
        skip("no userfaultfd: %s" % error)
    without(["uffd", "plain"], more_than(LIMIT))
    with open("/proc/sys/vm/unprivileged_userfaultfd", encoding="ascii") as file:
        within(["uffd", "plain"], refused if file.read().strip() == "0" else fails)
    within(["uffd", "user"], fails)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        device = os.path.join(folder, "uffd")
        os.mknod(device, stat.S_IFCHR | 0o666, number)
        within(["uffd", device], fails)


def _watch(row):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(120)
    connection.connect("/run/cgpu/%s.sock" % row["id"])
    connection.send(b"watch\n")
    return connection.makefile("r")


def reaper():
    """A file whose close by others is never answered, put in the place of a GPU's between the shim's look and
    its taking, again and again: when more of them wait than any program has, the container is ended, says
    why, and its memory is free again."""
    with Node() as node, neighbour(node) as other:
        process = node.run(argv("swap-hang"), flags=("--gpus", "1"), name="with cgpu")
        _supported(process)
        with _watch(_row(node)) as told:
            said = urllib.parse.unquote(told.read())
        check("more files whose close does not return than any program has: the container is ended" in said, said)
        check(process.wait() == 128 + signal.SIGKILL, "it ended by itself")
        node.wait_used(NEIGHBOUR * MIB, "after its end")
        wait_for(lambda: len(node.containers()) == 1, "it is listed still")
        other.say("go on")
        other.expect("^undisturbed$")


# --- More than anybody has


KNOWN = 16_384  # processes that a shim watches


def _raise_file_limit():
    """As many descriptors as a shim can need, where the machine lets this test have them. Else those that there are
    are the bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        hard = max(hard, 4 * KNOWN)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def crowd():
    """20,000 processes at once, each of which makes a call. As many are served as a shim watches, or has
    descriptors for; the others' calls fail and are counted, and everybody else goes on."""
    files = _raise_file_limit()
    with Node() as node, neighbour(node) as other:
        before = _others(node)
        process = node.run(argv("crowd", 20_000), flags=("--gpus", "1"), name="with cgpu")
        found = process.expect(r"^alive (\d+) answered (\d+) failed (\d+)$")
        alive, answered, failed = map(int, found.groups())
        if alive < 20_000:
            skip("this machine has room for %d processes" % alive)
        process.expect("^holding$")
        check(process.said("^afterwards 64 MiB$"), "those that were served before are not: %s" % process.lines)
        check(min(KNOWN - 1, (files - 3000) // 3) <= answered <= KNOWN,
              "%d were answered, with %d descriptors" % (answered, files))
        check(answered + failed == alive, "%d calls were not answered" % (alive - answered - failed))
        (shim,) = _others(node) - before
        print("its shim has %d descriptors, %d KiB" % (_descriptors(shim), _resident_kib(shim)))
        check(_descriptors(shim) <= min(files, 3 * KNOWN + 1000), "too many descriptors")
        check(_resident_kib(shim) < 64 << 10, "too much memory")
        told = command(CGPU, "ps", "-v", ok=False)
        check("too many processes of one container make calls" in told.stdout, told.stdout + told.stderr)
        _reached(node)
        other.say("go on")
        other.expect("^undisturbed$")
        check(process.end() == 0, "it ended badly")
        node.wait_used(NEIGHBOUR * MIB, "after its end")


def _descriptors(shim):
    return len(os.listdir("/proc/%d/fd" % shim))


def _resident_kib(shim):
    with open("/proc/%d/status" % shim, encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def threads():
    """500 threads of one process, each in a call that the driver holds."""
    with Node() as node, neighbour(node) as other:
        process = node.run(argv("blocked", 500, "control"), flags=("--gpus", "1"), name="with cgpu")
        process.expect("^ready$")
        node.hold(2, control=0x20800110)  # NV2080_CTRL_CMD_GPU_GET_NAME_STRING
        process.say("go")
        process.expect("^started$")
        node.wait_held(2)
        process.say("free")
        process.expect("^freed 4 while")
        _reached(node, upgrade=False)
        other.say("go on")
        other.expect("^undisturbed$")
        node.release()
        process.say("join")
        process.expect("^all back 500$")
        process.expect("^holding$")
        _reached(node)
        check(process.end() == 0, "it ended badly")
        node.wait_used(NEIGHBOUR * MIB, "after its end")


# --- What a shim is handed by its predecessor


def _hostile(folder, kind):
    """A version that hands the state on to this one, changed."""
    name = os.path.join(folder, kind)
    shutil.copy(os.path.join(TEST_BIN, "hostile-state"), name)
    with open(name, "ab") as file:
        file.write(b"\n%s %s" % (kind.encode(), os.path.abspath(os.path.join(BIN, "cgpu-shim")).encode()))
    return name


def _hand_on(node, folder, kind):
    process = node.run(argv("raw", 256), flags=("--gpus", "1"), name=kind)
    process.expect("^holding$")
    row = _row(node)
    done = command(CGPU, "upgrade", row["id"], "--program", _hostile(folder, kind), ok=False)
    print(kind, done.stdout.strip(), done.stderr.strip())
    return process, row, done.returncode == 0


def state():
    """A state that was cut, flipped or made up, and descriptors that are not there or not what they should be:
    the successor does not begin, and the container ends. With one that was left as it was it goes on; one
    with another id gives it no other slice."""
    with Node() as node, neighbour(node) as other, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for kind in ("none", "id"):
            process, row, taken = _hand_on(node, folder, kind)
            check(taken and _row(node)["gpus"] == row["gpus"], "%s: it has another slice" % kind)
            balanced(node)
            check(process.end() == 0, "it ended badly")
            node.wait_used(NEIGHBOUR * MIB, "after the end of " + kind)
        for kind in ("empty", "cut", "flipped", "missing", "swapped", "negative", "books", "twice", "limit"):
            process, row, taken = _hand_on(node, folder, kind)
            check(not taken, "%s: it was taken over" % kind)
            check(process.wait() == 125, "%s: the container ended with %d" % (kind, process.wait()))
            node.wait_used(NEIGHBOUR * MIB, "after the end of " + kind)
        other.say("go on")
        other.expect("^undisturbed$")


# --- Sandboxes within


def _nest(kind, says=None, got=True):
    def judge(node, process):
        check(says is None or process.said(says), "it said %s" % process.lines)
        if got:
            at_least(USABLE)(node, process)
        else:
            check(process.said("^afterwards 64 MiB$"), "the slice is of no use: %s" % process.lines)
            check(node.used() == (NEIGHBOUR + 64) * MIB, "%d bytes are in use" % node.used())

    def run():
        without(["nest", kind], more_than(LIMIT) if got else nothing)
        within(["nest", kind], judge)

    run.__doc__ = "A sandbox with namespaces and a filter of its own: %s." % kind
    return run


main({"tricks-set-tid": set_tid, "tricks-heir": heir, "tricks-page-flip": page_flip,
      "tricks-page-wait": page_wait, "tricks-page-late": page_late, "tricks-uffd": uffd,
      "tricks-reaper": reaper, "tricks-crowd": crowd, "tricks-threads": threads, "tricks-state": state,
      "nest-log": _nest("log"), "nest-listener": _nest("listener", "^listener Device or resource busy$"),
      "nest-rewrite": _nest("rewrite"), "nest-orphan": _nest("orphan", "^errno 38$", False),
      "nest-kill": _nest("kill", "^ended 159$", False)})
