"""Parts of the tests of `cgpu run`: a node made of plain files, and ways to run cgpu on it.

The node has the files of a simulated one but no driver behind them, and the shim is a stub
(stub_shim.cc), so these tests are about the launcher alone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from cgpu_test import skip

BIN = os.environ.get("CGPU_BIN", "build/bin")
STUB = os.environ.get("CGPU_STUB", "build/stub")
NODES = "/run/cgpu-sim"
SOME_USER = 47110
# One that every user can execute.
PYTHON = "/usr/bin/python3"
# Nothing here takes seconds; this bound only ends a test that hangs.
TIMEOUT = 120

CARD_MIB = 16160


def why_not():
    """The reason why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root, to make a node and to become an ordinary user"
    if not os.access(PYTHON, os.X_OK):
        return f"needs {PYTHON}"
    probe = subprocess.run(["unshare", "-mpf", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        return "no namespaces here: " + probe.stderr.decode().strip()
    return None


class FileNode:
    """A node in /run/cgpu-sim, until close()."""

    def __init__(self, cards=2, driver="550.163.01"):
        self.name = "e2e-" + uuid.uuid4().hex[:8]
        self.folder = os.path.join(NODES, self.name)
        self.mount = os.path.join(self.folder, "mnt")
        files = [self._device("nvidiactl", "ctl", 255, "ctl", 1 << 56 | 255 << 40),
                 self._device("nvidia-uvm", "uvm", 0, "uvm", 2 << 56)]
        self.gpus = []
        family = uuid.uuid4().hex[:8]  # all UUIDs begin alike
        for i in range(cards):
            files.append(
                self._device(f"nvidia{i}", "gpu", i, f"gpu{i}", 3 << 56 | i << 40))
            bdf = f"0000:0{i + 1}:00.0"
            self._put(f"proc/driver/nvidia/gpus/{bdf}/information", f"Bus Location: {bdf}\n")
            self._put(f"sys/bus/pci/devices/{bdf}/vendor", "0x10de\n")
            self.gpus.append({
                "index": i, "uuid": f"GPU-{family}{str(uuid.uuid4())[8:]}", "bdf": bdf, "minor": i,
                "model": "Tesla V100-SXM2-16GB", "memory_bytes": CARD_MIB << 20})
        self._put("proc/driver/nvidia/version", f"NVRM version: {driver}\n")
        with open(os.path.join(self.folder, "node.json"), "w", encoding="utf-8") as out:
            json.dump({"name": self.name, "server_pid": os.getpid(), "driver": driver,
                       "mount": self.mount, "files": files, "gpus": self.gpus}, out)

    def _put(self, path, content):
        path = os.path.join(self.mount, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content)
        os.chmod(path, 0o666)

    def _device(self, name, kind, minor, folder, value):
        self._put(f"dev/{folder}/{name}", f"this is {name}\n")
        folder = os.path.join(self.mount, "dev", folder)
        return {"name": name, "kind": kind, "minor": minor, "dir": folder,
                "path": os.path.join(folder, name), "ino_mask": f"{0xffffff << 40:x}",
                "ino_value": f"{value:x}"}

    def close(self):
        shutil.rmtree(self.folder)


def become(uid):
    """Returns a function that makes a child an ordinary user, for subprocess's preexec_fn."""
    def change():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return change if uid else None


class LaunchTest(unittest.TestCase):
    """A test case with a node, and programs that every user can execute."""

    user = 0  # whom cgpu runs as

    @classmethod
    def setUpClass(cls):
        cls.programs = tempfile.mkdtemp(prefix="cgpu-e2e-")
        os.chmod(cls.programs, 0o755)
        shutil.copy(os.path.join(BIN, "cgpu"), cls.programs)
        shutil.copy(os.path.join(STUB, "cgpu-shim"), cls.programs)
        cls.cgpu = os.path.join(cls.programs, "cgpu")
        cls.runtime = os.path.join(cls.programs, "runtime")
        os.mkdir(cls.runtime, 0o700)
        os.chown(cls.runtime, cls.user, cls.user)
        cls.node = FileNode()

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        shutil.rmtree(cls.programs)

    def setUp(self):
        # A test may end by killing cgpu; what its container held is free a little later.
        self.eventually(lambda: not self.shims(), "a container of the test before stays")

    def environment(self):
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("CGPU_", "ALIYUN_COM_"))}
        environment["PATH"] = "/usr/bin:/bin"
        environment["XDG_RUNTIME_DIR"] = self.runtime
        return environment

    def start(self, *words, **options):
        """Starts cgpu with these words; the caller waits for it."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("preexec_fn", become(self.user))
        options.setdefault("cwd", "/")
        environment = self.environment() | options.pop("variables", {})
        process = subprocess.Popen(self.words(*words), env=environment, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def words(self, *words):
        """A command line of cgpu; a user's runs do without cgpud, which these tests have none of."""
        alone = ["--alone"] * (self.user != 0 and words[:1] == ("run",))
        return [self.cgpu, *words[:1], *alone, *words[1:]]

    def start_run(self, command, *flags, **options):
        return self.start("run", "--node", self.node.name, *flags, "--", *command, **options)

    def call(self, *words, **options):
        """Runs cgpu to its end: (exit status, stdout, stderr)."""
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out.decode(), err.decode()

    def run_in(self, command, *flags, **options):
        """Runs a command in a container to its end: (exit status, stdout, stderr)."""
        return self.call("run", "--node", self.node.name, *flags, "--", *command, **options)

    def shell(self, script, *flags, **options):
        """A shell script's output in a container; fails the test if it fails or cgpu says a word."""
        status, out, err = self.run_in(["sh", "-c", script], *flags, **options)
        self.assertEqual((status, err), (0, ""), out)
        return out

    def containers(self):
        status, out, err = self.call("ps", "--json")
        self.assertEqual((status, err), (0, ""))
        mine = {gpu["uuid"] for gpu in self.node.gpus}
        return [c for c in json.loads(out) if any(gpu["uuid"] in mine for gpu in c["gpus"])]

    def shims(self):
        """The process ids of this test's shims."""
        program = os.path.join(self.programs, "cgpu-shim")
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == program:
                    found.append(int(entry))
            except OSError:
                pass
        return found

    def eventually(self, condition, what):
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)


def status_fields(text):
    """/proc/PID/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def process_name(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as text:
        return text.read().strip()


def main():
    """unittest.main(), but a skip of everything is told to ctest as one."""
    reason = why_not()
    if reason is not None:
        skip(reason)
    def too_long(*_):
        raise TimeoutError("the tests hang")
    signal.signal(signal.SIGALRM, too_long)  # an exception, so that what was begun is cleaned up
    signal.alarm(TIMEOUT * 4)
    unittest.main(module="__main__")
