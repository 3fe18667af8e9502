"""Attacks with what the driver tells and takes without asking whose it is: scheduling of others'
channels, figures and processes of the whole GPU, GPUs that are not granted (queries.cc)."""
import contextlib
import os

from attack import argv
from cgpu_test import MIB, TEST_BIN, Node, check, main
from tenant import FOREIGN, OK, OTHERS, REFUSED, SIZE, Tenant, answer, answers, start

DENIED = "0x1b"  # NV_ERR_INSUFFICIENT_PERMISSIONS
KERNELS = os.path.abspath(os.path.join(TEST_BIN, "kernels"))


@contextlib.contextmanager
def attacked(with_cgpu, words, tenant=(), course=None):
    """An attack beside a tenant; `words`: what it is called with, from the tenant."""
    with Node() as node:
        victim = Tenant(node, with_cgpu, tenant)
        attacker = start(node, with_cgpu, words(victim), OTHERS, "attacker")
        if course is not None:
            course(node, attacker)
        attacker.expect("^holding$")
        yield node, victim, attacker
        if with_cgpu:
            victim.must_go_on()
        attacker.end()
        check(victim.process.end() == 0, "the tenant failed")
        node.wait_used(0, "after both have ended")


def disable_channels():
    """FIFO_DISABLE_CHANNELS takes pairs of handles, whosever they are."""
    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["disable-channels", t.client, t.channel]) as (
                node, victim, attacker):
            for what in ("alone", "second", "wrapped"):
                status = answer(attacker, what)
                check(status == (FOREIGN if with_cgpu else OK), "%s gave %s" % (what, status))
            check(answer(attacker, "own") == OK, "one's own channel cannot be taken off")
            if not with_cgpu:
                channels = node.books()["gpus"][0]["channels"]
                disabled = [row["disabled"] for row in channels if row["client"] == victim.client]
                check(disabled == [True], "the tenant's channel runs on: %s" % channels)


def idle_channels():
    """IDLE_CHANNELS: of others' channels the driver itself refuses it; of one's own it waits under
    the GPU's lock for as long as it is told, so from a slice it comes to the driver with no time."""
    def course(_node, attacker):
        attacker.expect("^ready$")
        attacker.say("on")
        attacker.expect("^own listed ")

    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["idle-channels", t.client, t.channel],
                      course=course) as (node, _victim, attacker):
            refused = {what: answer(attacker, what) for what in ("single", "listed")}
            check(all(status != OK for status in refused.values()),
                  "the tenant's channels were waited for: %s" % refused)
            own = answer(attacker, "own")
            check(own == OK, "one's own gave %s" % own)
            longest = node.books()["longest_idle_us"]
            check((longest == 0) == with_cgpu, "the card was locked for %d us" % longest)
            counted = node.books()["refused"].get("NV_ESC_RM_IDLE_CHANNELS", 0)
            check((counted == 0) == with_cgpu, "the driver refused %d" % counted)


def _regroup(tenant, allow):
    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["regroup", t.client, t.group, *allow], tenant) as (
                node, victim, attacker):
            for what in ("allow", "dup", "timeslice", "preempt", "stop"):
                for status in answers(attacker, what):
                    check((status == OK) != with_cgpu, "%s gave %s" % (what, status))
            check(answer(attacker, "own timeslice") == OK, "one's own group has no time slice")
            slices = [group["timeslice_us"] for group in node.books()["gpus"][0]["groups"]
                      if group["client"] != victim.client]
            # Without cgpu there is also the copy, which counts for both.
            check(slices == ([0] if with_cgpu else [1, 1]), "the time slices are %s" % slices)
            if not with_cgpu:
                group = next(row for row in victim.state() if row["handle"] == victim.group)
                check(group["timeslice_us"] == 1 and group["preemptions"] == 1 and
                      not group["scheduled"], "the tenant's group is as it was: %s" % group)


def regroup_allowed():
    """The driver lets anybody give himself the right to copy another's channel group. On the copy it
    lets him set its time slice, preempt it and take it off the GPU."""
    _regroup((), ("allow",))


def regroup_shared():
    """The same where the tenant shares its group with everybody."""
    _regroup(("shared",), ())


def _events(how):
    for with_cgpu in (False, True):
        with Node() as node:
            victim = Tenant(node, with_cgpu)
            attacker = start(node, with_cgpu, ["events", victim.client, how], OTHERS, "attacker")
            attacker.expect("^holding$")
            status = answer(attacker, "event")
            check((status == OK) != with_cgpu, "the tenant's event: %s" % status)
            check(answer(attacker, "own event") == OK, "no event of one's own could be had")
            if with_cgpu:
                victim.must_go_on()
            else:
                victim.process.say("go on")
                victim.process.expect("^disturbed$")
            check((victim.process.end() == 0) == with_cgpu, "the tenant did not notice, or failed")
            attacker.end()
            node.wait_used(0, "after both have ended")


