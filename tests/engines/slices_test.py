"""Containers of real engines, each held to its slice of a simulated card: judged by the driver's books.
Cases by name: ENGINE-CASE."""
import glob
import os
import re
import select
import signal

import cgpu_test as t
import isolation
from bundles import Crun, Runc
from containerd import Containerd, Cri
from engines import CRUN, Daemon, Docker, Podman

RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
CGPUD = os.path.abspath(os.path.join(t.BIN, "cgpud"))
PROGRAMS = (os.path.abspath(os.path.join(t.BIN, "rmtool")),
            os.path.abspath(os.path.join(t.TEST_BIN, "adversary")))
ENGINES = {
    # What makes one, and the status of a container that does not start.
    "runc": (lambda: Runc(RUNTIME, in_image=PROGRAMS), 1),
    "crun": (lambda: Crun(RUNTIME, plain=CRUN, in_image=PROGRAMS), 1),
    "docker": (lambda: Docker(RUNTIME, in_image=PROGRAMS), 125),
    "podman": (lambda: Podman(RUNTIME, in_image=PROGRAMS), 126),
    "rootless": (lambda: Podman(RUNTIME, rootless=True, in_image=PROGRAMS), 126),
    "containerd": (lambda: Containerd(RUNTIME, in_image=PROGRAMS), 1),
    "cri": (lambda: Cri(RUNTIME, in_image=PROGRAMS), 125),
}
ENODEV, ENOSYS = 19, 38
BEFORE = []  # processes that were there before the case


def expect(done, status, pattern=""):
    """How a command ended and what it said; its stdout."""
    said = done.stdout + done.stderr
    t.check(done.returncode == status and re.search(pattern, said),
            "status %d (%d is right), %r not found in: %s" % (done.returncode, status, pattern, said))
    return done.stdout


class Test:
    """An engine, a node and a daemon, for one case."""

    def __init__(self, engine, node, daemon, refused):
        self.engine, self.node, self.daemon = engine, node, daemon
        self.refused = refused  # the status of a container that does not start

    def run(self, status, pattern, name, argv, **wants):
        """A container of its own, which is removed; its stdout."""
        out = expect(self.engine.run(name, argv, **wants), status, pattern)
        self.engine.remove(name)
        return out

    def check_used(self, mib):
        self.node.sync()
        used = self.node.used() // t.MIB
        t.check(used == mib, "the driver's books say %d MiB, not %d" % (used, mib))


def limits(test):
    """Two containers each see their slice and stop at it; a third does not fit."""
    contract = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15"}
    first = test.engine.talk("first", ["rmtool", "hold", "3232", "--page", "big"], env=contract)
    first.expect("holding 3232 MiB")
    second = test.engine.talk("second", ["rmtool", "hold", "2048", "--page", "big"],
                              env={"CGPU_MEM": "2GiB"})
    second.expect("holding 2048 MiB")
    test.check_used(3232 + 2048)
    for name, mib in (("first", 3232), ("second", 2048)):
        expect(test.engine.exec(name, ["rmtool", "alloc", "1"]), 2, "out of memory")
        out = expect(test.engine.exec(name, ["rmtool", "info"]), 0)
        t.check(re.findall(r"(\d+)MiB total", out) == [str(mib)], "rmtool info says " + out)
    rows = {row["engine_id"]: row for row in test.node.containers()}
    t.check(len(rows) == 2 and all(row["origin"] == "environment" for row in rows.values()),
            "cgpu ps shows %s" % rows)
    test.run(test.refused, "free", "third", ["true"], env={"CGPU_MEM": "12GiB"})
    first.end()
    second.end()
    for name in ("first", "second"):
        test.engine.remove(name)


def sees(test):
    """Inside there is one card of the size of the slice, and nothing of its neighbour."""
    other = test.node.info()["gpus"][1]
    slice_of = {"env": {"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"}}
    out = test.run(0, "", "info", ["rmtool", "info"], **slice_of)
    t.check(re.findall(r"(\d+)MiB total", out) == ["1000"], "rmtool info says " + out)
    out = test.run(0, "nvidia0", "files",
                   ["sh", "-c", "ls /dev /dev/.nvidia; cat /proc/driver/nvidia/*/*/*;"
                    " ls /sys/bus/pci/devices; mount; env"], **slice_of)
    for word in (other["uuid"], other["bdf"], "nvidia1", "cgpud"):
        t.check(word not in out, "%s is seen in: %s" % (word, out))


