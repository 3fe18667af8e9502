"""Measures what cgpu-runtime adds to the start of a container: `runc run` of one that ends at once,
by runc itself, by cgpu-runtime without a grant and by cgpu-runtime with a slice of a simulated GPU,
in turn. Needs root and runc. Prints every round; the last line is the figure.
"""
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "build", "bin")
os.environ.setdefault("CGPU_BIN", BIN)
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from bundles import Runc  # noqa: E402
from engines import RUNC, start_cgpud  # noqa: E402

ROUNDS = 40
KINDS = {"runc": {"plain": True}, "no GPU": {}, "slice": {"env": {"CGPU_MEM": "100MiB"}}}


def timed(engine, name, wants):
    """Milliseconds from the call to the end of the container, whose program does nothing."""
    words = engine.command(name, ["true"], **wants)
    begin = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=t.DEADLINE, check=False)
    took = 1000 * (time.monotonic() - begin)
    t.check(done.returncode == 0, "%s: %s" % (" ".join(words), done.stdout))
    engine.remove(name)
    return took


def measure():
    with t.Node("v100-16g:1") as node, Runc(os.path.join(BIN, "cgpu-runtime")) as engine:
        daemon = start_cgpud(node, RUNC)
        for kind, wants in KINDS.items():
            timed(engine, "warm", wants)
        added = {"no GPU": [], "slice": []}
        for number in range(ROUNDS):
            took = {kind: timed(engine, "one", wants) for kind, wants in KINDS.items()}
            for kind, all_of_it in added.items():
                all_of_it.append(took[kind] - took["runc"])
            print("round %d: %s" % (number + 1, ", ".join("%s %.1f ms" % pair
                                                         for pair in took.items())), flush=True)
        daemon.stop()
        print("container-start: %.1f ms (no GPU %.1f)" % (statistics.median(added["slice"]),
                                                         statistics.median(added["no GPU"])))


if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    measure()
