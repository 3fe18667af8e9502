"""What a container that floods its shim costs its neighbour: the 99th percentile of the
neighbour's trapped queries while the other makes trapped calls, or opens and closes files, or starts
and ends processes with clients, from THREADS threads, over that while it makes untrapped ioctls from
as many, taking turns. Both are containers of runc with slices of one
simulated card. Needs root and runc; prints every round; the last line is the worst of these.
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
FLOODS = {"flood": "trapped calls", "closes": "closes", "exits": "processes that make a client and end"}
CALLS = 5000  # of the neighbour, each time
THREADS = 16
CLIENT = os.path.join(os.path.abspath(t.BIN), "bench-client")


class Slice:
    """A container with bench-client, which is told what to do a line at a time."""

    def __init__(self, engine, name):
        self.popen = subprocess.Popen(
            engine.command(name, ["bench-client"], env={"CGPU_MEM": "1GiB"}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        t.check(self.popen.stdout.readline() == b"ready\n", name + " does not start")

    def say(self, line):
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def p99(self):
        """Of its next calls, in microseconds."""
        self.say("calls %d" % CALLS)
        took = struct.unpack("=%dI" % CALLS, self.popen.stdout.read(4 * CALLS))
        return statistics.quantiles(took, n=100)[-1] / 1000

    def end(self):
        self.popen.stdin.close()
        self.popen.wait(t.DEADLINE)


def measure():
    with t.Node("v100-16g:1") as node, \
            Runc(os.path.join(t.BIN, "cgpu-runtime"), in_image=(CLIENT,)) as engine:
        daemon = start_cgpud(node, engine.plain)
        neighbour, other = Slice(engine, "neighbour"), Slice(engine, "other")
        neighbour.p99()
        quiet, ratios = [], {kind: [] for kind in FLOODS}
        for number in range(ROUNDS):
            quiet.append(neighbour.p99())
            took, made = {}, {}
            for kind in (*FLOODS, "others"):
                other.say("%s %d" % (kind, THREADS))
                t.check(other.popen.stdout.readline() == b"going\n", kind + " does not begin")
                took[kind] = neighbour.p99()
                other.say("stop")
                made[kind] = int(other.popen.stdout.readline())
            for kind in FLOODS:
                ratios[kind].append(took[kind] / took["others"])
            print("round %d: quiet %.0f us, %s" % (number + 1, quiet[-1], ", ".join(
                "%s %.0f us (%d)" % (kind, took[kind], made[kind]) for kind in took)), flush=True)
        neighbour.end()
        other.end()
        daemon.stop()
        medians = {kind: statistics.median(ratios[kind]) for kind in FLOODS}
        for kind, ratio in medians.items():
            print("%s: %.2f x" % (FLOODS[kind], ratio))
        print("flood: %.2f x (quiet p99 %.0f us)" % (max(medians.values()), statistics.median(quiet)))


if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    measure()
