"""Twins: the same random calls are made on two simulated nodes, on one plainly and on the other in a
slice. After each call every byte, status and errno must be the same, but for what the table
DIFFERENCES says and why. A sequence that shows another difference is shortened and printed.

  differential_test.py whole-550 [SEQUENCES [SEED [CALLS]]]   the slice is the whole card
  differential_test.py small-550 ...                          64 MiB of it; the same for 580
"""
import errno
import os
import random
import select
import struct
import sys
import time

import cgpu_test as t
import differential as d

CALLER = os.path.join(t.TEST_BIN, "caller")
CARD_MIB, SMALL_MIB = 16160, 64
NO_MEMORY, NOT_SUPPORTED, INVALID_CLASS = 0x51, 0x56, 0x22

# Of FB info, by index: what the slice is told (KiB). See src/boundary/view.cc.
FB_TOTAL = (0x07, 0x08, 0x09, 0x20)
FB_FREE = 0x16
FB_AT_MOST_TOTAL, FB_AT_MOST_FREE = 0x0A, 0x12
FB_ZERO = (0x1E, 0x13, 0x33, 0x34)  # where neighbours' memory lies could be read from them


class Twin:
    """The caller on one of the nodes."""

    def __init__(self, process):
        self.process = process
        self.roots = {}
        self._rest = b""

    def send(self, line):
        self.process.popen.stdin.write((line + "\n").encode())
        self.process.popen.stdin.flush()

    def line(self):
        until = time.monotonic() + t.DEADLINE
        out = self.process.popen.stdout
        while b"\n" not in self._rest:
            ready, _, _ = select.select([out], [], [], max(0.0, until - time.monotonic()))
            t.check(ready, "%s does not answer" % self.process.name)
            data = os.read(out.fileno(), 1 << 20)
            t.check(data, "%s is gone" % self.process.name)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def ask(self, line):
        self.send(line)
        return self.line()


