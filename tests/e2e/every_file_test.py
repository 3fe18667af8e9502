"""Each row of the driver's tables, asked by each kind of process on each kind of file that it may have:
its own, and such as other slices have lent it. The driver receives what the table of decisions lets
through on a slice's own files and for its own clients, and of all else nothing. What others have stays
as it is, and the driver never holds more than cgpu counts, nor a slice more than its limit.

  every_file_test.py asked [ASKERS [SEQUENCES [SEED [BRANCH]]]]
      Each row on each kind of file, by ASKERS kinds of processes that have a slice and by the one that
      has none; before that SEQUENCES of random calls. All are drawn from the seed, which it prints.
"""
import collections
import random
import struct
import sys

import cgpu_test as t
import differential as d
import rows as r
from members import LENT, MANAGED, OWN, SHIMS_OWN, STEP, WHAT, WILD, World, free, on

CARD_OF_ALL = "t4:1"  # all branches drive it
BRANCHES = ("535", "550", "570", "580", "590", "595", "610")
ROWS_AT_ONCE, CALLS_AT_ONCE, ROUNDS = 48, 4, 50  # that are judged together; of a sequence
MUCH = 512 << 10  # cgpu counts page tables that the driver need not have made

# Keys whose calls the driver takes on any file, not on the client's own alone (escape.c,
# RmGssLegacyRpcCmd()).
WHATEVER_FILE = ("GSS_LEGACY_", "NV_ESC_ALLOC_OS_EVENT", "NV_ESC_FREE_OS_EVENT")
# Controls that read what a file holds.
READS_FILE = ("IMPORT_OBJECT_FROM_FD", "IMPORT_OBJECTS_FROM_FD", "GET_EXPORT_OBJECT_INFO")
# Controls with a client in their parameters.
NAMES_SECOND = ("CLIENT_GET_ACCESS_RIGHTS", "GR_CTXSW_ZCULL_BIND", "FIFO_DISABLE_CHANNELS")
# Rows by which memory is held in one more way, or in one less.
HOLDS = ("UVM_CREATE_EXTERNAL_RANGE", "UVM_MAP_EXTERNAL_ALLOCATION", "UVM_UNMAP_EXTERNAL", "UVM_FREE",
         "NV_ESC_RM_DUP_OBJECT", "NV_ESC_RM_MAP_MEMORY", "NV_ESC_RM_MAP_MEMORY_DMA",
         "NV_ESC_RM_UNMAP_MEMORY_DMA", "NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD",
         "NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD")
# Requests that pass to any file where there is no slice (runtime/others_filter.cc), in the sizes asked
# here.
OTHERS_MAY = ("NV_ESC_ATTACH_GPUS_TO_FD", "NV_ESC_QUERY_DEVICE_INTR", "NV_ESC_SET_NUMA_STATUS",
              "NV_ESC_RM_LOCKLESS_DIAGNOSTIC")
MMAP = None  # in a list of rows


