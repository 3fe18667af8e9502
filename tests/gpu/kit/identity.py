"""Calls that the shim makes on a descriptor of the tenant's: does the driver take them as from the
tenant's own client? Each is made without cgpu, too, and must come to the same. Before that the same
is asked without a shim: one process makes another one's calls on descriptors that it takes of it."""
import json

WRONG_USAGE = 1  # or no driver to talk to

# (what, words of rmtool)
CALLS = (
    ("RM_ALLOC of memory, CONTROL, FREE", ["alloc", "64", "--page", "big"]),
    ("channel groups", ["alloc", "16", "--groups", "4"]),
    ("RM_ALLOC by its short form", ["raw", "alloc", "16", "--short"]),
    ("RM_ALLOC inside NV_ESC_IOCTL_XFER_CMD", ["raw", "alloc", "16", "--xfer"]),
    ("VID_HEAP_CONTROL", ["raw", "alloc", "16", "--vidheap"]),
    # 0x30000001 as number and size. It makes an address space of the file and the process.
    ("UVM_INITIALIZE", ["raw", "ioctl", "1", "0x3000", "--file", "uvm", "--type", "0", "--dir", "0"]),
    # NV_ESC_CARD_INFO names the GPUs: without cgpu all, with it those of the slice.
    ("NV_ESC_CARD_INFO", ["raw", "ioctl", "200", "2304"]),
)


def direct(report):
    """By two processes of our own; this needs no user notification."""
    done = report.do(*report.plain(report.tool("gpu-orders"), "identity"))
    said = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    report.keep("by two processes", [done.status, said, done.errors])
    if done.status != 0 or not said:
        report.judge("by two processes", False, done.last_words())
    for line in said:
        report.judge("by two processes: " + line["call"], line["good"], line["says"])


def check(report):
    direct(report)
    report.require_cgpu()
    tool = report.tool("rmtool")
    for what, words in CALLS:
        without = report.do(*report.plain(tool, *words))
        within = report.do(*report.slice(tool, *words, flags=["--mem", "1GiB"]))
        report.keep(what, {"without": [without.status, without.output, without.errors],
                           "with": [within.status, within.output, within.errors]})
        report.judge(what, without.status == within.status != WRONG_USAGE,
                     "with %s; without %s" % (within.last_words(), without.last_words()))
