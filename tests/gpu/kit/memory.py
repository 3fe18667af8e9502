"""A slice's memory: what programs see of it, where they are stopped, what they can use of it."""
import json
import shutil

SLICE_MIB = 2048
MIB = 1 << 20


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


def check(report):
    report.require_cgpu()
    raw_client(report)
    nvidia_smi(report)
    cuda(report)
