"""Containers of real engines, each held to its slice of a simulated GPU: judged by the driver's accounting.
Cases by name: ENGINE-CASE."""
import functools
import hashlib
import json
import os
import re
import select
import signal
import time

import cgpu_test as t
import isolation
from bundles import Crun, Runc
from containerd import Containerd, Cri
from engines import BIN, CRUN, IMAGE, Docker, Podman, start_cgpud, write_settings

RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
PROGRAMS = (os.path.abspath(os.path.join(t.BIN, "rmtool")),
            os.path.abspath(os.path.join(t.TEST_BIN, "adversary")),
            os.path.abspath(os.path.join(t.TEST_BIN, "kernels")))
ENGINES = {
    # Maker of each, and the status of a container that does not start.
    "runc": (lambda: Runc(RUNTIME, in_image=PROGRAMS), 1),
    "crun": (lambda: Crun(RUNTIME, plain=CRUN, in_image=PROGRAMS), 1),
    "docker": (lambda: Docker(RUNTIME, in_image=PROGRAMS), 125),
    "podman": (lambda: Podman(RUNTIME, in_image=PROGRAMS), 126),
    "rootless": (lambda: Podman(RUNTIME, rootless=True, in_image=PROGRAMS), 126),
    "containerd": (lambda: Containerd(RUNTIME, in_image=PROGRAMS), 1),
    "cri": (lambda: Cri(RUNTIME, in_image=PROGRAMS), 125),
}
ENODEV, ENOSYS = 19, 38
RM_ALLOC, NV01_MEMORY_LOCAL_USER = 0x2B, 0x40
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
    """Inside there is one GPU of the size of the slice, and nothing of its neighbour."""
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
    """A container that cannot be held is not started, and the user is told why."""
    for name, wants, why in (("privileged", {"privileged": True}, "CAP_"),
                             ("admin", {"caps": ("CAP_SYS_ADMIN",)}, "CAP_SYS_ADMIN"),
                             ("search", {"caps": ("CAP_DAC_READ_SEARCH",)}, "CAP_DAC_READ_SEARCH"),
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
    """A container without a grant runs and asks nobody. One that asks waits for a cgpud that starts
    again, and is refused where none ever ran."""
    test.daemon.stop(signal.SIGKILL)
    test.run(0, "it runs", "plain", ["sh", "-c", "echo $WORD"], env={"WORD": "it runs"})
    late = test.engine.talk("late", ["rmtool", "hold", "100", "--page", "big"],
                            env={"CGPU_MEM": "200MiB"})
    t.wait_for(lambda: "cgpu-runtime" in map(_comm, isolation.processes()), "nobody asks for a slice")
    test.daemon.start()
    late.expect("holding 100 MiB")
    test.check_used(100)
    names = [row["name"] for row in test.node.containers()]
    t.check(names == ["late"], "cgpu ps calls it %s" % names)
    late.end()
    test.engine.remove("late")
    test.daemon.stop(signal.SIGKILL)
    os.unlink("/run/cgpu/cgpud.sock")
    test.run(test.refused, "cgpud does not run", "asks", ["true"], env={"CGPU_MEM": "1GiB"})
    test.daemon.start()


def never_answers(test):
    """A runtime that is asked what it can and hangs, with its output open or closed: cgpud asks it once
    and goes on. One that is put in its place is asked again."""
    script, calls = "/run/slow-runtime", "/run/slow-calls"

    def install(answer):
        with open(script + ".new", "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nif [ "$1" = features ]; then echo asked >> %s; %s; fi\n'
                       'exec %s "$@"\n' % (calls, answer, test.engine.plain))
        os.chmod(script + ".new", 0o755)
        os.rename(script + ".new", script)

    install("exec sleep infinity")
    test.daemon.stop()
    test.daemon = start_cgpud(test.node, script, "group: cgpu-test\n")
    for asked, answer in enumerate((None, "exec sleep infinity >&-", ":"), 1):
        if answer:
            install(answer)
        for name in ("first", "second"):
            test.run(0, "", name, ["rmtool", "alloc", "10"], env={"CGPU_MEM": "100MiB"})
        with open(calls, encoding="utf-8") as file:
            t.check(len(file.readlines()) == asked, "the runtime was not asked %d times" % asked)


def no_member(test):
    """A user who may not ask runs a container without a grant; one with a grant is refused, and
    says why."""
    test.run(0, "it runs", "plain", ["sh", "-c", "echo $WORD"], env={"WORD": "it runs"})
    test.run(test.refused, "members of the group cgpu", "asks", ["true"], env={"CGPU_MEM": "1GiB"})


def sidecar(test):
    """Files of a GPU that are passed to a container without a grant are of no use there. To one that
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


def handed(test):
    """A container without a slice that is handed the files which a slice uses can do nothing with them: it asks
    for a copy of the slice's memory, to keep it beyond its end, for a channel to be taken off, and each row of
    the tables on each file, from its first process and from one that is added. To one that cgpu has nothing to
    do with they are of use: so the attack is one."""
    os.makedirs("/run/shared")
    os.chmod("/run/shared", 0o777)
    shared = {"mounts": (("/run/shared", "/shared"),)}
    for name, plain, kept in (("outside", True, 64), ("inside", False, 0)):
        lender = test.engine.talk("lender-" + name, ["adversary", "lend-used", "/shared/socket", "64"],
                                  env={"CGPU_MEM": "1000MiB"}, **shared)
        client, memory = lender.expect(r"^client (\d+) memory (\d+)$").groups()
        words = ["adversary", "borrow-used", "/shared/socket", client, memory]
        borrower = test.engine.talk(name, words + ([] if plain else ["rows"]), plain=plain, **shared)
        borrower.expect("^holding$")
        said = borrower.lines
        if not plain:
            t.check(borrower.said(r"^rows: \d{3,} refused, 0 reached$"), "it said: %s" % said)
            said = test.engine.exec(name, [*words, "rows"]).stdout.splitlines()
            t.check(any(re.match(r"rows: \d{3,} refused, 0 reached$", line) for line in said), "%s" % said)
        wanted = "0x0" if plain else "0xffffffff"  # no answer at all
        t.check("copy: status " + wanted in said, "it said: %s" % said)
        lender.say("free")
        lender.expect("^free: status 0x0$")
        test.node.sync()
        test.check_used(kept)
        for process in (borrower, lender):
            process.end()
        for container in (name, "lender-" + name):
            test.engine.remove(container)
        test.node.wait_used(0, "after " + name)


def numbers(test):
    """Filters that runtimes make of our rules let none of the numbers pass that a driver accepts: a
    slice's, whose calls fail as the kernel says once nobody listens, and that of containers without
    a grant. Both let pass what terminals and sockets ask."""
    everything = test.engine.talk("slice", ["adversary", "numbers", str(ENOSYS)],
                                  env={"CGPU_MEM": "100MiB"})
    everything.expect("ready")
    test.daemon.stop(signal.SIGKILL)  # it would end the container with its shim
    (shim,) = [os.pidfd_open(pid) for pid in isolation.processes() if _comm(pid) == "cgpu-shim"]
    signal.pidfd_send_signal(shim, signal.SIGKILL)
    t.check(select.select([shim], [], [], t.DEADLINE)[0], "the shim does not end")
    others = test.engine.talk("other", ["adversary", "numbers", str(ENODEV), "others"])
    for process, kinds in ((everything, ("numbers", "mappings")), (others, ("numbers",))):
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


def restarts(test):
    """The engine ends and comes back: its containers and what they hold go on."""
    test.engine.run("long", ["rmtool", "hold", "100", "--page", "big", "--forever"], detach=True,
                    env={"CGPU_MEM": "200MiB"})
    test.node.wait_used(100 * t.MIB, "before")
    for how in (signal.SIGTERM, signal.SIGKILL):
        test.engine.restart_engine(how)
        test.check_used(100)
        expect(test.engine.exec("long", ["rmtool", "alloc", "101", "--page", "big"]), 2,
               "out of memory")
        expect(test.engine.exec("long", ["rmtool", "alloc", "100", "--page", "big"]), 0)
    test.engine.remove("long")
    BEFORE.extend(pid for pid, line in isolation.processes().items()
                  if " --config" in line and "shim" not in line)  # the engine's own are new


def pauses(test):
    """A container that is paused while the driver takes long over a call: it is made once."""
    test.node.hold(1, escape=RM_ALLOC, cls=NV01_MEMORY_LOCAL_USER)
    slow = test.engine.talk("slow", ["rmtool", "hold", "100", "--page", "big", "--chunk", "100"],
                            env={"CGPU_MEM": "200MiB"})
    test.node.wait_held(1)
    expect(test.engine.pause("slow"), 0)
    test.node.release()
    expect(test.engine.unpause("slow"), 0)
    slow.expect("holding 100 MiB")
    test.check_used(100)
    slow.end()
    test.engine.remove("slow")


def privileged_exec(test):
    """A process with capabilities that its container has not is not let in."""
    test.engine.run("long", ["sleep", "100000"], detach=True, env={"CGPU_MEM": "200MiB"})
    done = test.engine.exec("long", ["true"], options=("--privileged",))
    t.check(done.returncode != 0 and "cannot be let into" in done.stdout + done.stderr,
            "it was: %s" % done)
    test.engine.remove("long")


def stand_in(name, text="cat >/dev/null"):
    """A script that engines find as `name`, and that writes down how it is called. A hook reads the
    container's state: crun before 1.17 takes it for an error where one ends before it has it all
    (containers/crun#1551)."""
    os.makedirs(BIN, exist_ok=True)
    os.chmod(BIN, 0o777)  # for hooks of rootless engines
    path = os.path.join(BIN, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho %s $* >> %s/called\n%s\n" % (name, BIN, text))
    os.chmod(path, 0o755)
    return path


def called():
    """How programs of stand_in() were called since the last time."""
    path = BIN + "/called"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    os.unlink(path)
    return lines


def _check_is_slice(test, name, wants, mib, card):
    """The container has `mib` of this GPU, and sees no other."""
    gpu = test.node.info()["gpus"][card]
    out = test.run(0, "", name, ["rmtool", "info"], **wants)
    t.check(re.findall(r"(\d+)MiB total", out) == [str(mib)] and gpu["uuid"] in out,
            "rmtool info says " + out)


def gpus_flag(test):
    """docker run --gpus: dockerd's own error where NVIDIA's hook is not installed, ours where it is."""
    slice_of = {"env": {"CGPU_MEM": "3GiB"}}
    test.run(125, "could not select device driver", "none", ["true"], options=("--gpus", "1"),
             **slice_of)
    hook = stand_in("nvidia-container-runtime-hook")
    test.engine.restart_engine()  # it looks for it when it starts
    BEFORE.extend(isolation.processes())
    test.run(125, re.escape(hook) + ".*leave --gpus out", "hook", ["true"],
             options=("--gpus", "1"), **slice_of)
    t.check(not called(), "the hook was run for a container with a slice")
    # Without a slice the hook is not ours to judge, and what it puts in has to work.
    test.run(0, "^Seccomp_filters:\t1$", "plain", ["grep", "Seccomp_filters", "/proc/self/status"],
             options=("--gpus", "1"))
    t.check(called() == ["nvidia-container-runtime-hook prestart"], "the hook was not run")


def interface(test):
    """Other programs use dockerd's interface: a runtime with the environment works, devices are
    dockerd's to refuse."""
    def start(name, environment, **host):
        body = {"Image": IMAGE, "Cmd": ["rmtool", "alloc", "101", "--page", "big"],
                "Env": environment, "HostConfig": {"Runtime": "tested", "NetworkMode": "none", **host}}
        status, answer = test.engine.ask("POST", "/containers/create?name=" + name, body)
        t.check(status == 201, "create: %d %s" % (status, answer))
        return test.engine.ask("POST", "/containers/%s/start" % name)

    status, answer = start("held", ["CGPU_MEM=100MiB"])
    t.check(status == 204, "start: %d %s" % (status, answer))
    t.check(test.engine.wait("held") == 2 and "out of memory" in test.engine.logs("held"),
            "it said: " + test.engine.logs("held"))
    for name, request, why in (
            ("gpu", {"Driver": "", "Count": 1, "Capabilities": [["gpu"]]}, "device driver"),
            ("cdi", {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}, "device driver")):
        status, answer = start(name, ["CGPU_MEM=100MiB"], DeviceRequests=[request])
        t.check(status == 500 and why in answer, "start: %d %s" % (status, answer))
    status, answer = start("refused", ["CGPU_MEM=100GiB"])
    t.check(status >= 400 and "which has" in answer, "start: %d %s" % (status, answer))
    for name in ("held", "gpu", "cdi", "refused"):
        test.engine.remove(name)


def _cdi(test, hooks):
    """The simulated node's CDI specification with a library and with hooks, as real ones have."""
    with open(test.node.folder + "/cdi/nvidia.json", encoding="utf-8") as file:
        spec = json.load(file)
    library = "/run/libcuda.so.1"
    with open(library, "w", encoding="utf-8") as file:
        file.write("a library\n")
    common = spec["containerEdits"]
    common["mounts"].append({"hostPath": library, "containerPath": "/usr/lib/libcuda.so.1",
                             "options": ["ro", "bind"]})
    program = stand_in("nvidia-cdi-hook")
    common["hooks"] = [{"hookName": "createContainer", "path": program,
                        "args": ["nvidia-cdi-hook", *words.split()]} for words in hooks]
    return spec


def libraries(test):
    """On a node with a CDI specification its libraries are in every container with a slice, once and
    read-only; one that is not understood is told of."""
    path = test.node.folder + "/cdi/nvidia.json"
    name = "libnvidia-ml.so.1"
    with open(os.path.join(test.node.info()["libraries"], name), "rb") as file:
        own = hashlib.sha256(file.read()).hexdigest()
    test.run(0, own, "nvml", ["sha256sum", "/usr/lib/x86_64-linux-gnu/" + name],
             env={"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"})
    spec = _cdi(test, [*HOOKS, "new-thing"])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    wants = {"env": {"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"}}
    out = test.run(0, "a library", "library",
                   ["sh", "-c", "cat /usr/lib/libcuda.so.1; echo no > /usr/lib/libcuda.so.1; "
                    "grep -c libcuda /proc/mounts; env; ls /dev"], **wants)
    t.check("\n1\n" in out and "nvidia1" not in out and "NVIDIA_VISIBLE_DEVICES=void" in out,
            "it says " + out)
    t.check(called() == CALLED, "hooks that were run are not " + str(CALLED))
    with open("/run/libcuda.so.1", encoding="utf-8") as file:
        t.check(file.read() == "a library\n", "the container wrote to the node's library")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"kind": "nvidia.com/gpu"}')
    test.run(test.refused, "nvidia.json: a CDI specification", "broken", ["true"], **wants)
    os.unlink(path)


HOOKS = ("create-symlinks --link a::b", "chmod --mode 755 --path /dev/dri",
         "update-ldcache --folder /usr/lib")
CALLED = ["nvidia-cdi-hook " + words for words in (HOOKS[0], HOOKS[2])]


def cdi_flag(test):
    """podman run --device nvidia.com/gpu=1: a slice of GPU 1, and nothing past it, with the libraries
    of the specification."""
    os.makedirs("/etc/cdi", exist_ok=True)
    with open("/etc/cdi/nvidia.json", "w", encoding="utf-8") as file:
        json.dump(_cdi(test, HOOKS), file)
    wants = {"env": {"CGPU_MEM": "1000MiB"}, "options": ("--device", "nvidia.com/gpu=1")}
    _check_is_slice(test, "card", wants, 1000, 1)
    t.check(called() == CALLED, "hooks that were run are not " + str(CALLED))
    test.run(2, "out of memory", "held", ["rmtool", "alloc", "1001", "--page", "big"], **wants)
    test.run(0, "a library", "library", ["cat", "/usr/lib/libcuda.so.1"], **wants)
    other = {"env": {"CGPU_MEM": "1000MiB", "CGPU_DEVICES": "0"}, "options": wants["options"]}
    _check_is_slice(test, "named", other, 1000, 0)
    test.run(test.refused, "unresolvable", "unknown", ["true"], env={"CGPU_MEM": "1000MiB"},
             options=("--device", "nvidia.com/gpu=7"))


def nvidia_first(test):
    """Behind NVIDIA's runtime, which has changed the configuration: in its CDI mode a slice of the
    GPUs that it put in; with the hook of its other mode, or one that is not known, refused."""
    spec_of_node = _cdi(test, HOOKS)
    (card,) = [device for device in spec_of_node["devices"] if device["name"] == "1"]
    mounts = spec_of_node["containerEdits"]["mounts"] + card["containerEdits"]["mounts"]
    hooks = spec_of_node["containerEdits"]["hooks"]

    def edit_with(hooks):
        def edit(spec):
            spec["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=void")
            spec["mounts"] += [{"source": mount["hostPath"], "destination": mount["containerPath"],
                                "options": mount["options"]} for mount in mounts]
            for hook in hooks:
                stages = spec.setdefault("hooks", {})
                stages.setdefault(hook["hookName"], []).append(
                    {"path": hook["path"], "args": hook["args"]})
        return edit

    slice_of = {"env": {"CGPU_MEM": "1000MiB"}}
    _check_is_slice(test, "cdi", {**slice_of, "edit": edit_with(hooks)}, 1000, 1)
    t.check(called() == CALLED, "hooks that were run are not " + str(CALLED))
    for name, words, why in (
            ("legacy", ["/usr/bin/nvidia-container-runtime-hook", "prestart"], "mode = .cdi"),
            ("unknown", [hooks[0]["path"], "new-thing"], "not known what the hook")):
        hook = {"hookName": "prestart", "path": words[0], "args": words}
        test.run(test.refused, why, name, ["true"], edit=edit_with([hook]), **slice_of)


def ctr_gpus(test):
    """ctr run --gpus: ctr's own error where nvidia-container-cli is not installed, ours where it is."""
    wants = {"env": {"CGPU_MEM": "3GiB"}, "options": ("--gpus", "0")}
    test.run(1, "nvidia-container-cli.* not found", "none", ["true"], **wants)
    stand_in("nvidia-container-cli")
    test.run(1, "leave --gpus out", "hook", ["true"], **wants)
    t.check(not called(), "it was run for a container with a slice")


def mixed(test):
    """Alibaba Cloud's rule: what only NVIDIA's variable names is whole; a GPU somebody has a part of
    cannot be."""
    both = {"env": {"CGPU_MEM": "1000MiB", "ALIYUN_COM_GPU_VISIBLE_DEVICES": "1",
                    "NVIDIA_VISIBLE_DEVICES": "0,1"}}
    out = test.run(0, "", "both", ["rmtool", "info"], **both)
    t.check(re.findall(r"(\d+)MiB total", out) == ["16160", "1000"], "rmtool info says " + out)
    part = test.engine.talk("part", ["rmtool", "hold", "10"],
                            env={"CGPU_MEM": "10%", "NVIDIA_VISIBLE_DEVICES": "0"})
    part.expect("holding")
    test.run(test.refused, "free", "both", ["true"], **both)
    part.end()
    test.engine.remove("part")


def share(test):
    """A node that shares without limits: containers see whole GPUs, their parts are only counted."""
    test.daemon.stop()
    test.daemon = start_cgpud(test.node, test.engine.plain, "mode: share\n")
    first = test.engine.talk("first", ["rmtool", "hold", "2000", "--page", "big"],
                             env={"CGPU_MEM": "1000MiB", "CGPU_COMPUTE": "30", "CGPU_WEIGHT": "2",
                                  "CGPU_PRIORITY": "high"})
    first.expect("holding 2000 MiB")
    out = expect(test.engine.exec("first", ["rmtool", "info"]), 0)
    t.check(re.findall(r"(\d+)MiB total", out) == ["16160"], "rmtool info says " + out)
    (row,) = test.node.containers()
    (gpu,) = row["gpus"]
    t.check((row["isolated"], gpu["reserved_bytes"] // t.MIB, gpu["limit_bytes"] // t.MIB) ==
            (False, 1000, 16160), "cgpu ps shows %s" % row)
    t.check(row["compute"] == {"percent": 30, "weight": 2, "priority": "high"},
            "cgpu ps shows %s" % row)
    said = t.command(t.CGPU, "ps", "--verbose")
    t.check("whole GPUs" in said and 'weight 2' in said, "cgpu ps says: " + said)
    done = t.command(t.CGPU, "set", row["id"], "--mem", "2000MiB", ok=False)
    t.check("without limits" in done.stderr, "cgpu set says: %s" % done)
    test.run(test.refused, "free", "second", ["true"], env={"CGPU_MEM": "15161MiB"})
    test.run(0, "", "second", ["rmtool", "alloc", "10"], env={"CGPU_MEM": "15160MiB"})
    first.end()
    test.engine.remove("first")


def disabled(test):
    """CGPU_DISABLE: whole GPUs if somebody gives them, as for any container that asks for no slice;
    a node that refuses those refuses this one."""
    def edit(spec):
        spec["mounts"] += [{"source": os.path.dirname(file["path"]), "options": ["rbind", "rw"],
                            "destination": "/dev/nvidia-files/" + file["name"]}
                           for file in test.node.info()["files"]]

    wants = {"env": {"CGPU_DISABLE": "1", "CGPU_MEM": "100MiB"}, "edit": edit}
    argv = ["sh", "-c", "cd /dev && ln -s nvidia-files/*/* . && exec rmtool alloc 200 --page big"]
    test.run(0, "", "plain", argv, **wants)
    write_settings(test.node, test.engine.plain, "unmanaged: refuse\n")
    test.run(test.refused, "no slice", "plain", argv, **wants)


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
    """A container that wins managed memory beyond the slice, in a race that nothing prevents, is
    ended by the shim itself: nobody else is there."""
    attack = test.engine.talk("attack", ["sh", "-c", "echo ready; read line;"
                                         "exec adversary managed null-swapped 256 4096 1000000000"],
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
    """A container that could not be made leaves nothing, and its share is free at once."""
    for attempt in range(3):
        done = test.engine.run("broken", ["/no/such/program"], env={"CGPU_MEM": "12GiB"})
        t.check(done.returncode != 0, "it ran: %s" % done)
        test.engine.remove("broken")
        isolation.wait_alone(but=[*BEFORE, test.daemon.popen.pid])
        test.node.wait_used(0, "attempt %d" % attempt)


CASES = {"limits": limits, "sees": sees, "exec": exec_is_held, "forms": forms, "refused": refused,
         "without": without, "no-member": no_member, "never-answers": never_answers,
         "numbers": numbers, "sidecar": sidecar, "handed": handed,
         "restarts": restarts, "pauses": pauses, "privileged-exec": privileged_exec,
         "shim-dies": shim_dies, "overdrawn": overdrawn, "not-made": not_made,
         "gpus-flag": gpus_flag, "interface": interface, "cdi-flag": cdi_flag,
         "nvidia-first": nvidia_first, "ctr-gpus": ctr_gpus, "mixed": mixed,
         "share": share, "libraries": libraries, "disabled": disabled}
TWO_CARDS = ("libraries", "sees", "cdi-flag", "nvidia-first", "mixed", "inside")


def _wait_ended(node):
    """Shims end a moment after the last byte is given back."""
    until = time.monotonic() + t.DEADLINE
    while (left := node.containers()):
        t.check(time.monotonic() < until, "cgpu ps still shows %s" % left)
        node.sync()


def run(engine_name, case, function):
    make, refused_status = ENGINES[engine_name]
    with t.Node("v100-16g:%d" % (1 + (case in TWO_CARDS))) as node, make() as engine:
        # The user of a rootless engine is in a group of the same name.
        daemon = start_cgpud(node, engine.plain,
                             "" if case == "no-member" else "group: cgpu-test\n")
        BEFORE.extend(set(isolation.processes()) - {daemon.popen.pid})
        test = Test(engine, node, daemon, refused_status)
        function(test)
        node.wait_used(0, "after the containers")
        _wait_ended(node)
        isolation.wait_alone(but=[*BEFORE, test.daemon.popen.pid])
        test.daemon.stop()


def main(cases):
    isolation.main({"%s-%s" % (engine, case): functools.partial(run, engine, case, cases[case])
                    for engine in ENGINES for case in cases})


if __name__ == "__main__":
    main(CASES)
