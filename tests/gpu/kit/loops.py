"""Work that is done again and again. Says "ready"; then for each line

    NAME SECONDS STEPS

does the work of this name for so long and says how often a second, as JSON. `calibrate` says how many
steps a kernel makes in a microsecond; allocations are of 8 MiB; queued, waited and graphs are of kernels of so many STEPS, by
CUDA's driver API (names and numbers: docs.nvidia.com/cuda/cuda-driver-api); gemm, train and decode are
PyTorch's. What a work needs is made when it is first wanted, and kept."""
import ctypes
import json
import sys
import time

NOT_TIMED, NON_BLOCKING, THREAD_LOCAL = 2, 1, 1
BATCH, BATCHES = 64, 3  # launches that are waited for at once, and how many of these are under way
OF_A_GRAPH, GRAPHS = 50, 3
# As in tests/load/burn/spin_kernel.h, which says why there are two targets.
TARGET, LATER_TARGET = ".version 6.0\n.target sm_70\n", ".version 6.3\n.target sm_75\n"
SPIN = """.version 6.0
.target sm_70
.address_size 64

.visible .global .align 4 .u32 cgpu_sink;

.visible .entry cgpu_spin(.param .u64 steps)
{
  .reg .pred %again;
  .reg .b32 %value;
  .reg .b64 %left;

  ld.param.u64 %left, [steps];
  mov.u32 %value, %tid.x;
next:
  mad.lo.u32 %value, %value, 1664525, 1013904223;
  sub.u64 %left, %left, 1;
  setp.ne.u64 %again, %left, 0;
  @%again bra next;
  st.global.u32 [cgpu_sink], %value;
  ret;
}
"""


def load(load_data, module, text):
    """CUDA's error for a module of this text, in a later form if the driver refuses the first."""
    error = load_data(ctypes.byref(module), text.encode())
    if error == 0:
        return 0
    later = text.replace(TARGET, LATER_TARGET)
    return 0 if load_data(ctypes.byref(module), later.encode()) == 0 else error


class Cuda:
    """A context, a stream and the kernel."""

    def __init__(self):
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._kernel, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        if (error := load(self._cuda.cuModuleLoadData, module, SPIN)) != 0:
            raise SystemExit("cuModuleLoadData: CUDA's error %d" % error)
        self.call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"cgpu_spin")
        self.call("cuStreamCreate", ctypes.byref(self._stream), NON_BLOCKING)
        self._events = [ctypes.c_void_p() for _ in range(BATCHES)]
        for event in self._events:
            self.call("cuEventCreate", ctypes.byref(event), NOT_TIMED)
        self._graphs = {}

    def call(self, name, *words):
        error = getattr(self._cuda, name)(*words)
        if error != 0:
            raise SystemExit("%s: CUDA's error %d" % (name, error))

    def launcher(self, steps):
        """A function that launches one kernel."""
        value = ctypes.c_uint64(steps)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        launch = self._cuda.cuLaunchKernel
        words = (self._kernel, 1, 1, 1, 32, 1, 1, 0, self._stream, arguments, None)

        def one(_keep=value):
            if launch(*words) != 0:
                raise SystemExit("cuLaunchKernel failed")
        return one

    def wait(self):
        self.call("cuStreamSynchronize", self._stream)

    def _in_batches(self, seconds, size, one):
        """Keeps some batches under way; how many of `one` a second."""
        begin, batches = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            event = self._events[batches % len(self._events)]
            if batches >= len(self._events):
                self.call("cuEventSynchronize", event)
            for _ in range(size):
                one()
            self.call("cuEventRecord", event, self._stream)
            batches += 1
        self.wait()
        return batches * size / (time.perf_counter() - begin)

    def queued(self, seconds, steps):
        return self._in_batches(seconds, BATCH, self.launcher(steps))

    def waited(self, seconds, steps):
        one, begin, done = self.launcher(steps), time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            one()
            self.wait()
            done += 1
        return done / (time.perf_counter() - begin)

    def allocations(self, seconds, _):
        """Memory that is taken and given back: calls of the driver, and nothing else."""
        begin, done, address = time.perf_counter(), 0, ctypes.c_uint64()
        while time.perf_counter() - begin < seconds:
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 << 20))
            self.call("cuMemFree_v2", address)
            done += 1
        return done / (time.perf_counter() - begin)

    def graphs(self, seconds, steps):
        if steps not in self._graphs:
            graph, ready, one = ctypes.c_void_p(), ctypes.c_void_p(), self.launcher(steps)
            self.call("cuStreamBeginCapture_v2", self._stream, THREAD_LOCAL)
            for _ in range(OF_A_GRAPH):
                one()
            self.call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
            self._graphs[steps] = ready
        return self._in_batches(seconds, GRAPHS,
                                lambda: self.call("cuGraphLaunch", self._graphs[steps], self._stream))

    def calibrate(self, seconds, _):
        """By two lengths, so that what a launch takes falls out, once the GPU's clocks have risen."""
        def least(steps, tries):
            one, best = self.launcher(steps), float("inf")
            for _ in range(tries):
                begin = time.perf_counter()
                one()
                self.wait()
                best = min(best, time.perf_counter() - begin)
            return best

        steps = 1024
        while least(steps, 3) < 500e-6 and steps < 1 << 40:
            steps *= 2
        self.queued(seconds, steps)
        for _ in range(5):
            once, thrice = least(steps, 20), least(3 * steps, 20)
            if thrice > 1.5 * once:
                return 2e-6 * steps / (thrice - once)
            steps *= 4
        raise SystemExit("what a kernel takes cannot be told")


