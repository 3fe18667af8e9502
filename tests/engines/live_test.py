"""Attacks on containers of live engines: what engines do to containers while these work, from several
sides at once. Judged by the driver's accounting, `cgpu ps`, /proc and exit statuses. Cases by name:
ENGINE-CASE."""
import itertools
import json
import os
import random
import re
import select
import shutil

import cgpu_test as t
import isolation
import slices_test
from at_once import Again, at_once
from bundles import Runc
from containerd import Containerd
from engines import Docker, Podman
from kills_test import kill_and_wait, shims
from slices_test import expect
from upgrading import NEXT, OWN

REGISTRY = "/run/cgpu"
CARD = 16160  # MiB
slices_test.PROGRAMS += (os.path.abspath(os.path.join(t.TEST_BIN, "thief")),)


def slice_of(mib):
    return {"CGPU_MEM": "%dMiB" % mib}


def cli(test, *words):
    """A command of docker's, podman's or ctr's own."""
    make = test.engine._ctr if isinstance(test.engine, Containerd) else test.engine._cli
    return test.engine._try(*make(*words))


def start(test, name, argv, mib=None, **wants):
    """A container that goes on, with a slice if there is one to have."""
    env = slice_of(mib) if mib else {}
    done = test.engine.run(name, argv, detach=True, env=env, **wants)
    t.check(done.returncode == 0, "%s does not start: %s" % (name, done.stderr))


def hold(mib):
    return ["rmtool", "hold", str(mib), "--page", "big", "--forever"]


def hold_at_last(mib):
    """The same where others may have the whole slice when it begins."""
    return ["sh", "-c", "until %s; do sleep 0.1; done" % " ".join(hold(mib))]


def alloc(test, name, mib, status):
    """A process that is added gets so much, or not, as the status says."""
    expect(test.engine.exec(name, ["rmtool", "alloc", str(mib), "--page", "big"]), status,
           "out of memory" if status == 2 else "allocated")


def row_of(test, name):
    """Returns the row of `cgpu ps` about a container that runs."""
    pid = test.engine.pid(name)
    (row,) = [row for row in test.node.containers() if row["pid"] == pid]
    return row


def limit(row):
    return row["gpus"][0]["limit_bytes"] // t.MIB


def check_nothing_left(test):
    """Once no container is left: no memory, no client, no shim, no file of a container's (those of a shim
    that was killed go with the next look); and cgpud gives the whole GPU."""
    test.node.wait_used(0, "after the containers")
    t.wait_for(lambda: not shims(), lambda: "shims are left: %s" % isolation.processes())
    test.run(0, "allocated 16000 MiB", "whole", ["rmtool", "alloc", "16000", "--page", "big"],
             env=slice_of(CARD))
    t.wait_for(lambda: not _container_files(),
               lambda: "in %s lie %s" % (REGISTRY, _container_files()))


def _container_files():
    """Returns the registry's files, without the daemon's, the lock, and what is set for GPUs."""
    return [name for name in os.listdir(REGISTRY)
            if name not in ("cgpud.sock", "lock") and not name.endswith(".card")]


# A process that is let in takes too much, and leaves another behind that holds what it may.
TRY = ["sh", "-c", "rmtool alloc 257 --page big >/dev/null; echo over $?;"
       "rmtool hold 50 --page big --forever </dev/null >/dev/null 2>&1 & exit 0"]


def _exec_once(test):
    try:
        done = test.engine.exec("main", TRY)
    except KeyError:  # there is no bundle just now
        select.select([], [], [], 0.01)
        return "refused"
    said = re.search(r"over \d+", done.stdout)
    return said.group(0) if said else "refused"


def _paused(test):
    """Those that were just being let in wait until the container goes on. Of docker and ctr not: their
    `resume` waits for such a process, which is frozen."""
    if isinstance(test.engine, (Docker, Containerd)):
        return
    expect(test.engine.pause("main"), 0)
    t.check(test.engine.exec("main", ["true"]).returncode != 0, "a paused container let it in")
    late = None
    if isinstance(test.engine, Runc):  # the one that lets a process in all the same
        late = t.Process(test.engine._words("main", "exec", "--ignore-paused", "main", *TRY), "late",
                         **test.engine._options())
    expect(test.engine.unpause("main"), 0)
    if late:
        late.expect("over 2")
        late.end()


def _removed(test, kill):
    if kill:
        test.engine.kill("main")
    test.engine.remove("main")
    test.node.wait_used(0, "after the container")
    start(test, "main", hold_at_last(100), 256)


