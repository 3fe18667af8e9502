"""A property test of compute shares through the whole path: containers come and go, work and rest, change
what they ask for, are killed; the GPU's policy changes, cgpud dies and comes back, shims are upgraded and
stopped. After each step those that work get, by the GPU's accounting, what a model says; what the model says
cannot be promised is refused.

  compute_model_test.py random [STEPS [SEED]]   40 steps, another seed each time
"""
import os
import random
import signal
import sys
import time

import cgpu_test as t
import engines
import isolation
from compute_test import Member, _groups, gets, shares
from engines import start_cgpud

POLICIES = ("preempt", "weight", "soft", "fixed")
NO = {"percent": None, "weight": None}
POINTS = 4
MOST = 5  # containers
WINDOW_MS = 300


def honours(policy, request, others):
    """Whether a GPU of this policy can promise it, beside what it has promised to others."""
    if (request["weight"] or 1) > 1 and policy != "weight":
        return False
    if policy not in ("soft", "fixed"):
        return request["percent"] is None
    return sum(one["percent"] or 1 for one in (request, *others)) <= 100


def part(policy, request, all_of_them):
    """By which those that have work share the GPU."""
    if policy == "weight":
        return request["weight"] or 1
    if policy == "preempt":
        return 1
    if request["percent"] is not None:
        return request["percent"]
    without = [one for one in all_of_them if one["percent"] is None]
    return max(1, (100 - sum(one["percent"] or 0 for one in all_of_them)) / len(without))


