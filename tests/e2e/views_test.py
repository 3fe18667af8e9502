"""A slice sees its own GPUs and processes, and nothing of the others'; from outside the whole node
can be seen. Cases by name, see tests/lib/cgpu_test.py."""
import json
import os
import re

import cgpu_test as t
import worker as w

RMTOOL = os.path.join(t.BIN, "rmtool")
GPUS = "v100-16g:1,t4:1,a10:1"
MINE = 1  # index on the node of the GPU that the slice has

# Everything that a tenant can ask for without a driver call of its own.
LOOK = """
exec 2>&1
"$CGPU" smi; "$CGPU" smi -L
"$CGPU" smi --query-gpu=index,uuid,name,pci.bus_id,memory.total --format=csv
"$RMTOOL" info
ls -R /dev/ /sys/bus/pci
grep -r . /proc/driver/nvidia /sys/bus/pci
mount; cat /proc/self/mountinfo; env
ls -l /proc/[0-9]*/fd; cat /proc/[0-9]*/cmdline; cat /proc/[0-9]*/environ
true
"""


def _look(node, flags):
    env = {"CGPU": t.CGPU, "RMTOOL": RMTOOL, "PATH": os.environ["PATH"]}
    done = t.command(t.CGPU, "run", "--node", node.name, *flags, "--", "sh", "-c", LOOK,
                     env=env, errors="replace")
    t.check("NVIDIA-SMI" in done or "Driver Version" in done, "cgpu smi shows no table: " + done)
    return done


def alias():
    """cgpu-smi is cgpu smi."""
    with t.Node(GPUS) as node:
        words = ["-L", "--node", node.name]
        said = t.command(os.path.join(t.BIN, "cgpu-smi"), *words)
        t.check(said == t.command(t.CGPU, "smi", *words) and said.count("GPU ") >= 3,
                "cgpu-smi says: " + said)
        done = t.command(os.path.join(t.BIN, "cgpu-smi"), "--nothing", ok=False)
        t.check(done.returncode == 125 and "cgpu smi --help" in done.stderr,
                "cgpu-smi --nothing: %s" % done)


def unmanaged():
    """cgpu ps --unmanaged: who has files of the node's GPUs open and is in no slice."""
    with t.Node("v100-16g:2") as node:
        # In namespaces of its own within the slice, which changes nothing.
        nested = 'unshare --user --mount --pid --fork "$0" hold 10; true'
        held = node.run(["sh", "-c", nested, RMTOOL], name="held")
        held.expect("^holding 10 MiB$")
        plain = node.exec([RMTOOL, "hold", "10"], name="plain")
        plain.expect("^holding 10 MiB$")

        def listed(*words):
            return t.command(t.CGPU, "ps", "--unmanaged", "--node", node.name, *words)

        (row,) = json.loads(listed("--json"))
        t.check((row["pid"], row["command"]) == (plain.popen.pid, "rmtool") and
                {"nvidiactl", "nvidia0"} <= set(row["files"]), "it lists %s" % row)
        t.check(re.search(r"^%d .* rmtool .*nvidia0" % plain.popen.pid, listed(), re.M),
                "it says: " + listed())
        plain.end()
        t.check(json.loads(listed("--json")) == [], "it lists " + listed())
        held.end()


def _bus_forms(bdf):
    """0000:00:05.0 as the kernel and as nvidia-smi write it."""
    return (bdf, bdf.upper(), "0000" + bdf, "0000" + bdf.upper())


def cards():
    """Neither UUID nor bus address nor file of a GPU that is not the slice's."""
    with t.Node(GPUS) as node:
        gpus = node.info()["gpus"]
        seen = _look(node, ("--gpus", "device=%d" % MINE, "--mem", "1GiB"))
        for gpu in gpus:
            own = gpu["index"] == MINE
            t.check((gpu["uuid"] in seen) == own, "%s is %s:\n%s" %
                    (gpu["uuid"], "not shown" if own else "shown", seen))
            t.check(any(form in seen for form in _bus_forms(gpu["bdf"])) == own,
                    "%s is %s:\n%s" % (gpu["bdf"], "not shown" if own else "shown", seen))
            t.check(bool(re.search(r"\bnvidia%d\b" % gpu["minor"], seen)) == own,
                    "nvidia%d is %s:\n%s" % (gpu["minor"], "not shown" if own else "shown", seen))
        t.check(re.findall(r"^GPU (\d+):", seen, re.M).count("0") >= 2,
                "cards do not count from 0:\n" + seen)
        t.check(not re.search(r"^GPU [1-9]\d*:", seen, re.M), "more than one card:\n" + seen)
        node.wait_used(0, "after the container")


def _view(worker, client):
    """Returns what the driver enumerates to a worker: sets of numbers by kind."""
    worker.send("view", client)
    found = {"card": set(), "attached": set(), "probed": set(), "pid": set()}
    for kind, value in re.findall(r" ([a-z]+):(\d+)", worker.line()):
        found[kind].add(int(value))
    return found


