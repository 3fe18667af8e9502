"""`tests/gpu/run --lease`, on a simulated node. Each program writes down itself where it ran, and the test's
cgroup shows what is left of a run. Cases: steps, without-caps, asked, hangs, again, told."""
import json
import os
import subprocess
import sys

import cgpu_test as t
import isolation

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KIT = os.path.join(ROOT, "tests", "gpu", "run")
CUDA = os.path.abspath(os.environ.get("CGPU_CUDA", os.path.join(t.BIN, os.pardir, "cuda")))
OUT = "/run/lease"
OTHERS = ("start", "memory", "faults", "calibrate", "hang", "caps", "priority", "switches", "sixteen", "upgrade",
          "overhead")
# The modules that `frameworks` looks for. Each writes a line where it was loaded.
LOOKS = """
import ctypes, os, signal
total = ctypes.c_size_t()
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
in_slice = total.value < 64 << 30
"""
# Ends by no signal but the last, and has a child in a session of its own.
STAYS = """
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        signal.pause()
"""
SAYS = """
with open("%s", "a", encoding="utf-8") as file:
    file.write("in a slice\\n" if in_slice else "without cgpu\\n")
"""
FAILS = """
if in_slice:
    raise SystemExit("no such thing in a slice")
"""
PAUSES = """
while True:
    signal.pause()
"""
HANGS = LOOKS + STAYS + SAYS + PAUSES
HANGS_WITHOUT = LOOKS + FAILS + STAYS + SAYS + PAUSES
WORKS_WITHOUT = LOOKS + SAYS + FAILS + """
class Ones:
    def __matmul__(self, other): return self
    def sum(self): return 512 ** 3
__version__, float32 = "1", None
def ones(*_, **__): return Ones()
"""


