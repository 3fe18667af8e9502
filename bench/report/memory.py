"""Memory: does a tenant get what it was promised, and no byte more, by the driver's own accounting?"""
import json
import os
import re
import sys

import cgpu_test as t
from report.findings import Section, at_least, at_most
from report.host import tool

LIMIT_MIB = 1024
LIMIT = LIMIT_MIB * t.MIB
ASKS = (25, 50, 75, 100, 101, 150, 400)  # percent of the limit
QUICK_ASKS = (50, 100, 101, 400)
RMTOOL = tool("rmtool")
CUDA_MEMORY = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                           "tests", "gpu", "kit", "cuda_memory.py")
SAID = r"^(?:holding (\d+) MiB|out of memory.* after (\d+) MiB)"


class Holder:
    """A tenant with the limit that asks for so many MiB and holds what it is given: `with Holder(host, 512) as
    one`. `got`: MiB that it was given in all before it was refused; `counted`: bytes that the driver counts
    more while it holds them, None if it was refused and holds nothing."""

    def __init__(self, host, mib, name="asks"):
        self._host = host
        self._words = [RMTOOL, "hold", str(mib), "--page", "big"]
        self._name = name

    def __enter__(self):
        self._before, _ = self._host.memory()
        self.process = self._host.run(self._words, mem="%dMiB" % LIMIT_MIB, flags=("--name", self._name)
                                       if self._host.cgpu else (), name=self._name)
        held, refused = self.process.expect(SAID).groups()
        self.got = int(held or refused)
        self.refused = held is None
        self.counted = None if self.refused else self._host.memory()[0] - self._before
        return self

    def difference(self):
        """Bytes by which cgpu's ledger and the driver's accounting differ."""
        (row,) = [row for row in self._host.containers() if row["name"] == self._name]
        return abs(row["gpus"][0]["used_bytes"] - self.counted)

    def __exit__(self, *_):
        self.process.end()
        self._host.wait_used(self._before, "after its end")


def ask(host, mib):
    """Returns what a tenant gets that asks for so much: bytes by the driver's accounting, and how far the ledger is
    from it (None without cgpu)."""
    with Holder(host, mib) as one:
        if not one.refused:
            return one.counted, one.difference() if host.cgpu else None
    # It gave everything back when it was refused: it asks again, for what it was given.
    return ask(host, one.got)


def most(host):
    """The most MiB that a tenant can get: it asks for the whole GPU, then for ever smaller pieces."""
    _, size = host.memory()
    process = host.run([RMTOOL, "alloc", str(size // t.MIB), "--page", "big", "--fill"],
                       mem="%dMiB" % LIMIT_MIB, name="fills")
    got = int(process.expect(r"(?:after|allocated) (\d+) MiB").group(1))
    process.end()
    return got


def left_to_neighbour(host, got):
    """The percentage of its own limit that a neighbour gets while a tenant holds `got` MiB."""
    with Holder(host, got, "greedy") as greedy:
        t.check(not greedy.refused, "it does not get %d MiB again" % got)
        with Holder(host, LIMIT_MIB, "neighbour") as neighbour:
            return 100 * neighbour.got / LIMIT_MIB


def by_cuda(host):
    """The bytes that a CUDA program got; None where there is no CUDA."""
    environment = host.cuda_environment()
    if environment is None:
        return None
    process = host.run([sys.executable, CUDA_MEMORY, "plain", str(4 * LIMIT_MIB)], mem="%dMiB" % LIMIT_MIB,
                       name="cuda", env=environment)
    if process.end() != 0:
        return None
    said = json.loads(process.lines[-1])
    return None if "skip" in said else said["taken"]


def measure(host, rounds, quick):
    section = Section("memory", "Memory", "A tenant with a limit of %d MiB asks for less, for all of it and for more. "
                      "Bytes are those that the driver counts, not those that the tenant was told." % LIMIT_MIB)
    over, reached, differences, filled, neighbour, bars = [], [], [], [], [], []
    for number in range(rounds):
        for percent in QUICK_ASKS if quick else ASKS:
            mib = LIMIT_MIB * percent // 100
            counted, difference = ask(host, mib)
            over.append(max(0, counted - LIMIT))
            if percent == 100:
                reached.append(100 * counted / LIMIT)
            if difference is not None:
                differences.append(difference)
            if number == 0:
                bars.append(("asks for %d MiB" % mib, counted / t.MIB, min(mib, LIMIT_MIB)))
        filled.append(most(host))
        neighbour.append(left_to_neighbour(host, filled[-1]))
    section.figure("over", "Most that a tenant got over its limit", "bytes", over, at_most(0), worst=True)
    section.figure("reached", "Got of its limit, when it asked for all of it", "%", reached, at_least(100), worst=True)
    section.figure("filled", "Most that a tenant with %d MiB got, when it asked for the whole GPU" % LIMIT_MIB, "MiB",
                   filled, at_most(LIMIT_MIB), worst=True)
    section.figure("neighbour", "A neighbour with the same limit got of it, beside that tenant", "%", neighbour,
                   at_least(100), worst=True)
    if differences:
        section.figure("ledger", "Difference between cgpu's ledger and the driver's accounting", "bytes", differences,
                       at_most(0), worst=True)
    taken = by_cuda(host)
    if taken is None:
        section.note("A CUDA program did not ask: there is no CUDA here.")
    else:
        section.figure("cuda", "Most that cuMemAlloc gave, asked for four times the limit", "MiB", [taken / t.MIB],
                       at_most(LIMIT_MIB), worst=True)
    section.bars("What a tenant with %d MiB got" % LIMIT_MIB, "MiB", bars)
    if not host.simulated:
        section.note("A real driver says what is in use in MiB: bytes are as exact as that.")
    return section
