"""The image of the simulated node (tools/sim_image.sh, deploy/sim-image), as a user runs it: loaded by
podman and by docker, with the rights that docs/tutorial/simulated-node.md names. CGPU_SIM_IMAGE is the
archive; `make test-tutorials` makes it."""
import json
import os
import re

import isolation
from cgpu_test import MIB, check, command, require_machine, skip, wait_for
from engines import RUNC, Docker, Podman

IMAGE = "localhost/cgpu-sim"
# The least that works.
RIGHTS = {"caps": ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE"), "options": ("--device", "/dev/fuse")}
SHARED = "/run/shared"  # what a container mounts below it is seen here, too
NODE = "/run/cgpu-sim"
HELD_MIB = 4096


class _Image:
    """An engine that has the image."""

    def __init__(self, engine):
        self._engine = engine
        self._count = 0

    def run(self, *argv, **wants):
        """A container from its start to its end; its status, and what it said on each stream."""
        self._count += 1
        name = "run%d" % self._count
        done = self._engine.run(name, argv, image=IMAGE, **wants)
        print(argv, done.returncode, done.stdout, done.stderr)
        self._engine.remove(name)
        return done.returncode, done.stdout, done.stderr

    def commands(self):
        """The container is a command on the node or in a slice of it, and ends as the command does."""
        code, out, _ = self.run("cgpu", "smi", "-L", **RIGHTS)
        check(code == 0 and re.findall(r"^GPU (\d): NVIDIA A100", out, re.MULTILINE) == list("01234567"),
              "the eight GPUs are not listed")
        code, out, _ = self.run("--gpus", "t4:2", "--driver=580", "--", "sh", "-c",
                                "cgpu smi --query-gpu=driver_version --format=csv,noheader; exit 7", **RIGHTS)
        check(code == 7, "the exit status is %d" % code)
        check(re.fullmatch(r"(580\.[0-9.]+\n){2}", out), "two GPUs of driver 580 say: " + out)

        code, out, _ = self.run("cgpu", "run", "--mem", "10GiB", "--gpus", "device=3", "--", "rmtool", "info",
                                **RIGHTS)
        check(code == 0 and "10240MiB total" in out, "in a slice: " + out)

    def refused(self):
        """Without one of the rights nothing starts, and what is missing is said."""
        for wants, lacks in (({}, "/dev/fuse"),
                             ({"options": RIGHTS["options"]}, "CAP_SYS_ADMIN"),
                             ({**RIGHTS, "caps": ("CAP_SYS_ADMIN",)}, "CAP_SYS_PTRACE")):
            code, out, err = self.run("cgpu", "smi", "-L", **wants)
            check(code == 125 and not out, "without %s it ends with %d" % (lacks, code))
            check("needs %s," % lacks in err and "--cap-add SYS_PTRACE" in err, "it says: " + err)

    def serves(self):
        """Without a command the node is there for others until SIGTERM; then nothing of it is left."""
        engine = self._engine
        os.mkdir(SHARED)
        command("mount", "-t", "tmpfs", "tmpfs", SHARED)  # runc makes that of the image private
        started = engine.run("node", [], detach=True, image=IMAGE, mounts=((SHARED, NODE, "rshared"),),
                             **RIGHTS)
        check(started.returncode == 0, started.stderr)
        wait_for(lambda: "its GPUs" in engine.logs("node"), lambda: engine.logs("node"))
        check(_mounted(), "the node's file system is not seen from outside")
        holder = engine.exec("node", ["cgpu", "sim", "exec", "--", "rmtool", "hold", str(HELD_MIB),
                                      "--gpu", "2", "--forever"], options=("--detach",))
        check(holder.returncode == 0, holder.stderr)
        wait_for(lambda: self._used() == [0, 0, HELD_MIB, 0, 0, 0, 0, 0],
                 lambda: "the GPUs have in use: %s" % self._used())
        engine.kill("node", "TERM")
        check(engine.wait("node") == 0, "stopped, it ends with %d" % engine.wait("node"))
        check(not _mounted() and not os.listdir(SHARED),
              "left: %s, %s" % (_mounted(), os.listdir(SHARED)))
        check(not [line for line in isolation.processes().values() if "cgpu-sim" in line],
              "left: %s" % isolation.processes())

    def _exec(self, *argv):
        done = self._engine.exec("node", argv)
        check(done.returncode == 0, "%s: %s" % (" ".join(argv), done.stderr))
        return done.stdout

    def _used(self):
        books = json.loads(self._exec("cgpu", "sim", "books", "--json"))
        return [gpu["used_bytes"] // MIB for gpu in books["gpus"]]


def _mounted():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line for line in file if line.split()[4].startswith(SHARED + "/")]


def _in(kind):
    require_machine()
    archive = os.environ.get("CGPU_SIM_IMAGE")
    if not archive:
        skip("CGPU_SIM_IMAGE names no image: make test-tutorials makes one")
    with kind(RUNC) as engine:
        done = engine.ask_cli("load", "--input", archive)
        check(done.returncode == 0 and IMAGE + ":latest" in done.stdout, done.stdout + done.stderr)
        image = _Image(engine)
        image.commands()
        image.refused()
        image.serves()


isolation.main({"podman": lambda: _in(Podman), "docker": lambda: _in(Docker)})
