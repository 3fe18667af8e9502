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
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build", "bin")
os.environ.setdefault("CGPU_BIN", BIN)
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from bundles import Runc  # noqa: E402
from clients import Client  # noqa: E402
from engines import start_cgpud  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "10"))
FLOODS = {"flood": "trapped calls", "closes": "closes", "exits": "processes that make a client and end",
          "interrupts": "looks after the GPU's interrupts", "nocard": "calls that name no GPU",
          "descriptors": "closes and opens with a full table of descriptors"}
CALLS = 5000  # of the neighbour, each time
THREADS = 16
CLIENT = os.path.join(os.path.abspath(t.BIN), "bench-client")


def client(engine, name, **wants):
    """A container with bench-client."""
    return Client(engine.command(name, ["bench-client"], **wants), name)


def sliced(engine, name):
    return client(engine, name, env={"CGPU_MEM": "1GiB"})


def p99(neighbour):
    """Returns the 99th percentile of its next calls, in microseconds."""
    return statistics.quantiles(neighbour.calls(CALLS), n=100)[-1] / 1000


def bare(engine, node, name="bare"):
    """A container without a slice, which has the files of a simulated driver."""
    files = [(file["path"], "/dev/" + file["name"]) for file in node.info()["files"]]
    return client(engine, name, plain=True, mounts=files)


def measure_flood(neighbour, flooder, kind):
    """The neighbour's p99 meanwhile, and how many there were of that kind."""
    flooder.floods(kind, THREADS)
    took = p99(neighbour)
    return took, flooder.stop()


def measure():
    with t.Node("v100-16g:1") as node, \
            Runc(os.path.join(t.BIN, "cgpu-runtime"), in_image=(CLIENT,)) as engine:
        daemon = start_cgpud(node, engine.plain)
        neighbour, other, without = sliced(engine, "neighbour"), sliced(engine, "other"), bare(engine, node)
        p99(neighbour)
        quiet = []
        ratios = {kind: [] for kind in FLOODS}
        alone = {kind: [] for kind in FLOODS}  # of the container without a slice
        for number in range(ROUNDS):
            quiet.append(p99(neighbour))
            base, _ = measure_flood(neighbour, other, "others")
            print("round %d: quiet %.0f us, untrapped %.0f us" % (number + 1, quiet[-1], base))
            for kind in FLOODS:
                took, made = measure_flood(neighbour, other, kind)
                took_bare, made_bare = measure_flood(neighbour, without, kind)
                ratios[kind].append(took / base)
                alone[kind].append(took_bare / base)
                print("  %s: %.0f us (%d), without a slice %.0f us (%d)" %
                      (kind, took, made, took_bare, made_bare), flush=True)
        for one in (neighbour, other, without):
            one.end()
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
