"""A program that uses CUDA's driver API and nothing else: a context, memory, copies. With the word
"fill" it takes memory until there is none; with "fault" it runs a kernel that accesses an address at
which nothing is. It says as JSON what it saw. Names and numbers: docs.nvidia.com/cuda/cuda-driver-api."""
import ctypes
import json
import sys
import time

from loops import load

MIB = 1 << 20
SMALLEST = 2 * MIB
FAULT = """.version 6.0
.target sm_70
.address_size 64

.visible .entry cgpu_fault()
{
  .reg .b64 %address;
  .reg .b32 %value;

  mov.u64 %address, 16;
  mov.u32 %value, 1;
  st.global.u32 [%address], %value;
  ret;
}
"""


def fault(call, cuda):
    """CUDA's error for the kernel."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    if (error := load(cuda.cuModuleLoadData, module, FAULT)) != 0:
        raise SystemExit("cuModuleLoadData: CUDA's error %d" % error)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"cgpu_fault")
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return cuda.cuCtxSynchronize()


def main():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *words):
        error = getattr(cuda, name)(*words)
        if error != 0:
            raise SystemExit("%s: CUDA's error %d" % (name, error))

    begin = time.perf_counter()
    call("cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    total, free, again = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    context_ms = 1000 * (time.perf_counter() - begin)
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(again))
    found = {"total": again.value, "device_total": total.value, "free": free.value,
             "context": again.value - free.value, "allocated": 0, "error": 0,
             "context_ms": context_ms}
    if sys.argv[1:] == ["fault"]:
        found["error"] = fault(call, cuda)
    elif sys.argv[1:] == ["fill"]:
        size = 64 * MIB
        while size >= SMALLEST:
            pointer = ctypes.c_uint64()
            error = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
            if error == 0:
                found["allocated"] += size
            else:
                found["error"] = error
                size //= 2
    else:
        pointer = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(MIB))
        text = ctypes.create_string_buffer(b"cgpu" * 64)
        back = ctypes.create_string_buffer(len(text))
        call("cuMemcpyHtoD_v2", pointer, text, ctypes.c_size_t(len(text)))
        call("cuMemcpyDtoH_v2", back, pointer, ctypes.c_size_t(len(text)))
        if back.raw != text.raw:
            raise SystemExit("a copy came back as something else")
        call("cuMemFree_v2", pointer)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
