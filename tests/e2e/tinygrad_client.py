"""tinygrad's NV back end as a client of the driver: opens a card, allocates until it is refused,
frees, and allocates as much again. Says a line at each step and waits for one on stdin.

Everything that reaches the driver is tinygrad's own and unchanged. Nothing runs on a simulated
card, so NVDevice.synchronize(), which waits for the card to write a signal, is replaced. With
--go-on it makes all its calls as well, and goes on after two that cgpu refuses: a debugger object,
which explains faults of the card, and RM_MAP_MEMORY_DMA, which maps memory a second time where
UVM_MAP_EXTERNAL_ALLOCATION maps it too."""
import argparse
import os
import sys

MIB = 1 << 20


def step(line):
    print(line)
    sys.stdout.flush()
    sys.stdin.readline()


def go_on(ops_nv):
    """A refused debugger object or RM mapping does not end the client."""
    nv_gpu, rm_alloc, nv_iowr = ops_nv.nv_gpu, ops_nv.NVKIface.rm_alloc, ops_nv.nv_iowr
    said = set()

    def note(what, status):
        if what not in said:
            print("goes on without %s: %s" % (what, status))
        said.add(what)

    def alloc(self, parent, clss, params=None, root=None):
        try:
            return rm_alloc(self, parent, clss, params, root)
        except RuntimeError as error:
            if clss != nv_gpu.GT200_DEBUGGER:
                raise
            note("a debugger", error)
            return 0

    def iowr(fd, nr, args, cmd=None):
        nv_iowr(fd, nr, args, cmd)
        if nr == nv_gpu.NV_ESC_RM_MAP_MEMORY_DMA and args.status == nv_gpu.NV_ERR_NOT_SUPPORTED:
            note("mappings by RM", args.status)
            args.status = 0

    ops_nv.NVKIface.rm_alloc, ops_nv.nv_iowr = alloc, iowr


def open_card(goes_on):
    os.environ["DEV"] = "NVK+NV"  # the kernel driver, never a card by PCI
    from tinygrad.runtime import ops_nv  # pylint: disable=import-outside-toplevel

    ops_nv.NVDevice.synchronize = lambda self, timeout=None: None
    if goes_on:
        go_on(ops_nv)
    return ops_nv.NVDevice("NV")


def fill(allocator, options):
    """Buffers until the smallest is refused, largest first."""
    buffers, size = [], 256 * MIB
    while size >= 2 * MIB:
        try:
            buffers.append((allocator.alloc(size, options), size))
        except MemoryError as error:
            print("refused %d: %s" % (size, error))
            size //= 2
    return buffers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--packages", help="the folder that holds tinygrad")
    given = parser.parse_args()
    if given.packages:
        sys.path.insert(0, given.packages)
    device = open_card(given.go_on)
    from tinygrad.device import BufferSpec  # pylint: disable=import-outside-toplevel

    step("opened %s" % device.arch)
    options = BufferSpec(nolru=True)  # a free is one at once
    for _ in range(2):
        buffers = fill(device.allocator, options)
        step("allocated %d" % sum(size for _, size in buffers))
        for buffer, size in buffers:
            device.allocator.free(buffer, size, options)
        step("freed %d" % len(buffers))


if __name__ == "__main__":
    main()
