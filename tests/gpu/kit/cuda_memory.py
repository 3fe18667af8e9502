"""The kinds of memory that CUDA has beside cuMemAlloc, each as a program of the driver API alone:

    cuda_memory.py plain|managed|pool|vmm MOST [BESIDE]   takes memory of this kind until there is none
                            or it has MOST MiB, uses it and gives it back; BESIDE MiB of cuMemAlloc first
    cuda_memory.py hold MIB                    takes that by cuMemAlloc, and waits for the end of its input
    cuda_memory.py graph|graph-memory          a graph of copies; one that allocates
    cuda_memory.py ipc|vmm-fd                  what one process allocated, another one reads and writes

It says as JSON what it saw; {"skip": why} where the library or the driver says it has no such thing.
Names, numbers and layouts: docs.nvidia.com/cuda/cuda-driver-api."""
import ctypes
import json
import os
import subprocess
import sys

MIB = 1 << 20
CHUNKS = (64 * MIB, 16 * MIB, 2 * MIB)
SHARED = 64 * MIB  # by two processes
NOT_SUPPORTED = (801,)
ATTACH_GLOBAL = 1
RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
PINNED, DEVICE, POSIX_FD, READ_WRITE = 1, 1, 1, 3
THREAD_LOCAL = 1  # of a capture
LAZY_PEER_ACCESS = 1
HERE, THERE = b"written by the owner ".ljust(256, b"."), b"written by the other ".ljust(256, b"!")


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", ctypes.c_int * 2),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""
    _fields_ = [("location", ctypes.c_int * 2), ("flags", ctypes.c_int)]


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""
    _fields_ = [("reserved", ctypes.c_char * 64)]


class Skip(Exception):
    """There is no such thing here."""


class Cuda:
    """A context on the first GPU."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def tried(self, name, *words):
        """CUDA's error."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise Skip("this libcuda has no %s" % name) from None
        error = function(*words)
        if error in NOT_SUPPORTED:
            raise Skip("%s: CUDA's error %d" % (name, error))
        return error

    def call(self, name, *words):
        error = self.tried(name, *words)
        if error != 0:
            raise SystemExit("%s: CUDA's error %d" % (name, error))

    def info(self):
        """(free, total)"""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def write(self, address, text):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), text, ctypes.c_size_t(len(text)))

    def read(self, address, length):
        text = ctypes.create_string_buffer(length)
        self.call("cuMemcpyDtoH_v2", text, ctypes.c_uint64(address), ctypes.c_size_t(length))
        return text.raw

    def touch(self, address, size):
        """All of it by the GPU, where the library can; else its two ends."""
        try:
            self.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size))
        except Skip:
            self.write(address, bytes(16))
            self.write(address + size - 16, bytes(16))
        self.call("cuCtxSynchronize")


