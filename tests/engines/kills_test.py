"""Kills (-9) at random moments under load: of shims, of cgpud, of runtimes that make a container, of
tenants' processes. A neighbour calls without pause and judges each of its answers; between kills,
the driver's accounting and the registry's folder come back to what they were with it alone, and the
driver has received each of its calls once.

  kills_test.py random [KILLS [SEED]]   30 kills, another seed each time

A moment is a number of the neighbour's turns, so a seed draws the same kills again, and nearly the
same moments.
"""
import contextlib
import itertools
import json
import os
import random
import select
import signal
import sys

import cgpu_test as t
import isolation
from bundles import Runc
from engines import start_cgpud
from slices_test import PROGRAMS, RUNTIME

TENANTS = 3
ROUND = 10  # kills between two looks at the whole
HELD, MIB = 256, 512  # the neighbour's memory and slice
MAKING = 60  # turns, about as many as it takes to make a container
REGISTRY = "/run/cgpu"
JUDGED = "NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING"  # asked by the neighbour alone, once each turn
# The tenants' work, again and again: clients and exports; memory; managed memory; memory that UVM
# maps; channels.
WORK = ("adversary churn 1", "rmtool alloc 10 --page big", "adversary managed fixed 16 64",
        "adversary uvm-kept 128", "adversary bomb channels 4")

LOAD = ("UVM_MAP_EXTERNAL_ALLOCATION", "NV_ESC_RM_ALLOC 0xc36f")  # the latter: a channel


def shims():
    return {pid for pid, line in isolation.processes().items() if line == "cgpu-shim"}


