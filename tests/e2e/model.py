"""Models what a slice must hold, in a few lines: objects hold blocks of memory, clients hold
objects, open files hold clients and exported objects, processes and sockets hold open files. Makes
a random sequence of operations, works out what Linux and the driver promise of each, and tells
workers (worker.py) to do the same."""
import re
import time

import cgpu_test as t
import upgrading
import worker as w

OK = 0
NO_MEMORY = 0x51
BAR1_MIB = {"v100-16g": 16384, "t4": 256}
MAX_PROCESSES = 6
MAX_QUEUE = 4


class File:
    """An open file: held by the processes that have it open, and by messages on their way. Whoever
    has it can use the client on it, whoever made that."""

    def __init__(self, number, kind, process):
        self.number = number
        self.kind = kind  # "client", "export", "map"
        self.holders = {process: 1}  # with how many descriptors
        self.in_flight = 0
        self.lost = False  # a client that no process has had since: it ends, also if it is in flight
        self.root = 0  # of a client: its handle
        self.objects = {}  # of a client: blocks by handle
        self.views = {}  # of a client: bytes of BAR1 that views of objects take, by their handles
        self.block = None  # of an export
        self._handle = 0xCAFA0000

    def alive(self):
        return bool(self.holders or self.in_flight) and not self.lost

    def add(self, process, count=1):
        self.holders[process] = self.holders.get(process, 0) + count

    def close(self, process):
        """One of its descriptors."""
        self.holders[process] -= 1
        if self.holders[process] == 0:
            self.close_all(process)

    def close_all(self, process):
        """All of its descriptors."""
        del self.holders[process]
        self.lost = self.kind == "client" and not self.holders

    def handle(self):
        """A new one for an object."""
        self._handle += 1
        return self._handle

    def blocks(self):
        return set(self.objects.values()) | ({self.block} if self.block else set())


class Block:
    def __init__(self, card, size, group):
        self.card = card
        self.size = size
        self.group = group
        self.page = 2 * t.MIB if size >= 2 * t.MIB else 65536


class Process:
    def __init__(self, worker):
        self.worker = worker
        self.name = worker.name
        self.peers = {}  # processes at the other ends of its socketpairs
        self.queue = {}  # files sent to it and not yet received, by peer


