"""Twins: the same random calls are made on two simulated nodes, on one plainly and on the other in a
slice. After each call every byte, status and errno must be the same, but for what the table
of differences.py allows and why. A sequence that shows another difference is shortened and printed.

  differential_test.py whole-550 [SEQUENCES [SEED [CALLS]]]   the slice is the whole GPU
  differential_test.py small-550 ...                          64 MiB of it; the same for 580
  differential_test.py upgraded-550 ...                       whole, upgraded every few calls
"""
import itertools
import random
import struct
import sys

import caller
import cgpu_test as t
import differences
import differential as d
import upgrading

CARD_MIB, SMALL_MIB = 16160, 64


class Nodes:
    """Both nodes, with what is known of them."""

    def __init__(self, plain, sliced, limit_mib):
        self.plain = plain
        self.sliced = sliced
        self.limit = limit_mib * t.MIB
        self.calls = 0
        self.upgrades = None  # programs that the slice's shim becomes, in turn
        self.excused = {}  # by rule of differences.py
        self.succeeded = [0, 0]  # plainly, in the slice
        self.kinds = set()  # of what succeeded in the slice
        self.uuids = [[gpu["uuid"].removeprefix("GPU-") for gpu in node.info()["gpus"]]
                      for node in (plain, sliced)]
        self.driver = plain.info()["driver"]
        twins = self.start()
        self.tables = twins[0].tables(self.driver)
        self.policy = differences.Policy(self.tables, self.driver)
        self.gpu_ids = [gpu["gpu_id"] for gpu in plain.info()["gpus"]]
        self.end(twins)
        self.group_bytes = self._measure_group()

    def _measure_group(self):
        """Returns the bytes that a channel group takes of the GPU."""
        twins = self.start()
        maker = d.Maker(random.Random(0), self.tables, self.gpu_ids)
        params = bytearray(self.tables["class"][d.GROUP][0])
        struct.pack_into("<I", params, 12, 1)  # engine: graphics
        for call in maker.prelude() + [maker.alloc("group", 0, 0x10, 0x50, d.GROUP, params)]:
            answers = both(self, twins, call)
            t.check(answers[0].ok(), "%s: %s" % (call, answers[0]))
            settle(twins, call, answers)
        used = self.plain.used()
        self.end(twins)
        return used

    def start(self):
        """A fresh program on each, with a client, a device and a subdevice."""
        twins = [caller.plain(self.plain), caller.sliced(self.sliced, self.limit // t.MIB)]
        paths = {0: "/dev/nvidiactl", 1: "/dev/nvidia0"}
        paths.update({file: "/dev/nvidiactl" for file in d.FILES})
        for twin in twins:
            for file, path in paths.items():
                t.check(twin.ask("open %d %s" % (file, path)) == "0", "no " + path)
        return twins

    def count(self, call, answers):
        self.calls += 1
        for twin, answer in enumerate(answers):
            self.succeeded[twin] += answer.ok()
        if answers[1].ok():
            self.kinds.add((call.nr, call.cls, call.command))

    def end(self, twins):
        for twin, node in zip(twins, (self.plain, self.sliced)):
            twin.process.close()
            twin.process.wait()
            node.wait_used(0, "after a sequence")


# --- Sequences.


class Found(Exception):
    """A difference: its sentence, the call, the answers, the number of the call."""


def both(nodes, twins, call):
    for twin in twins:
        twin.send(call.line(twin.roots))
    return [d.Answer(call, twin.line(), twin.roots, uuids)
            for twin, uuids in zip(twins, nodes.uuids)]


def _free(twin, slot, handle):
    call = d.Call("", d.ESC["RM_FREE"], struct.pack("<IIII", 0, 0, handle, 0)).by(slot)
    twin.ask(call.line(twin.roots))


def _free_client(twin, handle):
    twin.ask(d.Call("", d.ESC["RM_FREE"], struct.pack("<IIII", handle, 0, handle, 0)).line({}))


def settle(twins, call, answers):
    """Frees again what only one of them has made, and notes new clients."""
    both = all(answer.ok() for answer in answers)
    for twin, answer in zip(twins, answers):
        if not answer.ok():
            continue
        if call.new_client is not None:
            old = twin.roots.get(call.new_client)
            new = struct.unpack_from("<I", answer.raw, 8)[0]
            if not both:
                _free_client(twin, new)
                continue
            if old is not None and old != new:
                _free_client(twin, old)
            twin.roots[call.new_client] = new
        elif call.undo is not None and not both:
            slot, handle = call.undo
            number, at = call.picked
            _free(twin, slot, handle or struct.unpack_from("<I", answer.block(number), at)[0])


def _play(nodes, calls):
    """Raises Found at the first difference."""
    twins = nodes.start()
    first = d.Maker(random.Random(0), nodes.tables, nodes.gpu_ids).prelude()
    try:
        for number, call in enumerate(first + calls):
            if nodes.upgrades and number % 10 == 9:
                (slice_,) = nodes.sliced.containers()
                upgrading.upgrade(slice_["name"], next(nodes.upgrades))
            answers = both(nodes, twins, call)
            before = [str(answer) for answer in answers]
            sentence = differences.difference(nodes, call, *answers, nodes.excused)
            if sentence:
                raise Found(sentence, call, before, number - len(first))
            nodes.count(call, answers)
            settle(twins, call, answers)
            t.check(number >= len(first) or answers[0].ok(), "no client: %s" % before[0])
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


def _report(nodes):
    """That the calls were not all refused, and few of them left to the table of differences."""
    excused = sum(nodes.excused.values())
    print("%d calls, of which %d succeeded plainly and %d in the slice, of %d kinds; %d differed as "
          "they may: %s" % (nodes.calls, *nodes.succeeded, len(nodes.kinds), excused, nodes.excused))
    t.check(min(nodes.succeeded) * 5 > nodes.calls, "hardly any call succeeded")
    t.check(len(nodes.kinds) >= 25, "hardly any kind of call succeeded")
    t.check(excused * 5 < nodes.calls, "the table of differences excuses too much")


def _run(slice_mib, driver, upgraded, sequences="20", seed="1", length="120"):
    print("%s sequences of %s calls, seed %s" % (sequences, length, seed))
    with t.Node("v100-16g:1", driver) as plain, t.Node("v100-16g:1", driver) as sliced:
        nodes = Nodes(plain, sliced, slice_mib)
        if upgraded:
            nodes.upgrades = itertools.cycle((upgrading.NEXT, upgrading.OWN))
        for number in range(int(sequences)):
            maker = d.Maker(random.Random("%s-%d" % (seed, number)), nodes.tables, nodes.gpu_ids)
            calls = [maker.call() for _ in range(int(length))]
            found = _fails(nodes, calls)
            if found:
                print("sequence %d: %s; shortening it" % (number, found.args[0]))
                sys.stdout.flush()
                calls, found = _shorten(nodes, calls, found)
                print("\n".join("  %d. %s" % row for row in enumerate(map(str, calls), 1)))
                print("  plainly: %s\n  sliced:  %s" % tuple(found.args[2]))
                raise t.Failure("%s: %s" % (found.args[1], found.args[0]))
        _report(nodes)


t.main({"%s-%s" % (name, driver):
        (lambda *args, mib=mib, driver=driver, name=name:
         _run(mib, driver, name == "upgraded", *args))
        for name, mib in (("whole", CARD_MIB), ("small", SMALL_MIB), ("upgraded", CARD_MIB))
        for driver in ("550", "580")})
