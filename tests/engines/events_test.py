"""The events that `cgpu events` tells, judged by what was done, `cgpu ps` and the shims' own counts.
Cases by name."""
import json
import os
import re
import signal
import stat

import cgpu_test as t
import isolation
from bundles import Runc
from engines import RUNC, start_cgpud

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
FORBIDDEN = ["rmtool", "raw", "ioctl", "0x4d", "72"]  # NV_ESC_RM_ACCESS_REGISTRY
FOLDER = "/var/lib/cgpu/events"
MAX_FILE = 1 << 20
AT_ONCE = 200  # events that a user may cause at once
USER, GROUP, READERS = 47110, 47111, 47112
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")


def events(*words, **options):
    said = t.command(t.CGPU, "events", "--json", *words, **options)
    return [json.loads(line) for line in said.splitlines()]


def of(kind, *words):
    return [event for event in events(*words) if event["kind"] == kind]


def wait_one(kind, **fields):
    """The only event of the kind that has these fields, once it is there."""
    def found():
        return [one for one in of(kind) if all(one.get(key) == value for key, value in fields.items())]
    t.wait_for(found, lambda: "no %s with %s in %s" % (kind, fields, events()))
    t.check(len(found()) == 1, "several %s with %s: %s" % (kind, fields, found()))
    return found()[0]


def denied(node, name):
    return next(row["gpus"][0]["denied"] for row in node.containers() if row["name"] == name)


def calls_refused(id_):
    """How many calls the shim itself says that it has refused."""
    said = t.command(t.CGPU, "ps", "-v").split(" (%s): " % id_)[1].split("\n\n")[0]
    lines = said.split("Refused driver calls:\n")[1].splitlines()
    return sum(int(line.split()[0]) for line in lines)


def wait_sum(kind, name, count):
    t.wait_for(lambda: sum(event["count"] for event in of(kind, "--container", name)) == count,
               lambda: "%d %s of %s expected: %s" % (count, kind, name, of(kind)))


def comm(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def prepare():
    with open("/etc/group", "a", encoding="utf-8") as file:
        file.write("cgpu-readers:x:%d:\n" % READERS)


def as_user(reader):
    return {"user": USER, "group": GROUP, "extra_groups": [READERS] if reader else []}


def changed(node, engine, id_, name):
    """Each change that root makes is told, from which value to which."""
    t.command(t.CGPU, "set", id_, "--mem", "1200MiB")
    event = wait_one("memory_set", container=id_)
    t.check((event["from_bytes"], event["to_bytes"], event["gpu"]) ==
            (1000 * t.MIB, 1200 * t.MIB, "0"), "%s" % event)
    before = t.command(t.CGPU, "policy", "0").split()[2]
    t.command(t.CGPU, "policy", "0", "fixed", "--max-inst", "5")
    event = wait_one("policy_set", gpu="0", uuid=node.info()["gpus"][0]["uuid"])
    t.check(event["from"] == before and event["to"] == "fixed, max-inst 5", "%s" % event)
    t.command(t.CGPU, "set", id_, "--compute", "30")
    t.check("30 %" in wait_one("compute_set", container=id_, name=name)["to"], "%s" % events())
    t.command(t.CGPU, "upgrade")
    version = t.command(t.CGPU, "--version").split()[1]
    event = wait_one("upgraded", container=id_, to=version)
    t.check(0 < event["pause_us"] < 60_000_000, "%s" % event)
    wait_one("daemon_upgraded", **{"from": version, "to": version})
    t.check(not engine.run("after", ["true"], env={"CGPU_MEM": "1MiB"}).returncode, "no more run")
    engine.remove("after")


def ends(node, engine, daemon):
    """Each end is told, and why."""
    why = {}
    done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--name", "root", "--",
                     "sh", "-c", RMTOOL + " alloc 2; exit 3", ok=False)
    t.check(done.returncode == 3, "%s" % done)
    wait_one("started", name="root", memory_bytes=t.MIB)
    t.wait_for(lambda: of("memory_refused", "--container", "root"), lambda: "%s" % events())
    why["root"] = "its command ended with status 3"
    engine.run("orphan", ["sleep", "100000"], detach=True, env={"CGPU_MEM": "100MiB"})
    (shim,) = [pid for pid in isolation.processes() if comm(pid) == "cgpu-shim"]
    ids = {row["engine_id"]: row["id"] for row in node.containers()}
    os.kill(shim, signal.SIGKILL)
    wait_one("ended", container=ids["orphan"])
    for name in ("forced", "unseen"):
        engine.run(name, ["sleep", "100000"], detach=True, env={"CGPU_MEM": "100MiB"})
    ids.update({row["engine_id"]: row["id"] for row in node.containers()})
    why[ids["orphan"]] = "cgpud killed it, since its shim ended before it"
    done = t.command(t.CGPU, "upgrade", "--force", "--program", "/bin/true", ids["forced"], ok=False)
    t.check("ended" in done.stdout, "%s" % done)
    wait_one("upgrade_refused", container=ids["forced"], to="/bin/true")
    wait_one("forced", container=ids["forced"])
    wait_one("ended", container=ids["forced"])
    daemon.stop(signal.SIGKILL)
    engine.kill("unseen")
    node.wait_used(0, "after its end")
    t.wait_for(lambda: not node.containers(), "it does not end")
    daemon.start()
    why[ids["unseen"]] = "nobody saw why, since cgpud did not run"
    for one, sentence in why.items():
        found = t.wait_for(lambda one=one: of("ended", "--container", one), lambda: "%s" % events())
        t.check([event["why"] for event in found] == [sentence], "%s" % found)
    for name in ("orphan", "forced", "unseen"):
        engine.remove(name)


