"""How many threads a shim has, by /proc. Cases by name."""
import os

import cgpu_test as t

# Calls that the shim answers by itself, so that it and the caller only hand the processor to each
# other: RM_CONTROL on a client that does not exist. For each line of its input, a number of calls.
CALLS = """
import fcntl, struct, sys
files = [open("/dev/nvidiactl", "rb", 0) for _ in range(2)]
for line in sys.stdin:
    for _ in range(int(line)):
        reply = fcntl.ioctl(files[0], 0xc020462a, struct.pack("<IIIIQII", 7, 7, 0x101, 0, 0, 0, 0))
        assert struct.unpack("<IIIIQII", reply)[-1] != 0
    print("did %d" % int(line), flush=True)
"""
ENOUGH = 12  # that listen or are parked, and what the shim has besides


def _shim_of(node):
    """To the driver the shim is the caller."""
    pids = {client["pid"] for client in node.books()["clients"]}
    t.check(len(pids) == 1, "the driver knows callers %s" % pids)
    return pids.pop()


def one_processor():
    """On one processor the caller often goes on before the shim's thread is back: however fast it
    calls, a few threads serve it, and no call is left lying."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with t.Node("v100-16g:1") as node:
        process = node.run(["python3", "-c", CALLS], name="calls")
        process.say("1")
        process.expect("^did 1$")
        shim = _shim_of(node)
        most = 0
        for _ in range(20):
            process.say("1000")
            process.expect("^did 1000$")
            most = max(most, len(os.listdir("/proc/%d/task" % shim)))
        print("%d threads at most" % most)
        t.check(most <= ENOUGH, "%d threads for one caller" % most)
        t.check(process.end() == 0, "the calls failed")


if __name__ == "__main__":
    t.main({"one-processor": one_processor})
