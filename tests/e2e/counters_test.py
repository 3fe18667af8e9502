"""Counts of a shim against the calls that a program was told to make one by one. Between two readings the
container makes no other call. Cases by name."""
import os
import socket
import struct
import time

import caller as c
import cgpu_test as t
import differential as d
from upgrading import NEXT, OWN, upgrade

KINDS = ("alloc", "free", "control", "dup", "map", "uvm", "mmap", "other")
REASONS = ("memory_limit", "quota", "gpu_not_granted", "invalid", "not_allowed", "not_known")
BOUNDS_NS = (0, 10_000, 30_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)

BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
LIMIT = 256
ROOT = 0xCAF50000  # the clients and objects that the calls make
DEVICE, MEMORY, COPY = ROOT + 1, ROOT + 2, ROOT + 3
STRANGER = 0x1234567  # nobody's
MAPPER = 0xFE  # NV_MEMORY_MAPPER
PROFILER_CONTROL, NO_CONTROL = 0xB0CC0101, 0x00000FF0
CONTROL_FILE, GPU, UVM, ZERO = 0, 1, 2, 3
UVM_INITIALIZE, UVM_REGISTER_GPU = 0x30000001, 37
TIOCGPTN = 0x80045430  # terminals'


def _ask(container, line):
    """Returns the lines that a shim answers, as words."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect("/run/cgpu/%s.sock" % container)
        connection.sendall(line.encode() + b"\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return [line.split() for line in text.splitlines()]


class Counters:
    """A reading, from the answer to `ps`."""

    def __init__(self, container):
        (line,) = [words for words in _ask(container, "ps") if words[0] == "counters"]
        numbers = [int(word) for word in line[1:]]
        self.upgrades, self.duration_ns, *counts = numbers
        self.calls = dict(zip(KINDS, counts))
        self.refused = dict(zip(REASONS, counts[len(KINDS):]))
        self.durations = counts[len(KINDS) + len(REASONS):]
        t.check(len(self.durations) == len(BOUNDS_NS), line)
        t.check(sum(self.durations) == sum(self.calls.values()), "not one duration a call: %s" % line)
        least = sum(count * bound for count, bound in zip(self.durations, BOUNDS_NS))
        most = sum(count * bound for count, bound in zip(self.durations, BOUNDS_NS[1:]))
        t.check(least <= self.duration_ns, "calls took longer together: %s" % line)
        t.check(self.durations[-1] or self.duration_ns <= most, "they took less: %s" % line)

    def since(self, before):
        """Returns the counts that have grown, by name."""
        grown = {}
        for now, then in ((self.calls, before.calls), (self.refused, before.refused)):
            grown.update({name: now[name] - then[name] for name in now if now[name] != then[name]})
        return grown


def _alloc(client, parent, new, cls, params=b""):
    call = d.Call("alloc", d.ESC["RM_ALLOC"],
                  struct.pack("<IIIIQQIIII", client, parent, new, cls, 0, 0, len(params), 0, 0, 0))
    return (call.point(16, params) if params else call), 40


def _control(command, params=b""):
    call = d.Call("control", d.ESC["RM_CONTROL"],
                  struct.pack("<IIIIQII", ROOT, ROOT, command, 0, 0, len(params), 0))
    return (call.point(16, params) if params else call), 28


def _free(client, handle):
    return d.Call("free", d.ESC["RM_FREE"], struct.pack("<IIII", client, 0, handle, 0)), 12


def _memory(mib, new):
    params = bytearray(128)
    struct.pack_into("<I", params, 0, ROOT)
    struct.pack_into("<Q", params, 64, mib * t.MIB)
    return _alloc(ROOT, DEVICE, new, d.VIDMEM, bytes(params))


def _map():
    call = d.Call("map", 0x4E, struct.pack("<IIIIQQQIIII", ROOT, DEVICE, MEMORY, 0, 0, 4096, 0, 0, 0,
                                           0, 0))
    call.fds.append((-1, 48, GPU))
    return call, 40


class Program:
    """A program in a slice that makes the calls that it is told, and counts what it made."""

    def __init__(self, node):
        self.process = node.run([c.PROGRAM], mem="%dMiB" % LIMIT, flags=("--gpus", "device=0"),
                                name="counted")
        self.caller = c.Caller(self.process)
        for file, name in ((CONTROL_FILE, "nvidiactl"), (GPU, "nvidia0"), (UVM, "nvidia-uvm"),
                           (ZERO, "zero")):
            self.open(file, name)
        (container,) = node.containers()
        self.id, self.name = container["id"], container["name"]
        self._made = {}
        self._before = self.read()
        t.check(not any(self._before.calls.values()), "calls that nobody asked for")

    def read(self):
        return Counters(self.id)

    def open(self, file, name):
        """Opens a file in place of the one of this number."""
        t.check(self.caller.ask("open %d /dev/%s" % (file, name)) == "0", name + " is not there")

    def count(self, kind, reason=None):
        """Notes a call that was made."""
        for name in (kind, reason):
            if name:
                self._made[name] = self._made.get(name, 0) + 1

    def ask(self, line, kind, reason=None, errno=0):
        """Makes one call of which the errno tells enough. Returns the answer."""
        self.caller.send(line)
        answer = self.caller.line().split()
        t.check(int(answer[0]) == errno, "%s: errno %s" % (line, answer[0]))
        self.count(kind, reason)
        return answer

    def do(self, made, kind, reason=None):
        """Makes one call that succeeds, or is refused for a reason."""
        call, status = made
        answer = self.ask(call.line({}), kind, reason)
        said = struct.unpack_from("<I", bytes.fromhex(answer[1]), status)[0]
        t.check((said == 0) == (reason is None), "%s: status %#x" % (call, said))

    def check(self):
        """The shim has counted the calls that were made since the last time, and no other."""
        now = self.read()
        grown = now.since(self._before)
        t.check(grown == self._made, "counted %s, made %s" % (grown, self._made))
        self._before, self._made = now, {}
        return now


def _one_of_each(program, address):
    """Calls of every kind, and refusals for every reason."""
    program.open(GPU, "nvidia0")  # a GPU's file is mapped through once
    program.do(_alloc(ROOT, 0, ROOT, d.ROOT), "alloc")
    program.do(_alloc(ROOT, ROOT, DEVICE, d.DEVICE, bytes(56)), "alloc")
    program.do(_memory(8, MEMORY), "alloc")
    program.do(_memory(LIMIT, COPY), "alloc", "memory_limit")
    program.do(_memory(LIMIT, COPY), "alloc", "memory_limit")
    program.do(_alloc(ROOT, DEVICE, COPY, MAPPER, struct.pack("<II", 0, 4097)), "alloc", "quota")
    program.do((d.Call("dup", d.ESC["RM_DUP_OBJECT"],
                       struct.pack("<IIIIIII", ROOT, DEVICE, COPY, ROOT, MEMORY, 0, 0)), 24), "dup")
    program.do(_map(), "map")
    program.do(_control(d.ATTACHED_IDS, bytes(128)), "control")
    program.do(_control(d.UUID_FROM_ID, struct.pack("<II", 0xFFFF, 0) + bytes(260)), "control",
               "gpu_not_granted")
    program.do(_control(PROFILER_CONTROL), "control", "not_allowed")
    program.do(_control(NO_CONTROL), "control", "not_known")
    program.do(_free(STRANGER, STRANGER), "free", "invalid")
    program.do(_free(ROOT, COPY), "free")
    wrapped = _free(ROOT, MEMORY)
    wrapped[0].wrapped = True
    program.ask(wrapped[0].line({}), "free")
    program.do(_free(ROOT, ROOT), "free")
    program.ask(d.Call("cards", d.ESC["CARD_INFO"], bytes(32 * 72)).line({}), "other")
    program.ask("call %d %x %s" % (UVM, UVM_INITIALIZE, bytes(16).hex()), "uvm")
    program.ask("call %d %x %s" % (UVM, UVM_REGISTER_GPU, bytes(64).hex()), "uvm",
                "gpu_not_granted")
    program.ask("map %d 4096 %x" % (ZERO, address), "mmap")
    # On a file that is no GPU's: a GPU's command, and another driver's.
    program.ask("call %d %x %s" % (ZERO, 3 << 30 | 16 << 16 | 0x4629, bytes(16).hex()), "other",
                "invalid", errno=25)
    program.ask("call %d %x %s" % (ZERO, TIOCGPTN, bytes(4).hex()), "other", errno=25)
    # Neither of these is handed to the shim.
    program.ask("map -1 4096 %x" % (address + 4096), None)
    program.ask("call %d %x -" % (ZERO, 0x5401), None, errno=25)


def calls():
    """Every call is counted once, by its kind and, if it was refused, its reason; before and after
    hot upgrades."""
    with t.Node("v100-16g:2") as node:
        program = Program(node)
        _one_of_each(program, 0x200000000)
        program.check()
        for number, shim in enumerate((NEXT, OWN), 1):
            upgrade(program.name, shim)
            now = program.check()  # nothing is lost, and nothing added
            t.check(now.upgrades == number, "%d upgrades" % now.upgrades)
            _one_of_each(program, 0x200000000 + number * 0x10000)
            program.check()
        t.check(program.process.end() == 0, "the program ended badly")


def duration():
    """A call that the driver holds takes as long as it is held, and is counted when it is
    answered."""
    with t.Node("v100-16g:1") as node:
        program = Program(node)
        program.do(_alloc(ROOT, 0, ROOT, d.ROOT), "alloc")
        before = program.check()
        node.hold(1, escape=d.ESC["RM_CONTROL"])
        program.caller.send(_control(d.ATTACHED_IDS, bytes(128))[0].line({}))
        node.wait_held(1)
        since = time.monotonic_ns()
        t.check(not program.read().since(before), "it is counted before its end")
        held = time.monotonic_ns() - since
        node.release()
        t.check(program.caller.line().startswith("0 "), "the call failed")
        program.count("control")
        took = program.check().duration_ns - before.duration_ns
        t.check(took >= held, "held for %d ns, counted as %d" % (held, took))
        t.check(program.process.end() == 0, "the program ended badly")


def _throttled(container):
    (card,) = [words for words in _ask(container, "ps") if words[0] == "card"]
    return int(card[8])


def throttled():
    """The time for which an order keeps a container off the GPU is time without work there, by the
    engine's own accounting. Without such an order it does not grow, and a hot upgrade keeps it."""
    with t.Node("a10:1", "580") as node:
        process = node.run([BURN], name="burn")

        def engine():
            return t.graphics(node.books()["gpus"][0])

        def without_work():
            now = engine()
            return t.counted_ns(now) - now["busy_ns"]

        def order(what):
            t.check(_ask(container["id"], "order %s %s" % (uuid, what)) == [["ok"]], "no order")

        def works():
            start = engine()["busy_ns"]
            t.wait_for(lambda: engine()["busy_ns"] > start + 10_000_000, "it does not run")

        works()
        (container,) = node.containers()
        uuid = container["gpus"][0]["uuid"]
        t.check(_throttled(container["id"]) == 0, "nobody kept it off")
        order("2000 1000000 1 999999 0 0")  # it is on for a microsecond a second
        idle_before, before = without_work(), _throttled(container["id"])
        idle_after_before = without_work()
        t.wait_for(lambda: _throttled(container["id"]) > before + 300_000_000, "no time is counted")
        idle_before_after = without_work()
        after, idle_after = _throttled(container["id"]), without_work()
        print("%d ns counted; without work %d ns, within them %d ns" %
              (after - before, idle_after - idle_before, idle_before_after - idle_after_before))
        t.check(after - before <= idle_after - idle_before, "more is counted than the engine idled")
        t.check(after - before >= 0.99 * (idle_before_after - idle_after_before), "less is counted")
        order("2000 0 0 0 0 0")
        counted = _throttled(container["id"])
        for shim in (OWN, NEXT, OWN):
            upgrade(container["name"], shim)
            works()
            t.check(_throttled(container["id"]) == counted, "it is lost, or grows without an order")
        process.kill()


t.main({"calls": calls, "duration": duration, "throttled": throttled})
