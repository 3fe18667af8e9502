"""The kit for machines with a GPU (tests/gpu/run), on a simulated node. Cases: bundle, cut, told-to-end, wrong."""
import ctypes.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import cgpu_test as t

CUDA = os.path.abspath(os.environ.get("CGPU_CUDA", os.path.join(t.BIN, os.pardir, "cuda")))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKS = {"ground", "start", "record", "identity", "leans", "memory", "compute", "faults", "overhead"}
NO_CUDART = ("start", "CUDA's start by cudart, without cgpu")


def _unpack(folder):
    """The kit as it travels: nothing of the tree but the bundle."""
    bundle = os.path.join(folder, "bundle.tar.gz")
    subprocess.run([os.path.join(ROOT, "tests", "gpu", "bundle.sh"), t.BIN, t.TEST_BIN, bundle], check=True)
    t.check(os.path.getsize(bundle) <= 30 << 20, "the bundle is too large to travel")
    listed = subprocess.run(["tar", "-tzf", bundle], check=True, capture_output=True, text=True).stdout
    t.check("libcuda" not in listed and "/bin/cgpu-burn" in listed, "in the bundle: %s" % listed)
    subprocess.run(["tar", "-C", folder, "-xzf", bundle], check=True)
    return os.path.join(folder, "cgpu-gpu", "run")


def _run(kit, folder, *words, cuda=False):
    """(exit status, {(check, what): outcome}, raw data); with the simulated node's CUDA, or none."""
    out = os.path.join(folder, "out")
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("CGPU_BIN", "LD_LIBRARY_PATH")}
    if cuda:
        environment["LD_LIBRARY_PATH"] = CUDA
    done = subprocess.run([sys.executable, kit, "--out", out, *words], env=environment, check=False)
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    t.check(len(os.listdir(out)) <= 6, "the results are too many files to come back")
    return done.returncode, {(row[0], row[1]): row[2] for row in results["rows"]}, \
        {**results["raw"], "lacking": results["lacking"]}


def _spin_of_burn():
    with open(os.path.join(ROOT, "tests", "load", "burn", "spin_kernel.h"), encoding="utf-8") as file:
        return file.read().split('R"(')[1].split(')"')[0]


def _spin_of_the_kit():
    with open(os.path.join(ROOT, "tests", "gpu", "kit", "loops.py"), encoding="utf-8") as file:
        return file.read().split('SPIN = """')[1].split('"""')[0]


def bundle():
    """Each check is made; none fails; what was recorded is what the driver was asked."""
    with t.Node("h100:1", driver="580") as node, tempfile.TemporaryDirectory() as folder:
        kit = _unpack(folder)
        t.check(_spin_of_the_kit() == _spin_of_burn(), "the kit's kernel is another than cgpu-burn's")
        status, rows, raw = _run(kit, folder, "--node", node.name, "--quick", cuda=True)
        t.check(status == 0 and "FAIL" not in rows.values(), "status %d: %s" % (status, rows))
        # A kernel that lacks something is no fault of the kit, and neither is a cgpud that runs
        # here.
        t.check(all(row[0] in ("ground", "leans") or row in (("compute", "the rest"), NO_CUDART)
                    for row, outcome in rows.items() if outcome == "skip"), "left out: %s" % rows)
        made = {check for check, _ in rows}
        t.check(made == CHECKS, "checks: %s" % made)
        t.check(raw["record"]["rmtool info"]["calls"] > 5, "recorded: %s" % raw["record"])
        t.check(raw["lacking"] == [], "lacking in a slice: %s" % raw["lacking"])
        for row in (("start", "CUDA's start by the driver API, without cgpu"),
                    ("start", "CUDA's start by the driver API in a slice"), ("record", "CUDA memory, managed"), ("record", "CUDA memory, ipc"),
                    ("leans", "the address space of a channel group is an address space"),
                    ("leans", "a command for administrators is for them"),
                    ("memory", "a raw client is stopped at its slice"),
                    ("memory", "CUDA's error 2 at the slice's end"),
                    ("memory", "the driver counts what a slice's program holds"),
                    ("memory", "cuMemAlloc"), ("memory", "managed memory"),
                    ("memory", "managed memory beside 1024 MiB"), ("memory", "pools"),
                    ("memory", "virtual memory management"), ("memory", "a graph that allocates"),
                    ("memory", "IPC of two processes of one container"),
                    ("memory", "exported memory (a descriptor) of two processes of one container"),
                    ("compute", "FIFO_DISABLE_CHANNELS, kernels of 1 ms"),
                    ("compute", "two programs' context switches are told, with their processes"),
                    ("compute", "another process's kernels of 50 us beside kernels of 1 ms, "
                                "FIFO_DISABLE_CHANNELS"),
                    ("compute", "slices 1:3 of two programs that always want the card"),
                    ("compute", "in a slice FIFO_DISABLE_CHANNELS stops the container's own channels"),
                    ("faults", "its neighbour computes on"),
                    ("overhead", "graphs of 50 kernels of 20 us")):
            t.check(rows.get(row) == "pass", "%s: %s" % (row, rows))
        node.wait_used(0, "after the kit")
        # As on a kernel without user notification.
        status, rows, raw = _run(kit, folder, "--node", node.name, "--quick", "--no-notification", "--only",
                                 "ground,start,record,identity,compute,memory", cuda=True)
        t.check(status == 0 and "FAIL" not in rows.values(), "status %d: %s" % (status, rows))
        for row, outcome in ((("start", "CUDA's start by the driver API, without cgpu"), "pass"),
                             (("start", "the rest"), "skip"), (("record", "a CUDA program without cgpu"), "pass"),
                             (("identity", "by two processes: MAP_MEMORY"), "pass"),
                             (("identity", "by two processes: UVM_INITIALIZE"), "pass"),
                             (("compute", "FIFO_DISABLE_CHANNELS, kernels of 1 ms"), "pass"),
                             (("ground", "cgpu run -- true"), "skip"), (("record", "the rest"), "skip"),
                             (("identity", "the rest"), "skip"), (("compute", "the rest"), "skip"),
                             (("memory", "the rest"), "skip")):
            t.check(rows.get(row) == outcome, "without notification, %s: %s" % (row, rows))
        t.check(raw["record"]["a CUDA program without cgpu"][1] > 5, "recorded: %s" % raw["record"])
        # Where there is no CUDA.
        if ctypes.util.find_library("cuda") is None:
            status, rows, _ = _run(kit, folder, "--node", node.name, "--only", "memory,compute,faults,overhead")
            t.check(status == 0 and "FAIL" not in rows.values(), "status %d: %s" % (status, rows))
            for check in ("memory", "compute", "faults", "overhead"):
                t.check(rows[check, "the rest"] == "skip", "%s without CUDA: %s" % (check, rows))


