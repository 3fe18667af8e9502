"""The GPU itself, which only a real one shows: what cgpu costs a launch, and what tenants do to each other
within the GPU. Each part that the CUDA of the machine lacks says so."""
import json
import os
import sys

import cgpu_test as t
import shares
from report.compute import set_policy
from report.findings import Section, at_least, at_most

PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda_probe.py")
LAUNCH_GOAL = 98  # percent of the launches without cgpu
MEM = "2048MiB"
LEFT_MIB = 1024
TOKEN = "left-by-another"
KINDS = {"within": ("Memory bandwidth", "copies within the GPU"), "in": ("Copies to the GPU", "copies to the GPU"),
         "out": ("Copies from the GPU", "copies from the GPU")}


def missing(host):
    """Lists what this run cannot measure: [{what, needs}]."""
    rows = [("L2 cache interference", "a CUDA kernel with a working set as large as the cache, built with nvcc"),
            ("Faults within the GPU", "a CUDA kernel at an illegal address: tests/gpu/run --only faults")]
    if host.simulated:
        rows = [("Cost of a kernel launch", "a real GPU: the simulated one does not model it"),
                ("Memory bandwidth beside a neighbour", "a real GPU and CUDA"),
                ("Copy engines beside a neighbour", "a real GPU and CUDA"),
                ("Whether freed memory comes back zeroed", "a real GPU and CUDA")] + rows
    return [{"what": what, "needs": needs} for what, needs in rows]


def _probe(host, name, *words):
    return host.run([sys.executable, PROBE, *map(str, words)], mem=MEM, name=name, env=host.cuda_environment())


def said(process):
    """Returns the last line of a probe that has ended. t.Failure with its reason where it could not do its work."""
    status = process.end()
    last = json.loads(process.lines[-1]) if status == 0 and process.lines else {"skip": "the probe failed"}
    t.check("skip" not in last, "%s: %s" % (process.name, last.get("skip")))
    return last


def freed_memory(host, section, rounds):
    """Does a tenant find what another one left in memory that it gave back?"""
    found = []
    for _ in range(rounds):
        said(_probe(host, "leaves", "leave", LEFT_MIB, TOKEN))
        found.append(said(_probe(host, "looks", "look", LEFT_MIB, TOKEN))["found"])
    section.figure("freed", "Pieces of another tenant's data in %d MiB of fresh memory" % LEFT_MIB, "", found, at_most(0), worst=True)


def copies(host, section, rounds, seconds):
    """Measures what is left of a tenant's bandwidth while a neighbour copies, too. Half of it is fair."""
    if host.cgpu:
        set_policy(host, "preempt")
    for kind, (name, what) in KINDS.items():
        alone, beside = [], []
        for _ in range(rounds):
            alone.append(said(_probe(host, "copies", "copies", kind, seconds))["gib_per_s"])
            neighbour = _probe(host, "neighbour", "copies", kind, 0)
            neighbour.expect("begins|skip")
            beside.append(said(_probe(host, "copies", "copies", kind, seconds))["gib_per_s"])
            said(neighbour)
        section.figure(kind + "_alone", name + ", alone", "GiB/s", alone)
        section.figure(kind + "_beside", "%s, beside a neighbour's %s" % (name, what), "GiB/s", beside)


def _burn(host, words, *options):
    """Returns the lines of cgpu-burn by CUDA with a full queue of short kernels; `words` starts it."""
    burn = t.Process(words([shares.BURN, "--cuda", "--json", "--kernel-us", "10", "--queue", "64", *map(str, options)]),
                     "launches", env=host.cuda_environment())
    t.check(burn.end() == 0, "cgpu-burn --cuda failed")
    return [json.loads(line) for line in burn.lines if line.startswith("{")]


def launches(host, section, rounds, seconds):
    """Launches a second, with and without cgpu in turn, of kernels of the same length."""
    steps = _burn(host, host.plain, "--seconds", 1)[0]["steps"]
    found = {"plain": [], "slice": []}
    ways = {"plain": host.plain}
    if host.cgpu:
        set_policy(host, "preempt")  # caps nobody
        ways["slice"] = lambda argv: host.words(argv, MEM)
    for _ in range(rounds):
        for name, words in ways.items():
            last = _burn(host, words, "--steps", steps, "--seconds", seconds)[-1]
            found[name].append(last["launches"] / last["seconds"])
    section.figure("launches", "Launches without cgpu, kernels of 10 \u00b5s", "/s", found["plain"])
    if host.cgpu:
        section.figure("kept", "Launches in a slice, over those without cgpu", "%",
                       [100 * a / b for a, b in zip(found["slice"], found["plain"])], at_least(LAUNCH_GOAL))


def measure(host, rounds, quick):
    section = Section("hardware", "Within the GPU", "Tenants that use the GPU by CUDA.")
    if host.simulated:
        return section
    seconds = 1 if quick else 5
    for part, arguments in ((freed_memory, ()), (copies, (seconds,)), (launches, (seconds,))):
        try:
            part(host, section, rounds, *arguments)
        except t.Failure as failure:
            t.Process.end_all()
            section.note("%s: not measured here: %s" % (part.__name__.replace("_", " ").capitalize(), failure))
    return section
