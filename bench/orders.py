"""How long it takes until an order (a share, a limit) has reached a container's shim and is confirmed, while
that container does its worst: floods of closes and of exits, a file whose close never returns, files of
nvidia-uvm that are hard to find, managed memory in many pieces. Needs root; prints a line for each; the last line is the figure.
"""
import os
import socket
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CGPU_BIN", os.path.join(ROOT, "build", "bin"))
os.environ.setdefault("CGPU_TEST_BIN", os.path.join(ROOT, "build", "tests", "bin"))
sys.path.append(os.path.join(ROOT, "tests", "lib"))

import cgpu_test as t  # noqa: E402

ORDERS = int(os.environ.get("ORDERS", "400"))  # of each kind
PAUSE = 0.01  # seconds between them
MIB = 4096  # the limit of memory: the pieces take the half of it
ADVERSARY = os.path.join(os.path.abspath(t.TEST_BIN), "adversary")
WORST = (("nothing", ["quiet", "10"]), ("closes", ["close-flood"]), ("exits", ["exit-storm"]),
         ("files that hang", ["fuse-fill", "25000"]), ("hidden files", ["hoard", "100", "300", "900"]),
         ("pieces", ["pieces", "16", "15000"]))


def ask(container, line):
    """Seconds until it is confirmed."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(t.DEADLINE)
        connection.connect("/run/cgpu/%s.sock" % container)
        connection.sendall(line.encode())
        answer = connection.makefile().read()
    t.check(answer == "ok\n", "it answers %r" % answer)
    return time.monotonic() - began


def p99(node, words):
    process = node.run([ADVERSARY, *words], mem="%dMiB" % MIB, name="container")
    if process.expect("^(holding|unsupported.*)$").group(1) != "holding":
        return None
    (row,) = node.containers()
    uuid = row["gpus"][0]["uuid"]
    took = []
    for number in range(ORDERS):
        took.append(ask(row["id"], "order %s %d 0 0 0 0 0\n" % (uuid, 1000 + number % 2 * 1000)))
        took.append(ask(row["id"], "set %s %d\n" % (uuid, (MIB + number % 2) << 20)))
        time.sleep(PAUSE)
    process.kill()
    return 1000 * statistics.quantiles(took, n=100)[-1]


def measure():
    worst = 0.0
    for name, words in WORST:
        with t.Node("v100-16g:1") as node:
            figure = p99(node, words)
        if figure is None:
            print("%s: not on this machine" % name)
            continue
        print("%s: %.1f ms" % (name, figure), flush=True)
        worst = max(worst, figure)
    print("orders: %.1f ms" % worst)


if __name__ == "__main__":
    t.require_machine()
    measure()