class Slice:
    """One container on some of the node's GPUs: a root worker and what comes of it. `cards` are the
    models of the node's, `granted` its own by their numbers there. Elsewhere its own are counted."""

    def __init__(self, node, cards, granted, name, limit):
        self.name = name
        self.granted = granted
        self.cards = cards = [cards[number] for number in granted]
        self.limits = [limit] * len(cards)
        self.most = [limit] * len(cards)  # the highest limits ever
        self.kept = [limit] * len(cards)  # for it: what it held at `cgpu set`, if above the limit
        self.others = []  # the other slices
        self.random = None  # of the present step
        self.reserved = [0] * len(cards)  # for calls that the driver has not finished
        self.busy = []  # files of the clients in them
        self.files = {}
        self.done = {}
        self._next = 1
        self._node = node
        self._workers = w.Workers()
        self.group_bytes = [0] * len(cards)
        self.container = "%s-%s" % (node.name, name)
        self.run = node.run(self._workers.argv(name + "0"), mem="%d" % (limit // t.MIB),
                            name=name,
                            flags=("--gpus", "device=" + ",".join(map(str, granted)),
                                   "--name", self.container))
        self.root = Process(self._workers.accept(name + "0", self.run))
        self.processes = {self.root.name: self.root}

    # Facts that must hold.

    def held(self, card):
        blocks = set()
        for file in self.files.values():
            if file.alive():
                blocks |= file.blocks()
        return sum(block.size for block in blocks if block.card == card)

    def all_held(self):
        return [self.held(card) for card in range(len(self.cards))]

    def clients(self):
        return sum(file.alive() and file.kind == "client" for file in self.files.values())

    def exports(self):
        return sum(file.alive() and file.kind == "export" for file in self.files.values())

    def counted(self):
        """Returns what cgpu says of the container, by GPU."""
        until = time.monotonic() + t.DEADLINE
        while True:
            (found,) = [c for c in self._node.containers() if c["name"] == self.container]
            if found["state"] == "running":
                return found["gpus"]
            t.check(time.monotonic() < until, "the shim does not answer: %s" % found)

    def used(self):
        return [row["used_bytes"] for row in self.counted()]

    # Operations. Each returns False where there is nothing that it could be done to.

    def operations(self):
        """Each with its weight."""
        return [(self.client, 3), (self.alloc, 10), (self.group, 3), (self.free, 5), (self.dup, 5),
                (self.dup_shared, 2), (self.export, 4), (self.take, 4), (self.map, 3),
                (self.twin, 2), (self.drop, 4), (self.send, 4), (self.receive, 4), (self.fork, 3),
                (self.exec, 1), (self.exec_keep, 1), (self.kill, 2), (self.kill_midst, 1),
                (self.leave, 1), (self.set, 2), (self.upgrade, 1)]

    def step(self, rng):
        self.random = rng
        names, weights = zip(*self.operations())
        for operation in self.random.choices(names, weights, k=50):
            if operation(self.random.choice(self._sorted())) is not False:
                self.done[operation.__name__] = self.done.get(operation.__name__, 0) + 1
                return

    def _sorted(self):
        return sorted(self.processes.values(), key=lambda p: p.name)

    def _say(self, process, what):
        print("  %s: %s" % (process.name, what))

    def _pick(self, items):
        return self.random.choice(sorted(items, key=lambda file: file.number)) if items else None

    def _new(self, kind, process):
        file = File(self._next, kind, process)
        self.files[self._next] = file
        self._next += 1
        return file

    def _open(self, process, kind=None):
        return [file for file in self.files.values()
                if process in file.holders and kind in (None, file.kind)]

    def _clients(self, process):
        return [file for file in self._open(process, "client") if file not in self.busy]

    def _object(self, files, memory=False):
        """A client with one of its objects."""
        found = [(file, handle) for file in sorted(files, key=lambda f: f.number)
                 for handle, block in sorted(file.objects.items()) if not (memory and block.group)]
        return self.random.choice(found) if found else (None, 0)

    def _card(self):
        return self.random.randrange(len(self.cards))

    def _settle(self):
        until = time.monotonic() + t.DEADLINE
        while self.used() != self.all_held():
            t.check(time.monotonic() < until, "cgpu ps says %s, not %s" %
                    (self.counted(), self.all_held()))
            self._node.sync()

    def _check(self, process, words, status, wanted):
        t.check(status == wanted, "%s: `%s` gave 0x%x, not 0x%x; %s of %s bytes must be held" % (
            process.name, " ".join(map(str, words)), status, wanted, self.all_held(), self.limits))

    def client(self, process):
        if len(self._clients(process)) >= 4:
            return False
        file = self._new("client", process)
        self._say(process, "client %d" % file.number)
        (file.root,) = process.worker.do("client", file.number, len(self.cards))
        return True

    def _allocate(self, process, card, words, size, group=False):
        file = self._pick(self._clients(process))
        if file is None:
            return False
        fits = self.held(card) + self.reserved[card] + size <= self.limits[card]
        self._say(process, "%s of card %d on client %d: %s" % (words, card, file.number, fits))
        rest = self._ask(process, [words[0], file.number, *words[1:], file.handle(), card], fits)
        if fits:
            file.objects[rest[0]] = Block(card, size, group)
        return True

    def _ask(self, process, command, fits):
        """The answer to what is granted if it fits, and is refused otherwise."""
        status, rest = process.worker.ask(*command)
        if fits and status == NO_MEMORY:
            # Memory that was closed a moment ago may still be counted: not for ever.
            self._settle()
            status, rest = process.worker.ask(*command)
        self._check(process, command, status, OK if fits else NO_MEMORY)
        return rest

    def alloc(self, process):
        mib = self.random.choice([1, 2, 4, 6, 16, 32, 64, 100])
        return self._allocate(process, self._card(), ["alloc", mib], mib * t.MIB)

    def group(self, process):
        card = self._card()
        return self._allocate(process, card, ["group"], self.group_bytes[card], True)

    def free(self, process):
        file, handle = self._object(self._clients(process))
        if file is None:
            return False
        self._say(process, "free 0x%x of client %d" % (handle, file.number))
        process.worker.do("free", file.number, handle)
        del file.objects[handle]
        return True

    def _copy(self, process, source, handle):
        target = self._pick(self._clients(process))
        if target is None or source is None:
            return False
        self._say(process, "dup 0x%x of client %d to %d" % (handle, source.number, target.number))
        block = source.objects[handle]
        (copy,) = process.worker.do("dup", target.number, source.root, handle, target.handle(),
                                    block.card)
        target.objects[copy] = block
        return True

    def dup(self, process):
        return self._copy(process, *self._object(self._clients(process)))

    def dup_shared(self, process):
        """Between two processes: somebody who can use the client has to allow it."""
        others = [file for file in self.files.values()
                  if file.kind == "client" and file.holders and process not in file.holders]
        source, handle = self._object(others)
        if source is None or not self._clients(process):
            return False
        owner = min(source.holders, key=lambda p: p.name)
        owner.worker.do("share", source.number, handle)
        return self._copy(process, source, handle)

    def export(self, process):
        source, handle = self._object(self._clients(process))
        if source is None:
            return False
        file = self._new("export", process)
        self._say(process, "export 0x%x of client %d to %d" % (handle, source.number, file.number))
        file.block = source.objects[handle]
        process.worker.do("export", source.number, handle, file.number, file.block.card)
        return True

    def take(self, process):
        """Imports."""
        file, target = self._pick(self._open(process, "export")), self._pick(self._clients(process))
        if file is None or target is None:
            return False
        self._say(process, "import %d into client %d" % (file.number, target.number))
        (handle,) = process.worker.do("import", target.number, file.number, target.handle(),
                                      file.block.card)
        target.objects[handle] = file.block
        return True

    def map(self, process):
        """A mapping keeps its GPU file open, and no memory. It takes BAR1, of which a slice has its
        part: until the object is freed, whatever becomes of the file."""
        source, handle = self._object(self._clients(process), memory=True)
        if source is None:
            return False
        block = source.objects[handle]
        fits = self._viewed(block.card) + block.page <= self._window(block.card)
        file = self._new("map", process)
        self._say(process, "map 0x%x of client %d by %d: %s" %
                  (handle, source.number, file.number, fits))
        self._ask(process, ["map", source.number, handle, file.number, 65536, block.card,
                            self.granted[block.card]], fits)
        if fits:
            source.views[handle] = source.views.get(handle, 0) + block.page
        else:
            file.close(process)
        return True

    def _viewed(self, card):
        return sum(file.views.get(handle, 0) for file in self.files.values() if file.alive()
                   for handle, block in file.objects.items() if block.card == card)

    def _window(self, card):
        """Its part of 31/32 of the GPU's BAR1."""
        model, memory = re.fullmatch("(.*)@(\\d+)MiB", self.cards[card]).groups()
        return BAR1_MIB[model] * 31 // 32 * t.MIB // int(memory) * (self.limits[card] // t.MIB)

    def twin(self, process):
        """dup(2)."""
        file = self._pick(self._open(process))
        if file is None or file.holders[process] >= 3:
            return False
        self._say(process, "twin %s %d" % (file.kind, file.number))
        process.worker.do("twin", file.number)
        file.add(process)
        return True

    def drop(self, process):
        file = self._pick(self._open(process))
        if file is None:
            return False
        self._say(process, "drop %s %d" % (file.kind, file.number))
        process.worker.do("drop", file.number)
        file.close(process)
        return True

    def send(self, process):
        file = self._pick(self._open(process))
        peers = sorted((p for p in process.peers if len(p.queue[process]) < MAX_QUEUE),
                       key=lambda p: p.name)
        if file is None or not peers:
            return False
        peer = self.random.choice(peers)
        self._say(process, "send %s %d to %s" % (file.kind, file.number, peer.name))
        process.worker.do("send", peer.name, file.number)
        peer.queue[process].append(file)
        file.in_flight += 1
        return True

    def receive(self, process):
        peers = sorted((p for p in process.queue if process.queue[p]), key=lambda p: p.name)
        if not peers:
            return False
        peer = self.random.choice(peers)
        file = process.queue[peer].pop(0)
        self._say(process, "receive %s %d from %s" % (file.kind, file.number, peer.name))
        process.worker.do("recv", peer.name, file.number, file.root)
        file.in_flight -= 1
        if file.lost:
            process.worker.do("drop", file.number)
        else:
            file.add(process)
        return True

    def fork(self, process):
        if len(self.processes) >= MAX_PROCESSES:
            return False
        name = "%s%d" % (self.name, self._next)
        self._next += 1
        self._say(process, "fork %s" % name)
        child = Process(self._workers.fork(process.worker, name))
        for one, other in ((process, child), (child, process)):
            one.peers[other] = True
            one.queue[other] = []
        for file in self._open(process):
            file.add(child, file.holders[process])
        self.processes[name] = child
        return True

    def _forget(self, process):
        """All its files are closed."""
        for file in self._open(process):
            file.close_all(process)
        for queue in process.queue.values():
            for file in queue:
                file.in_flight -= 1
        process.queue = {}
        for peer in process.peers:
            peer.peers.pop(process, None)  # what it has sent can still be received
        process.peers = {}

    def _end(self, process):
        del self.processes[process.name]
        self._forget(process)

    def exec(self, process):
        self._say(process, "exec")
        process.worker.send("exec")
        t.check(process.worker.line() == "hello " + process.name, "no hello after exec")
        self._forget(process)
        return True

    def exec_keep(self, process):
        self._say(process, "exec with all its files")
        process.worker.send("exec", "keep")
        t.check(process.worker.line() == "hello " + process.name, "no hello after exec")
        return True

    def kill(self, process):
        if process is self.root:
            return False
        self._say(process, "kill -9")
        process.worker.kill()
        self._end(process)
        return True

    def kill_midst(self, process):
        """kill -9 during a call of which only what dies with it can be the result."""
        if process is self.root:
            return False
        own = self._pick([f for f in self._clients(process) if len(f.holders) == 1 and
                          not f.in_flight])
        if own is not None and self.random.random() < 0.5:
            self._say(process, "kill -9 during an allocation on client %d" % own.number)
            process.worker.send("alloc", own.number, 2)
        else:
            self._say(process, "kill -9 while clients come and go")
            process.worker.send("churn", 2)
            t.check(process.worker.line() == "churning", "no churning")
        process.worker.kill()
        self._end(process)
        return True

    def leave(self, process):
        if process is self.root:
            return False
        self._say(process, "end")
        process.worker.send("end")
        process.worker.wait_gone()
        self._end(process)
        return True

    def _room(self, card):
        """Returns the most that its limit can be: the GPU (MODEL@SIZEMiB) without what is kept for
        the others."""
        number = self.granted[card]
        kept = sum(other.kept[other.granted.index(number)] for other in self.others
                   if number in other.granted)
        return int(re.search("@(\\d+)MiB", self.cards[card]).group(1)) * t.MIB - kept

    def set(self, _process):
        """cgpu set: above what is held, below it, or more than a GPU has. Nothing is taken away,
        and nothing is added while more is held than the limit."""
        if any(self.reserved):
            return False
        self._settle()
        held = self.all_held()
        card = self._card()
        near = held[card] // t.MIB
        mib = max(1, self.random.choice([near, near + 1, near + 50, near - 1, near // 2,
                                         20, 200, 300, 400, 20000]))
        alone = len(self.cards) == 1 or self.random.random() < 0.8
        print("  %s: limit %d MiB of card %s" % (self.name, mib, card if alone else "each"))
        done = t.command(t.CGPU, "set", self.container, "--mem", "%dMiB" % mib,
                         *(["--gpu", str(card)] if alone else []), ok=False)
        changed = [card] if alone else range(len(self.cards))
        fits = all(mib * t.MIB <= self._room(i) for i in changed)
        t.check(done.returncode == (0 if fits else 125), "set: %s" % done)
        for i in changed if fits else []:
            self.limits[i] = mib * t.MIB
            self.most[i] = max(self.most[i], self.limits[i])
            self.kept[i] = max(self.limits[i], held[i])
            t.check(bool(re.search("GPU %d: .* above the new limit" % i, done.stdout)) ==
                    (held[i] > self.limits[i]), "%s are held; set says %s" % (held, done.stdout))
        counted = self.counted()
        t.check([row["limit_bytes"] for row in counted] == self.limits and
                [row["used_bytes"] for row in counted] == held,
                "%s are held, limits %s; after set: %s" % (held, self.limits, counted))
        return True

    def upgrade(self, _process):
        """Changes nothing. Not while a call is in the driver."""
        if self.busy or any(self.reserved):
            return False
        program = self.random.choice((upgrading.NEXT, upgrading.OWN))
        print("  %s: becomes %s" % (self.name, program))
        upgrading.upgrade(self.container, program)
        return True

    def measure_group(self):
        """Measures what a channel group takes, by the driver's accounting. The slice is empty."""
        for card in range(len(self.cards)):
            self.root.worker.do("client", 0, len(self.cards))
            self.root.worker.do("group", 0, 1, card)
            self.group_bytes[card] = self.used()[card]
            t.check(0 < self.group_bytes[card] == self._node.used(),
                    "a group takes %s" % self.group_bytes)
            self.root.worker.do("drop", 0)
            self._node.wait_used(0, "after a channel group")

    def kill_all(self):
        """The container's first process is killed: everything ends."""
        self.root.worker.kill()
        for process in list(self.processes.values()):
            if process is not self.root:
                process.worker.wait_gone()
            self._end(process)
        t.check(self.run.end() == 137, "cgpu run ended with another status than 137")
