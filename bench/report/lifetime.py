"""Lifetimes: what the start of a container costs, how long calls wait during an upgrade, and whether a tenant
goes on while something beside it dies."""
import os
import signal
import statistics

import cgpu_test as t
import container_start
import upgrade_pause
from engines import RUNC
from report.findings import Section, at_least, at_most
from report.host import tool
from report.memory import Holder

START_GOAL_MS, PAUSE_GOAL_MS = 50, 100  # bench-container-start, bench-upgrade-pause
PACE_MS = 10
CLIENT = tool("bench-client")


def measure_start(host, rounds, quick):
    section = Section("start", "Start of a container", "runc runs a container that ends at once.")
    if not os.path.exists(RUNC):
        section.give_up("there is no runc on this machine (%s)." % RUNC)
        return section
    kinds = container_start.KINDS if host.cgpu else {"runc": container_start.KINDS["runc"]}
    found = {kind: [] for kind in kinds}
    with host.engine() as engine:
        for kind, wants in kinds.items():
            container_start.timed(engine, "warm", wants)
        for _ in range(rounds * (3 if quick else 10)):
            for kind, wants in kinds.items():
                found[kind].append(container_start.timed(engine, "one", wants))
    section.figure("runc", "By runc alone, without a GPU", "ms", found["runc"])
    if host.cgpu:
        for kind, name in (("no GPU", "a container without a GPU"), ("slice", "a container with a slice of the GPU")):
            section.figure("added_" + kind.replace(" ", "_").lower(), "cgpu adds to " + name, "ms",
                           [a - b for a, b in zip(found[kind], found["runc"])],
                           at_most(START_GOAL_MS) if kind == "slice" else None)
    section.bars("Median of the starts", "ms", [("runc alone" if kind == "runc" else "cgpu, " + kind,
                                                 statistics.median(all_of_it), None)
                                                for kind, all_of_it in found.items()])
    return section


class Pacer:
    """A tenant that makes a call each PACE_MS milliseconds."""

    def __init__(self, host, name):
        self.process = host.run([CLIENT], mem="256MiB", flags=("--name", name) if host.cgpu else (), name=name)
        self.process.expect("^ready$")
        self.process.say("pace %d" % PACE_MS)

    def longest(self):
        """Milliseconds of its longest call since it was last asked; None if a call has failed. It makes one
        more before it answers."""
        try:
            self.process.say("window")
            return int(self.process.expect(r"^(\d+) (\d+)$").group(1)) / 1e6
        except (t.Failure, BrokenPipeError):
            return None

    def end(self):
        return self.process.end()


def measure_upgrade(host, rounds, quick):
    number = 8 if quick else upgrade_pause.CONTAINERS // 2
    section = Section("upgrade", "Upgrade of running containers", "%d containers make a call each %d ms, while cgpu upgrade "
                      "gives all of them the new version." % (number, PACE_MS))
    if not host.cgpu:
        section.give_up("without cgpu there is nothing to upgrade.")
        return section
    pacers = [Pacer(host, "paced%d" % one) for one in range(number)]
    clients = [pacer.process for pacer in pacers]
    pauses, gaps = [], []
    for _ in range(rounds * (2 if quick else 4)):
        pause, gap, _, _ = upgrade_pause.upgrade(clients, ["paced%d" % one for one in range(number)])
        pauses.append(pause)
        gaps.append(gap)
    failed = sum(pacer.end() != 0 for pacer in pacers)
    section.figure("pause", "Longest call during an upgrade", "ms", pauses, at_most(PAUSE_GOAL_MS))
    section.figure("quiet", "Longest call in as long a time without one", "ms", gaps)
    section.figure("failed", "Containers in which a call failed", "", [failed], at_most(0), worst=True)
    return section


def _neighbour_killed(host):
    """A neighbour that holds memory is killed. Returns what puts things in order again."""
    before, _ = host.memory()
    holder = Holder(host, 256, "victim").__enter__()
    holder.process.kill()
    return lambda: host.wait_used(before, "after the neighbour was killed")


def _shim_killed(host):
    before, _ = host.memory()
    holder = Holder(host, 256, "victim").__enter__()
    (row,) = [row for row in host.containers() if row["name"] == "victim"]
    os.kill(t.shim_at("/run/cgpu/%s.sock" % row["id"]), signal.SIGKILL)
    holder.process.wait()  # it does not outlive its shim
    return lambda: host.wait_used(before, "after the shim was killed")


def _cgpud_killed(host):
    host.daemon.stop(signal.SIGKILL)
    return host.daemon.start


FAULTS = {"neighbour": ("its neighbour is killed", _neighbour_killed),
          "shim": ("its neighbour's shim is killed", _shim_killed),
          "cgpud": ("cgpud is killed, and starts again", _cgpud_killed)}


def measure_faults(host, rounds, quick):
    section = Section("faults", "Faults", "A tenant makes a call each %d ms, while something beside it dies." % PACE_MS)
    for key in FAULTS if host.cgpu else ("neighbour",):
        sentence, kill = FAULTS[key]
        outlived, longest = [], []
        pacer = Pacer(host, "goes-on")
        for _ in range(rounds * (2 if quick else 5)):
            t.check(pacer.longest() is not None, "its calls fail before anything dies")
            mend = kill(host)
            mend()
            call = pacer.longest()
            outlived.append(100 if call is not None else 0)
            if call is None:
                break
            longest.append(call)
        pacer.end()
        section.figure(key + "_outlived", "Goes on when " + sentence, "%", outlived, at_least(100), worst=True)
        if longest:
            section.figure(key + "_call", "Its longest call meanwhile", "ms", longest)
    if not host.cgpu:
        section.note("Without cgpu there is no shim and no cgpud.")
    return section
