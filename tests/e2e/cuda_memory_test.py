"""Each kind of memory that CUDA has, in a slice of a simulated node: no more than the slice by the
driver's accounting, nearly all of it, and nothing is left. Cases: by branch of the driver."""
import json
import os
import sys

import cgpu_test as t

CUDA = os.path.abspath(os.environ.get("CGPU_CUDA", os.path.join(t.BIN, os.pardir, "cuda")))
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gpu", "kit", "cuda_memory.py")
BRANCHES = ("535", "550", "570", "580", "590", "595", "610")
SLICE_MIB = 512
OUT_OF_MEMORY = 2


def _said(process):
    t.check(process.end() == 0, "%s failed" % process.name)
    said = json.loads(process.lines[-1])
    t.check("skip" not in said, "%s: %s" % (process.name, said))
    return said


def kinds(driver):
    environment = {**os.environ, "LD_LIBRARY_PATH": CUDA}
    with t.Node("h100:1", driver=driver) as node:
        def start(*words):
            return node.run([sys.executable, PROGRAM, *words], mem="%dMiB" % SLICE_MIB, name=words[0],
                            env=environment)

        for words in (("plain", "1024"), ("managed", "1024"), ("managed", "1024", "128"), ("pool", "1024"),
                      ("vmm", "1024")):
            with t.Peak(node) as peak:
                said = _said(start(*words))
            t.check(said["error"] == OUT_OF_MEMORY and said["taken"] >= 0.95 * said["free"], "%s: %s" % (words, said))
            t.check(peak.bytes <= SLICE_MIB * t.MIB, "%s took %d bytes" % (words, peak.bytes))
            t.check(said["free_after"] == said["free"], "%s gave back less: %s" % (words, said))
            node.wait_used(0, "after " + words[0])
        t.check(_said(start("graph"))["took"] == 0, "a graph that allocates nothing keeps memory")
        t.check(_said(start("graph-memory"))["took"] >= 16 * t.MIB, "a graph's memory is nowhere")
        for word in ("ipc", "vmm-fd"):
            said = _said(start(word))
            t.check(said["other_took"] < t.MIB, "%s counts twice: %s" % (word, said))
            node.wait_used(0, "after " + word)


if __name__ == "__main__":
    t.main({driver: lambda driver=driver: kinds(driver) for driver in BRANCHES})
