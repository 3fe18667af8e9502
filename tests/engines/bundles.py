"""OCI runtimes without an engine: bundles made by hand."""
import json
import os
import shutil
import subprocess

from cgpu_test import DEADLINE, Failure, Process, check, wait_for
from engines import CRUN, FOLDER, Engine, Wants

_CAPS = (  # by number, as in linux/capability.h
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
    "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO "
    "SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
    "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()


class _Bundles(Engine):
    """`seccomp="default"` is what `RUNTIME spec` says: none. A path: an OCI `linux.seccomp`."""

    def __init__(self, runtime, **options):
        super().__init__(runtime, **options)
        self._runtimes = {}  # by container
        self._running = {}

    def _load(self):
        self._make_archive()
        os.makedirs(self.folder + "/bundles")

    def _words(self, name, *words):
        return [self._runtimes[name], "--root", self.folder + "/root", *words]

    def _bundle(self, name):
        return os.path.join(self.folder, "bundles", name)

    def command(self, name, argv, plain=False, **wants):
        """Makes a bundle; what runs it, as words."""
        want = Wants(**wants)
        bundle = self._bundle(name)
        check(name not in self._runtimes, "there is a container %s already" % name)
        self._runtimes[name] = self.plain if plain else self.runtime
        os.mkdir(bundle)
        shutil.copytree(FOLDER + "/rootfs", bundle + "/rootfs", symlinks=True)
        self._do(self.plain, "spec", cwd=bundle)
        path = bundle + "/config.json"
        with open(path, encoding="utf-8") as file:
            spec = json.load(file)
        _apply(spec, name, argv, want)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        return self._words(name, "run", *want.options, "--bundle", bundle, name)

    def run(self, name, argv, detach=False, plain=False, **wants):
        """Runs a container to its end, or in the background. It remains until remove()."""
        words = self.command(name, argv, plain, **wants)
        if not detach:
            return self._try(*words)
        with open(self._bundle(name) + "/log", "wb") as log:
            popen = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     **self._options())
        self._running[name] = popen
        wait_for(lambda: popen.poll() is not None or self._state(name).get("status") == "running",
                 "%s does not run" % name)
        return subprocess.CompletedProcess(words, popen.poll() or 0, "", self.logs(name))

    def talk(self, name, argv, plain=False, **wants):
        """Runs a container whose standard streams are the test's, as a Process."""
        return Process(self.command(name, argv, plain, **wants), name, **self._options())

    def _state(self, name):
        done = self._try(*self._words(name, "state", name))
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def exec(self, name, argv, options=()):
        return self._try(*self._words(name, "exec", *options, name, *argv))

    def pause(self, name):
        return self._try(*self._words(name, "pause", name))

    def unpause(self, name):
        return self._try(*self._words(name, "resume", name))

    def kill(self, name, how="KILL"):
        self._do(*self._words(name, "kill", name, how))

    def wait(self, name):
        """Its exit status, once it has ended. Of one that runs in the background."""
        try:
            return self._running[name].wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failure("%s does not end" % name) from None

    def logs(self, name):
        with open(self._bundle(name) + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def pid(self, name):
        """The machine's number of its first process; 0 if it does not run."""
        return self._state(name).get("pid", 0)

    def remove(self, name):
        """Also one that runs, or that was refused."""
        if self._state(name):
            # The runtime that still waits for it deletes it as well.
            done = self._try(*self._words(name, "delete", "--force", name))
            check(done.returncode == 0 or not self._state(name), done.stderr)
        if name in self._running:
            self.wait(name)
            del self._running[name]
        shutil.rmtree(self._bundle(name))
        del self._runtimes[name]

    def _stop(self):
        for name in list(self._runtimes):
            self.remove(name)


def _machine_caps():
    """Those that a process here can have: a runtime cannot give others."""
    with open("/proc/self/status", encoding="utf-8") as file:
        bounding = int(next(line for line in file if line.startswith("CapBnd:")).split()[1], 16)
    return ["CAP_" + cap for number, cap in enumerate(_CAPS) if bounding >> number & 1]


def _apply(spec, name, argv, want):
    process, linux = spec["process"], spec["linux"]
    process.update(terminal=False, args=list(argv))
    process["env"] = ["PATH=/bin", *("%s=%s" % pair for pair in want.env.items())]
    if want.user is not None:
        process["user"] = {"uid": want.user, "gid": 0}
    caps = _machine_caps() if want.privileged else list(want.caps)
    for kind in ("bounding", "effective", "permitted"):
        process["capabilities"][kind] = sorted({*process["capabilities"][kind], *caps})
    # A limit above one's own needs CAP_SYS_RESOURCE.
    process.pop("rlimits", None)
    spec["root"]["readonly"] = want.read_only
    for source, target, how in want.mounted():
        spec["mounts"].append({"type": "bind", "source": source, "destination": target,
                               "options": ["rbind", how]})
    linux["cgroupsPath"] = "/bundles/" + name
    if want.memory:
        linux.setdefault("resources", {})["memory"] = {"limit": want.memory}
    if want.seccomp == "unconfined":
        linux.pop("seccomp", None)
    elif want.seccomp != "default":
        with open(want.seccomp, encoding="utf-8") as file:
            linux["seccomp"] = json.load(file)
    if want.edit:
        want.edit(spec)


class Runc(_Bundles):
    """runc, or what stands in for it, from bundles. It needs nothing here."""


class Crun(_Bundles):
    """crun, or what stands in for it, from bundles. 1.8.1 refuses to run where cgroups of version 2
    are mounted beside version 1 (/sys/fs/cgroup/unified): isolation.py leaves those out."""

    def __init__(self, runtime, **options):
        super().__init__(runtime, **{"plain": CRUN, **options})
