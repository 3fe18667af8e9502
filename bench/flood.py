"""Measures what a container that floods its shim costs its neighbour. The figure is a ratio: the
99th percentile of the neighbour's trapped queries while the other does one of FLOODS from THREADS
threads, over that while it makes untrapped ioctls from as many, in turn. Both are containers of
runc with slices of one simulated GPU. The same floods come from a third container without a slice,
which has the driver's files and no filter: what they cost there is the kernel's and the simulated
driver's part. Needs root and runc. Prints every round; the last line is the worst of the ratios
with a slice.
"""
import os
import statistics
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build", "bin")
os.environ.setdefault("CGPU_BIN", BIN)
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from bundles import Runc  # noqa: E402
from engines import start_cgpud  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "10"))
FLOODS = {"flood": "trapped calls", "closes": "closes", "exits": "processes that make a client and end",
          "interrupts": "looks after the card's interrupts", "nocard": "calls that name no card",
          "descriptors": "closes and opens with a full table of descriptors"}
CALLS = 5000  # of the neighbour, each time
THREADS = 16
CLIENT = os.path.join(os.path.abspath(t.BIN), "bench-client")


class Client:
    """A container with bench-client, which is told what to do a line at a time."""

    def __init__(self, engine, name, **wants):
        self.popen = subprocess.Popen(engine.command(name, ["bench-client"], **wants),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        t.check(self.popen.stdout.readline() == b"ready\n", name + " does not start")

    def say(self, line):
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def p99(self):
        """Returns the 99th percentile of its next calls, in microseconds."""
        self.say("calls %d" % CALLS)
        took = struct.unpack("=%dI" % CALLS, self.popen.stdout.read(4 * CALLS))
        return statistics.quantiles(took, n=100)[-1] / 1000

    def floods(self, kind):
        self.say("%s %d" % (kind, THREADS))
        t.check(self.popen.stdout.readline() == b"going\n", kind + " does not begin")

    def stop(self):
        """Ends its flood; how many of its kind it made."""
        self.say("stop")
        return int(self.popen.stdout.readline())

    def end(self):
        self.popen.stdin.close()
        self.popen.wait(t.DEADLINE)


def sliced(engine, name):
    return Client(engine, name, env={"CGPU_MEM": "1GiB"})


def bare(engine, node):
    files = [(file["path"], "/dev/" + file["name"]) for file in node.info()["files"]]
    return Client(engine, "bare", plain=True, mounts=files)


def measure_flood(neighbour, flooder, kind):
    """The neighbour's p99 meanwhile, and how many there were of that kind."""
    flooder.floods(kind)
    p99 = neighbour.p99()
    return p99, flooder.stop()


def measure():
    with t.Node("v100-16g:1") as node, \
            Runc(os.path.join(t.BIN, "cgpu-runtime"), in_image=(CLIENT,)) as engine:
        daemon = start_cgpud(node, engine.plain)
        neighbour, other, without = sliced(engine, "neighbour"), sliced(engine, "other"), bare(engine, node)
        neighbour.p99()
        quiet = []
        ratios = {kind: [] for kind in FLOODS}
        alone = {kind: [] for kind in FLOODS}  # of the container without a slice
        for number in range(ROUNDS):
            quiet.append(neighbour.p99())
            base, _ = measure_flood(neighbour, other, "others")
            print("round %d: quiet %.0f us, untrapped %.0f us" % (number + 1, quiet[-1], base))
            for kind in FLOODS:
                took, made = measure_flood(neighbour, other, kind)
                took_bare, made_bare = measure_flood(neighbour, without, kind)
                ratios[kind].append(took / base)
                alone[kind].append(took_bare / base)
                print("  %s: %.0f us (%d), without a slice %.0f us (%d)" %
                      (kind, took, made, took_bare, made_bare), flush=True)
        for client in (neighbour, other, without):
            client.end()
        daemon.stop()
        for kind, sentence in FLOODS.items():
            print("%s: %.2f x, without a slice %.2f x" %
                  (sentence, statistics.median(ratios[kind]), statistics.median(alone[kind])))
        print("flood: %.2f x (quiet p99 %.0f us)" %
              (max(map(statistics.median, ratios.values())), statistics.median(quiet)))


if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    measure()