class Nodes:
    """Both nodes, with what is known of them."""

    def __init__(self, plain, sliced, limit_mib):
        self.plain = plain
        self.sliced = sliced
        self.limit = limit_mib * t.MIB
        self.uuids = [[gpu["uuid"].removeprefix("GPU-") for gpu in node.info()["gpus"]]
                      for node in (plain, sliced)]
        self.driver = plain.info()["driver"]
        twins = self.start()
        twins[0].send("tables " + self.driver)
        self.tables = {"class": {}, "control": {}, "escape": {}}
        while (line := twins[0].line()) != ".":
            kind, number, size, name = line.split()
            self.tables[kind][int(number)] = (int(size), name)
        cards = bytes.fromhex(twins[0].ask(d.Call("", d.ESC["CARD_INFO"], bytes(72)).line({}))
                              .split()[1])
        self.gpu_ids = [struct.unpack_from("<I", cards, 16)[0]]
        self.end(twins)

    def start(self):
        """A fresh program on each, with a client, a device and a subdevice."""
        twins = [Twin(self.plain.exec([CALLER], name="plain")),
                 Twin(self.sliced.run([CALLER], mem="%dMiB" % (self.limit // t.MIB),
                                      name="sliced"))]
        paths = {0: "/dev/nvidiactl", 1: "/dev/nvidia0"}
        paths.update({file: "/dev/nvidiactl" for file in d.FILES})
        for twin in twins:
            for file, path in paths.items():
                t.check(twin.ask("open %d %s" % (file, path)) == "0", "no " + path)
        return twins

    def end(self, twins):
        for twin, node in zip(twins, (self.plain, self.sliced)):
            twin.process.close()
            twin.process.wait()
            node.wait_used(0, "after a sequence")


# --- What may differ. Each takes what the plain twin was answered and makes it what the slice must be
# answered; or says that it cannot be told, and excuses the difference as it stands.


def _client_handles(_nodes, call, one, other):
    """The driver numbers clients in the order they are made, and the shim has some of its own."""
    if call.new_client is not None and one.ok() and other.ok():
        for at in (0, 8):
            one.image[at:at + 4] = other.image[at:at + 4]
    return False


def _refused(_nodes, call, one, other):
    """The driver may write into the parameters of a call before it refuses it (a handle picked, a
    default filled in); what the boundary refuses is answered as it was asked."""
    if one.status and one.status == other.status and one.errno == other.errno:
        asked = bytearray(call.image)
        for at, slot in call.clients:
            struct.pack_into("<I", asked, at, slot)
        struct.pack_into("<I", asked, call.status, other.status)
        return other.image == asked and all(
            number in [row[0] for row in call.nested_clients] or data == call.nested[number]
            for number, data in enumerate(other.nested))
    return False


def _classes(_nodes, call, _one, other):
    """Only listed classes can be made."""
    return (call.cls is not None and call.cls not in d.PASSED_CLASSES and
            other.status == INVALID_CLASS)


def _controls(_nodes, call, _one, other):
    """Only listed controls are executed; of the others nothing is written but the status."""
    return (call.command is not None and call.command not in d.PASSED_CONTROLS and
            other.status == NOT_SUPPORTED and other.nested[0] == call.nested[0])


def _limit(nodes, call, one, other):
    """Memory over the limit is refused as the card's own end is."""
    if other.status != NO_MEMORY or not one.ok() or call.undo is None:
        return False
    return nodes.plain.used() > nodes.limit


def _heap(nodes, call, one, _other):
    """VID_HEAP_CONTROL tells the heap's size and what is free of it: the slice's."""
    if call.nr == d.ESC["RM_VID_HEAP_CONTROL"] and one.ok() and any(one.image[24:40]):
        card, free = struct.unpack_from("<QQ", one.image, 24)
        used = card - free
        struct.pack_into("<QQ", one.image, 24, nodes.limit, max(0, nodes.limit - used))
    return False


def _fb_info(nodes, call, one, other):
    """The slice's memory stands for the card's; where it lies is not told."""
    if call.command not in (d.FB_INFO, d.FB_INFO_V2) or not one.ok() or not other.ok():
        return False
    number, first = (1, 0) if call.command == d.FB_INFO else (0, 4)
    if number >= len(one.nested):
        return False
    ours, theirs = one.nested[number], other.nested[number]
    total = nodes.limit // 1024
    used = nodes.plain.used() // 1024
    for at in range(first, len(ours) - 7, 8):
        index, value = struct.unpack_from("<II", ours, at)
        if at > first + 8 * 5:
            break  # as many as are asked for
        if index in FB_TOTAL:
            value = total
        elif index == FB_FREE:
            value = max(0, total - used)
        elif index == FB_AT_MOST_TOTAL:
            value = min(value, total)
        elif index == FB_AT_MOST_FREE:
            value = min(value, max(0, total - used))
        elif index in FB_ZERO:
            value = 0
        struct.pack_into("<II", ours, at, index, value)
    del theirs
    return False


def _regions(nodes, call, one, _other):
    """One region as large as the slice; its place on the card is not told."""
    if call.command == d.FB_REGIONS and one.ok():
        struct.pack_into("<QQQ", one.nested[0], 8, 0, nodes.limit - 1, 0)
    return False


def _pids(_nodes, call, one, other):
    """Processes have the numbers that they have in the container."""
    if call.command == d.PIDS and one.ok() and other.ok():
        counts = [struct.unpack_from("<I", answer.nested[0], 8)[0] for answer in (one, other)]
        if counts[0] == counts[1]:
            one.nested[0][12:12 + 4 * counts[0]] = other.nested[0][12:12 + 4 * counts[1]]
    return False


# What the boundary itself refuses with: the client is not the container's, nor the object or its
# parent; the class or command is not listed; the card is not granted; a client's handle is one that
# the driver gives out; over the limit.
OWN_FAULTS = {0x23, 0x33, 0x57, 0x36, INVALID_CLASS, NOT_SUPPORTED, 0x1F, 0x1B, 0x3B, NO_MEMORY}


def _first_fault(_nodes, _call, one, other):
    """Of several faults in one call the boundary tells the first that it sees, and asks nobody."""
    return (not one.errno and not other.errno and bool(one.status) and bool(other.status) and
            one.status != other.status and other.status in OWN_FAULTS)


def _picked_handles(_nodes, call, one, other):
    """The driver counts the handles that it picks for calls, and the boundary's refusals save some."""
    if call.picked and one.status == other.status and call.undo[1] == 0:
        number, at = call.picked
        one.block(number)[at:at + 4] = other.block(number)[at:at + 4]
    return False


def _time_slices(_nodes, call, one, other):
    """A tenant's time slices are taken note of and not carried out."""
    return (call.command == d.SET_TIMESLICE and other.status == 0 and other.errno == 0 and
            other.nested == call.nested)


def _open_complete(_nodes, call, one, other):
    """550 answers NV_ESC_WAIT_OPEN_COMPLETE into a buffer of any size: past its end, if that is small.
    Only the right size is let through."""
    return call.nr == 218 and len(call.image) != 8 and other.errno == errno.EINVAL


def _driver_chosen(_nodes, call, one, other):
    """No client can be made under a handle that the driver gives out."""
    return call.cls in (0, 1, d.ROOT) and one.ok() and other.status == 0x1B


def _beyond_the_list(_nodes, call, one, other):
    """Behind the listed devices nothing of the tenant's own is left."""
    if call.command == 0x288 and one.ok():
        count = struct.unpack_from("<I", one.nested[0], 0)[0]
        one.nested[0][4 + 12 * count:] = bytes(len(one.nested[0]) - 4 - 12 * count)
    return False


def _empty_calls(_nodes, call, one, other):
    """As _first_fault, of calls without any parameters, which are judged by their bytes."""
    return call.status is None and call.nr in (0x2A, 206, 207) and not any(call.image)


# --- What differs and should not. Each goes with its repair.


def _wrong_file(_nodes, call, one, other):
    """RM's calls on a card's file: the driver gives EINVAL (escape.c, NV_CTL_DEVICE_ONLY); the boundary
    decides without a look at the file's kind."""
    return call.file == 1 and one.errno == errno.EINVAL and not other.errno and bool(other.status)


DIFFERENCES = [_first_fault, _refused, _picked_handles, _time_slices, _open_complete, _driver_chosen,
               _beyond_the_list, _empty_calls, _wrong_file,
               _client_handles, _classes, _controls, _limit, _heap, _fb_info, _regions, _pids]


def _difference(nodes, call, one, other):
    if any(excuses(nodes, call, one, other) for excuses in DIFFERENCES):
        return None
    return d.first_difference(one, other)


# --- Sequences.


class Found(Exception):
    """A difference: its sentence, the call, the answers, the number of the call."""


def _both(nodes, twins, call):
    for twin in twins:
        twin.send(call.line(twin.roots))
    return [d.Answer(call, twin.line(), twin.roots, uuids)
            for twin, uuids in zip(twins, nodes.uuids)]


def _free(twin, slot, handle):
    call = d.Call("", d.ESC["RM_FREE"], struct.pack("<IIII", 0, 0, handle, 0)).by(slot)
    twin.ask(call.line(twin.roots))


def _settle(twins, call, answers):
    """What only one of them has made is freed again; new clients are noted."""
    for twin, answer, others in zip(twins, answers, reversed(answers)):
        if call.new_client is not None and answer.ok():
            old = twin.roots.get(call.new_client)
            new = struct.unpack_from("<I", answer.raw, 8)[0]
            if old is not None and old != new:
                twin.ask(d.Call("", d.ESC["RM_FREE"], struct.pack("<IIII", old, 0, old, 0)).line({}))
            twin.roots[call.new_client] = new
        elif call.undo is not None and answer.ok() and not others.ok():
            slot, handle = call.undo
            number, at = call.picked
            _free(twin, slot, handle or struct.unpack_from("<I", answer.block(number), at)[0])


def _play(nodes, calls):
    """Raises Found at the first difference."""
    twins = nodes.start()
    maker = d.Maker(random.Random(0), nodes.tables, nodes.gpu_ids)
    subdevice = maker.alloc("subdevice", 0, 0x10, 0x20, d.SUBDEVICE, bytes(4))
    prelude = [maker.new_client(0), maker.new_device(0, 0x10), subdevice]
    try:
        for number, call in enumerate(prelude + calls):
            answers = _both(nodes, twins, call)
            before = [str(answer) for answer in answers]
            sentence = _difference(nodes, call, *answers)
            if sentence:
                raise Found(sentence, call, before, number - len(prelude))
            _settle(twins, call, answers)
            t.check(number >= len(prelude) or answers[0].ok(), "no client: %s" % before[0])
    finally:
        nodes.end(twins)


def _fails(nodes, calls):
    try:
        _play(nodes, calls)
    except Found as found:
        return found
    return None


def _shorten(nodes, calls, found):
    """Leaves out what the difference does not need, half of it first, then less and less."""
    left = calls[:found.args[3] + 1]
    size = max(1, len(left) // 2)
    while size > 0:
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + size:]
            other = _fails(nodes, fewer)
            if other:
                left, found = fewer[:other.args[3] + 1], other
            else:
                at += size
        size //= 2
    return left, found


def _run(slice_mib, driver, sequences="12", seed="1", length="120"):
    print("%s sequences of %s calls, seed %s" % (sequences, length, seed))
    done = {}
    with t.Node("v100-16g:1", driver) as plain, t.Node("v100-16g:1", driver) as sliced:
        nodes = Nodes(plain, sliced, slice_mib)
        for number in range(int(sequences)):
            maker = d.Maker(random.Random("%s-%d" % (seed, number)), nodes.tables, nodes.gpu_ids)
            calls = [maker.call() for _ in range(int(length))]
            for call in calls:
                done[call.nr] = done.get(call.nr, 0) + 1
            found = _fails(nodes, calls)
            if found:
                print("sequence %d: %s; shortening it" % (number, found.args[0]))
                sys.stdout.flush()
                calls, found = _shorten(nodes, calls, found)
                print("\n".join("  %d. %s" % row for row in enumerate(map(str, calls), 1)))
                print("  plainly: %s\n  sliced:  %s" % tuple(found.args[2]))
                raise t.Failure("%s: %s" % (found.args[1], found.args[0]))
    print("calls by escape: %s" % done)


t.main({"%s-%s" % (name, driver):
        (lambda *args, mib=mib, driver=driver: _run(mib, driver, *args))
        for name, mib in (("whole", CARD_MIB), ("small", SMALL_MIB)) for driver in ("550", "580")})
