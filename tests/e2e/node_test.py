"""cgpu's commands on a simulated node, with the real shim: what `run`, `ps`, `set` and `smi` say,
held against the driver's accounting. Cases by name, see tests/lib/cgpu_test.py."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

import cgpu_test as t

RMTOOL = os.path.join(t.BIN, "rmtool")
SOME_USER = 47111


def refused(*words, says):
    """cgpu's own error: status 125, nothing on stdout, what happened and what to do."""
    done = t.command(t.CGPU, *words, ok=False)
    line = "`cgpu %s`: %d, %r, %r" % (" ".join(words), done.returncode, done.stdout, done.stderr)
    t.check((done.returncode, done.stdout) == (125, ""), line)
    t.check(done.stderr.startswith("error: ") and "\nhint: " in done.stderr, line)
    for word in says:
        t.check(word in done.stderr, "%r is not said: %s" % (word, line))


def hold(node, mib, *flags, mem="1024MiB"):
    process = node.run([RMTOOL, "hold", str(mib)], mem=mem, flags=flags)
    process.expect("holding %d MiB" % mib)
    return process


def named(node, name):
    """Names of containers are everybody's; other tests run at the same time."""
    return "%s-%s" % (node.name, name)


def gpu_of(node, name):
    """The only GPU of the container named(node, name), as ps tells it, in MiB."""
    (container,) = [c for c in node.containers() if c["name"] == named(node, name)]
    (gpu,) = container["gpus"]
    return {key: gpu[key + "_bytes"] // t.MIB for key in ("limit", "used", "peak")} | {
        "denied": gpu["denied"]}


