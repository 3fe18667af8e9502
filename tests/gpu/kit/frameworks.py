"""Programs of others, each where it is installed: PyTorch, JAX, CuPy, Triton, compute-sanitizer. One that
fails in a slice is tried without cgpu; if it fails there, too, it is no failure."""
import glob
import importlib.util
import shutil
import sys

MEM = "8GiB"
SECONDS = 45  # a first start reads some gigabytes

TORCH = """
import torch
print(torch.__version__, torch.cuda.get_device_name(0), [n >> 20 for n in torch.cuda.mem_get_info()])
model = torch.nn.Linear(1024, 1024).cuda()
step = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
    loss.backward()
    step.step()
    step.zero_grad()
print("loss %.4f" % float(loss))
"""
PROGRAMS = {
    "JAX": ("jax", """
import os
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax, jax.numpy as jnp
assert any(one.platform == "gpu" for one in jax.devices()), jax.devices()
a = jnp.ones((512, 512))
assert float(jax.jit(lambda a: (a @ a).sum())(a)) == 512 ** 3
print("jax", jax.__version__, jax.devices())
"""),
    "CuPy": ("cupy", """
import cupy
a = cupy.ones((512, 512), dtype=cupy.float32)
assert float((a @ a).sum()) == 512 ** 3
print("cupy", cupy.__version__)
"""),
    "Triton": ("triton", """
import os, runpy, tempfile
text = '''
import torch, triton, triton.language as tl
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
x = torch.rand(4096, device="cuda")
y = torch.empty_like(x)
double[(4,)](x, y, 4096, BLOCK=1024)
assert torch.equal(y, 2 * x)
print("triton", triton.__version__)
'''
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "kernel.py")
    with open(path, "w") as file:
        file.write(text)
    runpy.run_path(path)  # Triton reads a kernel's source in its file
"""),
}


def has(module):
    """Whether the kit's Python has it; it is not loaded."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def compare(report, name, words, mem=MEM, seconds=SECONDS):
    """Runs it in a slice, and where it fails there, without cgpu."""
    within = report.do(*report.slice(*words, flags=["--mem", mem]), seconds=seconds)
    report.keep(name, [within.status, within.seconds, within.output[-4000:], within.errors[-4000:]])
    if within.status == 0:
        report.judge(name, True, "%.1f s; %s" % (within.seconds, within.output.strip().replace("\n", "; ")[-300:]))
        return
    report.say("%s fails in a slice (%s); is tried without cgpu" % (name, within.last_words()))
    without = report.do(*report.plain(*words), seconds=seconds)
    report.keep(name + " without cgpu", [without.status, without.seconds, without.output[-4000:], without.errors[-4000:]])
    if without.status == 0:
        report.lack(["%s: %s" % (name, within.last_words())])
        report.judge(name, False, within.last_words() + "; without cgpu it succeeds")
    else:
        report.row(name, "skip", "it fails without cgpu, too: " + without.last_words())


def torch(report):
    """PyTorch's start and some steps."""
    report.require_cgpu()
    if has("torch"):
        compare(report, "PyTorch in a slice", [sys.executable, "-c", TORCH])
    else:
        report.row("PyTorch in a slice", "skip", "it is not installed")


def sanitizer():
    """Returns where compute-sanitizer is, or None."""
    return shutil.which("compute-sanitizer") or next(iter(sorted(glob.glob(
        "/usr/local/cuda*/bin/compute-sanitizer"), reverse=True)), None)


def check(report):
    report.require_cuda()
    report.require_cgpu()
    for name, (module, text) in PROGRAMS.items():
        if has(module):
            compare(report, name, [sys.executable, "-c", text])
        else:
            report.row(name, "skip", "it is not installed")
    if sanitizer():
        compare(report, "compute-sanitizer", [sanitizer(), "--error-exitcode", "1", *report.cuda()])
    else:
        report.row("compute-sanitizer", "skip", "it is not installed")
