"""Containers of real engines, each held to its slice of a simulated card: judged by the driver's books.
The first argument names the engine, the second the case."""
import json
import os
import re
import signal
import sys

import bundles
import cgpu_test as t
import containerd
import engines
import isolation

RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
CGPUD = os.path.abspath(os.path.join(t.BIN, "cgpud"))
ENGINES = {"runc": bundles.Runc, "crun": bundles.Crun, "docker": engines.Docker,
           "podman": engines.Podman, "containerd": containerd.Containerd, "cri": containerd.Cri}


def settings(node, plain, **more):
    """/etc/cgpu/config.yaml of this test's own machine."""
    os.makedirs("/etc/cgpu", exist_ok=True)
    with open("/etc/cgpu/config.yaml", "w", encoding="utf-8") as file:
        for key, value in {"node": node.name, "runtime": plain, **more}.items():
            file.write("%s: %s\n" % (key, value))


def start_daemon():
    os.makedirs("/run/cgpu", 0o700, exist_ok=True)
    os.makedirs("/run/cgpud-test", exist_ok=True)
    daemon = engines.Daemon([CGPUD], "/run/cgpud-test/log", "/run/cgpud-test",
                            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    daemon.start()
    return daemon


def expect(done, status, pattern=""):
    said = done.stdout + done.stderr
    t.check(done.returncode == status and re.search(pattern, said),
            "status %d (%d is right), %r not found in: %s" % (done.returncode, status, pattern,
                                                             said))
    return done.stdout


def used(node):
    node.sync()
    return node.used() // t.MIB


def alone(node):
    """Every container is gone, and all that it held."""
    node.wait_used(0, "after the containers")
    t.check(node.containers() == [], "cgpu ps still shows %s" % node.containers())


def limits(engine, node):
    """Two containers each see their slice and stop at it; a third does not fit."""
    contract = {"ALIYUN_COM_GPU_MEM_CONTAINER": 3, "ALIYUN_COM_GPU_MEM_DEV": 15}
    first = engine.talk("first", ["rmtool", "hold", "3232", "--page", "big"], env=contract)
    first.expect("holding 3232 MiB")
    second = engine.talk("second", ["rmtool", "hold", "2048", "--page", "big"],
                         env={"CGPU_MEM": "2GiB"})
    second.expect("holding 2048 MiB")
    t.check(used(node) == 3232 + 2048, "the driver's books say %d MiB" % used(node))
    rows = {row["engine_id"]: row for row in node.containers()}
    t.check(len(rows) == 2 and all(row["origin"] == "environment" for row in rows.values()),
            "cgpu ps shows %s" % rows)
    expect(engine.run("third", ["true"], env={"CGPU_MEM": "12GiB"}), ENGINE_FAILS,
           "has only|free|does not fit")
    engine.remove("third")
    first.end()
    second.end()
    for name in ("first", "second"):
        engine.remove(name)
    alone(node)


def sees(engine, node):
    """Inside there is one card of the size of the slice, and nothing of its neighbour."""
    other = node.info()["gpus"][1]
    out = expect(engine.run("sees", ["rmtool", "info"],
                            env={"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"}), 0)
    t.check(re.findall(r"(\d+)MiB total", out) == ["1000"], "rmtool info says " + out)
    engine.remove("sees")
    out = expect(engine.run("files", ["sh", "-c", "ls /dev /dev/.nvidia; cat /proc/driver/nvidia/*/*/*;"
                                      " ls /sys/bus/pci/devices; mount; env"],
                            env={"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"}), 0, "nvidia0")
    for word in (other["uuid"], other["bdf"], "nvidia1", "cgpud"):
        t.check(word not in out, "%s is seen in: %s" % (word, out))
    engine.remove("files")
    alone(node)


def exec_is_held(engine, node):
    """Processes that are added share the slice, and outlive cgpud."""
    main = engine.talk("main", ["rmtool", "hold", "600", "--page", "big"], env={"CGPU_MEM": "1000MiB"})
    main.expect("holding 600 MiB")
    expect(engine.exec("main", ["rmtool", "alloc", "401", "--page", "big"]), 2, "out of memory")
    expect(engine.exec("main", ["rmtool", "alloc", "400", "--page", "big"]), 0)
    DAEMON.stop(signal.SIGKILL)
    expect(engine.exec("main", ["rmtool", "alloc", "401", "--page", "big"]), 2, "out of memory")
    expect(engine.exec("main", ["rmtool", "alloc", "400", "--page", "big"]), 0)
    t.check(used(node) == 600, "the driver's books say %d MiB" % used(node))
    DAEMON.start()
    expect(engine.run("after", ["rmtool", "alloc", "10"], env={"CGPU_MEM": "100MiB"}), 0)
    main.end()
    engine.remove("after")
    engine.remove("main")
    alone(node)


def forms(engine, node):
    """However the container is confined, it is held."""
    for name, wants in (("user", {"user": 1000}), ("readonly", {"read_only": True}),
                        ("unconfined", {"seccomp": "unconfined"})):
        print(name)
        expect(engine.run(name, ["rmtool", "alloc", "101", "--page", "big"],
                          env={"CGPU_MEM": "100MiB"}, **wants), 2, "out of memory")
        engine.remove(name)
    alone(node)


def refused(engine, node):
    """What cannot be held is not started, and the user is told why."""
    for name, wants, why in (("privileged", {"privileged": True}, "CAP_"),
                             ("admin", {"caps": ("CAP_SYS_ADMIN",)}, "CAP_SYS_ADMIN"),
                             ("sockets", {"mounts": (("/run/cgpu", "/sockets"),)}, "of cgpu itself")):
        print(name)
        expect(engine.run(name, ["rmtool", "alloc", "1"], env={"CGPU_MEM": "100MiB"}, **wants),
               ENGINE_FAILS, why)
        engine.remove(name)
    expect(engine.run("wrong", ["true"], env={"CGPU_MEM": "much"}), ENGINE_FAILS, "CGPU_MEM")
    engine.remove("wrong")
    out = expect(engine.run("host", ["sh", "-c", "find /host/run/cgpu /host/run/cgpu-sim | wc -l"],
                            env={"CGPU_MEM": "100MiB"}, mounts=(("/", "/host"),)), 0)
    t.check(out.split() == ["2"], "of cgpu's folders is seen: " + out)
    engine.remove("host")
    alone(node)


def without(engine, node):
    """A container without a grant runs, asks nobody, and no card can be had in it."""
    DAEMON.stop(signal.SIGKILL)
    expect(engine.run("plain", ["sh", "-c", "echo $WORD"], env={"WORD": "it runs"}), 0, "it runs")
    expect(engine.run("asks", ["true"], env={"CGPU_MEM": "1GiB"}), ENGINE_FAILS, "cgpud does not run")
    for name in ("plain", "asks"):
        engine.remove(name)
    DAEMON.start()
    alone(node)


CASES = {"limits": limits, "sees": sees, "exec": exec_is_held, "forms": forms, "refused": refused,
         "without": without}

if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    ENGINE, CASE = sys.argv[1:3]
    ENGINE_FAILS = {"docker": 125, "podman": 126}.get(ENGINE, 1)
    with t.Node("v100-16g:2" if CASE == "sees" else "v100-16g:1") as NODE:
        with ENGINES[ENGINE](RUNTIME, in_image=(RMTOOL,)) as ENGINE_OBJECT:
            settings(NODE, ENGINE_OBJECT.plain)
            DAEMON = start_daemon()
            CASES[CASE](ENGINE_OBJECT, NODE)
            DAEMON.stop()
    print("passed")