class Plain:
    """cuMemAlloc, and what all kinds have."""

    def __init__(self, cuda):
        self.cuda = cuda

    def take(self, size):
        """(CUDA's error, address)"""
        address = ctypes.c_uint64()
        return self.cuda.tried("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)), address.value

    def give(self, address, size):
        self.cuda.call("cuMemFree_v2", ctypes.c_uint64(address))

    def end(self):
        """All was given back."""


class Managed(Plain):
    def take(self, size):
        address = ctypes.c_uint64()
        return self.cuda.tried("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(size),
                               ctypes.c_uint(ATTACH_GLOBAL)), address.value


class Pool(Plain):
    """The GPU's default pool, which keeps what it has."""

    def __init__(self, cuda):
        super().__init__(cuda)
        self._pool = ctypes.c_void_p()
        cuda.call("cuDeviceGetDefaultMemPool", ctypes.byref(self._pool), cuda.device)
        keep = ctypes.c_uint64(2 ** 64 - 1)
        cuda.call("cuMemPoolSetAttribute", self._pool, RELEASE_THRESHOLD, ctypes.byref(keep))

    def take(self, size):
        address = ctypes.c_uint64()
        return self.cuda.tried("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), None), \
            address.value

    def give(self, address, size):
        self.cuda.call("cuMemFreeAsync", ctypes.c_uint64(address), None)

    def end(self):
        self.cuda.call("cuCtxSynchronize")
        self.cuda.call("cuMemPoolTrimTo", self._pool, ctypes.c_size_t(0))


class Virtual(Plain):
    """Memory and addresses apart."""

    def __init__(self, cuda, handle_types=0):
        super().__init__(cuda)
        self._properties = Properties(type=PINNED, handle_types=handle_types,
                                      location=(DEVICE, cuda.device.value))
        size = ctypes.c_size_t()
        cuda.call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(self._properties), 0)
        if CHUNKS[-1] % size.value != 0:
            raise SystemExit("memory comes in pieces of %d bytes" % size.value)

    def create(self, size):
        """(CUDA's error, handle)"""
        handle = ctypes.c_uint64()
        return self.cuda.tried("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size),
                               ctypes.byref(self._properties), ctypes.c_uint64(0)), handle

    def map(self, handle, size):
        """(CUDA's error, address); the handle is released."""
        where, access = ctypes.c_uint64(), Access((DEVICE, self.cuda.device.value), READ_WRITE)
        self.cuda.call("cuMemAddressReserve", ctypes.byref(where), ctypes.c_size_t(size), ctypes.c_size_t(0),
                       ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.cuda.call("cuMemMap", where, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        # Only now are there page tables.
        error = self.cuda.tried("cuMemSetAccess", where, ctypes.c_size_t(size), ctypes.byref(access),
                                ctypes.c_size_t(1))
        self.cuda.call("cuMemRelease", handle)
        if error != 0:
            self.give(where.value, size)
        return error, where.value

    def take(self, size):
        error, handle = self.create(size)
        return (error, 0) if error != 0 else self.map(handle, size)

    def give(self, address, size):
        self.cuda.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
        self.cuda.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))


def fill(cuda, kind, most, beside):
    kind, held = kind(cuda), []
    if beside:
        error, _ = Plain(cuda).take(beside)
        if error != 0:
            raise SystemExit("cuMemAlloc of %d MiB: CUDA's error %d" % (beside // MIB, error))
    free, total = cuda.info()
    taken, first = 0, 0
    for size in CHUNKS:
        while taken + size <= most:
            error, address = kind.take(size)
            if error != 0:
                first = first or error
                break
            held.append((address, size))
            taken += size
            cuda.touch(address, size)
    if held:
        cuda.write(held[0][0], HERE)
        cuda.write(held[-1][0], THERE)
        if len(held) > 1 and (cuda.read(held[0][0], len(HERE)), cuda.read(held[-1][0], len(THERE))) != (HERE, THERE):
            raise SystemExit("what was written is not there")
    for address, size in held:
        kind.give(address, size)
    kind.end()
    return {"total": total, "free": free, "taken": taken, "error": first, "free_after": cuda.info()[0]}


def hold(cuda, size):
    error, address = Plain(cuda).take(size)
    if error != 0:
        raise SystemExit("cuMemAlloc: CUDA's error %d" % error)
    cuda.touch(address, size)
    print(json.dumps({"holds": size}), flush=True)
    sys.stdin.read()
    return {}


def graph(cuda, allocates):
    """Four launches of one graph: it copies, or allocates, sets and frees."""
    stream, made, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_size_t(16 * MIB)
    error, address = Plain(cuda).take(size.value)
    if error != 0:
        raise SystemExit("cuMemAlloc: CUDA's error %d" % error)
    free = cuda.info()[0]
    cuda.call("cuStreamCreate", ctypes.byref(stream), 1)
    cuda.call("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
    inside = ctypes.c_uint64(address)
    if allocates:
        cuda.call("cuMemAllocAsync", ctypes.byref(inside), size, stream)
    cuda.call("cuMemsetD8Async", inside, ctypes.c_ubyte(7), size, stream)
    if allocates:
        cuda.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(address), inside, size, stream)
        cuda.call("cuMemFreeAsync", inside, stream)
    cuda.call("cuStreamEndCapture", stream, ctypes.byref(made))
    cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), made, ctypes.c_ulonglong(0))
    for _ in range(4):
        cuda.call("cuGraphLaunch", ready, stream)
    cuda.call("cuStreamSynchronize", stream)
    if cuda.read(address, 16) != bytes([7]) * 16:
        raise SystemExit("the graph did not do its work")
    return {"took": free - cuda.info()[0]}


def other(word, text, **options):
    """The other process; what it says."""
    done = subprocess.run([sys.executable, __file__, word], input=text, capture_output=True, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise SystemExit("the other process: " + done.stderr.strip())
    said = json.loads(done.stdout.splitlines()[-1])
    if "skip" in said:
        raise Skip(said["skip"])
    return said


def share(cuda, address, send):
    """Checks that what the other is to read is there, then what it wrote."""
    cuda.write(address, HERE)
    cuda.call("cuCtxSynchronize")
    said = send()
    if cuda.read(address, len(THERE)) != THERE:
        raise SystemExit("what the other process wrote is not there")
    return {"shared": SHARED, "other_took": said["took"]}


def visit(cuda, address, free):
    """`free`: before it had the memory."""
    if cuda.read(address, len(HERE)) != HERE:
        raise SystemExit("what the owner wrote is not there")
    cuda.write(address, THERE)
    cuda.call("cuCtxSynchronize")
    return {"took": free - cuda.info()[0]}


def ipc(cuda):
    handle = IpcHandle()
    error, address = Plain(cuda).take(SHARED)
    if error != 0:
        raise SystemExit("cuMemAlloc: CUDA's error %d" % error)
    cuda.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
    return share(cuda, address, lambda: other("ipc-other", bytes(handle).hex()))


def ipc_other(cuda):
    address, handle = ctypes.c_uint64(), IpcHandle.from_buffer_copy(bytes.fromhex(sys.stdin.read()))
    free = cuda.info()[0]
    cuda.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, LAZY_PEER_ACCESS)
    said = visit(cuda, address.value, free)
    cuda.call("cuIpcCloseMemHandle", address)
    return said


def vmm_fd(cuda):
    virtual = Virtual(cuda, POSIX_FD)
    error, handle = virtual.create(SHARED)
    if error != 0:
        raise SystemExit("cuMemCreate: CUDA's error %d" % error)
    file = ctypes.c_int(-1)
    cuda.call("cuMemExportToShareableHandle", ctypes.byref(file), handle, POSIX_FD, ctypes.c_uint64(0))
    error, address = virtual.map(handle, SHARED)
    if error != 0:
        raise SystemExit("cuMemSetAccess: CUDA's error %d" % error)
    try:
        return share(cuda, address,
                     lambda: other("vmm-fd-other", str(file.value), pass_fds=[file.value]))
    finally:
        os.close(file.value)


def vmm_fd_other(cuda):
    virtual, handle = Virtual(cuda, POSIX_FD), ctypes.c_uint64()
    free = cuda.info()[0]
    cuda.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(int(sys.stdin.read())),
              POSIX_FD)
    error, address = virtual.map(handle, SHARED)
    if error != 0:
        raise SystemExit("cuMemSetAccess: CUDA's error %d" % error)
    return visit(cuda, address, free)


def run(word, numbers):
    cuda = Cuda()
    kinds = {"plain": Plain, "managed": Managed, "pool": Pool, "vmm": Virtual}
    if word in kinds:
        return fill(cuda, kinds[word], numbers[0] * MIB, (numbers[1] if len(numbers) > 1 else 0) * MIB)
    if word == "hold":
        return hold(cuda, numbers[0] * MIB)
    if word.startswith("graph"):
        return graph(cuda, word == "graph-memory")
    return {"ipc": ipc, "ipc-other": ipc_other, "vmm-fd": vmm_fd, "vmm-fd-other": vmm_fd_other}[word](cuda)


def main():
    try:
        print(json.dumps(run(sys.argv[1], [int(word) for word in sys.argv[2:]])))
    except Skip as reason:
        print(json.dumps({"skip": str(reason)}))


if __name__ == "__main__":
    main()
