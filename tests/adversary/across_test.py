"""Attacks that name one GPU's objects below another's device (across.cc): the limit of each GPU holds by
itself."""
from attack import argv
from cgpu_test import MIB, Node, Peak, check, main

SLICE = 16  # MiB, of each GPU
OWN, WANTED = 12, 24  # MiB of GPU 0's memory, and of tables on it
GPUS = "v100-16g:2"


def _counted(node):
    """Bytes that cgpu counts, by the number of the GPU."""
    node.sync()
    indices = {gpu["uuid"]: gpu["index"] for gpu in node.info()["gpus"]}
    (container,) = node.containers()
    return {indices[gpu["uuid"]]: gpu["used_bytes"] for gpu in container["gpus"]}


def _without(words, judge):
    with Node(GPUS) as node:
        process = node.exec(argv(*words), name="without cgpu")
        process.expect("^holding$")
        judge(node, process)
        check(process.end() == 0, "the attack failed")
        node.wait_used(0, "after the attack without cgpu")


def _within(words, judge=None, slice_mib=SLICE):
    with Node(GPUS) as node:
        with Peak(node, gpu=0) as first, Peak(node, gpu=1) as second:
            process = node.run(argv(*words), mem="%dMiB" % slice_mib, flags=("--gpus", "2"), name="with cgpu")
            process.expect("^holding$")
            node.sync()
            print("in use %s, counted %s" % ([node.used(gpu) for gpu in (0, 1)], _counted(node)))
            for index, ours in _counted(node).items():
                drivers = node.used(index)
                check(drivers <= ours <= slice_mib * MIB,
                      "GPU %d: cgpu counts %d bytes, the driver %d" % (index, ours, drivers))
            if judge:
                judge(node, process)
            check(process.end() == 0, "the attack failed")
            node.wait_used(0, "after the attack's end")
        for peak in (first, second):
            check(peak.readings > 0, "the books were never read")
            check(peak.bytes <= slice_mib * MIB, "at some time %d bytes were in use" % peak.bytes)


def _more(node, process):
    used = node.used(0) // MIB
    check(used > OWN + WANTED - 1, "without cgpu it got %d MiB of GPU 0: it proves nothing" % used)


def intervals():
    """Intervals of GPU 0's addresses below GPU 1's device, which have their tables on GPU 0."""
    _without(["across-intervals", WANTED, OWN], _more)
    _within(["across-intervals", WANTED, OWN])


def mappings():
    """Mappings of either GPU's memory in such a range."""
    for gpu in (0, 1):
        _without(["across-mappings", gpu, WANTED, OWN], _more)
        _within(["across-mappings", gpu, WANTED, OWN])


def channels():
    """Channels and context shares of GPU 1 in GPU 0's address space."""
    def answered(status):
        def judge(_node, process):
            check([line.split()[1] for line in process.lines if " 0x" in line] == [status] * 3,
                  "it said %s" % process.lines)

        return judge

    _without(["across-channels"], answered("0x0"))
    _within(["across-channels"], answered("0x33"), slice_mib=1024)  # NV_ERR_INVALID_OBJECT_HANDLE


main({"across-intervals": intervals, "across-mappings": mappings, "across-channels": channels})