def event_freed():
    """FREE_OS_EVENT of another client's event: it never hears of what it waits for."""
    _events("free")


def event_taken():
    """ALLOC_OS_EVENT in another client's name: it can make no such event any more."""
    _events("take")


def debug():
    """A debugger's object of another client's context: the driver asks for the same user alone. With
    one of an own context the errors are read of the context that is on the GPU."""
    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["debug", t.client, t.engine]) as (_node, victim, attacker):
            for what in ("debugger", "suspend", "errors"):
                status = answer(attacker, "tenant's " + what)
                check((status == OK) != with_cgpu, "%s gave %s" % (what, status))
            for what in ("own debugger", "own errors"):
                check(answer(attacker, what) == OK, "one's own context has no debugger")
            read = int(attacker.said(r"^own debugger reads (\d+)$")[0].group(1))
            channel = next(row for row in victim.state() if row["handle"] == victim.channel)
            check(read == (0 if with_cgpu else 1 << 31 | channel["id"]),
                  "the errors of %x were read, the tenant is %s" % (read, channel))


def bus_errors():
    """BUS_GET_INFO_V2 with indices that reset what the GPU's link has counted for everybody."""
    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["bus-errors"]) as (_node, _victim, attacker):
            told = {what: attacker.said(r"^%s (0x[0-9a-f]+) (\d+)$" % what)[0].groups()
                    for what in ("before", "clear", "read", "after")}
            for what in ("clear", "read"):
                check(told[what][0] == (DENIED if with_cgpu else OK), "%s: %s" % (what, told))
            check(told["before"][0] == told["after"][0] == OK and told["before"][1] != "0" and
                  (told["after"] == told["before"]) == with_cgpu, "the counters: %s" % told)


def exclusive_decoder():
    """prohibitMultipleInstances: a video decoder for oneself, and others get none."""
    for with_cgpu in (False, True):
        with Node("t4") as node:
            found = []
            for flag in (1, 0):
                process = start(node, with_cgpu, ["decoder", flag], OTHERS, "decoder-%d" % flag)
                process.expect("^holding$")
                check(answer(process, "channel") == OK, "there is no channel")
                check(process.said("^keeps %d$" % flag), "the caller's own flag was changed")
                found.append((process, answer(process, "decoder")))
            check(found[0][1] == OK, "there is no decoder: %s" % found[0][1])
            check((found[1][1] == OK) == with_cgpu, "the other got %s" % found[1][1])
            for process, _ in found:
                process.end()


def _worker(node, with_cgpu):
    """A tenant whose GPU always has work."""
    words = [KERNELS, "20000"]
    process = (node.run(words, mem="%dMiB" % OTHERS, name="worker") if with_cgpu
               else node.exec(words, name="worker"))
    process.expect("^ready$")
    process.say("feed")
    process.expect("^feeding$")
    return process


def pids():
    """The queries that list processes: of a tenant that has channels, and of one that works."""
    for with_cgpu in (False, True):
        workers = []

        def words(victim, with_cgpu=with_cgpu, workers=workers):
            workers.append(_worker(victim.node, with_cgpu))
            known = {group["pid"] for group in victim.node.books()["gpus"][0]["groups"]}
            return ["pids", _gpu_id(victim.node), *sorted({workers[0].popen.pid, *known, *victim.pids()})]

        with attacked(with_cgpu, words) as (_node, _victim, attacker):
            for what in ("pids", "samples", "accounted", "accounting"):
                said = attacker.said("^%s (0x[0-9a-f]+) (tells|silent)$" % what)
                check(len(said) == 1, "nothing of %s: %s" % (what, attacker.lines))
                check((said[0].group(2) == "tells") != with_cgpu,
                      "%s gave %s" % (what, said[0].group(0)))
            workers[0].say("")
            check(workers[0].end() == 0, "the worker failed")


def usage():
    """The queries that tell what a process has, by its number."""
    for with_cgpu in (False, True):
        with attacked(with_cgpu,
                      lambda t: ["usage", _gpu_id(t.node), SIZE * MIB, *t.pids()]) as (
                          node, _victim, attacker):
            for what in ("usage", "account"):
                tells = attacker.said("^%s 0x[0-9a-f]+ tells$" % what)
                silent = attacker.said("^%s 0x[0-9a-f]+ silent$" % what)
                check(tells or silent, "nothing of %s: %s" % (what, attacker.lines))
                check(bool(tells) != with_cgpu, "%s: %s" % (what, attacker.lines))
            # Each is a walk over all clients, under the driver's lock.
            walks = node.books()["received"].get("NV2080_CTRL_CMD_GPU_GET_PID_INFO", 0)
            check((walks == 0) == with_cgpu, "the driver was asked %d times" % walks)