def told():
    """Each thing that happens is told once, with its numbers."""
    prepare()
    with t.Node("v100-16g:1") as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC, "group: cgpu-readers\naudit: off\n")
        wait_one("daemon_started")
        main = engine.talk("main", ["rmtool", "hold", "600", "--page", "big"],
                           env={"CGPU_MEM": "1000MiB"})
        main.expect("holding 600 MiB")
        row = node.containers()[0]
        event = wait_one("started", container=row["id"])
        t.check((event["name"], event["engine_id"], event["memory_bytes"], event["gpu"], event["uuid"]) ==
                (row["name"], "main", 1000 * t.MIB, "0", node.info()["gpus"][0]["uuid"]), "%s" % event)
        done = engine.run("large", ["true"], env={"CGPU_MEM": "15500MiB"})
        t.check(done.returncode == 1, "%s" % done)
        event = wait_one("start_refused", engine_id="large")
        t.check("15500 MiB" in event["why"] or "15160 MiB" in event["why"], "%s" % event)
        for _ in range(3):
            t.check(engine.exec("main", ["rmtool", "alloc", "401", "--page", "big"]).returncode == 2,
                    "it got memory")
        wait_sum("memory_refused", row["name"], denied(node, row["name"]))
        t.check(of("memory_refused")[0]["limit_bytes"] == 1000 * t.MIB, "%s" % events())
        for _ in range(2):
            engine.exec("main", FORBIDDEN)
        wait_sum("calls_refused", row["name"], calls_refused(row["id"]))
        changed(node, engine, row["id"], row["name"])
        main.end()
        t.check(wait_one("ended", container=row["id"])["why"] == "its processes have ended",
                "%s" % events())
        engine.remove("main")
        ends(node, engine, daemon)
        shown(row)
        daemon.stop()
        wait_one("daemon_stopped")


def shown(row):
    """To people: in plain words, to those who may see it, and as much as they ask for."""
    lines = t.command(t.CGPU, "events").splitlines()
    t.check(len(lines) == len(events()), "not a line each: %s" % lines)
    for line in lines:
        time, sentence = line.split("  ", 1)
        t.check(TIME.match(time) and sentence.isascii() and "?" not in sentence, line)
    t.check([line[:24] for line in lines] == sorted(line[:24] for line in lines), "not in order")
    t.check("%s (%s) started with 1000 MiB of GPU 0" % (row["name"], row["id"]) in "\n".join(lines),
            "%s" % lines)
    t.check(events("-n", "2") == events()[-2:], "the last two")
    t.check(events("--since", "1d") == events() and not events("--since", "0s"), "since")
    t.check({event["container"] for event in events("--container", row["id"][:6])} == {row["id"]}, "of one")
    t.check(events("--gpu", "0") and not events("--gpu", "1"), "of a GPU")
    t.check("this is no time" in t.command(t.CGPU, "events", "--since", "1x", ok=False).stderr, "1x")
    t.check(events(**as_user(True)) == events(), "a member of the group sees others")
    done = t.command(t.CGPU, "events", ok=False, **as_user(False))
    t.check(done.returncode == 125 and "only root and members" in done.stderr, "%s" % done)
    t.check(stat.S_IMODE(os.stat(FOLDER).st_mode) == 0o2750, "the folder's mode")


