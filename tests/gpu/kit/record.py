"""Records what real programs ask of the driver: the sequence of their calls in a slice, which of
them cgpu answered itself or refused, and whether the program ends as it does without cgpu."""
import collections
import os
import shutil
import sys
import tempfile

from kit.frameworks import TORCH, has
from kit.memory import program

# Programs of kit/cuda_memory.py, with MiB.
MEMORY = (("managed", 64), ("pool", 64), ("vmm", 64), ("graph-memory",), ("ipc",), ("vmm-fd",))
STEPS = "1000000"  # of a kernel, whose length does not matter here


def candidates(report):
    """(name, words) of the programs that are here."""
    yield "rmtool info", [report.tool("rmtool"), "info"]
    if not report.node and shutil.which("nvidia-smi"):
        yield "nvidia-smi", ["nvidia-smi"]
        yield "nvidia-smi -q", ["nvidia-smi", "-q"]
    yield "CUDA driver API", report.cuda()
    yield "cgpu-burn", [report.tool("cgpu-burn"), "--cuda", "--seconds", "1", "--steps", STEPS]
    for words in MEMORY:
        yield "CUDA memory, " + words[0], program(*words)
    if report.node:
        return
    if has("torch"):
        yield "PyTorch start", [sys.executable, "-c", "import torch; torch.zeros(1).cuda()"]
        yield "PyTorch training steps", [sys.executable, "-c", TORCH]
    if shutil.which("vulkaninfo"):
        yield "vulkaninfo", ["vulkaninfo", "--summary"]


def is_error(status):
    """nvstatuscodes.h: warnings begin at 0x10000."""
    return status not in ("0x0", "-") and int(status, 16) < 0x10000


def look_at(report, name, words, folder):
    without = report.do(*report.plain(*words))
    path = os.path.join(folder, "record")
    with_cgpu = report.do(*report.slice(*words, flags=["--record", path]))
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        os.unlink(path)
    report.calls[name] = text
    calls = [line.split() for line in text.splitlines()]
    refused = collections.Counter(
        " ".join(call[2:-4]) for call in calls if len(call) >= 7 and call[-1] == "cgpu"
        and (is_error(call[-3]) or call[-2] != "0"))
    report.keep(name, {"without": [without.status, without.seconds, without.last_words()],
                       "with": [with_cgpu.status, with_cgpu.seconds, with_cgpu.last_words()],
                       "calls": len(calls), "refused": dict(refused)})
    report.judge(name, with_cgpu.status == without.status and (without.status != 0 or calls),
                 "%d calls, %.2f s (without cgpu %.2f s), %s%s" % (
                     len(calls), with_cgpu.seconds, without.seconds, with_cgpu.last_words()[:200],
                     "; refused: " + ", ".join("%s x%d" % item for item in refused.most_common(12))
                     if refused else ""))


def direct(report):
    """Records a program of ours alone, which looks at its own calls: this needs no user
    notification."""
    name = "a CUDA program without cgpu"
    done = report.do(*report.plain(report.tool("gpu-orders"), "record", "--steps", STEPS))
    report.calls[name] = done.output
    calls = done.output.splitlines()
    report.keep(name, [done.status, len(calls), done.errors])
    if done.status != 0 and "libcuda" in done.errors:
        report.row(name, "skip", done.last_words())
    else:
        report.judge(name, done.status == 0 and len(calls) > 5, "%d calls" % len(calls)
                     if done.status == 0 else done.last_words())


def check(report):
    direct(report)
    report.require_cgpu()
    with tempfile.TemporaryDirectory() as folder:
        for name, words in candidates(report):
            look_at(report, name, words, folder)