def _gpu_id(node, index=0):
    return node.info()["gpus"][index]["gpu_id"]


def card_memory():
    """How much memory the GPU has and how much of it is free, from which follows what others have:
    the page that is mapped by everybody, and the queries."""
    for with_cgpu in (False, True):
        with attacked(with_cgpu, lambda t: ["card-memory"]) as (node, victim, attacker):
            total = node.info()["gpus"][0]["memory_bytes"]
            free = total - node.used()
            whole = (total, free)
            if with_cgpu:
                total = free = OTHERS * MIB
            for what in ("page", "list", "table", "heap"):
                found = attacker.said(r"^%s (0x[0-9a-f]+) total (\d+) free (\d+)$" % what)[0]
                if what == "page":
                    # The driver's own page, which CUDA needs on Hopper: SECURITY.md says that it
                    # shows the whole GPU.
                    check(found.group(1) == OK, "the page gave %s" % found.group(1))
                    check((int(found.group(2)), int(found.group(3))) == whole,
                          "the page says %s, it is %d and %d" % (found.group(0), *whole))
                    # Without cgpu, the simulated driver leaves this to the kernel's FUSE, and the real
                    # one refuses the mmap.
                    check(not with_cgpu or attacker.said(r"^writable (\d)$")[0].group(1) == "0",
                          "the page can be mapped to write to it")
                    check(not with_cgpu or attacker.said(r"^polls (0x[0-9a-f]+)$")[0].group(1) == REFUSED,
                          "the driver polls for a tenant")
                    continue
                if with_cgpu and found.group(1) == REFUSED:
                    continue
                check(found.group(1) == OK, "%s gave %s" % (what, found.group(1)))
                check((int(found.group(2)), int(found.group(3))) == (total, free),
                      "%s says %s, it is %d and %d" % (what, found.group(0), total, free))
            found = attacker.said(r"^resident (0x[0-9a-f]+) channel (\d+)$")[0]
            channel = next(row for row in victim.state() if row["handle"] == victim.channel)
            if with_cgpu:
                check(found.group(1) == REFUSED, "the resident channel gave %s" % found.group(1))
            else:
                check((found.group(1), int(found.group(2))) == (OK, channel["id"]),
                      "the resident channel is said to be %s, not %s" % (found.group(0), channel))


ASKED = ("attach", "detach", "id-info", "pci", "uuid", "by-uuid", "peers", "status-code", "to-file",
         "to-file-wrapped")


def other_card():
    """Every call that takes the id or the uuid of a GPU, with one that is not granted."""
    for with_cgpu in (False, True):
        with Node("v100-16g:2") as node:
            other = node.info()["gpus"][1]
            words = argv("other-card", other["gpu_id"], other["uuid"][4:].replace("-", ""))
            if with_cgpu:
                neighbour = node.run(argv("neighbour", OTHERS), mem="%dMiB" % OTHERS,
                                     flags=("--gpus", "device=1"), name="neighbour")
                neighbour.expect("^holding$")
                attacker = node.run(words, mem="%dMiB" % OTHERS, flags=("--gpus", "device=0"),
                                    name="attacker")
            else:
                attacker = node.exec(words, name="attacker")
            attacker.expect("^holding$")
            for what in ASKED:
                status = answer(attacker, what)
                check((status == OK) != with_cgpu, "%s gave %s" % (what, status))
            told = [bool(attacker.said(pattern)) for pattern in (
                "^is %s$" % other["uuid"], "^its id %d$" % other["gpu_id"],
                "^bus %s$" % other["bdf"].split(".")[0])]
            check(told == [not with_cgpu] * 3, "the card's names were told: %s" % told)
            attacker.end()
            if with_cgpu:
                neighbour.say("go on")
                neighbour.expect("^undisturbed$")
                check(neighbour.end() == 0, "the neighbour failed")


main({"disable-channels": disable_channels, "idle-channels": idle_channels,
      "regroup-allowed": regroup_allowed, "regroup-shared": regroup_shared,
      "event-freed": event_freed, "event-taken": event_taken, "debug": debug, "pids": pids,
      "bus-errors": bus_errors, "exclusive-decoder": exclusive_decoder,
      "usage": usage, "card-memory": card_memory, "other-card": other_card})
