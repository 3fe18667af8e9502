"""For how long calls of running containers wait while all are upgraded: 32 containers with 100 calls a
second each, on a simulated node. A pause is the longest call that any of them had during one
`cgpu upgrade` of all; the quiet gap is the same over as long a time without one. A call that fails
ends the benchmark. Needs root; prints every round; the last line is the figure.
"""
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CGPU_BIN", os.path.join(ROOT, "build", "bin"))
sys.path.append(os.path.join(ROOT, "tests", "lib"))

import cgpu_test as t  # noqa: E402

CONTAINERS = 32
EVERY_MS = 10
ROUNDS = 10


def windows(clients):
    """The longest call since the last time, in milliseconds, and all that there were."""
    for client in clients:
        client.say("window")
    found = [client.expect(r"^(\d+) (\d+)$") for client in clients]
    for client in clients:
        client.forget()
    return (max(int(match.group(1)) for match in found) / 1e6,
            sum(int(match.group(2)) for match in found))


def upgrade(clients, names):
    """Upgrades these containers once. Returns the longest call meanwhile, that of as long a time without an
    upgrade, in milliseconds, how many calls there were, and the seconds that the upgrade took."""
    windows(clients)
    begin = time.monotonic()
    said = t.command(t.CGPU, "upgrade", *names)
    took = time.monotonic() - begin
    t.check(said.count(": upgraded") >= len(names), said)
    pause, calls = windows(clients)
    time.sleep(took)
    gap, _ = windows(clients)
    return pause, gap, calls, took


def measure():
    # A GPU has 20 at most.
    with t.Node("v100-16g:1") as node, t.Node("v100-16g:1") as other:
        clients = [one.run([os.path.join(t.BIN, "bench-client")], mem="100MiB",
                           name="client%d" % number)
                   for one in (node, other) for number in range(CONTAINERS // 2)]
        for client in clients:
            client.expect("^ready$")
            client.say("pace %d" % EVERY_MS)
        names = [container["id"] for one in (node, other) for container in one.containers()]
        t.check(len(names) == CONTAINERS, "%d containers" % len(names))
        pauses, gaps = [], []
        for number in range(ROUNDS):
            pause, gap, calls, took = upgrade(clients, names)
            pauses.append(pause)
            gaps.append(gap)
            print("round %d: %.1f ms, quiet gap %.1f ms; %d calls while it took %.0f ms" %
                  (number + 1, pause, gap, calls, 1000 * took), flush=True)
        for client in clients:
            t.check(client.end() == 0, "a call failed")
        print("upgrade-pause: %.1f ms (quiet gap %.1f)" %
              (statistics.median(pauses), statistics.median(gaps)))


if __name__ == "__main__":
    try:
        t.require_machine()
        measure()
    except t.Failure as failure:
        t.Process.end_all()
        sys.exit("FAILED: %s" % failure)