def execs(test):
    """Processes are added without pause while their container is paused, killed, removed and restarted:
    each that gets in is held, and nothing is left of any."""
    start(test, "main", hold_at_last(100), 256)
    with Again(lambda: _exec_once(test), threads=3) as added:
        with t.Peak(test.node) as peak:
            for step in (lambda: _paused(test), lambda: _removed(test, True),
                         lambda: _paused(test), lambda: _removed(test, False)):
                test.node.wait_used(250 * t.MIB, "with all that were added")
                step()
                added.wait_more("over 2")
        if isinstance(test.engine, (Docker, Podman)):
            for _ in range(3):
                expect(cli(test, "restart", "--time", "0", "main"), 0)
                added.wait_more("over 2")
        test.engine.remove("main")
    t.check(not added.count("over 0"), "got more than its slice: %s" % added.said)
    # A process that is added before the first one holds anything may have the whole slice for a moment.
    t.check(peak.readings > 10 and 250 * t.MIB <= peak.bytes <= 256 * t.MIB,
            "at some time %d MiB were in use" % (peak.bytes // t.MIB))
    print("%d processes were let in, %d not" % (added.count("over 2"), added.count("refused")))
    check_nothing_left(test)


# Creation.

def _eight(test):
    """Eight at the same time on a GPU that has room for five."""
    def make(number):
        return test.engine.run("many%d" % number, hold(2900), detach=True, env=slice_of(3000))

    with t.Peak(test.node) as peak:
        made = at_once(*(lambda n=number: make(n) for number in range(8)))
        losers = [one for one in made if one.returncode != 0]
        t.check(len(losers) == 3, "of 8 containers %d were refused: %s" % (len(losers), losers))
        for one in losers:
            t.check("MiB" in one.stderr and "free" in one.stderr, "it was told: %s" % one)
        test.node.wait_used(5 * 2900 * t.MIB, "five containers")
        limits = [limit(row) for row in test.node.containers()]
        t.check(limits == [3000] * 5, "cgpu ps says %s" % limits)
        at_once(*(lambda n=number: test.engine.remove("many%d" % n) for number in range(8)))
    t.check(peak.bytes <= 5 * 2900 * t.MIB, "at some time %d bytes were in use" % peak.bytes)


def _one_name(test):
    """One name for all, which is made, removed and killed."""
    engine = test.engine

    def make():
        return engine.run("same", hold(100), detach=True, env=slice_of(3000))

    def remove():
        if not isinstance(engine, Containerd):
            return cli(test, "rm", "--force", "same")
        cli(test, "tasks", "rm", "--force", "same")
        return cli(test, "containers", "rm", "same")

    def kill():
        return cli(test, *(("tasks", "kill", "--signal", "SIGKILL", "same")
                           if isinstance(engine, Containerd) else ("kill", "same")))

    return make, remove, kill


def creations(test):
    """Containers made at the same time never get more than the GPU has, and one name that is made,
    started, killed and removed at the same time leaves no share behind."""
    _eight(test)
    check_nothing_left(test)
    if isinstance(test.engine, Runc):
        return  # whoever calls it says which name goes with which bundle, and when
    make, remove, kill = _one_name(test)

    def said(doing):
        return lambda: "did" if doing().returncode == 0 else "did not"

    def after_some(doing):
        """Else nobody would get to make one."""
        seen = itertools.count(2, 2)

        def once():
            enough = next(seen)
            t.wait_for(lambda: len(made.said) >= enough, "no container is made any more")
            return said(doing)()
        return once

    with Again(said(make), threads=3) as made, Again(after_some(kill), 1) as killed:
        with Again(after_some(remove), 1) as removed:
            for _ in range(2):
                for what in (made, removed, killed):
                    what.wait_more("did$", 1)
                made.wait_more("did not", 1)
    print("made %d, removed %d, killed %d" % tuple(
        one.count("did$") for one in (made, removed, killed)))
    test.engine.remove("same")
    check_nothing_left(test)


def _engine_ids(test):
    """The full ids of what runs, as the engine says it."""
    return sorted(cli(test, "ps", "--quiet", "--no-trunc").stdout.split())


def _check_agrees(test):
    """cgpu ps has what the engine has, under the ids that the engine shows."""
    t.wait_for(lambda: sorted(row["engine_id"] for row in test.node.containers()) ==
               _engine_ids(test), lambda: "cgpu ps says %s, the engine %s" % (
                   test.node.containers(), _engine_ids(test)))
    for row in test.node.containers():
        t.check(row["id"] == row["engine_id"][:12], "cgpu ps says %s" % row)


def restarted(test):
    """Restarts under load, and a process that crashes and is restarted for ever: each life has the slice
    that was asked for, under the same id, and no more."""
    always = ("--restart", "always")
    start(test, "crash", ["sh", "-c", "rmtool alloc 257 --page big; exit 3"], 256, options=always)
    start(test, "one", hold(100), 512, options=always)
    start(test, "other", hold(200), 300)
    lives = set()
    for _ in range(4):
        expect(cli(test, "restart", "--time", "0", "one"), 0)
        row = row_of(test, "one")
        lives.add(row["pid"])
        t.check(limit(row) == 512, "cgpu ps says %s" % row)
        alloc(test, "one", 413, 2)
        alloc(test, "other", 101, 2)
    t.check(len(lives) == 4, "it was not restarted")

    def crashes():
        return int(cli(test, "inspect", "--format", "{{.RestartCount}}", "crash").stdout)

    t.wait_for(lambda: crashes() >= 4, "it is not restarted")
    said = test.engine.logs("crash")
    t.check(said.count("out of memory") >= 4 and "allocated" not in said, "it said: " + said)
    test.engine.remove("crash")
    _check_agrees(test)
    test.check_used(300)
    # A process that ends is restarted, and its container is the same one.
    kill_and_wait(test.engine.pid("one"))
    t.wait_for(lambda: test.engine.pid("one") not in (0, *lives), "it is not restarted")
    test.node.wait_used(300 * t.MIB, "after the end of its process")
    alloc(test, "one", 413, 2)
    for name in ("one", "other"):
        test.engine.remove(name)
    check_nothing_left(test)


def renamed(test):
    """Names are the engine's, as they are now: no container gets another's limits, or a `cgpu set` that was
    for another, by taking its name, or its id as a name."""
    start(test, "one", hold(100), 512)
    start(test, "two", hold(100), 256)
    first, second = row_of(test, "one")["id"], row_of(test, "two")["id"]
    for old, new in (("one", "three"), ("two", "one"), ("three", "two")):
        expect(cli(test, "rename", old, new), 0)
    _check_agrees(test)
    alloc(test, "two", 413, 2)
    alloc(test, "two", 412, 0)
    alloc(test, "one", 157, 2)
    alloc(test, "one", 156, 0)
    expect(cli(test, "rename", "one", first), 0)  # the impostor: the second, by the first's id
    impostor = second
    t.command(t.CGPU, "set", first, "--mem", "1024MiB")
    limits = {row["id"]: limit(row) for row in test.node.containers()}
    t.check(limits == {first: 1024, impostor: 256}, "cgpu ps says %s" % limits)
    alloc(test, impostor, 157, 2)
    alloc(test, "two", 924, 0)
    start(test, "one", hold(10), 64)
    alloc(test, "one", 55, 2)
    said = t.command(t.CGPU, "set", "one", "--mem", "128MiB")
    t.check("128 MiB" in said and "A restart of the container gives back" in said, said)
    limits = {row["id"]: (row["name"], limit(row)) for row in test.node.containers()}
    others = limits.keys() - {first, impostor}
    t.check(len(others) == 1, "cgpu ps says %s" % limits)
    (third,) = others
    t.check(limits == {first: ("two", 1024), impostor: (first, 256), third: ("one", 128)},
            "cgpu ps says %s" % limits)
    told = {json.loads(line)["container"] for line in
            t.command(t.CGPU, "events", "--json", "--container", "one").splitlines()}
    t.check(third in told and not told & {first, second}, "cgpu events tells of %s" % told)
    _check_agrees(test)
    for name in ("one", "two", impostor):
        test.engine.remove(name)
    check_nothing_left(test)


def paused(test):
    """A container that is paused goes on being charged; limits, orders and a new version of its shim
    arrive; its neighbour goes on. What a checkpoint does, or cannot do, lets nobody out."""
    start(test, "main", hold(600), 1000)
    neighbour = test.engine.talk("neighbour", ["adversary", "neighbour", "512"], env=slice_of(512))
    neighbour.expect("holding")
    row = row_of(test, "main")
    t.command(t.CGPU, "policy", "0", "weight", "--node", test.node.name)
    expect(test.engine.pause("main"), 0)
    for words in (("--mem", "700MiB"), ("--weight", "7")):
        t.command(t.CGPU, "set", row["id"], *words)
    serving = [os.pidfd_open(pid) for pid in shims()]
    for program in (NEXT, OWN):
        t.command(t.CGPU, "upgrade", row["id"], "--program", program)
        neighbour.say("go on")
        neighbour.expect("undisturbed")
    (now,) = [one for one in test.node.containers() if one["id"] == row["id"]]
    t.check((limit(now), now["gpus"][0]["used_bytes"], now["compute"], now["state"]) ==
            (700, 600 * t.MIB, {"weight": 7}, row["state"]), "cgpu ps says %s" % now)
    t.check(len(serving) == 2 and not select.select(serving, [], [], 0)[0], "a shim has ended")
    test.check_used(600 + 512)
    test.run(test.refused, "free", "more", ["true"], env=slice_of(CARD - 700 - 512 + 1))
    expect(test.engine.unpause("main"), 0)
    for mib, status in ((101, 2), (100, 0)):
        alloc(test, "main", mib, status)
    _checkpointed(test)
    expect(test.engine.pause("main"), 0)
    test.engine.remove("main")
    neighbour.end()
    test.engine.remove("neighbour")
    check_nothing_left(test)


CHECKPOINTS = {Docker: ("checkpoint", "create", "main", "point"),
               Podman: ("container", "checkpoint", "--keep", "main"),
               Containerd: ("tasks", "checkpoint", "main")}


def _checkpointed(test):
    """Without criu no checkpoint comes of it, and the container goes on as it was."""
    if shutil.which("criu"):
        return
    if isinstance(test.engine, Runc):
        done = test.engine._try(*test.engine._words("main", "checkpoint", "--image-path", "/run/point",
                                                    "main"))
    else:
        done = cli(test, *CHECKPOINTS[type(test.engine)])
    print("checkpoint: %d %s" % (done.returncode, (done.stdout + done.stderr).strip()))
    t.check(done.returncode != 0, "a checkpoint was made without criu: %s" % done)
    for mib, status in ((101, 2), (100, 0)):
        alloc(test, "main", mib, status)
    test.check_used(600 + 512)


def _joined(test, other, kinds):
    """Returns the wants of a container that has these namespaces of another."""
    if isinstance(test.engine, Runc):
        pid = test.engine.pid(other)

        def edit(spec):
            for one in spec["linux"]["namespaces"]:
                if one["type"] in kinds:
                    one["path"] = "/proc/%d/ns/%s" % (pid, {"network": "net"}.get(one["type"],
                                                                                 one["type"]))
        return {"edit": edit}
    return {"options": ["--%s=container:%s" % (kind, other) for kind in kinds]}


SHARED = ("pid", "ipc", "network")
LENT = 64  # MiB that the lender holds


def _lender(test):
    """A slice whose process holds memory and hands its files to who connects to its socket."""
    lender = test.engine.talk("lender", ["adversary", "file-sender", "live", str(LENT)],
                              env=slice_of(256), **({} if isinstance(test.engine, Runc) else
                                                    {"options": ["--ipc=shareable"]}))
    lender.expect(r"^client \d+$")
    return lender


def _target(test, program):
    """Inside of the pid namespace that all share, the number of the process that runs the program."""
    out = expect(test.engine.exec("lender", ["sh", "-c", "for p in /proc/[0-9]*; do grep -qx %s $p/comm"
                                             " 2>/dev/null && echo ${p#/proc/}; done; true" % program]), 0)
    return out.split()[0]


def thieves(test):
    """Containers with the pid, ipc and network namespaces of a slice go for its GPU files: one that cgpu
    has nothing to do with gets memory with each, so it is an attack; one without a slice none; one with
    a slice what it may itself."""
    for name, wants, least, most in (("outside", {"plain": True}, 3 * 32, 3 * 64),
                                     ("without", {}, 0, 0),
                                     ("slice", {"env": slice_of(100)}, 64, 100)):
        lender = _lender(test)
        thief = test.engine.talk(name, ["thief", _target(test, "adversary"), "32"],
                                 seccomp="unconfined", **wants, **_joined(test, "lender", SHARED))
        thief.expect("^holding$")
        t.check(thief.said("^root: files 2,"), "it said: %s" % thief.lines)
        t.check(name != "outside" or not thief.said("got 0 MiB$"), "it said: %s" % thief.lines)
        test.node.sync()
        got = test.node.used() // t.MIB - LENT
        t.check(least <= got <= most, "%s has %d MiB" % (name, got))
        charged = {limit(row): row["gpus"][0]["used_bytes"] // t.MIB for row in test.node.containers()}
        t.check(charged == {256: LENT, **({100: got} if name == "slice" else {})},
                "cgpu ps charges %s of %d MiB" % (charged, got))
        if name != "outside":
            alloc(test, "lender", 256 - LENT + 1, 2)
            alloc(test, "lender", 256 - LENT, 0)
        thief.end()
        test.engine.remove(name)
        test.engine.remove("lender")
        lender.kill()
        test.node.wait_used(0, "after " + name)
    check_nothing_left(test)


def kept(test):
    """A container without a slice, sent a slice's files over a network namespace that both have, keeps them
    when the slice is removed: the memory goes all the same, and can be had again."""
    lender = _lender(test)
    keeper = test.engine.talk("keeper", ["adversary", "file-keeper", "live"],
                              **_joined(test, "lender", ("network",)))
    keeper.expect("^holding$")
    lender.kill()
    test.engine.remove("lender")
    t.wait_for(lambda: not shims(), "its shim goes on")
    test.node.wait_used(0, "after the slice")
    t.check(not test.node.containers(), "its share was not given back")
    test.run(0, "allocated", "rest", ["rmtool", "alloc", str(CARD - 256), "--page", "big"],
             env=slice_of(CARD - 256))
    keeper.end()
    test.engine.remove("keeper")
    check_nothing_left(test)


def guests(test):
    """A slice in the pid namespace of a container without one: what it leaves behind when its first process
    ends, or its shim is killed, ends with it, and its host goes on."""
    start(test, "host", ["sleep", "100000"])
    host = os.pidfd_open(test.engine.pid("host"))
    join = _joined(test, "host", ("pid",))
    start(test, "guest", ["sh", "-c", "setsid rmtool hold 50 --page big --forever & "
                          "exec rmtool hold 100 --page big --forever"], 256, **join)
    test.node.wait_used(150 * t.MIB, "the guest's")
    (shim,) = shims()
    kill_and_wait(test.engine.pid("guest"))
    test.node.wait_used(0, "after its first process")
    t.wait_for(lambda: shim not in shims(), "its shim goes on")
    test.engine.remove("guest")
    start(test, "guest", ["sh", "-c", "setsid rmtool hold 50 --page big --forever & "
                          "exec rmtool hold 100 --page big --forever"], 256, **join)
    test.node.wait_used(150 * t.MIB, "the guest's")
    (shim,) = shims()
    kill_and_wait(shim)
    test.node.wait_used(0, "after its shim")
    test.engine.remove("guest")
    t.check(not select.select([host], [], [], 0)[0], "the host was ended")
    os.close(host)
    test.engine.remove("host")
    check_nothing_left(test)


def _why_not_set(name, mib):
    """Returns nothing where `cgpu set` did as told, else what it says."""
    done = t.command(t.CGPU, "set", name, "--mem", "%dMiB" % mib, ok=False)
    t.check(done.returncode == 0 or done.stderr.startswith("error: "), "cgpu set: %s" % done)
    return done.stderr if done.returncode else ""


def _set(name, mib):
    return not _why_not_set(name, mib)


def _fill(test):
    """Returns what a process gets that takes all that it can, in MiB."""
    done = test.engine.exec("main", ["rmtool", "alloc", "2000", "--page", "big", "--fill"])
    found = re.search(r"(?:after|allocated) (\d+) MiB", done.stdout)
    return int(found.group(1)) if found else None


def sets(test):
    """Limits are set by several at once, without pause, while processes take and give back all that they
    can, during upgrades: nobody gets more than the highest limit since it was lowered, and in the end
    the last one holds."""
    start(test, "main", ["sleep", "100000"], 1000)
    name = row_of(test, "main")["id"]
    chance, count = random.Random(), 0
    for most in (1000, 700, 400, 900):
        t.check(_set(name, most), "it is not set")
        low = most // 2
        with t.Peak(test.node) as peak, Again(lambda: "got %s" % _fill(test)) as fills:
            with Again(lambda: _why_not_set(name, chance.randint(low, most)), 3) as setting:
                for program in (NEXT, OWN):
                    t.wait_for(lambda: t.command(t.CGPU, "upgrade", name, "--program", program,
                                                 ok=False).returncode == 0, "it is not upgraded")
                    fills.wait_more("got [1-9]", 4)
                setting.wait_more("^$", 20)
        count += setting.count("^$")
        t.check(not any(setting.said), "a limit was not set: %s" % set(setting.said))
        got = max(int(one.split()[1]) for one in fills.said if one != "got None")
        t.check(peak.bytes <= most * t.MIB and low <= got <= most,
                "with at most %d MiB to be had, one got %d and %d were in use" % (
                    most, got, peak.bytes // t.MIB))
        last = chance.randint(low, most)
        t.check(_set(name, last) and limit(row_of(test, "main")) == last and _fill(test) == last,
                "the last limit, %d MiB, does not hold" % last)
    print("%d limits were set" % count)
    _sums(test, name)
    test.engine.remove("main")
    check_nothing_left(test)


def _sums(test, name):
    """Two that want the same part of a GPU at once: one gets it."""
    start(test, "other", ["sleep", "100000"], 1000)
    other = row_of(test, "other")["id"]
    for _ in range(8):
        t.check(_set(name, 1000) and _set(other, 1000), "it is not set")
        did = at_once(lambda: _set(name, 12000), lambda: _set(other, 12000))
        limits = sorted(limit(row) for row in test.node.containers())
        t.check(sorted(did) == [False, True] and limits == [1000, 12000],
                "cgpu set said %s, cgpu ps %s" % (did, limits))
    test.engine.remove("other")


def _node_file(test, name):
    (path,) = [one["path"] for one in test.node.info()["files"] if one["name"] == name]
    return path


def copied(test):
    """Files of the node and of cgpu that the container engine copies into a container and out of it
    are no way to the GPU, and a copied link to a file of the slice's is still held."""
    names = ("nvidiactl", "nvidia0", "nvidia-uvm")
    # The files themselves would be one.
    opened = tuple((_node_file(test, name), "/tmp/dev/" + name) for name in names)
    outside = test.engine.talk("outside", ["rmtool", "--dev", "/tmp/dev", "hold", "64", "--page", "big"],
                               plain=True, mounts=opened)
    outside.expect("holding 64 MiB")
    test.check_used(64)
    outside.end()
    test.engine.remove("outside")
    start(test, "slice", ["sleep", "100000"], 256)
    start(test, "without", ["sleep", "100000"])
    os.makedirs("/run/links")
    for name in names:
        os.symlink("/dev/" + name, "/run/links/" + name)
    for target in ("slice", "without"):
        expect(test.engine.exec(target, ["mkdir", "/tmp/dev"]), 0)
        for name in names:
            cli(test, "cp", _node_file(test, name), "%s:/tmp/dev/%s" % (target, name))
        for folder in (REGISTRY, test.node.folder, "/run/links"):
            cli(test, "cp", folder, target + ":/tmp")
        done = test.engine.exec(target, ["rmtool", "--dev", "/tmp/dev", "alloc", "16"])
        t.check(done.returncode not in (0, 2), "by copied files: %s" % done)
        reached = test.engine.exec(target, ["sh", "-c", "adversary sockets /tmp/cgpu /tmp/%s </dev/null"
                                            % test.node.name])
        t.check("connected 0" in reached.stdout, "it said: %s" % reached)
    for mib, status in ((257, 2), (256, 0)):
        expect(test.engine.exec("slice", ["rmtool", "--dev", "/tmp/links", "alloc", str(mib), "--page",
                                          "big"]), status)
    t.check(test.engine.exec("without", ["rmtool", "--dev", "/tmp/links", "alloc", "16"]).returncode
            not in (0, 2), "a container without a slice has got some")
    for folder in ("/dev", REGISTRY):  # and from a slice into the other
        cli(test, "cp", "slice:" + folder, "/run/out-of-it")
        cli(test, "cp", "/run/out-of-it", "without:/tmp/of-slice")
    for folder in ("/tmp/of-slice", "/tmp/of-slice/dev"):
        done = test.engine.exec("without", ["rmtool", "--dev", folder, "alloc", "16"])
        t.check(done.returncode not in (0, 2), "by files out of a slice: %s" % done)
    test.check_used(0)
    for name in ("slice", "without"):
        test.engine.remove(name)
    check_nothing_left(test)


CASES = {"execs": execs, "creations": creations, "restarted": restarted, "renamed": renamed,
         "paused": paused, "thieves": thieves, "kept": kept, "guests": guests, "sets": sets,
         "copied": copied}

if __name__ == "__main__":
    slices_test.main(CASES)