def controls():
    """The same, asked by raw controls; and a GPU's id that somebody knows is of no use."""
    with t.Node(GPUS) as node, w.Workers() as workers:
        everything = t.Process([t.CGPU, "sim", "exec", "--name", node.name, "--",
                                *workers.argv("outside")], "outside")
        outside = workers.accept("outside", everything)
        outside.do("client", 1)
        whole = _view(outside, 1)
        t.check(len(whole["card"]) == len(whole["probed"]) == 3, "without cgpu: %s" % whole)
        process = node.run(workers.argv("inside"), flags=("--gpus", "device=%d" % MINE), name="in")
        inside = workers.accept("inside", process)
        inside.do("client", 1)
        mine = _view(inside, 1)
        print("without cgpu: %s\nin a slice: %s" % (whole, mine))
        for kind in ("card", "probed", "attached"):
            t.check(len(mine[kind]) == 1 and mine[kind] <= whole["card"], "%s: %s" % (kind, mine))
        t.check(mine["card"] == mine["probed"] == mine["attached"], "seen: %s" % mine)
        for card in whole["card"]:
            inside.send("foreign", 1, card)
            statuses = re.findall(r"\w+:(0x[0-9a-f]+)", inside.line())
            own = card in mine["card"]
            t.check(len(statuses) == 3 and all((status == "0x0") == own for status in statuses),
                    "card %d in the slice: %s" % (card, statuses))
        inside.send("end")
        outside.send("end")
        t.check((process.end(), everything.end()) == (0, 0), "a worker failed")
        node.wait_used(0, "after the containers")


def processes():
    """Numbers of processes are the container's own, and only the container's are shown."""
    with t.Node("v100-16g:1") as node, w.Workers() as workers:
        first = node.run(workers.argv("a"), flags=("--gpus", "1"), name="a")
        second = node.run(workers.argv("b"), flags=("--gpus", "1"), name="b")
        parents = [workers.accept() for _ in (first, second)]
        tenants = {worker.name: [worker, workers.fork(worker, worker.name + "-child")]
                   for worker in parents}
        for family in tenants.values():
            for number, worker in enumerate(family):
                worker.do("client", number)
                worker.do("alloc", number, 64)
        for name, family in tenants.items():
            pids = {worker.do("pid")[0] for worker in family}
            t.check(not pids & {worker.pid for worker in family},
                    "%s sees the machine's pids" % name)
            seen = [_view(worker, number)["pid"] for number, worker in enumerate(family)]
            t.check(all(one == pids for one in seen), "%s has %s and sees %s" % (name, pids, seen))
        machine = {worker.pid for family in tenants.values() for worker in family}
        books = {client["pid"] for client in node.books()["clients"]}
        print("the machine's: %s; the driver's callers: %s" % (machine, books))
        for family in tenants.values():
            for worker in reversed(family):  # the first one ends the container
                worker.send("end")
                worker.wait_gone()
        t.check((first.end(), second.end()) == (0, 0), "a worker failed")
        node.wait_used(0, "after the containers")


def table():
    """cgpu smi in a slice lists the slice's processes, outside the whole node's use."""
    hold = '"$0" hold 300 --forever & "$0" hold 200 --forever & read line; exec "$1" smi'
    with t.Node("v100-16g:2") as node:
        beside = node.run([RMTOOL, "hold", "700"], flags=("--gpus", "device=0"), name="beside")
        beside.expect("^holding 700 MiB$")
        process = node.run(["sh", "-c", hold, RMTOOL, t.CGPU], flags=("--gpus", "device=0"),
                           name="smi")
        for _ in range(2):
            process.expect("^holding [23]00 MiB$")
        outside = t.command(t.CGPU, "smi", "--node", node.name, "--format=csv,noheader",
                            "--query-gpu=index,uuid,memory.total,memory.used")
        gpus = node.info()["gpus"]
        t.check(outside.splitlines() ==
                ["%d, %s, 16160 MiB, %d MiB" % (i, gpus[i]["uuid"], (1200, 0)[i]) for i in (0, 1)],
                "outside: " + outside)
        process.say("look")
        process.expect(r"500MiB / +1024MiB")
        t.check(process.end() == 0, "smi failed")
        rows = process.said(r"\| +0 .* +(\d+) .*rmtool.* +(\d+)MiB")
        t.check(sorted(int(row.group(2)) for row in rows) == [200, 300],
                "processes in the slice: %s" % process.lines)
        t.check(all(int(row.group(1)) < 100 for row in rows), "pids: %s" % process.lines)
        t.check(beside.end() == 0, "the neighbour failed")
        node.wait_used(0, "after the containers")


if __name__ == "__main__":
    t.main({"alias": alias, "cards": cards, "controls": controls, "processes": processes, "table": table,
            "unmanaged": unmanaged})