def exec_is_held(test):
    """Processes that are added share the slice, also while cgpud is away."""
    main = test.engine.talk("main", ["rmtool", "hold", "600", "--page", "big"],
                            env={"CGPU_MEM": "1000MiB"})
    main.expect("holding 600 MiB")

    def added():
        for mib, status in ((401, 2), (400, 0)):
            expect(test.engine.exec("main", ["rmtool", "alloc", str(mib), "--page", "big"]), status)

    added()
    test.daemon.stop(signal.SIGKILL)
    added()
    test.check_used(600)
    test.daemon.start()
    test.run(0, "", "after", ["rmtool", "alloc", "10"], env={"CGPU_MEM": "100MiB"})
    main.end()
    test.engine.remove("main")


def forms(test):
    """However the container is confined, it is held."""
    for name, wants in (("user", {"user": 1000}), ("readonly", {"read_only": True}),
                        ("unconfined", {"seccomp": "unconfined"})):
        print(name)
        test.run(2, "out of memory", name, ["rmtool", "alloc", "101", "--page", "big"],
                 env={"CGPU_MEM": "100MiB"}, **wants)


def refused(test):
    """What cannot be held is not started, and the user is told why."""
    for name, wants, why in (("privileged", {"privileged": True}, "CAP_"),
                             ("admin", {"caps": ("CAP_SYS_ADMIN",)}, "CAP_SYS_ADMIN"),
                             ("sockets", {"mounts": (("/run/cgpu", "/sockets"),)},
                              "of cgpu itself")):
        print(name)
        test.run(test.refused, why, name, ["rmtool", "alloc", "1"], env={"CGPU_MEM": "100MiB"},
                 **wants)
    test.run(test.refused, "CGPU_MEM", "wrong", ["true"], env={"CGPU_MEM": "much"})
    out = test.run(0, "", "host", ["sh", "-c", "find /host/run/cgpu /host/run/cgpu-sim | wc -l"],
                   env={"CGPU_MEM": "100MiB"}, mounts=(("/", "/host"),))
    t.check(out.split() == ["2"], "of cgpu's folders is seen: " + out)


def without(test):
    """A container without a grant runs and asks nobody; one that asks needs cgpud."""
    test.daemon.stop(signal.SIGKILL)
    test.run(0, "it runs", "plain", ["sh", "-c", "echo $WORD"], env={"WORD": "it runs"})
    test.run(test.refused, "cgpud does not run", "asks", ["true"], env={"CGPU_MEM": "1GiB"})
    test.daemon.start()


def no_member(test):
    """Of a user who may not ask: a container without a grant runs, one that asks is told why not."""
    test.run(0, "it runs", "plain", ["sh", "-c", "echo $WORD"], env={"WORD": "it runs"})
    test.run(test.refused, "members of the group cgpu", "asks", ["true"], env={"CGPU_MEM": "1GiB"})


def sidecar(test):
    """Files of a card that are passed to a container without a grant are of no use there. To one that
    cgpu has nothing to do with they are: so the attack is one."""
    os.makedirs("/run/shared")
    shared = {"mounts": (("/run/shared", "/shared"),)}
    for name, plain, mib in (("outside", True, 128), ("inside", False, 0)):
        lender = test.engine.talk("lender", ["adversary", "lend", "/shared/socket"],
                                  env={"CGPU_MEM": "1000MiB"}, **shared)
        lender.expect("listening")
        borrower = test.engine.talk(name, ["adversary", "borrow", "/shared/socket", "64"],
                                    plain=plain, **shared)
        borrower.expect("got %d MiB" % mib)
        borrower.expect("holding")
        test.check_used(mib)
        t.check(len(borrower.said("errno %d " % ENODEV)) == (0 if plain else 3),
                "it said: %s" % borrower.lines)
        for process in (borrower, lender):
            process.end()
        for container in (name, "lender"):
            test.engine.remove(container)
        test.node.wait_used(0, "after " + name)


def numbers(test):
    """Of all numbers that a driver accepts, none passes the filters that runtimes make of our rules:
    a slice's, whose calls fail as the kernel says once nobody listens, and that of containers without
    a grant. What terminals and sockets ask passes both."""
    everything = test.engine.talk("slice", ["adversary", "numbers", str(ENOSYS)],
                                  env={"CGPU_MEM": "100MiB"})
    everything.expect("ready")
    test.daemon.stop(signal.SIGKILL)  # it would end the container with its shim
    (shim,) = [os.pidfd_open(pid) for pid in isolation.processes() if _comm(pid) == "cgpu-shim"]
    signal.pidfd_send_signal(shim, signal.SIGKILL)
    t.check(select.select([shim], [], [], t.DEADLINE)[0], "the shim does not end")
    making = test.engine.talk("other", ["adversary", "numbers", str(ENODEV), "making"])
    for process, kinds in ((everything, ("numbers", "mappings")), (making, ("numbers",))):
        process.say("go")
        process.expect("holding")
        for kind in kinds:
            t.check(process.said(r"^%s: [1-9]\d+ stopped, 0 passed$" % kind),
                    "it said: %s" % process.lines)
        t.check(process.said("^others: 0 stopped$"), "it said: %s" % process.lines)
        process.end()
    for name in ("slice", "other"):
        test.engine.remove(name)
    test.daemon.start()