class World:
    def __init__(self, node, daemon, seed):
        self.node, self.daemon = node, daemon
        self.chance = random.Random(seed)
        self.policy = "preempt"
        self.members = {}  # by name: the container, what it asks for, whether it works
        self.made = 0
        self.up = True
        self.silent = None  # whose shim is stopped
        t.command(t.CGPU, "policy", "0", self.policy, "--node", node.name)

    def _others(self, but=None):
        return [one["asks"] for name, one in self.members.items() if name != but]

    def _command(self, may, *words):
        done = t.command(t.CGPU, *words, ok=False)
        # A share that nobody confirms is written down all the same, and said so.
        did = done.returncode == 0 or (words[:2] == ("set", self.silent) and
                                       "the share is written down, but the shim" in done.stderr)
        t.check(did == may, "%s is %s: %s" % (words, "allowed" if may else "refused", done))
        return may

    def _asks(self):
        asks = dict(NO)
        if self.policy != "preempt" and self.chance.random() < 0.7:
            asks["weight" if self.policy == "weight" else "percent"] = self.chance.choice(
                (1, 2, 5, 10, 20, 30, 50, 70))
        if self.chance.random() < 0.1:  # what may be refused
            asks[self.chance.choice(("percent", "weight"))] = self.chance.choice((3, 40))
        return asks

    # The steps. Each says what it did.

    def add(self):
        if len(self.members) == MOST:
            return None
        asks, name = self._asks(), "m%d" % self.made
        flags = [word for flag, value in (("--compute", asks["percent"]), ("--weight", asks["weight"]))
                 if value is not None for word in (flag, str(value))]
        if not honours(self.policy, asks, self._others()):
            self._command(False, "run", "--node", self.node.name, "--mem", "100MiB", *flags, "--", "true")
            return "%s is refused" % asks
        self.made += 1
        self.members[name] = {"is": Member(self.node, name, *flags), "asks": asks, "works": False}
        return "%s comes: %s" % (name, asks)

    def end(self):
        name = self._any()
        if name is None:
            return None
        one = self.members.pop(name)
        if self.chance.random() < 0.3:
            one["is"].process.kill()
            t.wait_for(lambda: one["is"].shim not in {group["pid"] for group in _groups(self.node)},
                  "the groups of %s are left" % name)
            return name + " is killed"
        if one["works"]:
            one["is"].stop()
        one["is"].end()
        return name + " ends"

    def work(self):
        name = self._any()
        if name is None:
            return None
        one = self.members[name]
        one["works"] = not one["works"]
        one["is"].feed() if one["works"] else one["is"].stop()
        return "%s %s" % (name, "works" if one["works"] else "rests")

    def set(self):
        name = self._any()
        if name is None:
            return None
        asks = self._asks()
        words = [word for flag, value in (("--compute", asks["percent"]), ("--weight", asks["weight"]))
                 for word in (flag, "none" if value is None else str(value))]
        if self._command(honours(self.policy, asks, self._others(name)), "set", name, *words):
            self.members[name]["asks"] = asks
        return "%s is to have %s" % (name, asks)

    def change_policy(self):
        policy = self.chance.choice(POLICIES)
        may = all(honours(policy, one["asks"], self._others(name)) for name, one in self.members.items())
        if self._command(may, "policy", "0", policy, "--node", self.node.name):
            self.policy = policy
        return "policy %s" % policy

    def daemon_dies_or_comes(self):
        self.up = not self.up
        if self.up:
            self.daemon.start()
        else:
            self.daemon.stop(signal.SIGKILL)
        return "cgpud %s" % ("comes" if self.up else "dies")

    def upgrade(self):
        name = self._any()
        if name is None:
            return None
        t.command(t.CGPU, "upgrade", name)
        return name + " is upgraded"

    def stop_shim(self):
        """Another step meanwhile."""
        name = self._any()
        if name is None or not self.up:
            return None
        shim = self.members[name]["is"].shim
        os.kill(shim, signal.SIGSTOP)
        self.silent = name
        try:
            did = self.chance.choice((self.set, self.change_policy))()
        finally:
            os.kill(shim, signal.SIGCONT)
            self.silent = None
        return "while the shim of %s is stopped: %s" % (name, did)

    def _any(self):
        return self.chance.choice(sorted(self.members)) if self.members else None

    def step(self):
        steps = {self.add: 5, self.end: 2, self.work: 6, self.set: 4, self.change_policy: 2,
                 self.daemon_dies_or_comes: 1 if self.up else 4, self.upgrade: 1, self.stop_shim: 1}
        did = None
        while did is None:
            did = self.chance.choices(list(steps), list(steps.values()))[0]()
        print(did, flush=True)

    # Comparison with the GPU.

    def compare(self):
        """Now or soon. A duty cycle is the clock's, not the GPU's, and not looked at closely."""
        entries = [one for one in self.members.values() if one["works"]]
        if not self.up or not entries:
            return
        working = [one["is"] for one in entries]
        if self.policy == "fixed":
            gets(self.node, working, all)
            return
        parts = [part(self.policy, one["asks"], self._others()) for one in entries]
        wanted = [100.0 * one / sum(parts) for one in parts]
        end = time.monotonic() + t.DEADLINE
        while True:
            got = shares(self.node, *working, total_ms=WINDOW_MS)
            if max(abs(a - b) for a, b in zip(got, wanted)) <= POINTS and not self._disabled():
                return
            t.check(time.monotonic() < end, "%s: %s instead of %s; %s" % (
                self.policy, ["%.1f" % one for one in got], ["%.1f" % one for one in wanted],
                _groups(self.node)))

    def _disabled(self):
        return [one for one in self.node.books()["gpus"][0]["channels"] if one["disabled"]]

    def finish(self):
        if not self.up:
            self.daemon_dies_or_comes()
        while self.members:
            self.end()


def play(steps=40, seed=None):
    seed = random.SystemRandom().getrandbits(32) if seed is None else int(seed)
    print("compute_model_test.py random %d %d" % (int(steps), seed), flush=True)
    with t.Node("a10:1", "580") as node:
        daemon = start_cgpud(node, engines.RUNC)
        world = World(node, daemon, seed)
        for _ in range(int(steps)):
            world.step()
            world.compare()
        world.finish()
        node.wait_used(0, "after the containers")
        daemon.stop()


if __name__ == "__main__":
    arguments = sys.argv[2:]
    del sys.argv[2:]
    isolation.main({"random": lambda: play(*arguments)})
