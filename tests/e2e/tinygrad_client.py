"""tinygrad's NV back end as a client of the driver: opens a GPU, copies data there and back, has the
L2 cache emptied, allocates until it is refused, frees, and allocates as much again. Says a line at
each step and waits for one on stdin.

Everything that reaches the driver and the GPU is tinygrad's own and unchanged."""
import argparse
import os
import sys

MIB = 1 << 20


def step(line):
    print(line)
    sys.stdout.flush()
    sys.stdin.readline()


def open_card():
    os.environ["DEV"] = "NVK+NV"  # the kernel driver, never a GPU by PCI
    from tinygrad.runtime import ops_nv  # pylint: disable=import-outside-toplevel

    return ops_nv.NVDevice("NV")


def copy(allocator, options):
    """Random bytes to the GPU and back, by its copy engine; how many. Not the same: an error."""
    total = 0
    for size in (4, 4096, MIB + 12, 40 * MIB):
        there = bytearray(os.urandom(size))
        back = bytearray(size)
        buffer = allocator.alloc(size, options)
        allocator._copyin(buffer, memoryview(there))  # pylint: disable=protected-access
        allocator._copyout(memoryview(back), buffer)  # pylint: disable=protected-access
        allocator.free(buffer, size, options)
        if there != back:
            raise AssertionError("of %d bytes others came back" % size)
        total += size
    return total


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
    parser.add_argument("--packages", help="the folder that holds tinygrad")
    given = parser.parse_args()
    if given.packages:
        sys.path.insert(0, given.packages)
    device = open_card()
    from tinygrad.device import BufferSpec  # pylint: disable=import-outside-toplevel

    step("opened %s" % device.arch)
    options = BufferSpec(nolru=True)  # a free is one at once
    step("copied %d" % copy(device.allocator, options))
    device.invalidate_caches()  # as tinygrad does before each timed kernel of a search (BEAM)
    step("emptied")
    for _ in range(2):
        buffers = fill(device.allocator, options)
        step("allocated %d" % sum(size for _, size in buffers))
        for buffer, size in buffers:
            device.allocator.free(buffer, size, options)
        step("freed %d" % len(buffers))


if __name__ == "__main__":
    main()
