"""A slice's memory: what programs see of it, where they are stopped, what they can use of it."""
import json
import os
import re
import select
import shutil
import subprocess
import sys

from kit.report import HERE

SLICE_MIB = 2048
MIB = 1 << 20
# Beside managed memory, so that it must do with less than the slice.
BESIDE_MIB = 1024
# Part of the rest of the memory: whole chunks and page tables take something.
LEAST = 0.85
HELD_MIB = 1024
# By the driver's own count, of contexts and the like.
CONTEXT_MIB = 1024


def raw_client(report):
    flags = ["--mem", "%dMiB" % SLICE_MIB]
    tool = report.tool("rmtool")
    filled = report.do(*report.slice(tool, "alloc", str(4 * SLICE_MIB), "--page", "big", "--fill",
                                     flags=flags))
    report.judge("a raw client is stopped at its slice", filled.status == 2
                 and "out of memory" in filled.output + filled.errors, filled.last_words())
    within = report.do(*report.slice(tool, "alloc", str(SLICE_MIB // 2), "--page", "big", flags=flags))
    report.judge("half a slice can be had", within.status == 0, within.last_words())


def nvidia_smi(report):
    if report.node or not shutil.which("nvidia-smi"):
        return
    words = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    seen = report.do(*report.slice(*words, flags=["--mem", "%dMiB" % SLICE_MIB]))
    report.judge("nvidia-smi shows the slice", seen.output.strip() == str(SLICE_MIB),
                 seen.output.strip() or seen.last_words())


def cuda(report):
    words = report.cuda()
    seen = report.do(*report.slice(*words, "fill", flags=["--mem", "%dMiB" % SLICE_MIB]))
    try:
        found = json.loads(seen.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        report.judge("a CUDA program in a slice", False, seen.last_words())
        return
    report.keep("cuda", found)
    report.judge("CUDA sees the slice", found["total"] == SLICE_MIB * MIB, "%d MiB" % (found["total"] // MIB))
    report.judge("CUDA's error 2 at the slice's end", found["error"] == 2, "error %s" % found["error"])
    usable = (found["allocated"] + found["context"]) / (SLICE_MIB * MIB)
    report.judge("99 % of the slice can be used, the context counted", 0.99 <= usable <= 1.0,
                 "%.2f %%: %d MiB allocated, %d MiB taken by the context" % (
                     100 * usable, found["allocated"] // MIB, found["context"] // MIB))


def program(word, *numbers):
    return [sys.executable, os.path.join(HERE, "kit", "cuda_memory.py"), word, *map(str, numbers)]


def said_by(done):
    """Returns what it said last, or None where it failed."""
    try:
        return json.loads(done.output.splitlines()[-1]) if done.status == 0 else None
    except (ValueError, IndexError):
        return None


def in_slice(report, name, word, *numbers):
    """Returns what a program of cuda_memory.py saw in a slice; None where that is no judgement of
    cgpu, with its row written."""
    words = program(word, *numbers)
    done = report.do(*report.slice(*words, flags=["--mem", "%dMiB" % SLICE_MIB]))
    said = said_by(done)
    report.keep(name, [done.status, said, done.errors])
    if said is not None and "skip" not in said:
        return said
    without = said_by(report.do(*report.plain(*words)))
    if without is not None and "skip" in without:
        report.row(name, "skip", without["skip"])
    elif without is None and said is None:
        report.row(name, "skip", "it fails without cgpu too: " + done.last_words())
    else:
        words = said["skip"] if said else done.last_words()
        report.judge(name, False, words)
        report.lack(["%s: %s" % (name, words)])
    return None


def fills(report):
    """Each kind of memory ends at the slice's end, and comes back."""
    for name, word, beside in (("cuMemAlloc", "plain", 0), ("managed memory", "managed", 0),
                               ("managed memory beside %d MiB" % BESIDE_MIB, "managed", BESIDE_MIB),
                               ("pools", "pool", 0), ("virtual memory management", "vmm", 0)):
        # Without cgpu it must not take all of the machine.
        said = in_slice(report, name, word, 2 * SLICE_MIB, beside)
        if said is None:
            continue
        within = said["total"] == SLICE_MIB * MIB and said["taken"] <= said["free"]
        report.judge(name, within and said["error"] != 0 and said["taken"] >= LEAST * said["free"]
                     and said["free_after"] >= LEAST * said["free"],
                     "%d of %d free MiB, then CUDA's error %d; given back but %d MiB" % (
                         said["taken"] // MIB, said["free"] // MIB, said["error"],
                         (said["free"] - said["free_after"]) // MIB))


def used_mib(report):
    """Returns the MiB in use of the first GPU, by the driver's own count; None if it does not
    say."""
    done = report.do(*report.plain(report.tool("rmtool"), "info"))
    found = re.search(r"(\d+) ?MiB used", done.output)
    return int(found.group(1)) if found else None


def by_the_driver(report):
    """Judges what a slice's program took, seen from outside."""
    name = "the driver counts what a slice's program holds"
    before = used_mib(report)
    with report.start(report.slice(*program("hold", HELD_MIB), flags=["--mem", "%dMiB" % SLICE_MIB]),
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
        ready = select.select([one.stdout], [], [], 60)[0] and one.stdout.readline()
        held = used_mib(report)
        one.stdin.close()
        if not ready:
            one.kill()
    report.keep(name, [before, held])
    if not ready or before is None or held is None:
        report.judge(name, False, "it does not begin, or the driver does not say")
        return
    report.judge(name, HELD_MIB <= held - before <= SLICE_MIB and held - before <= HELD_MIB + CONTEXT_MIB,
                 "%d MiB held, %d MiB more used; the rest is its context" % (HELD_MIB, held - before))


def shared(report):
    """Graphs, and memory of two processes of one container."""
    for name, word in (("a graph", "graph"), ("a graph that allocates", "graph-memory")):
        said = in_slice(report, name, word)
        if said is not None:
            report.judge(name, said["took"] <= SLICE_MIB * MIB, "it keeps %d MiB" % (said["took"] // MIB))
    for name, word in (("IPC of two processes of one container", "ipc"),
                       ("exported memory (a descriptor) of two processes of one container", "vmm-fd")):
        said = in_slice(report, name, word)
        if said is not None:
            report.judge(name, said["other_took"] < said["shared"], "of %d MiB shared the other one's part "
                         "counts as %d MiB" % (said["shared"] // MIB, said["other_took"] // MIB))


def check(report):
    report.require_cgpu()
    raw_client(report)
    nvidia_smi(report)
    cuda(report)
    by_the_driver(report)
    fills(report)
    shared(report)
