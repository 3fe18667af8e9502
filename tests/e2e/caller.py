"""The program that makes the calls it is told (caller.cc), as a test talks with it."""
import os
import select
import time

import cgpu_test as t

PROGRAM = os.path.join(t.TEST_BIN, "caller")


class Caller:
    """One that runs on a node. `roots`: the clients it has made, as their makers number them."""

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

    def tables(self, driver):
        """Returns what src/rm knows of this driver: {kind: {number: (size, name)}}."""
        tables = {"class": {}, "control": {}, "escape": {}, "status": {}, "uvm": {},
                  "uvm-status": {}}
        self.send("tables " + driver)
        while (line := self.line()) != ".":
            kind, number, size, name = line.split()
            tables[kind][int(number)] = (int(size), name)
        return tables


def plain(node):
    return Caller(node.exec([PROGRAM], name="plain"))


def sliced(node, mib):
    return Caller(node.run([PROGRAM], mem="%dMiB" % mib, name="sliced"))
