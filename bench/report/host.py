"""Where tenants run: on a real GPU or a simulated one, held by cgpu, or without it, or by what the user
names. It starts their programs, and reads what the driver counts.

A Host stands in for cgpu_test.Node in shares.Loads and in the other parts of the benchmarks.
"""
import contextlib
import os
import platform
import re
import shutil
import time

import cgpu_test as t
from bundles import Runc
from engines import RUNC, start_cgpud

VERSION_FILE = "/proc/driver/nvidia/version"
SIMULATED = ("a10:1", "580")  # the GPU and the driver of the simulated node
CUDA = os.path.abspath(os.path.join(t.BIN, os.pardir, "cuda"))  # the simulated node's libcuda


def has_gpu():
    return os.path.exists(VERSION_FILE)


def tool(name):
    return os.path.abspath(os.path.join(t.BIN, name))


class Host:
    """`with Host(cgpu=True, simulated=True) as host`. `through`: words before each tenant's command in place of
    cgpu's; {mib} and {percent} in them stand for its memory and its share. `load`: words of a command that
    keeps the GPU busy, in place of cgpu-burn; None: cgpu-burn, and the simulated engines' accounting."""

    def __init__(self, cgpu, simulated, through=(), load=None):
        self.cgpu, self.simulated = cgpu, simulated
        self._through, self.load = list(through), load
        self._stack = contextlib.ExitStack()
        self.node = self.daemon = None

    def __enter__(self):
        if self.simulated:
            self.node = self._stack.enter_context(t.Node(*SIMULATED))
        if self.cgpu:
            self.daemon = start_cgpud(self.node, RUNC)
            self._stack.callback(self.daemon.stop)
        return self

    def __exit__(self, *what):
        t.Process.end_all()
        return self._stack.__exit__(*what)

    @property
    def name(self):
        return self.node.name

    def words(self, argv, mem="1024MiB", flags=()):
        """The words that start a tenant's command. Without cgpu its flags say nothing."""
        flags = [str(flag) for flag in flags]
        if self.cgpu:
            where = ["--node", self.name] if self.simulated else []
            return [t.CGPU, "run", *where, "--mem", mem, *flags, "--", *argv]
        percent = flags[flags.index("--compute") + 1] if "--compute" in flags else "100"
        before = [word.replace("{mib}", mem.removesuffix("MiB")).replace("{percent}", percent)
                  for word in self._through]
        return self.plain([*before, *argv])

    def plain(self, argv):
        """The words that start a command that nothing holds."""
        where = [t.CGPU, "sim", "exec", "--name", self.name, "--"] if self.simulated else []
        return [*where, *argv]

    def run(self, argv, mem="1024MiB", flags=(), name=None, **options):
        """A tenant's program, as cgpu_test.Node.run()."""
        return t.Process(self.words(argv, mem, flags), name or os.path.basename(argv[0]), **options)

    @property
    def has_engine(self):
        """Whether runc can start tenants, each in a cgroup of its own. Others' tools start theirs; a real GPU's files
        reach a container of runc only by cgpu."""
        return os.path.exists(RUNC) and not self._through and (self.cgpu or self.simulated)

    @staticmethod
    def engine():
        """Starts containers of runc, with bench-client in their image; to be entered."""
        return Runc(tool("cgpu-runtime"), in_image=(tool("bench-client"),))

    def cuda_environment(self):
        """The environment of a CUDA program, or None where there is no CUDA."""
        if not self.simulated:
            return dict(os.environ)
        return dict(os.environ, LD_LIBRARY_PATH=CUDA) if os.path.isdir(CUDA) else None

    def books(self, **options):
        """The simulated driver's accounting."""
        return self.node.books(**options)

    def memory(self):
        """(bytes in use, all bytes) of the GPU, by the driver's own accounting. A real driver says MiB."""
        if self.simulated:
            gpu = self.node.books()["gpus"][0]
            return gpu["used_bytes"], gpu["memory_bytes"]
        said = t.command(tool("rmtool"), "info")
        found = re.search(r"(\d+) ?MiB total, (\d+) ?MiB used", said)
        t.check(found is not None, "the driver does not say what is in use: " + said.strip())
        return int(found.group(2)) * t.MIB, int(found.group(1)) * t.MIB

    def wait_used(self, wanted, sentence):
        """Waits until so many bytes are in use, or less."""
        until = time.monotonic() + t.DEADLINE
        while True:
            if self.simulated:
                self.node.sync()
            used, _ = self.memory()
            if used <= wanted:
                return
            t.check(time.monotonic() < until, "%s: %d bytes are in use, not %d" % (sentence, used, wanted))

    def containers(self):
        if self.simulated:
            return self.node.containers()
        return t.json.loads(t.command(t.CGPU, "ps", "--json"))


def _first(pattern, path, missing="unknown"):
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        found = re.search(pattern, file.read(), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return missing


def _said(*words):
    """The first line that a program says, or "none"."""
    if shutil.which(words[0]) is None:
        return "none"
    lines = t.command(*words, ok=False).stdout.splitlines()
    return lines[0].strip() if lines else "unknown"


def describe(host):
    """Names and versions of what was measured: [[name, value]]."""
    if host.simulated:
        gpu = host.node.info()["gpus"][0]["name"] + " (simulated)"
        driver = host.node.info()["driver"] + " (simulated)"
    else:
        said = t.command(tool("rmtool"), "info")
        gpu = re.search(r"GPU 0: (.*?) \(UUID", said).group(1)
        driver = _first(r"(\d+\.\d+(?:\.\d+)?)", VERSION_FILE)
    _, size = host.memory()
    rows = [["GPU", gpu], ["GPU memory", "%d MiB" % (size // t.MIB)], ["Driver", driver],
            ["Processor", "%s, %d in use" % (_first(r"^model name\s*:\s*(.*)$", "/proc/cpuinfo"),
                                             len(os.sched_getaffinity(0)))],
            ["Kernel", "Linux " + platform.release()], ["System", _first(r'^PRETTY_NAME="(.*)"$', "/etc/os-release")],
            ["Load of the last minute", "%.1f processes" % os.getloadavg()[0]],
            ["runc", _said("runc", "--version").removeprefix("runc version ")]]
    if host.cgpu:
        rows.append(["cgpu", _said(t.CGPU, "--version").removeprefix("cgpu ")])
    return rows
