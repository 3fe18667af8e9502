"""cgpu-burn by CUDA, by way of the simulated node's own libcuda (sim/cuda): what it does on the GPU is
what it says, and a slice's shares and memory hold for it. Cases by name, see tests/lib/cgpu_test.py."""
import ctypes.util
import json
import os
import subprocess
import sys
import tempfile

import cgpu_test as t
import isolation
from compute_test import MS, capped, check_hung, close, run, shares

BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
CUDA = os.path.abspath(os.environ.get("CGPU_CUDA", os.path.join(t.BIN, os.pardir, "cuda")))
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu", "kit",
                       "cuda_program.py")
LOOPS = os.path.join(os.path.dirname(PROGRAM), "loops.py")
ILLEGAL_ADDRESS = 700  # CUDA_ERROR_ILLEGAL_ADDRESS
KIT = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "run")
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=CUDA)
MS_STEPS = "1000000"  # of a kernel of 1 ms: the simulated libcuda takes a nanosecond for each


def _groups(node):
    return node.books()["gpus"][0]["groups"]


def _busy_ms(node):
    return t.graphics(node.books()["gpus"][0])["busy_ns"] / MS


def _last(process):
    t.check(process.end() == 0, "%s failed" % process.name)
    return json.loads(process.lines[-1])


def counted(node, _):
    """So many launches, of one kernel and of many; how long one is, is found out."""
    for start in (node.exec, node.run):
        for words, kernels in ((("--count", "100", "--wide"), 100),
                               (("--count", "40", "--queue", "1"), 40),
                               (("--count", "4", "--graph", "50", "--queue", "3"), 200)):
            before = _busy_ms(node)
            done = _last(start([BURN, "--cuda", "--json", "--steps", MS_STEPS, *words], name="burn",
                               env=ENVIRONMENT))
            busy = _busy_ms(node) - before
            t.check(done["kernel_ms"] == kernels and done["left"] == 0, "it says %s" % done)
            t.check(kernels <= busy <= 1.02 * kernels, "the engine worked for %.3f ms" % busy)
    process = node.exec([BURN, "--cuda", "--json", "--count", "20"], name="burn", env=ENVIRONMENT)
    t.check(_last(process)["launches"] == 20, "not 20 launches")
    t.check(json.loads(process.lines[0])["steps"] > 1, "it did not find out: %s" % process.lines)


def targets(node, _):
    """A driver that translates no text for GPUs as old as the first form's gets the second form, of
    cgpu-burn and of the kit; one that refuses both is named."""
    def start(words, least):
        return node.run(words, name="target", env={**ENVIRONMENT, "CGPU_SIM_LEAST_TARGET": least})

    burn = [BURN, "--cuda", "--json", "--steps", MS_STEPS, "--count", "20"]
    for least in ("70", "75"):
        t.check(_last(start(burn, least))["launches"] == 20, "sm_%s and later: cgpu-burn" % least)
        found = _last(start([sys.executable, PROGRAM, "fault"], least))
        t.check(found["error"] == ILLEGAL_ADDRESS, "sm_%s and later: %s" % (least, found))
        loops = start([sys.executable, LOOPS], least)
        loops.say("queued 0.05 1000")
        t.check(_last(loops)["per_s"] > 0, "sm_%s and later: the kit's loops" % least)
    t.check(start(burn, "76").end() == 1, "a load without a kernel")


class Burning:
    """A container that always wants the GPU."""

    def __init__(self, node, name, *flags):
        before = {group["pid"] for group in _groups(node)}
        self.process = node.run([BURN, "--cuda", "--steps", "20000000", "--kernel-us", "20000"],
                                flags=("--name", name, *flags), name=name, env=ENVIRONMENT)
        self.process.expect("^GPU 0: ")
        # For the driver all of a container's clients are its shim's.
        (self.shim,) = {group["pid"] for group in _groups(node)} - before


def weights(node, _):
    """The GPU is shared out by weight, as it is among programs that make the driver's calls."""
    three = Burning(node, "three", "--weight", "3")
    one = Burning(node, "one", "--weight", "1")
    t.wait_for(lambda: sorted(group["timeslice_us"] for group in _groups(node)) == [3000, 9000],
          lambda: "no slices: %s" % _groups(node))
    close(shares(node, one, three), [25, 75])
    for burning in (one, three):
        burning.process.popen.terminate()
        t.check(burning.process.end() == 0, "it did not end well")


def starts(node, _):
    """Programs start under a duty cycle, and have their share."""
    for percent in (2, 10, 30):
        burning = Burning(node, "at%d" % percent, "--compute", str(percent))
        capped(node, burning, percent / 2, percent + 3)
        check_hung(node)
        burning.process.popen.terminate()
        t.check(burning.process.end() == 0, "it did not end well")


def memory(node, _):
    """CUDA sees the slice, and error 2 at its end."""
    seen = _last(node.run([sys.executable, PROGRAM, "fill"], mem="1024MiB", name="fills",
                          env=ENVIRONMENT))
    t.check(seen["total"] == seen["device_total"] == 1024 * t.MIB, "it sees %s" % seen)
    t.check(seen["error"] == 2, "at the end: error %d" % seen["error"])
    t.check(seen["allocated"] + seen["context"] >= 0.99 * seen["total"], "it got %s" % seen)
    seen = _last(node.exec([sys.executable, PROGRAM], name="copies", env=ENVIRONMENT))
    t.check(seen["total"] > 1024 * t.MIB, "without cgpu it sees %s" % seen)


def wrong(node, _):
    """A load that cannot be is refused in a sentence with a hint."""
    on_node = [t.CGPU, "sim", "exec", "--name", node.name, "--"]
    cases = [([], ENVIRONMENT, ("--cuda",), "cuInit: there is no GPU (CUDA_ERROR_NO_DEVICE"),
             (on_node, ENVIRONMENT, ("--cuda", "--rigid"), "CUDA has no kernels that a GPU cannot"),
             (on_node, ENVIRONMENT, ("--cuda", "--gpu", "1"), "there is no GPU 1; there are 1"),
             (on_node, ENVIRONMENT, ("--steps", "5"), "for CUDA's kernels, and this is a simulated")]
    if ctypes.util.find_library("cuda") is None:
        cases.append((on_node, None, ("--cuda",), "CUDA's library cannot be loaded: libcuda.so.1"))
    for before, environment, words, says in cases:
        done = subprocess.run([*before, BURN, *words, "--count", "1"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=t.DEADLINE, check=False,
                              env=environment)
        t.check(done.returncode == 1 and says in done.stderr and not done.stdout,
                "%s: %s" % (words, done))
    slice_of_nothing = node.run([BURN, "--cuda", "--count", "1"], mem="1MiB", name="small",
                                env=ENVIRONMENT)
    t.check(slice_of_nothing.end() == 1, "a context fits into 1 MiB")


def kit(node, _):
    """The part of tests/gpu/run that needs a cgpud: what containers get by their weights."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, KIT, "--node", node.name, "--only", "compute", "--quick", "--out", out],
                       env=ENVIRONMENT, stdin=subprocess.DEVNULL, timeout=2 * t.DEADLINE, check=False)
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
        rows = {what: (outcome, detail) for _, what, outcome, detail in results["rows"]}
    outcome, detail = rows.get("containers of weights 1:3 that always want the card", ("not made", ""))
    t.check(outcome == "pass", "the shares: %s, %s; %s" % (outcome, detail, results))
    node.wait_used(0, "after the kit")


CASES = {"counted": counted, "targets": targets, "weights": weights, "starts": starts, "memory": memory,
         "wrong": wrong, "kit": kit}

if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