def kill_and_wait(pid):
    """-9. A process that has ended meanwhile is as good."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            t.check(select.select([process], [], [], t.DEADLINE)[0], "%d does not end" % pid)
        finally:
            os.close(process)


class World:
    def __init__(self, node, engine, daemon, seed):
        self.node, self.engine, self.daemon = node, engine, daemon
        self.chance = random.Random(seed)
        self.tenants = {}  # by name: the runtime's Process, the shim's number
        self.made = 0
        self.work = itertools.cycle(WORK)
        self.counts = {}
        self.neighbour = engine.talk("neighbour", ["adversary", "counted", str(HELD)],
                                     env={"CGPU_MEM": "%dMiB" % MIB})
        self.neighbour.expect("^holding$")
        (self.own_shim,) = shims()
        self.alone = set(isolation.processes()) - {daemon.popen.pid}
        self.books = self._books()
        self.files = sorted(os.listdir(REGISTRY))
        self.asked = self.node.books()["received"][JUDGED]

    # The neighbour.

    def let_pass(self, turns):
        """Waits until it has taken so many turns more."""
        self.neighbour.forget()
        self.neighbour.say(str(max(1, turns)))
        self.neighbour.expect(r"^at \d+$")

    def _clients(self, but=()):
        """The driver's, but for cgpud's own and those of processes in `but`."""
        self.node.sync()
        return [client for client in self.node.books()["clients"]
                if client["pid"] not in (self.daemon.popen.pid, *but)]

    def _books(self):
        self.node.sync()
        books = self.node.books()
        for gpu in books["gpus"]:
            del gpu["starts"]
        books["clients"] = self._clients()
        return {part: books[part] for part in ("clients", "gpus", "uvm")}

    # Tenants.

    def _make(self, work):
        self.made += 1
        name = "t%d" % self.made
        script = "echo up; while :; do %s; done </dev/null >/dev/null 2>&1" % work
        return name, self.engine.talk(name, ["sh", "-c", script], env={"CGPU_MEM": "1GiB"})

    def fill(self):
        while len(self.tenants) < TENANTS:
            before = shims()
            name, process = self._make(next(self.work))
            process.expect("^up$")
            (shim,) = shims() - before
            self.tenants[name] = (process, shim)

    def _gone(self, name):
        """It was the runtime's to wait for; its memory and its shim are gone, or go."""
        process, _ = self.tenants.pop(name)
        process.drop()
        self._left_nothing(name)

    def _remove(self, name):
        """False: something in it works for a moment more, as runc's init whose runtime was killed."""
        with contextlib.suppress(OSError):
            self.engine.remove(name)
            return True
        return False

    def _left_nothing(self, name):
        t.wait_for(lambda: self._remove(name), "the files of %s cannot be removed" % name)
        known = {self.own_shim, *(one for _, one in self.tenants.values())}
        t.wait_for(lambda: shims() <= known, lambda: "a shim of %s is left: %s" % (
            name, isolation.processes()))
        t.wait_for(lambda: not self._clients(known), lambda: "clients of %s are left: %s; %s" % (
            name, self._clients(known), isolation.processes()))

    def _goes_on(self):
        ended = [name for name, (process, _) in self.tenants.items()
                 if process.popen.poll() is not None]
        t.check(not ended, "%s ended, for nothing" % ended)

    def _any(self):
        return self.chance.choice(sorted(self.tenants))

    # The kills. Each says what it did.

    def shim(self):
        name = self._any()
        kill_and_wait(self.tenants[name][1])
        self._gone(name)
        return "the shim of " + name

    def cgpud(self):
        self.daemon.stop(signal.SIGKILL)
        self.let_pass(self.chance.randrange(MAKING))
        self._goes_on()
        self.daemon.start()
        return "cgpud"

    def tenant(self):
        name = self._any()
        done = self.engine._try(*self.engine._words(name, "ps", "--format", "json", name))
        t.check(done.returncode == 0, "runc ps: %s" % done)
        pids = sorted(json.loads(done.stdout))
        pid, first = self.chance.choice(pids), self.engine.pid(name)
        kill_and_wait(pid)
        if pid == first:
            self._gone(name)
        return "%s process of %s" % ("the first" if pid == first else "a", name)

    def making(self):
        """While a container is made: its runtime, cgpud, its shim or the first process."""
        before = shims()
        name, process = self._make(self.chance.choice(WORK))
        moment = self.chance.randrange(MAKING)
        self.let_pass(moment)
        victim = self.chance.choice(("runtime", "runtime", "cgpud", "shim", "first process"))
        did = "%s of %s, which was made for %d turns" % (victim, name, moment)
        if victim == "cgpud":
            self.daemon.stop(signal.SIGKILL)
            self.daemon.start()
        pids = {"runtime": {process.popen.pid}, "cgpud": set(), "shim": shims() - before,
                "first process": {self.engine.pid(name)} - {0}}[victim]
        for pid in pids:
            kill_and_wait(pid)
        if not pids or victim == "runtime":  # it may have been made, and would go on
            self._end(name, process)
        process.drop()
        self._left_nothing(name)
        return did

    def _end(self, name, process):
        """Whatever became of it so far."""
        def ended():
            self.engine._try(*self.engine._words(name, "delete", "--force", name))
            return process.popen.poll() is not None

        t.wait_for(ended, "the runtime of %s does not end" % name)

    def kill(self):
        self.let_pass(self.chance.randrange(MAKING))
        kinds = {self.shim: 3, self.cgpud: 2, self.making: 3, self.tenant: 3}
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        print("killed: " + kind(), flush=True)
        self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
        self.let_pass(1)
        self._goes_on()
        self.fill()

    # The look at the whole.

    def check_all(self):
        """Without the tenants, all is as it was before them, and cgpud begins anew."""
        for name in list(self.tenants):
            self.engine.kill(name)
            self._gone(name)
        self.neighbour.forget()
        self.neighbour.say("rest")
        turns = int(self.neighbour.expect(r"^made (\d+)$").group(1))
        t.wait_for(lambda: self._books() == self.books, lambda: "the driver's books say %s instead of %s" % (
            self._books(), self.books))
        received = self.node.books()["received"][JUDGED] - self.asked
        t.check(received == turns, "the driver received %d of %d calls" % (received, turns))
        self.daemon.stop(signal.SIGKILL)
        self.daemon.start()
        t.wait_for(lambda: sorted(os.listdir(REGISTRY)) == self.files, lambda: "in %s lie %s" % (
            REGISTRY, os.listdir(REGISTRY)))
        isolation.wait_alone(but=[*self.alone, self.daemon.popen.pid])
        (row,) = self.node.containers()
        used = row["gpus"][0]["used_bytes"] // t.MIB
        t.check(used == HELD, "cgpu ps says %d MiB of the neighbour's" % used)
        return turns


def play(kills=30, seed=None):
    kills, seed = int(kills), random.SystemRandom().getrandbits(32) if seed is None else int(seed)
    print("kills_test.py random %d %d" % (kills, seed), flush=True)
    with t.Node("v100-16g:1") as node, Runc(RUNTIME, in_image=PROGRAMS) as engine:
        daemon = start_cgpud(node, engine.plain)
        world = World(node, engine, daemon, seed)
        turns = 0
        for number in range(kills):
            world.fill()
            world.kill()
            if (number + 1) % ROUND == 0 or number + 1 == kills:
                turns = world.check_all()
        print("kills: %d (%s), %d calls of the neighbour's answered, none lost" % (kills, ", ".join(
            "%s %d" % pair for pair in sorted(world.counts.items())), 4 * turns))
        t.check(world.neighbour.end() == 0, "the neighbour ended with %d" % world.neighbour.wait())
        engine.remove("neighbour")
        node.wait_used(0, "after the neighbour")
        idle = [call for call in LOAD if not node.books()["received"].get(call)]
        t.check(kills < 2 * ROUND or not idle, "the tenants never did %s: it proves nothing" % idle)
        daemon.stop()


if __name__ == "__main__":
    arguments = sys.argv[2:]
    del sys.argv[2:]
    isolation.main({"random": lambda: play(*arguments)})