def ps():
    with t.Node("v100-16g:2") as node:
        process = hold(node, 512, "--name", named(node, "job"), "--gpus", "device=1")
        gpu = gpu_of(node, "job")
        t.check((gpu["limit"], gpu["denied"]) == (1024, 0), "ps says %s" % gpu)
        used = node.used(1)
        t.check(gpu["used"] == used // t.MIB, "ps says %s, the books say %d" % (gpu, used))
        t.check(gpu["peak"] >= gpu["used"], "ps says %s" % gpu)
        (container,) = node.containers()
        (card,) = container["gpus"]
        t.check((card["index"], card["host_index"]) == (0, 1), "ps says %s" % card)
        t.check(card["uuid"] == node.info()["gpus"][1]["uuid"], "ps says %s" % card)
        t.check(container["state"] == "running", "ps says %s" % container)
        table = t.command(t.CGPU, "ps")
        lines = [line for line in table.splitlines() if named(node, "job") in line]
        t.check(len(lines) == 1 and "512 / 1024 MiB" in lines[0], "the table: " + table)
        process.end()
        t.check(not node.containers(), "an ended container is listed")
        node.wait_used(0, "after the container")


def limit():
    with t.Node("v100-16g:2") as node:
        words = [t.CGPU, "run", "--node", node.name, "--units", "8", "--"]
        done = t.command(*words, t.CGPU, "smi", "--query-gpu=memory.total",
                         "--format=csv,noheader", ok=False)
        t.check((done.returncode, done.stderr) == (0, ""), "smi: %s" % done)
        t.check(done.stdout.split() == ["4309", "MiB"] * 2, "smi says " + done.stdout)
        done = t.command(*words, RMTOOL, "alloc", "4310", ok=False)
        t.check(done.returncode == 2, "4310 MiB: %s" % done)
        t.check("out of memory" in done.stdout + done.stderr, "4310 MiB: %s" % done)
        process = node.run([RMTOOL, "hold", "700"], mem="512MiB")
        process.expect("out of memory")
        t.check(process.end() == 2, "the command's status is not cgpu's")
        node.wait_used(0, "after the containers")


# Holds 512 MiB, and for each line of input tries to allocate 100 MiB more.
GROW = """
"$0" hold 512 --forever &
while read line; do "$0" alloc 100; echo "status $?"; done
kill $!
"""


def set_live():
    """Below use growth stops, and it says so; above it goes on."""
    with t.Node() as node:
        process = node.run(["sh", "-c", GROW, RMTOOL], flags=("--name", named(node, "job")))
        process.expect("holding 512 MiB")

        def grow(status):
            process.say("more")
            process.expect("status %d$" % status)

        grow(0)
        done = t.command(t.CGPU, "set", named(node, "job"), "--mem", "300MiB")
        t.check("512 MiB are in use" in done and "growth is stopped" in done, "set said " + done)
        grow(2)
        gpu = gpu_of(node, "job")
        t.check(gpu["limit"] == 300 and gpu["used"] == 512 and gpu["denied"] > 0,
                "ps says %s" % gpu)
        t.check(node.used() >= 512 * t.MIB, "memory was taken away")
        id_ = node.containers()[0]["id"]
        done = t.command(t.CGPU, "set", id_[:8], "--mem", "50%")
        t.check("growth" not in done, "set said " + done)
        grow(0)
        refused("set", named(node, "job"), "--mem", "16161MiB", says=["16161 MiB"])
        t.check(gpu_of(node, "job")["limit"] == 8080, "a refused change changed something")
        process.end()
        refused("set", named(node, "job"), "--mem", "1GiB", says=["no container", "cgpu ps"])
        refused("set", id_, "--mem", "1GiB", says=["no container", "cgpu ps"])
        node.wait_used(0, "after the container")


def set_at_once():
    with t.Node() as node:
        holders = [hold(node, 64, "--name", named(node, name)) for name in ("one", "two")]
        for _ in range(5):
            both = [subprocess.Popen([t.CGPU, "set", named(node, name), "--mem", "10000MiB"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for name in ("one", "two")]
            statuses = sorted(process.wait(t.DEADLINE) for process in both)
            t.check(statuses == [0, 125], "together they do not fit: %s" % statuses)
            limits = sorted(gpu_of(node, name)["limit"] for name in ("one", "two"))
            t.check(limits == [1024, 10000], "limits are %s" % limits)
            for name in ("one", "two"):
                t.command(t.CGPU, "set", named(node, name), "--mem", "1024MiB")
        for holder in holders:
            holder.end()


def nodes():
    """Wrong input to `cgpu sim`, and a node whose server was killed."""
    with t.Node() as node:
        refused("sim", "start", "--name", node.name, "--gpus", "t4:1",
                says=["runs already", "cgpu sim stop --name " + node.name])
        other = node.name + "-x"
        for words, says in (
                (["--gpus", "nope:1"], ["no such model", "v100-16g"]),
                (["--gpus", "t4:0"], ["t4:0"]),
                (["--gpus", ""], ["--gpus"]),
                (["--gpus", "t4:1", "--driver", "999"], ["999", "install a driver of these: 535."]),
                (["--gpus", "t4:1", "--driver", "615.71.09"], ["begins a branch", "later of 610"]),
                (["--gpus", "t4:1", "--driver", "535.54.03"], ["535.54.03", "535.86.05"])):
            refused("sim", "start", "--name", other, *words, says=says)
            t.check(not os.path.exists("/run/cgpu-sim/%s/node.json" % other), "it left a node")
        refused("sim", "books", "--name", other, "--json", says=["no simulated node"])
        refused("run", "--node", node.name, "--", t.CGPU, "run", "--node", node.name, "--", "true",
                says=["inside a `cgpu run` already"])

        def listed():
            rows = json.loads(t.command(t.CGPU, "sim", "list", "--json"))
            table = t.command(t.CGPU, "sim", "list")
            # Nodes of other tests come and go.
            mine = {row["name"]: (row["running"], row["gpus"]) for row in rows}.get(node.name)
            t.check((node.name in table) == bool(mine), table)
            return mine
        t.check(listed() == (True, "1 x v100-16g"), "%s" % (listed(),))
        os.kill(node.info()["server_pid"], signal.SIGKILL)
        t.wait_for(lambda: listed() == (False, "1 x v100-16g"), lambda: "%s" % (listed(),))
        t.command(t.CGPU, "sim", "stop", "--name", node.name)
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            t.check(node.folder + "/" not in mounts.read(), "a mount is left")
        t.check(listed() is None, "a stopped node is listed")


def later_release():
    """A release after the last one of its branch that was compared: used as that one, and said."""
    says = "cgpu: NVIDIA driver %s was not compared with NVIDIA's sources; it is taken as %s, because"
    for release, last in (("580.159.04", None), ("580.178.04", "580.159.04"), ("595.99.02", "595.80")):
        with t.Node("t4:1", driver=release) as node:
            for words in (("run", "--node", node.name, "--mem", "1024MiB", "--", RMTOOL, "alloc", "512"),
                          ("smi", "--node", node.name)):
                done = t.command(t.CGPU, *words, ok=False)
                line = "`cgpu %s` on %s: %s" % (" ".join(words), release, done)
                t.check(done.returncode == 0, line)
                t.check((says % (release, last) in done.stderr) if last else
                        "not compared" not in done.stderr, line)
            process = hold(node, 512, "--name", named(node, "later"))
            done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "1024MiB", "--", RMTOOL,
                             "alloc", "1025", ok=False)
            t.check(done.returncode == 2, "1025 MiB of 1024 on %s: %s" % (release, done))
            t.check(node.used(0) >= 512 * t.MIB, "the books do not have the 512 MiB")
            process.end()
            node.wait_used(0, "after the container")


def user():
    """An ordinary user's slice, and that it is nobody else's."""
    folder = tempfile.mkdtemp(prefix="cgpu-e2e-")
    try:
        os.chmod(folder, 0o755)
        for program in ("cgpu", "cgpu-shim", "rmtool"):
            shutil.copy(os.path.join(t.BIN, program), folder)
        runtime = os.path.join(folder, "runtime")
        os.mkdir(runtime, 0o700)
        os.chown(runtime, SOME_USER, SOME_USER)
        as_user = {"user": SOME_USER, "group": SOME_USER, "extra_groups": [], "cwd": "/",
                   "env": {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": runtime}}
        cgpu = os.path.join(folder, "cgpu")
        done = t.command(cgpu, "sim", "start", "--gpus", "t4:1", ok=False, **as_user)
        t.check(done.returncode == 125 and "only root" in done.stderr, "sim start: %s" % done)
        with t.Node() as node:
            words = [cgpu, "run", "--alone", "--node", node.name, "--name", "mine", "--mem",
                     "1024MiB", "--", os.path.join(folder, "rmtool")]
            done = t.command(*words, "alloc", "1025", ok=False, **as_user)
            t.check(done.returncode == 2, "1025 MiB of 1024: %s" % done)
            process = t.Process(words + ["hold", "512"], "hold", **as_user)
            process.expect("holding 512 MiB")
            (container,) = json.loads(t.command(cgpu, "ps", "--json", **as_user))
            t.check((container["name"], container["user"]) == ("mine", str(SOME_USER)),
                    "ps says %s" % container)
            t.command(cgpu, "set", "mine", "--mem", "2GiB", **as_user)
            process.end()
            node.wait_used(0, "after the container")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    t.main({"ps": ps, "limit": limit, "set-live": set_live, "set-at-once": set_at_once,
            "nodes": nodes, "later-release": later_release, "user": user})
