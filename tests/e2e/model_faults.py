"""The model's operations with a driver that fails calls, or is slow, or is in the middle of a call
while other things happen: the caller is killed, others want memory, limits change. And calls of all
processes at once."""
import cgpu_test as t
import model

# From src/rm/nv_escape.h, nv_classes.h, nv_controls.h and nv_status.h.
RM_FREE, RM_ALLOC, RM_DUP_OBJECT = 0x29, 0x2B, 0x34
MEMORY, GROUP = 0x40, 0xA06C
GET_ACCESS_RIGHTS, EXPORT, IMPORT = 0x0D03, 0x3D05, 0x3D06
FAILURES = [("--status", 0x51), ("--status", 0x1F), ("--status", 0x1A), ("--errno", 5),
            ("--errno", 12)]
NO_ANSWER = 0xFFFFFFFF  # what a worker says when ioctl itself fails


class Call:
    """One that will succeed if nothing is done to it."""

    def __init__(self, words, clients, done, handle=None, size=(0, 0), **rule):
        self.words = words
        self.clients = clients  # whose clients' files it needs
        self.object = (clients[-1], handle)  # that must exist
        self.done = done  # notes what it did
        self.card, self.size = size  # that it takes
        self.rule = rule  # by which the driver knows it


class Slice(model.Slice):
    """`quiet` is to wait until all that was done has arrived everywhere."""

    quiet = None

    def operations(self):
        return super().operations() + [(self.failed, 5), (self.untagged, 1), (self.unsure, 3),
                                       (self.slow, 2), (self.in_call, 8), (self.at_once, 4)]

    # Calls

    def _any_call(self, process):
        made = [self._alloc_call, self._group_call, self._free_call, self._dup_call,
                self._export_call, self._import_call]
        return self.random.choice(made)(process)

    def _call(self, process):
        call = self._any_call(process)
        fits = call and self.held(call.card) + call.size <= self.limits[call.card]
        return call if fits or (call and call.size == 0) else None

    def _new_block(self, process, words, card, size, group, cls):
        file = self._pick(self._clients(process))
        if file is None:
            return None
        handle = file.handle()

        def done():
            file.objects[handle] = model.Block(card, size, group)
        return Call([words[0], file.number, *words[1:], handle, card], [file], done,
                    size=(card, size), cls=cls)

    def _alloc_call(self, process):
        mib = self.random.choice([1, 6, 16, 64])
        return self._new_block(process, ["alloc", mib], self._card(), mib * t.MIB, False, MEMORY)

    def _group_call(self, process):
        card = self._card()
        return self._new_block(process, ["group"], card, self.group_bytes[card], True, GROUP)

    def _free_call(self, process):
        file, handle = self._object(self._clients(process))
        if file is None:
            return None
        return Call(["free", file.number, handle], [file], lambda: file.objects.pop(handle),
                    handle, escape=RM_FREE)

    def _dup_call(self, process):
        target = self._pick(self._clients(process))
        source, handle = self._object(self._clients(process))
        if source is None:
            return None
        copy, block = target.handle(), source.objects[handle]

        def done():
            target.objects[copy] = block
        return Call(["dup", target.number, source.root, handle, copy, block.card], [target, source],
                    done, handle, escape=RM_DUP_OBJECT)

    def _export_call(self, process):
        source, handle = self._object(self._clients(process))
        if source is None:
            return None
        number, block = self._next, source.objects[handle]
        self._next += 1

        def done():
            if process.name in self.processes:
                self.files[number] = file = model.File(number, "export", process)
                file.block = block
        return Call(["export", source.number, handle, number, block.card], [source], done,
                    handle, control=EXPORT)

    def _import_call(self, process):
        file, target = self._pick(self._open(process, "export")), self._pick(self._clients(process))
        if file is None or target is None:
            return None
        handle = target.handle()

        def done():
            target.objects[handle] = file.block
        return Call(["import", target.number, file.number, handle, file.block.card], [target], done,
                    control=IMPORT)

    # Operations

    def _fail(self, process, call, rule):
        self.quiet()  # a call of one who was killed must not take the fault
        effect = self.random.choice(FAILURES)
        self._say(process, "%s fails: %s" % (call.words, effect))
        self._node.fault(*effect, **rule)
        status, _ = process.worker.ask(*call.words)
        self._node.clear()
        return status, effect[1] if effect[0] == "--status" else NO_ANSWER

    def failed(self, process):
        """The driver refuses: nothing has changed."""
        call = self._call(process)
        if call is None:
            return False
        status, wanted = self._fail(process, call, call.rule)
        self._check(process, call.words, status, wanted)
        return True

    def untagged(self, process):
        """cgpu cannot tag the file that is exported to: nothing has changed either."""
        call = self._export_call(process)
        if call is None:
            return False
        status, _ = self._fail(process, call, {"escape": RM_ALLOC})
        self._check(process, call.words, status, NO_ANSWER)
        return True

    def unsure(self, process):
        """The driver does not say at once what still exists: cgpu asks again."""
        self.quiet()
        self._node.fault(*self.random.choice(FAILURES), count=self.random.randrange(1, 6),
                         control=GET_ACCESS_RIGHTS)
        done = self.random.choice([self.drop, self.exec, self.kill, self.kill_midst])(process)
        self.quiet()
        self._node.clear()
        return done

    def slow(self, process):
        """One of the next calls takes its time."""
        self._say(process, "slow")
        self._node.fault("--delay-ms", 20, count=2)
        done = self.random.choice([self.alloc, self.free, self.dup, self.export, self.take,
                                   self.kill_midst])(process)
        self._node.clear()
        return done

    def in_call(self, process):
        """While the driver is in a call, others go on, and the caller may be killed."""
        call = self._call(process) if len(self.processes) > 1 else None
        if call is None:
            return False
        self.quiet()
        self._say(process, "in call: %s" % call.words)
        self._node.hold(1, **call.rule)
        process.worker.send(*call.words)
        self._node.wait_held(1)
        self.busy, self.reserved[call.card] = call.clients, call.size
        for _ in range(self.random.randrange(4)):
            others = [p for p in self._sorted() if p is not process]
            if others:
                self.random.choice([self.alloc, self.group, self.free, self.dup, self.export,
                                    self.drop, self.set])(self.random.choice(others))
        killed = process is not self.root and self.random.random() < 0.6
        if killed:
            self.kill(process)
            self._node.sync()  # what is closed by that is closed before the call goes on
        self._node.release()
        if not killed:
            line = process.worker.line()
            self._check(process, call.words, int(line.split()[0], 0), model.OK)
        self.busy, self.reserved[call.card] = [], 0
        if all(file.alive() for file in call.clients):
            call.done()
        self.quiet()
        return True

    def at_once(self, _process):
        """Some calls of every process, without waiting for answers in between."""
        self._settle()
        asked, needed, freed = [], set(), set()
        for process in self._sorted() * 3:
            call = self._any_call(process)
            frees = call and call.words[0] == "free"
            if call is None or call.object in freed or (frees and call.object in needed):
                continue
            (freed if frees else needed).add(call.object)
            self._say(process, "at once: %s" % call.words)
            asked.append((process, call))
        before = self.all_held()
        for process, call in asked:
            process.worker.send(*call.words)
        answers = [int(process.worker.line().split()[0], 0) for process, _ in asked]
        most = list(before)
        for (process, call), status in zip(asked, answers):
            refusable = call.size and status == model.NO_MEMORY
            self._check(process, call.words, status, model.NO_MEMORY if refusable else model.OK)
            if status == model.OK:
                call.done()
                most[call.card] += call.size
        for (_, call), status in zip(asked, answers):
            t.check(status == model.OK or most[call.card] + call.size > self.limits[call.card],
                    "%s was refused; at most %s were held" % (call.words, most))
        t.check(all(now <= max(limit, then) for now, limit, then in
                    zip(self.all_held(), self.limits, before)),
                "from %s to %s bytes; limits %s" % (before, self.all_held(), self.limits))
        return bool(asked)
