"""Attacks by any call, a word of which is another one for a later reader (flips.cc).

  flips_test.py flips [TURNS [SEED]]   as many calls, drawn from the seed, or from one that it prints

A turn after which cgpu's ledger and the driver's accounting differ is looked for alone, and shown.
"""
import os
import random
import re
import socket
import time

from attack import NEIGHBOUR, within, without
from cgpu_test import MIB, Failure, check, main, wait_for

LIMIT = 4096  # MiB
WORLD = 40  # turns on the same objects
DECISIONS = os.path.join(os.path.dirname(__file__), "..", "..", "src", "boundary", "testdata", "decisions.tsv")
FOR_EXPORTS = "NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD"  # made by the shim alone
CLIENTS = (0x0, 0x1, 0x41)  # classes


def _refused():
    """Classes, controls and requests that the driver is to receive from no tenant, as its count calls them."""
    names = set()
    with open(DECISIONS, encoding="utf-8") as table:
        for line in table:
            kind, name, number, effect = line.split("\t")[:4]
            if kind == "class" and effect in ("-", "refuse", "unsupported") and int(number, 16) not in CLIENTS:
                names.add("NV_ESC_RM_ALLOC 0x%x" % int(number, 16))
            elif (kind, effect) in (("uvm", "refuse"), ("control", "-"), ("control", "refuse")):
                names.add(name)
    return names


class _Player:
    """One attacker in a slice, with what cgpu and the driver say of it."""

    def __init__(self, process, node):
        self.process, self.node = process, node
        process.expect("^ready$")
        (container,) = [one for one in node.containers() if one["gpus"][0]["limit_bytes"] == LIMIT * MIB]
        self._socket = "/run/cgpu/%s.sock" % container["id"]
        # The neighbour's shim has made those that a shim makes for itself.
        self._never = _refused() - set(node.books()["received"]) - {FOR_EXPORTS}
        self.clients = None  # that the driver has without those of a world

    def _counted(self):
        """Bytes that cgpu counts: what `cgpu ps` shows, without starting a program."""
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r") as lines:
            connection.connect(self._socket)
            connection.sendall(b"ps\n")
            # The GPU's UUID, two indices, its limit and what is used.
            return sum(int(line.split()[5]) for line in lines if line.startswith("card "))

    def _clients(self):
        return {client["handle"] for client in self.node.books()["clients"]}

    def _look(self, when):
        books = self.node.books()
        used = sum(gpu["used_bytes"] for gpu in books["gpus"]) - NEIGHBOUR * MIB
        ours = self._counted()
        check(used <= ours, "%s: %d bytes are in use, cgpu counts %d" % (when, used, ours))
        check(used <= LIMIT * MIB, "%s: %d bytes are in use" % (when, used))
        check(books["stray_writes"] == 0, "%s: %d stray writes" % (when, books["stray_writes"]))
        received = self._never & set(books["received"])
        check(not received, "%s: the driver received %s" % (when, received))
        return used, ours

    def _know(self, roots, pins):
        """The ledger knows every object of the clients `roots`, but for as many as the attacker may have made
        by calls that it executed itself: those are counted."""
        objects = [one for one in self.node.ask("objects") if one[0] in roots and one[0] != one[1]]
        for client, handle, _, _ in objects:
            self.process.say("known %d %d" % (client, handle))
        self.process.say("asked")
        self.process.forget()
        self.process.expect("^asked$")
        named = {tuple(map(int, match.groups())) for match in self.process.said(r"^unknown (\d+) (\d+)$")}
        unknown = [one for one in objects if (one[0], one[1]) in named]
        check(len(unknown) <= pins, "cgpu does not know of %s" % ["%x %x below %x of 0x%x" % tuple(one) for one in unknown])
        return len(objects), len(unknown)

    def _gone(self):
        self.node.sync()
        return self._clients() == self.clients and self.node.used() == NEIGHBOUR * MIB and self._counted() == 0

    def play(self, words):
        self.process.say(words)
        *roots, pins, readings, well = map(int, self.process.expect(
            r"^used (\d+) (\d+) pins (\d+) readings (\d+) well (\d+)$").groups())
        refused = [match.string for match in self.process.said("^refused ")]
        check(not refused, "calls that are not changed are %s" % refused)
        marks = [self._look("in use"), self._know(roots, pins)]
        for verb in ("free-seen", "free"):
            self.process.say(verb)
            self.process.expect("^freed$")
            marks.append(self._look(verb))
        self.process.say("close")
        self.process.expect("^closed$")
        if self.clients is None:
            wait_for(lambda: not self._clients() & set(roots), "clients stay")
            self.clients = self._clients()
        wait_for(self._gone, lambda: "closed: %s, cgpu counts %d" % (self.node.books()["clients"], self._counted()))
        print("%s: %s" % (words, marks))
        return readings, well


def _course(seed, turns, count, verb="turns"):
    def course(process, node):
        player = _Player(process, node)
        player.play("plain 0 0")
        begun = time.monotonic()
        done = readings = well = 0
        for first in turns:
            try:
                readings, well = player.play("%s %d %d" % (verb, first, count))
            except Failure as failure:
                raise Failure("seed %d, turns from %d on, after %d turns and %.1f s: %s"
                              % (seed, first, done + count, time.monotonic() - begun, failure)) from None
            done += count
        print("seed %d: %d turns, %d pages read, %d went well, %.1f s"
              % (seed, done, readings, well, time.monotonic() - begun))
        check(verb == "tell" or (readings > done and well > done // 20), "hardly a call was made: it proves nothing")
    return course


def _bare(process, _node):
    """Without cgpu: no more than plays."""
    process.expect("^ready$")
    for first in range(0, 10 * WORLD, WORLD):
        process.say("turns %d %d" % (first, WORLD))
        process.expect("^used ")
        process.say("close")
        process.expect("^closed$")


def _received_all(node, _process):
    received = _refused() & set(node.books()["received"])
    check(len(received) > 3, "without cgpu the driver received %s only: it proves nothing" % received)


def flips(turns=1200, seed=None):
    """Calls, a word of which is another one for a later reader."""
    seed = random.randrange(1 << 30) if seed is None else int(seed)
    print("seed %d" % seed)
    words, options = ["flips", seed], {"mem": "%dMiB" % LIMIT, "limit": LIMIT}
    worlds = range(0, int(turns), WORLD)
    without(words, _received_all, _bare)
    try:
        within(words, course=_course(seed, worlds, WORLD), **options)
    except Failure as failure:
        print("FAILED: %s" % failure)
        if found := re.search(r"turns from (\d+) on", str(failure)):
            first = int(found.group(1))
            for again, count in ((range(first, first + WORLD), 1), ((first,), WORLD)):
                print("each alone:" if count == 1 else "all of them:")
                within(words, course=_course(seed, again, count, "tell"), **options)
        raise


main({"flips": flips})