class Torch:
    """Networks with weights of chance."""

    def __init__(self):
        import torch  # which few machines have
        self._torch = torch
        self._made = {}
        torch.zeros(1).cuda()

    def _loop(self, seconds, at_once, work):
        if work not in self._made:
            self._made[work] = getattr(self, "_make_" + work)()
            for _ in range(10):
                self._made[work]()
        work = self._made[work]
        self._torch.cuda.synchronize()
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            for _ in range(at_once):
                work()
            self._torch.cuda.synchronize()
            done += at_once
        return done / (time.perf_counter() - begin)

    def gemm(self, seconds, _):
        return self._loop(seconds, 50, "gemm")

    def train(self, seconds, _):
        return self._loop(seconds, 5, "train")

    def decode(self, seconds, _):
        return self._loop(seconds, 1, "decode")

    def _make_gemm(self):
        torch = self._torch
        a = torch.randn(2048, 2048, device="cuda", dtype=torch.float16)
        out = torch.empty_like(a)
        return lambda: torch.mm(a, a, out=out)

    def _make_train(self):
        torch, nn = self._torch, self._torch.nn

        def block(n, m):
            return nn.Sequential(nn.Conv2d(n, m, 3, 2, 1), nn.BatchNorm2d(m), nn.ReLU())

        model = nn.Sequential(block(3, 64), block(64, 128), block(128, 256), block(256, 512),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        images = torch.randn(32, 3, 128, 128, device="cuda")
        labels = torch.randint(0, 1000, (32,), device="cuda")

        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        return step

    def _make_decode(self):
        torch = self._torch
        layers = [torch.randn(2048, 2048, device="cuda", dtype=torch.float16) / 64 for _ in range(16)]
        first = torch.randn(1, 2048, device="cuda", dtype=torch.float16)

        def token():
            state = first
            for layer in layers:
                state = torch.nn.functional.gelu(state @ layer)
            state.sum().item()
        return token


def main():
    worker = Torch() if sys.argv[1:] == ["torch"] else Cuda()
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds, steps = line.split()
        print(json.dumps({"per_s": getattr(worker, name)(float(seconds), int(steps))}), flush=True)


if __name__ == "__main__":
    main()