def _comm(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def shim_dies(test):
    """A container does not outlive its shim; its neighbour notices nothing."""
    test.engine.run("victim", ["sleep", "100000"], detach=True, env={"CGPU_MEM": "1000MiB"})
    (shim,) = [os.pidfd_open(pid) for pid in isolation.processes() if _comm(pid) == "cgpu-shim"]
    other = test.engine.talk("other", ["rmtool", "hold", "50"], env={"CGPU_MEM": "100MiB"})
    other.expect("holding")
    first = os.pidfd_open(test.engine.pid("victim"))
    signal.pidfd_send_signal(shim, signal.SIGKILL)
    for process, what in ((shim, "the shim"), (first, "its container")):
        t.check(select.select([process], [], [], t.DEADLINE)[0], what + " does not end")
        os.close(process)
    expect(test.engine.exec("other", ["rmtool", "alloc", "10"]), 0)
    test.check_used(50)
    other.end()
    for name in ("victim", "other"):
        test.engine.remove(name)


def overdrawn(test):
    """Who wins managed memory beyond the slice in a race that nothing prevents is ended by the shim
    itself: nobody else is there."""
    attack = test.engine.talk("attack", ["sh", "-c", "echo ready; read line;"
                                         "exec adversary managed null-swapped 256 4096"],
                              env={"CGPU_MEM": "1000MiB"})
    attack.expect("ready")
    test.daemon.stop(signal.SIGKILL)
    attack.say("go")
    attack.wait()
    t.check(not attack.said("^got [1-9]"), "it went on: %s" % attack.lines)
    test.node.wait_used(0, "after the attack")
    test.daemon.start()
    test.engine.remove("attack")


def not_made(test):
    """Of a container that could not be made nothing is left, and its share is free at once."""
    for attempt in range(3):
        done = test.engine.run("broken", ["/no/such/program"], env={"CGPU_MEM": "12GiB"})
        t.check(done.returncode != 0, "it ran: %s" % done)
        test.engine.remove("broken")
        isolation.wait_alone(but=[*BEFORE, test.daemon.popen.pid])
        test.node.wait_used(0, "attempt %d" % attempt)


CASES = {"limits": limits, "sees": sees, "exec": exec_is_held, "forms": forms, "refused": refused,
         "without": without, "no-member": no_member, "numbers": numbers, "sidecar": sidecar,
         "shim-dies": shim_dies, "overdrawn": overdrawn, "not-made": not_made}


def start_daemon(node, plain, group):
    """cgpud with its settings, which the test's own /etc has."""
    for folder in ("/etc/cgpu", "/run/daemon"):
        os.makedirs(folder, exist_ok=True)
    with open("/etc/cgpu/config.yaml", "w", encoding="utf-8") as file:
        file.write("node: %s\nruntime: %s\n" % (node.name, plain))
        if group:
            file.write("group: %s\n" % group)
    daemon = Daemon([CGPUD], "/run/daemon/log", "/run/daemon",
                    {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    daemon.start()
    return daemon


def run(engine_name, case):
    make, refused_status = ENGINES[engine_name]
    with t.Node("v100-16g:2" if case == "sees" else "v100-16g:1") as node, make() as engine:
        # The user of a rootless engine is in a group of the same name.
        daemon = start_daemon(node, engine.plain, "" if case == "no-member" else "cgpu-test")
        BEFORE.extend(set(isolation.processes()) - {daemon.popen.pid})
        CASES[case](Test(engine, node, daemon, refused_status))
        node.wait_used(0, "after the containers")
        t.check(node.containers() == [], "cgpu ps still shows %s" % node.containers())
        isolation.wait_alone(but=[*BEFORE, daemon.popen.pid])
        daemon.stop()


isolation.main({"%s-%s" % (engine, case): lambda engine=engine, case=case: run(engine, case)
                for engine in ENGINES for case in CASES})