def flood():
    """A tenant that is refused as fast as it can, and a user that asks again and again, neither fill
    the ring nor falsify it; nor does a cgpud that is killed meanwhile."""
    prepare()
    with t.Node("v100-16g:1") as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC, "group: cgpu-readers\nlog: json\n")
        again = "while :; do rmtool alloc 101 --page big; %s; done >/dev/null 2>&1" % " ".join(FORBIDDEN)
        engine.run("bad", ["sh", "-c", "(%s) & (%s) & wait" % (again, again)], detach=True,
                   env={"CGPU_MEM": "100MiB"})
        row = node.containers()[0]
        for kill in range(1, 6):
            t.wait_for(lambda kill=kill: denied(node, row["name"]) > 20 * kill, "it is not refused")
            daemon.stop(signal.SIGKILL)
            daemon.start()
        wrong = AT_ONCE + 30
        for _ in range(wrong):
            done = t.command(t.CGPU, "run", "--mem", "100GiB", "--", "true", ok=False, cwd="/",
                             **as_user(True))
            t.check(done.returncode == 125, "%s" % done)
        t.wait_for(lambda: len(of("start_refused")) + sum(event["count"] for event in of("left_out")) ==
                   wrong, lambda: "%d of %d are told" % (len(of("start_refused")), wrong))
        t.check(len(of("start_refused")) <= AT_ONCE + 20, "all are told")
        t.check(len(of("memory_refused")) + len(of("calls_refused")) < 60, "each is told")
        engine.kill("bad", "STOP")  # the shell alone: its children end with the container
        engine.kill("bad")
        wait_one("ended", container=row["id"])
        for kind in ("memory_refused", "calls_refused"):
            told_of = of(kind)
            t.check(sum(event["count"] for event in told_of) == told_of[-1]["total"], "%s" % told_of)
        t.check(of("memory_refused")[-1]["total"] > 100, "%s" % of("memory_refused"))
        t.check(all(entry.stat().st_size <= MAX_FILE for entry in os.scandir(FOLDER)), "too large")
        log = [json.loads(line) for line in daemon.log().splitlines()]
        unusual = [line["message"] for line in log if line["level"] not in ("info", "notice")]
        t.check(len(unusual) == 1 and "not all refusals are logged" in unusual[0], "%s" % log)
        t.check(all(line["program"] == "cgpud" for line in log), "%s" % log)
        t.check({(line["container"], line["refused"]) for line in log if line["message"] == "audit"} >=
                {(row["id"], "NV_ESC_RM_ACCESS_REGISTRY")}, "%s" % log)
        engine.remove("bad")
        daemon.stop()


def followed():
    """`cgpu events -f` goes on when a file is full and another begins; the older events go."""
    with t.Node("v100-16g:1") as node:
        daemon = start_cgpud(node, RUNC)
        old = json.dumps({"time": "2026-01-02T03:04:05.678Z", "kind": "old", "name": "x" * 200}) + "\n"

        def fill():
            path = FOLDER + "/events"
            with open(path, "a", encoding="utf-8") as file:
                file.write(old * ((MAX_FILE - os.path.getsize(path)) // len(old)))

        fill()
        follows = t.Process([t.CGPU, "events", "-f", "-n", "1"], "events")
        follows.expect("^2026-01-02T03:04:05.678Z  old name=x")
        for policy in ("fixed", "soft"):
            t.command(t.CGPU, "policy", "0", policy)
            follows.expect("GPU 0 was set from .* to %s" % policy)
        t.check(len(of("old")) > 1000 and len(of("policy_set")) == 2, "the older file is not read")
        fill()
        t.command(t.CGPU, "policy", "0", "fair")
        follows.expect("GPU 0 was set from soft to fair")
        t.check(len(os.listdir(FOLDER)) == 3, "%s" % os.listdir(FOLDER))
        # A line that is torn, and one that wants to be seen.
        with open(FOLDER + "/events", "a", encoding="utf-8") as file:
            file.write('{"time":"2026-01-02T03:04:05.678Z","kind":"\\u001b[2J\\n","a":"\\u009b"}\n{"time":"20')
        t.command(t.CGPU, "policy", "0", "native")
        follows.expect("GPU 0 was set from fair to native")
        seen = "\n".join(follows.lines)
        t.check("\x1b" not in seen and "?[2J? a=" in seen, seen[-300:])
        follows.kill()
        daemon.stop()


isolation.main({"told": told, "flood": flood, "followed": followed})
