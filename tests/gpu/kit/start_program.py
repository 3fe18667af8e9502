"""Begins with CUDA as programs do, one step after the other, whatever the ones before came to:

    start_program.py driver    cuInit, a context, memory, a kernel, by the driver API
    start_program.py cudart    cudaGetDeviceCount and the GPU's clock, by CUDA's runtime library
    start_program.py both      cuInit, the runtime's steps, then the rest of the driver API's

It says as JSON what each came to: CUDA's error, or null where there is no such library. Names its thread
after the step that begins, which gpu-trace writes down. Names and numbers: docs.nvidia.com/cuda."""
import ctypes
import glob
import json
import os
import sys

from loops import SPIN, load

SET_NAME = 15  # PR_SET_NAME, <linux/prctl.h>
MIB = 1 << 20
CLOCK_RATE = 13  # CU_DEVICE_ATTRIBUTE_CLOCK_RATE, cudaDevAttrClockRate: kHz
STEPS = 1000
PLACES = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu", "/opt/cuda*/lib64",
          "/opt/conda/lib")
IN_PACKAGES = ("nvidia/cuda_runtime/lib", "nvidia/cu*/lib", "torch/lib")


class Start:
    def __init__(self):
        self.said = {}
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._libc = ctypes.CDLL(None)

    def step(self, name, function, *words):
        self._libc.prctl(SET_NAME, b">" + name.encode(), 0, 0, 0)
        self.said[name] = function(*words)
        return self.said[name] == 0

    def cuda(self, name, *words):
        return self.step(name.split("_")[0], getattr(self._cuda, name), *words)

    def init(self):
        self.cuda("cuInit", 0)

    def context(self):
        device, context, clock = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        module, kernel, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        if not self.cuda("cuDeviceGet", ctypes.byref(device), 0):
            return
        if self._cuda.cuDeviceGetAttribute(ctypes.byref(clock), CLOCK_RATE, device) == 0:
            self.said["clock_khz"] = clock.value
        if not self.cuda("cuCtxCreate_v2", ctypes.byref(context), 0, device):
            return
        self.cuda("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(MIB))
        if self.step("cuModuleLoadData", load, self._cuda.cuModuleLoadData, module, SPIN) and \
                self.cuda("cuModuleGetFunction", ctypes.byref(kernel), module, b"cgpu_spin"):
            steps = ctypes.c_uint64(STEPS)
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(steps))
            self.cuda("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
            self.cuda("cuCtxSynchronize")
        self.cuda("cuCtxDestroy_v2", context)

    def runtime(self):
        library = runtime_library()
        if library is None:
            self.said["cudaGetDeviceCount"] = None
            return
        count, clock = ctypes.c_int(), ctypes.c_int()
        self.step("cudaGetDeviceCount", library.cudaGetDeviceCount, ctypes.byref(count))
        self.said["cards"] = count.value
        if library.cudaDeviceGetAttribute(ctypes.byref(clock), CLOCK_RATE, 0) == 0:
            self.said["cudart_clock_khz"] = clock.value


def runtime_library():
    """The newest libcudart that can be loaded, or None."""
    folders = [*PLACES, *(os.path.join(path, part) for path in sys.path if path for part in IN_PACKAGES)]
    found = [path for folder in folders for path in glob.glob(os.path.join(folder, "libcudart.so*"))]
    for name in ["libcudart.so", *sorted(found, reverse=True)]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def main(what):
    start = Start()
    if what != "cudart":
        start.init()
    if what != "driver":
        start.runtime()
    if what != "cudart":
        start.context()
    start.step("end", lambda: 0)
    print(json.dumps(start.said))


if __name__ == "__main__":
    main(*sys.argv[1:])