class Draws:
    """Draws who asks what, and asks."""

    def __init__(self, world, rng):
        self.world = world
        self.rng = rng
        self.made = {}  # rows by client
        self.asked = collections.Counter()
        self.reached = collections.Counter()

    def everything(self, askers):
        """Asks every row on each kind of file, each by so many kinds of processes, in any order. The one
        without a slice asks all of them."""
        sliced = [asker for asker in self.world.askers if asker.kind != "sidecar"]
        rows = list(self.world.rows(0).all()) + [MMAP] * 8
        batches = []
        for files in WHAT:
            theirs = {asker: [] for asker in self.world.askers}
            for row in rows:
                for asker in self.rng.sample(sliced, min(askers, len(sliced))):
                    theirs[asker].append(row)
            if files in LENT:
                theirs[self.world.askers[-1]] = list(rows)
            for asker, some in theirs.items():
                self.rng.shuffle(some)
                batches += [(asker, files, some[at:at + ROWS_AT_ONCE])
                            for at in range(0, len(some), ROWS_AT_ONCE)]
        self.rng.shuffle(batches)
        for batch in batches:
            self.batch(*batch)

    def batch(self, asker, files, rows):
        asked, may, in_vain = [], collections.Counter(), collections.Counter()
        for row in rows:
            if row is MMAP:
                asked.append(self.map(asker, files, (asked, may, in_vain)))
            else:
                asked.append(self.row(asker, files, row, may, in_vain))
        received = self.world.judge(["%s, on %s" % (asker.kind, WHAT[files])] + asked, may, in_vain, False)
        self.world.settle()
        self.asked[asker.kind, files] += len(rows)
        self.reached[asker.kind, files] += sum(
            min(count, received[key]) for key, count in (may + in_vain).items())

    def map(self, asker, files, so_far):
        """Maps the file of nvidia-uvm at the address that the offset names. A process without a slice
        can, which ends the slice that lent it (SECURITY.md): it does not try."""
        if asker.kind == "sidecar":
            return "no mmap"
        at = MANAGED + (1000 + self.rng.randrange(1000)) * STEP
        size = STEP * self.rng.choice((1, 1, 2, 8, 1000))
        error = asker.map(files, size, at)
        if error == 0:
            asked, may, in_vain = so_far
            self.world.judge([*asked, "mmap of %d bytes of %s" % (size, WHAT[files])], may, in_vain)
            t.check(asker.unmap(size, at) == 0, "it is not unmapped")
        return "mmap of %d bytes: %d" % (size, error)

    def row(self, asker, files, row, may, in_vain):
        """Asks it on a file of this set, with one in its parameters, or naming a client that has one. All
        else may be the asker's own as well."""
        place = client = second = argument = files
        two = row.key == "NV_ESC_RM_DUP_OBJECT" or row.key.endswith(NAMES_SECOND)
        if files in LENT and asker.kind != "sidecar":
            client = self.rng.choice((OWN, OWN, files) if two else (files, files, OWN))
            if row.call.fds:
                place, argument = self.rng.choice(((files, files), (files, OWN), (OWN, files)))
            elif two and client == OWN:
                place = self.rng.choice((OWN, files))
        root = asker.roots[client]
        row = self.rows_of(asker.roots[second])[row.kind, row.number]
        call = on(row.call, place)
        if row.key == "NV_ESC_RM_DUP_OBJECT":
            call.clients[1] = (call.clients[1][0], asker.roots[second])
        call.fds = [(holder, at, argument + file) for holder, at, file in row.call.fds]
        call.wrapped = self.rng.random() < 0.1 and call.nr not in (0, d.ESC["XFER"])
        allowed = self.allowed(asker, row, place, client, argument) and not (two and second in LENT)
        if allowed:
            vain = row.call.clients and client != place and not row.key.startswith(WHATEVER_FILE)
            (in_vain if vain else may)[row.key] += 1
        if row.key == "UVM_INITIALIZE" and asker.kind != "sidecar":
            may[r.IS_INITIALISED] += 1
        answer = asker.ask(call, root)
        said = "%s%s; client: %s, and %s, file: %s, argument: %s: errno %d status %s" % (
            row, " wrapped" if call.wrapped else "", WHAT[client], WHAT[second], WHAT[place],
            WHAT[argument] if call.fds else None, answer.errno, answer.status)
        t.check(allowed or row.key not in SHIMS_OWN or not answer.ok(), "it was done: " + said)
        self.undo(asker, call, answer, root)
        return said

    def rows_of(self, root):
        if root not in self.made:
            self.made[root] = {(row.kind, row.number): row for row in self.world.rows(root).all()}
        return self.made[root]

    def allowed(self, asker, row, place, client, argument):
        """May the driver receive it?"""
        if asker.kind == "sidecar":
            return row.key in OTHERS_MAY
        kind = "escape" if row.kind == "sizeless" else row.kind
        size, name = self.world.tables[kind][row.number]
        if row.kind == "uvm" and place in LENT:
            return False
        if row.call.clients and client in LENT:
            return False
        if name.endswith(READS_FILE) and argument in LENT:
            return False
        return r.may_run(self.world.policy, row.kind, row.number, size, name)

    def undo(self, asker, call, answer, root):
        """Frees what was made."""
        if not answer.ok() or asker.kind == "sidecar" or call.nr != d.ESC["RM_ALLOC"]:
            return
        made = struct.unpack_from("<I", answer.raw, 8)[0]
        if call.cls in r.CLIENT_CLASSES:
            root = made
        again = free(made)
        again.file = call.file
        asker.ask(again, root)


    def report(self):
        for files in WHAT:
            count = sum(count for (_, where), count in self.asked.items() if where == files)
            reached = sum(count for (_, where), count in self.reached.items() if where == files)
            print("on %s: %d asked, %d reached the driver" % (WHAT[files], count, reached))
            t.check(files != OWN or reached * 4 > count, "hardly a row reached the driver")