class Modules:
    """A folder of modules, and what they said."""

    def __init__(self):
        self.folder = "/run/modules"
        os.makedirs(self.folder)

    def write(self, name, text):
        with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as file:
            file.write(text % self.path(name))

    def path(self, name):
        return os.path.join(self.folder, name + ".said")

    def said(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


def _start(node, modules, *words):
    environment = {**os.environ, "CGPU_BIN": os.path.abspath(t.BIN), "LD_LIBRARY_PATH": CUDA,
                   "PYTHONPATH": modules.folder if modules else ""}
    return t.Process([sys.executable, KIT, "--lease", "--node", node.name, "--quick", "--out", OUT, *words],
                     "kit", env=environment)


def _results():
    with open(os.path.join(OUT, "results.json"), encoding="utf-8") as file:
        found = json.load(file)
    return found, {(row[0], row[1]): (row[2], row[3]) for row in found["rows"]}


def _page():
    with open(os.path.join(OUT, "page.md"), encoding="utf-8") as file:
        return file.read()


def _nothing_left(node, before):
    """Nothing runs that did not run before the kit; its node has nothing of it either."""
    isolation.wait_alone(before)
    node.wait_nothing_left()
    node.wait_used(0, "after the kit")


def steps(node):
    """The kit starts a cgpud, shows what containers get, and nothing is left of it."""
    before = isolation.processes()
    chosen = "calibrate,caps,priority,switches,sixteen,upgrade"
    limits = ["--limit=%s=120" % name for name in chosen.split(",")]
    kit = _start(node, None, "--only", chosen, *limits)
    kit.expect("^calibrate ")
    t.check([line for line in isolation.processes().values() if "cgpud --config" in line], "it starts no cgpud")
    t.check(kit.end() == 0, "it failed")
    found, rows = _results()
    t.check(found["steps"] == dict.fromkeys(chosen.split(","), "whole"), str(found["steps"]))
    for row, says in ((("calibrate", "cgpu calibrate"), "channels go off: at-once"),
                      (("caps", "a percentage of 30, alone"), "a cap"),
                      (("priority", "interleave level HIGH"), "the driver says ok"),
                      (("priority", "high priority waits less"), ""),
                      (("switches", "two programs' context switches are told, with their processes"), ""),
                      (("sixteen", "16 containers start at once"), "16 compute, cgpu ps names 16"),
                      (("sixteen", "all compute, and end in order"), "statuses ['0']"),
                      (("upgrade", "cgpu upgrade while 2 programs run"), "their calls waited"),
                      (("upgrade", "allocations go on"), "")):
        outcome, detail = rows.get(row, ("not made", ""))
        t.check(outcome == "pass" and says in detail, "%s: %s %s" % (row, outcome, detail))
    _nothing_left(node, before)


def without_caps(node):
    """Where cgpud does not cap, the kit says that a percentage is a share."""
    t.check(_start(node, None, "--only", "caps").end() == 0, "it failed")
    outcome, detail = _results()[1]["caps", "a percentage of 30, alone"]
    t.check(outcome == "pass" and "a share, no cap" in detail, detail)


def asked(node):
    """The kit finds the rules by which this node's channels hang, and no others; what hangs is ended."""
    before = isolation.processes()
    t.check(_start(node, None, "--only", "hang").end() == 0, "it failed")
    found, rows = _results()
    t.check(found["raw"]["hang"]["hangs"] == ["rescheduled"], str(found["raw"]["hang"]))
    name = ("hang", "a group is scheduled while its channels are disabled")
    t.check("HANGS in cuCtxSynchronize" in rows[name][1], str(rows[name]))
    name = ("hang", "a channel is disabled before it is first scheduled")
    t.check(rows[name][0] == "pass" and "it computes" in rows[name][1], str(rows[name]))
    _nothing_left(node, before)


def hangs(node):
    """A step whose program hangs is ended at its limit, and that is told; nothing of it is left; later
    steps are made."""
    before, modules = isolation.processes(), Modules()
    modules.write("jax", HANGS)
    kit = _start(node, modules, "--only", "frameworks,ground,faults,overhead", "--limit", "frameworks=10")
    kit.expect("^frameworks FAIL ")
    left = [line for line in isolation.processes().values() if "jax" in line]
    t.check(not left, "the program that hung is left: %s" % left)
    t.check(modules.said("jax") == ["in a slice"], "it ran %s" % modules.said("jax"))
    t.check(kit.end() == 1, "the kit does not fail")
    found, rows = _results()
    outcome, detail = rows["frameworks", "the rest"]
    t.check(outcome == "FAIL" and "ended at its limit of 10 s" in detail and "python" in detail, detail)
    t.check(found["steps"] == {"ground": "whole", "faults": "whole", "frameworks": "cut off", "overhead": "whole"},
            str(found["steps"]))
    t.check(rows["overhead", "making a context"][0] == "pass", "the later step: %s" % rows)
    _nothing_left(node, before)


def again(node):
    """A second run goes on where the first one was killed: what is whole is not made again, what was cut
    off is; nothing of either is left."""
    before, modules = isolation.processes(), Modules()
    modules.write("jax", HANGS_WITHOUT)
    kit = _start(node, modules, "--only", "ground,frameworks")
    t.wait_for(lambda: modules.said("jax"), "the program does not begin")
    kit.popen.kill()
    kit.wait()
    t.check([line for line in isolation.processes().values() if "jax" in line], "what it started is no orphan")
    found, rows = _results()
    t.check(found["steps"] == {"ground": "whole", "frameworks": "begun"}, str(found["steps"]))
    t.check(rows["ground", "cgpu run -- true"][0] == "pass", "lost: %s" % rows)
    # A row that no step makes shows whether the step that is whole is made again. Others are not to be.
    found["rows"].append(["ground", "of the first run", "pass", ""])
    found["steps"].update(dict.fromkeys(OTHERS, "whole"))
    with open(os.path.join(OUT, "results.json"), "w", encoding="utf-8") as file:
        json.dump(found, file)
    modules.write("jax", "open('%s', 'a', encoding='utf-8').write('again\\n')\nraise SystemExit('no GPU')\n")
    kit = _start(node, modules)
    kit.expect("^ground +is whole, and is not made again")
    t.check(kit.end() == 0, "the second run failed")
    found, rows = _results()
    t.check(rows.get(("ground", "of the first run")) == ("pass", ""), "made again: %s" % rows)
    t.check(rows["frameworks", "JAX"][0] == "skip" and found["steps"]["frameworks"] == "whole", str(found["steps"]))
    t.check(modules.said("jax")[1:] == ["again"] * 2, "the step that was cut off: %s" % modules.said("jax"))
    _nothing_left(node, before)


def told(node):
    """The kit tells what succeeds without cgpu and fails in a slice when it finds it, and first on the page."""
    before, modules = isolation.processes(), Modules()
    modules.write("cupy", WORKS_WITHOUT)
    kit = _start(node, modules, "--only", "frameworks,overhead")
    sentence = "CuPy: status 1: no such thing in a slice"
    kit.expect("^succeeds without cgpu and not in a slice: " + sentence)
    t.check(not kit.said("^overhead"), "it is told late")
    t.check(modules.said("cupy") == ["in a slice", "without cgpu"], "it ran %s" % modules.said("cupy"))
    t.check(kit.end() == 1, "the kit does not fail")
    found, rows = _results()
    t.check(found["lacking"] == [sentence] and rows["frameworks", "CuPy"][0] == "FAIL", str(found["lacking"]))
    page = _page()
    t.check(0 < page.find("* " + sentence) < page.find("|"), "the page begins otherwise: %s" % page)
    _nothing_left(node, before)


def run(function, *words):
    with t.Node("h200:1", "580", *words) as node:
        function(node)


if __name__ == "__main__":
    isolation.main({
        "steps": lambda: run(steps), "without-caps": lambda: run(without_caps, "--no-caps"),
        "asked": lambda: run(asked, "--hang-rules", "rescheduled"), "hangs": lambda: run(hangs),
        "again": lambda: run(again), "told": lambda: run(told)})
