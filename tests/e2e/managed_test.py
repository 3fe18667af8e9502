"""Managed memory of the simulated driver: mmaps of /dev/nvidia-uvm, found in the processes."""
import ctypes
import fcntl
import os
import signal
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cgpu_test as t

INITIALIZE = 0x30000001
REGISTER_GPU = 37
CLEAN_UP_ZOMBIE_RESOURCES = 69
SHARING = 2
BASE = 1 << 40
HIGH = 6 << 44  # between what the kernel gives a program and its libraries
PAGE = 4096
MIB = t.MIB
READ_WRITE = 3
SHARED, PRIVATE, FIXED = 1, 2, 0x10
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def tenant(uvm, card, uuid):
    """Does what it is told, a line each."""
    file = os.open(uvm, os.O_RDWR)
    os.open(card, os.O_RDWR)
    print("ready")
    for line in sys.stdin:
        word, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        answer = 0
        if word == "initialize":
            params = bytearray(struct.pack("=QII", numbers[0], 0, 0))
            fcntl.ioctl(file, INITIALIZE, params)
            answer = struct.unpack_from("=I", params, 8)[0]
        elif word == "register":
            params = bytearray(40)
            params[:16] = bytes.fromhex(uuid.replace("GPU-", "").replace("-", ""))
            fcntl.ioctl(file, REGISTER_GPU, params)
            answer = struct.unpack_from("=I", params, 36)[0]
        elif word == "clean":
            params = bytearray(4)
            fcntl.ioctl(file, CLEAN_UP_ZOMBIE_RESOURCES, params)
            answer = struct.unpack("=I", params)[0]
        elif word == "mmap":
            address, length, flags, offset = numbers
            got = LIBC.mmap(address, length, READ_WRITE, flags | FIXED, file, offset)
            answer = 0 if got == address else ctypes.get_errno()
        elif word == "munmap":
            answer = LIBC.munmap(*numbers)
        elif word == "write":
            address, value = numbers
            ctypes.memset(address, value, PAGE)
        elif word == "holds":  # as the driver has it, not the kernel's pages of the file
            address, value = numbers
            os.posix_fadvise(file, address, PAGE, os.POSIX_FADV_DONTNEED)
            answer = 0 if ctypes.string_at(address, PAGE) == bytes([value]) * PAGE else 1
        elif word == "child":  # maps through the same file, then waits to be killed
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                address, length = numbers
                os.write(write, b"m" if LIBC.mmap(address, length, READ_WRITE, SHARED | FIXED,
                                                  file, address) == address else b"x")
                signal.pause()
            answer = 0 if os.read(read, 1) == b"m" else 1
        elif word == "end-child":
            os.kill(child, 9)
            os.waitpid(child, 0)
        print("did %s %d" % (word, answer))


def start(node):
    info = node.info()
    files = {file["name"]: file["path"] for file in info["files"]}
    process = t.Process([sys.executable, "-u", os.path.abspath(__file__), "--tenant",
                         files["nvidia-uvm"], files["nvidia0"], info["gpus"][0]["uuid"]], "tenant")
    process.expect("ready")
    return process


def do(process, *words):
    process.say(" ".join(str(word) for word in words))
    found = process.expect(r"did (\S+) (\d+)")
    t.check(found.group(1) == words[0] and found.group(2) == "0", "%s: %s" % (words, found.group()))


def holds(node, wanted, sentence):
    node.sync()
    gpu = node.books()["gpus"][0]
    t.check(gpu["managed_bytes"] == wanted and gpu["used_bytes"] == wanted,
            "%s: %s" % (sentence, gpu))


def mapped():
    """A range counts from mmap to munmap, in blocks of 2 MiB, and what mmap would refuse never."""
    with t.Node() as node:
        process = start(node)
        do(process, "mmap", 2 * BASE, 4 * MIB, SHARED, 2 * BASE)  # before UVM_INITIALIZE
        do(process, "initialize", SHARING)
        do(process, "register")
        do(process, "mmap", BASE, 512 * MIB, SHARED, BASE)
        do(process, "mmap", 3 * BASE, 4 * MIB, SHARED, 5 * BASE)
        do(process, "mmap", 4 * BASE, 4 * MIB, PRIVATE, 4 * BASE)
        holds(node, 512 * MIB, "one good range")
        why = sorted(entry["why"] for entry in node.books()["uvm_refused_mappings"])
        t.check(why == ["address is not the offset", "not initialised", "not shared and writable"],
                "refused: %s" % why)
        do(process, "munmap", BASE + 4096, 256 * MIB - 4096)
        holds(node, 258 * MIB, "a page of the first block and the second half are left")
        do(process, "munmap", BASE, 512 * MIB)
        holds(node, 0, "after munmap")
        do(process, "mmap", BASE, 512 * MIB, SHARED, BASE)
        holds(node, 512 * MIB, "again")
        process.kill()
        process.wait()
        holds(node, 0, "after the last close")


def content():
    """Content that was written is there: for every mapping of the file at the address, and for no
    other file."""
    with t.Node() as node:
        one, other = start(node), start(node)
        for process in (one, other):
            do(process, "initialize", SHARING)
            do(process, "register")
            do(process, "mmap", BASE, 4 * MIB, SHARED, BASE)
            do(process, "holds", BASE, 0)
        do(one, "write", BASE, 1)
        do(one, "write", BASE + 4 * MIB - PAGE, 2)
        do(one, "munmap", BASE, 4 * MIB)
        do(one, "mmap", BASE, 4 * MIB, SHARED, BASE)
        do(one, "holds", BASE, 1)
        do(one, "holds", BASE + PAGE, 0)
        do(one, "holds", BASE + 4 * MIB - PAGE, 2)
        do(other, "holds", BASE, 0)
        do(other, "mmap", HIGH, PAGE, SHARED, HIGH)
        do(other, "write", HIGH, 3)
        do(other, "munmap", HIGH, PAGE)
        do(other, "mmap", HIGH, PAGE, SHARED, HIGH)
        do(other, "holds", HIGH, 3)


def zombies():
    """Ranges outlive their process where the file is shared, until they are cleaned up."""
    for flags, left in ((SHARING, 64 * MIB), (0, 0)):
        with t.Node() as node:
            process = start(node)
            do(process, "initialize", flags)
            do(process, "register")
            do(process, "child", BASE, 64 * MIB)
            holds(node, 64 * MIB if flags else 0, "the child's range")
            do(process, "end-child")
            holds(node, left, "after the child's end")
            do(process, "clean")
            holds(node, 0, "after UVM_CLEAN_UP_ZOMBIE_RESOURCES")
            process.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tenant"]:
        tenant(*sys.argv[2:])
    else:
        t.main({"mapped": mapped, "content": content, "zombies": zombies})