class Maker(d.Maker):
    def garbage(self):
        """Not drawn: the kernel hands the driver what no driver does anything for."""
        return self.memory()


class Sequence:
    """Random calls of one program with a client and an address space of their own, and with words that
    are handles and files of its own or of others."""

    def __init__(self, world, rng, asker):
        self.world = world
        self.rng = rng
        self.asker = asker
        self.maker = Maker(rng, world.tables, [world.gpu["gpu_id"]])
        self.before, self.too_much = self.left(), world.too_much()
        asker.use(WILD)
        self.roots = {0: asker.roots[WILD]}
        self.said = []
        self.made = []  # clients, each with its file
        self.calls = self.succeeded = 0
        for slot in range(1, d.CLIENT_SLOTS):
            self.ask(self.maker.new_client(slot), WILD)
            self.ask(self.maker.new_device(slot, 0x10), WILD)
        self.rows = [row for row in world.rows(asker.roots[WILD]).all()
                     if row.key in world.may_ever or rng.random() < 0.2]
        self.mapped = [(STEP, MANAGED + WILD * STEP)]
        world.settle(world.read())

    def left(self):
        """How many clients and address spaces the slice has in the driver."""
        books = self.world.read(False)
        return [sum(row["pid"] == self.asker.shim for row in books[kind]) for kind in ("clients", "uvm")]

    def play(self):
        for _ in range(ROUNDS):
            makers = self.rng.choices((self.drawn, self.holds, self.row, self.map), (3, 8, 2, 2), k=CALLS_AT_ONCE)
            self.said += [make() for make in makers]
            self.world.judge(["%s, random calls" % self.asker.kind] + self.said, self.world.may_ever,
                             mapped=self.map in makers)
            self.world.settle()
        for handle, file in self.made:
            self.ask(on(free(handle), file), roots={0: handle})
        for file in r.FILES:
            self.asker.program.ask("close %d" % (WILD + file))
        for size, address in self.mapped:
            self.asker.unmap(size, address)
        t.wait_for(lambda: self.left() == self.before, lambda: "left: %s, before: %s" % (self.left(), self.before))
        self.world.judge(["%s, after random calls" % self.asker.kind] + self.said, self.world.may_ever)
        self.world.settle()
        t.wait_for(lambda: self.world.too_much() < self.too_much + MUCH,
                   lambda: "cgpu counts %d bytes too much, before: %d" % (self.world.too_much(), self.too_much))

    def row(self):
        return self.strange(self.redrawn(self.rng.choice(self.rows).call))

    def holds(self):
        """Memory is made, held in one more way, or given back."""
        first, count = d.HANDLES["memory"]
        handle = first + self.rng.randrange(count)
        what = self.rng.random()
        if what < 0.3:
            params = bytearray(128)
            struct.pack_into("<Q", params, 64, self.rng.choice((1, 4, 12)) * r.LENGTH)
            return self.ask(self.maker.alloc("memory", 0, 0x10, handle, d.VIDMEM, params), WILD)
        if what < 0.5:
            return self.ask(free(handle), WILD)
        call = r.Row("", 0, "", self.rng.choice([row for row in self.rows if row.key in HOLDS]).call).on({}).call
        for block in (call.image, *call.nested):
            for at in range(0, len(block) - 3, 4):
                if struct.unpack_from("<I", block, at)[0] == r.MEMORY:
                    struct.pack_into("<I", block, at, handle)
        if len(call.image) >= 16 and struct.unpack_from("<Q", call.image)[0] == r.BASE:
            struct.pack_into("<Q", call.image, 0, r.BASE + self.rng.randrange(4) * r.LENGTH)
        return self.strange(call)

    def drawn(self):
        return self.strange(self.maker.call())

    def redrawn(self, call):
        """The same with other handles here and there."""
        call = r.Row("", 0, "", call).on({}).call
        handles = [first + number for first, count in d.HANDLES.values() for number in range(count)]
        for block in (call.image, *call.nested):
            for at in range(0, len(block) - 3, 4):
                word = struct.unpack_from("<I", block, at)[0]
                if word == self.roots[0] and self.rng.random() < 0.2:
                    struct.pack_into("<I", block, at, self.asker.roots[self.foreign()])
                if word in handles and self.rng.random() < 0.3:
                    struct.pack_into("<I", block, at, self.rng.choice(handles))
        return call

    def foreign(self):
        return self.rng.choice(LENT)

    def strange(self, call):
        """Asks it, now and then with a client or a file of others."""
        call.clients = [(at, self.asker.roots[self.foreign()] if self.rng.random() < 0.05 else slot)
                        for at, slot in call.clients]
        fds = call.fds
        call = on(call, WILD if self.rng.random() < 0.95 else self.foreign())
        call.fds = [(holder, at, file + (WILD if self.rng.random() < 0.8 else self.foreign()))
                    for holder, at, file in fds]
        return self.ask(call)

    def ask(self, call, files=0, roots=None):
        call = on(call, files)
        roots = roots or self.roots
        answer = d.Answer(call, self.asker.program.ask(call.line(roots)), roots, [])
        if call.cls in r.CLIENT_CLASSES and answer.ok():
            handle = struct.unpack_from("<I", answer.raw, 8)[0]
            self.made.append((handle, call.file))
            if call.new_client is not None:
                self.roots[call.new_client] = handle
        self.calls += 1
        self.succeeded += answer.ok()
        return "%s, file %d, arguments %s: errno %d status %s" % (
            call, call.file, [file for _, _, file in call.fds], answer.errno, answer.status)

    def map(self):
        if self.mapped and self.rng.random() < 0.4:
            size, address = self.mapped.pop(self.rng.randrange(len(self.mapped)))
            return "munmap: %d" % self.asker.unmap(size, address)
        files = WILD if self.rng.random() < 0.7 else self.foreign()
        size, address = STEP * self.rng.choice((1, 4, 16, 40)), MANAGED + (2000 + self.rng.randrange(100) * 50) * STEP
        error = self.asker.map(files, size, address)
        if error == 0:
            self.mapped.append((size, address))
        return "mmap of %d bytes of %s at 0x%x: %d" % (size, WHAT.get(files, "its own"), address, error)


def _play(world, rng, sequences):
    calls = succeeded = 0
    for _ in range(sequences):
        sequence = Sequence(world, rng, rng.choice([asker for asker in world.askers if asker.kind != "sidecar"]))
        sequence.play()
        calls += sequence.calls
        succeeded += sequence.succeeded
    print("%d random calls, %d succeeded" % (calls, succeeded))
    t.check(succeeded * 5 >= calls, "hardly any call succeeded")


def asked(askers="1", sequences="5", seed=None, branch=None):
    seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    rng = random.Random(seed)
    branch = branch or rng.choice(BRANCHES)
    print("seed %d: repeat with `every_file_test.py asked %s %s %d %s`" % (seed, askers, sequences, seed, branch))
    sys.stdout.flush()
    with t.Node(CARD_OF_ALL, branch) as node:
        world = World(node)
        # First, as long as nothing is counted too much that could make up for too little.
        _play(world, rng, int(sequences))
        draws = Draws(world, rng)
        draws.everything(int(askers))
        draws.report()
        world.end()


t.main({"asked": asked})
