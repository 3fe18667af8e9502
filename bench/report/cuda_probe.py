"""A CUDA program of the driver API alone, for the report's tenants on a real GPU:

    cuda_probe.py copies within|in|out SECONDS   copies memory for so long, within the GPU, to it or from it, and
                                                 says as JSON how many GiB a second; 0: until its input ends
    cuda_probe.py leave MIB TOKEN                fills so much with the token, gives it back and ends
    cuda_probe.py look MIB TOKEN                 takes so much, and says how often the token is there, and how many
                                                 bytes are not zero

{"skip": why} where the library has no such thing. Names and numbers: docs.nvidia.com/cuda/cuda-driver-api."""
import ctypes
import json
import os
import select
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/gpu/kit"))
from cuda_memory import MIB, Cuda, Plain, Skip  # noqa: E402

COPY = 256 * MIB  # more than any GPU's cache
PIECE = 64 * MIB


def taken(cuda, size):
    error, address = Plain(cuda).take(size)
    if error != 0:
        raise SystemExit("cuMemAlloc of %d MiB: CUDA's error %d" % (size // MIB, error))
    return address


def pinned(cuda, size):
    """Memory of the host that the copy engines read and write by themselves."""
    address = ctypes.c_void_p()
    if cuda.tried("cuMemAllocHost_v2", ctypes.byref(address), ctypes.c_size_t(size)) != 0:
        raise SystemExit("cuMemAllocHost of %d MiB fails" % (size // MIB))
    return address


def copier(cuda, kind):
    """Returns what starts one copy."""
    there, size = ctypes.c_uint64(taken(cuda, COPY)), ctypes.c_size_t(COPY)
    if kind == "within":
        source = ctypes.c_uint64(taken(cuda, COPY))
        return lambda: cuda.call("cuMemcpyDtoDAsync_v2", there, source, size, None)
    here = pinned(cuda, COPY)
    if kind == "in":
        return lambda: cuda.call("cuMemcpyHtoDAsync_v2", there, here, size, None)
    return lambda: cuda.call("cuMemcpyDtoHAsync_v2", here, there, size, None)


def copies(cuda, kind, seconds):
    copy = copier(cuda, kind)
    copy()
    cuda.call("cuCtxSynchronize")
    print(json.dumps({"begins": kind}), flush=True)
    began, count = time.monotonic(), 0
    while True:
        copy()
        cuda.call("cuCtxSynchronize")
        count += 1
        passed = time.monotonic() - began
        if seconds and passed >= seconds:
            return {"gib_per_s": count * COPY / (1 << 30) / passed}
        if not seconds and select.select([sys.stdin], [], [], 0)[0]:
            return {"copies": count}


def leave(cuda, size, token):
    address, words = taken(cuda, size), token.ljust(16, b".")
    text = words * (PIECE // len(words))
    for at in range(0, size, PIECE):
        cuda.write(address + at, text[:min(PIECE, size - at)])
    cuda.call("cuCtxSynchronize")
    Plain(cuda).give(address, size)
    return {"left": size}


def look(cuda, size, token):
    address, found, other = taken(cuda, size), 0, 0
    for at in range(0, size, PIECE):
        text = cuda.read(address + at, min(PIECE, size - at))
        found += text.count(token)
        other += len(text) - text.count(0)
    return {"looked": size, "found": found, "not_zero": other}


def main():
    verb, *words = sys.argv[1:]
    try:
        cuda = Cuda()
        if verb == "copies":
            said = copies(cuda, words[0], float(words[1]))
        else:
            said = {"leave": leave, "look": look}[verb](cuda, int(words[0]) * MIB, words[1].encode())
    except Skip as reason:
        said = {"skip": str(reason)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
