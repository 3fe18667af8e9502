"""A shim in the life of its container's processes, and what it keeps of them, seen from outside."""
import ctypes
import fcntl
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cgpu_test as t

INITIALIZE = 0x30000001
REGISTER_GPU = 37
CLEAN_UP_ZOMBIE_RESOURCES = 69
SYS_EXIT = 60
CLONE_FILES = 0x400
BASE = 1 << 40
MIB = t.MIB
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.syscall.argtypes = [ctypes.c_long, ctypes.c_long]


def _uvm(file, request, size, status, content=b""):
    params = bytearray(content.ljust(size, b"\0"))
    fcntl.ioctl(file, request, params)
    return struct.unpack_from("=I", params, status)[0]


def _serve(uvm, card, uuid):
    """Does what it is told, a line each."""
    file = -1
    for line in sys.stdin:
        word, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        answer = 0
        if word == "open":
            file = os.open(uvm, os.O_RDWR)
        elif word == "own-files":
            answer = LIBC.unshare(CLONE_FILES)
        elif word == "initialize":
            answer = _uvm(file, INITIALIZE, 16, 8)
        elif word == "register":
            os.open(card, os.O_RDWR)
            answer = _uvm(file, REGISTER_GPU, 40, 36, bytes.fromhex(uuid[4:].replace("-", "")))
        elif word == "clean":
            answer = _uvm(file, CLEAN_UP_ZOMBIE_RESOURCES, 4, 0)
        elif word == "mmap":
            address, length = numbers
            got = LIBC.mmap(address, length, 3, 0x11, file, address)
            answer = 0 if got == address else ctypes.get_errno()
        elif word == "munmap":
            answer = LIBC.munmap(*numbers)
        elif word == "close-another":
            os.close(os.open(card, os.O_RDWR))
        elif word == "groups":
            os.setgroups(range(100000, 100000 + numbers[0]))
        print("did %s %d" % (word, answer), flush=True)
    os._exit(0)


def tenant(leave, *files):
    """With `leave` its first thread ends when another has taken over."""
    if leave == "stay":
        _serve(*files)
    thread = threading.Thread(target=_serve, args=files)
    thread.start()
    if leave == "leave":
        LIBC.syscall(SYS_EXIT, 0)
    thread.join()


def start(node, leave="stay"):
    return node.run([sys.executable, "-u", os.path.abspath(__file__), "--tenant", leave,
                     "/dev/nvidia-uvm", "/dev/nvidia0", node.info()["gpus"][0]["uuid"]],
                    name="tenant")


def do(process, *words):
    process.say(" ".join(str(word) for word in words))
    found = process.expect(r"did (\S+) (\d+)")
    t.check(found.group(1) == words[0] and found.group(2) == "0", "%s: %s" % (words, found.group()))


def _counted(node):
    return node.containers()[0]["gpus"][0]["used_bytes"]


def _managed(node, process):
    """A range that goes and one that stays: the accounting follows the one and keeps the other."""
    do(process, "open")
    do(process, "initialize")
    do(process, "register")
    do(process, "mmap", BASE, 64 * MIB)
    do(process, "mmap", 2 * BASE, 32 * MIB)
    t.check(_counted(node) >= 96 * MIB, "not both ranges count")
    do(process, "munmap", 2 * BASE, 32 * MIB)
    do(process, "close-another")
    t.wait_for(lambda: _counted(node) < 96 * MIB, "what was unmapped counts still")
    t.check(_counted(node) >= 64 * MIB, "%d MiB count, not 64" % (_counted(node) // MIB))
    node.sync()
    gpu = node.books()["gpus"][0]
    t.check(gpu["managed_bytes"] == 64 * MIB, "the driver's books: %s" % gpu)
    do(process, "mmap", 2 * BASE, 32 * MIB)
    t.check(_counted(node) >= 96 * MIB, "a new range is not counted")
    do(process, "clean")


def leader():
    """The first thread of a process has ended, others go on."""
    with t.Node() as node:
        process = start(node, "leave")
        _managed(node, process)
        t.check(process.end() == 0, "the tenant failed")


def tables():
    """A thread with descriptors of its own has the file of nvidia-uvm."""
    with t.Node() as node:
        process = start(node, "thread")
        do(process, "own-files")
        _managed(node, process)
        t.check(process.end() == 0, "the tenant failed")


def groups():
    """A user in as many groups as the kernel allows uses the driver like any other."""
    with t.Node() as node:
        process = start(node)
        do(process, "groups", 65536)
        _managed(node, process)
        t.check(process.end() == 0, "the tenant failed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tenant"]:
        tenant(*sys.argv[2:])
    else:
        t.main({"leader": leader, "tables": tables, "groups": groups})