def cut():
    """Each row is in the folder once it is said, whatever becomes of the kit."""
    with t.Node("h100:1", driver="580") as node, tempfile.TemporaryDirectory() as folder:
        kit, out = _unpack(folder), os.path.join(folder, "out")
        with subprocess.Popen([sys.executable, kit, "--out", out, "--node", node.name, "--quick"],
                              stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            said = 0
            for line in process.stdout:
                if line.split()[1:2] not in (["pass"], ["skip"]):
                    continue
                said += 1
                if line.startswith("identity"):
                    break
            os.killpg(process.pid, signal.SIGKILL)
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            left = json.load(file)["rows"]
        t.check(len(left) >= said > 3, "of %d rows are left: %s" % (said, left))
        with open(os.path.join(out, "page.md"), encoding="utf-8") as file:
            t.check(left[said - 1][1] in file.read(), "the page lacks rows")


def told_to_end():
    """A kit that is told to end leaves in the folder what it has found so far, and says so; nothing
    runs on."""
    with t.Node("h100:1", driver="580") as node, tempfile.TemporaryDirectory() as folder:
        kit, out = _unpack(folder), os.path.join(folder, "out")
        process = t.Process([sys.executable, kit, "--node", node.name, "--only", "ground,faults", "--out", out],
                            "kit", env={**os.environ, "LD_LIBRARY_PATH": CUDA})
        process.expect("^ground .*cgpu run -- true")
        until = time.monotonic() + t.DEADLINE
        while not node.containers():  # the neighbour of the faults
            t.check(time.monotonic() < until, "it makes no container")
            time.sleep(0.01)
        process.popen.terminate()
        t.check(process.end() == 143, "it did not end as it was told")
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        t.check(["ground", "cgpu run -- true", "pass"] in [row[:3] for row in rows], "lost: %s" % rows)
        t.check(rows[-1][1:] == ["the rest", "skip", "it was told to end"], "it says %s" % rows[-1])
        t.check(sorted(os.listdir(out)) == ["calls.txt.gz", "page.md", "results.json"], os.listdir(out))
        node.wait_used(0, "after the kit")
        t.check(not node.containers(), "left: %s" % node.containers())


def wrong():
    """A check fails where something is not as cgpu needs it, and the rest says why it was left
    out."""
    with tempfile.TemporaryDirectory() as folder:
        kit = _unpack(folder)
        status, rows, _ = _run(kit, folder, "--node", "no-such-node")
        t.check(status == 1, "status %d: %s" % (status, rows))
        t.check(rows["ground", "cgpu run -- true"] == "FAIL", str(rows))
        t.check(rows["memory", "the rest"] == "skip", str(rows))
        status, rows, _ = _run(kit, folder, "--node", "no-such-node", "--budget", "0s",
                               "--only", "0,a,memory")
        t.check(status == 0 and set(rows.values()) == {"skip"}, "status %d: %s" % (status, rows))
        t.check({check for check, _ in rows} == {"ground", "record", "memory"}, str(rows))
        status = subprocess.run([sys.executable, kit, "--only", "junk"], check=False,
                                stderr=subprocess.DEVNULL).returncode
        t.check(status == 2, "a check that is not there: status %d" % status)


if __name__ == "__main__":
    t.main({"bundle": bundle, "cut": cut, "told-to-end": told_to_end, "wrong": wrong})
