"""Container engines, each started privately with an image made here, behind one small interface:

    with Docker(runtime="/path/of/an/oci-runtime") as engine:
        done = engine.run("c1", ["id"], env={"A": "b"})       # done.returncode, .stdout, .stderr
        engine.run("c2", ["sleep", "100"], detach=True)
        engine.exec("c2", ["id"])
        engine.remove("c2")

Needs isolation.enter() first: nothing here cleans up what the end of the test removes anyway. The
test is skipped where an engine is absent or cannot run a container even with the plain runtime;
what then fails with the runtime under test is that runtime's failure. Engines write logs to the
engine's folder; __exit__ shows them where the test fails.

What each engine needs on a machine without systemd, without CAP_SYS_RESOURCE and without a registry
stands at its class.
"""
import contextlib
import dataclasses
import http.client
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time

import image
from cgpu_test import BIN as PROGRAMS
from cgpu_test import DEADLINE, Failure, Process, check, skip

RUNC, CRUN = "/usr/sbin/runc", "/usr/bin/crun"
COMPOSE = "/usr/bin/docker-compose"
IMAGE = image.NAME
FOLDER = "/run/engines"  # in the test's own /run
USER = 47110  # who runs rootless podman
SUBORDINATE = 200000  # the first of the 65536 users that user namespaces map
BIN = "/run/bin"  # programs of the test's own, which engines find first
_PATH = BIN + ":/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass
class Wants:
    """Describes a container in words that all container engines understand."""
    env: dict = dataclasses.field(default_factory=dict)
    mounts: tuple = ()  # (source, target) or (source, target, "ro")
    user: int | None = None
    read_only: bool = False
    seccomp: str = "default"  # the engine's own; "unconfined"; or the path of a profile
    caps: tuple = ()  # to add: "CAP_SYS_ADMIN"
    privileged: bool = False
    memory: int | None = None  # the limit in bytes
    image: str = IMAGE  # docker and podman alone
    options: tuple = ()  # further words for this engine's command line
    edit: object = None  # Bundles: is given the configuration; Cri: ContainerConfig

    def mounted(self):
        for source, target, *how in self.mounts:
            yield source, target, how[0] if how else "rw"


def _lacks(program):
    """Says that a program is missing, and the command that installs it."""
    name = os.path.basename(program)
    package = {"busybox": "busybox-static", "dockerd": "docker.io", "docker": "docker.io",
               "ctr": "containerd", "protoc": "protobuf-compiler"}.get(name, name)
    return ("no %s on this machine; as root, run: apt-get install --no-install-recommends %s" %
            (program, package))


class Engine:
    """Base of the container engines. `runtime`: the path of the OCI runtime under test; `plain`:
    that of one that is known to work. Not every container engine passes its environment on: a
    runtime that needs one is to be called by a script. `in_image`: static programs of ours that are
    to be in the image."""

    _count = 0
    programs = ()

    def __init__(self, runtime, plain=RUNC, in_image=()):
        Engine._count += 1
        self.name = type(self).__name__.lower()
        self.runtime = runtime
        self.plain = plain
        self.folder = "%s/%s%d" % (FOLDER, self.name, Engine._count)
        self.environment = {"PATH": _PATH, "HOME": self.folder}
        self._in_image = in_image

    def __enter__(self):
        for program in (self.plain, image.BUSYBOX, *self.programs):
            if not os.access(program, os.X_OK):
                skip(_lacks(program))
        os.makedirs(self.folder)
        try:
            self._prepare()
            self._start()
            self._load()
            done = self.run("control", ["true"], plain=True)
            check(done.returncode == 0, "with %s: %s" % (self.plain, done.stderr.strip()))
            self.remove("control")
        except Failure as failure:
            self._show_logs()
            with contextlib.suppress(Failure):
                self._stop()
            skip("%s runs no containers on this machine: %s" % (self.name, failure))
        return self

    def __exit__(self, kind, *_):
        if kind:
            self._show_logs()
        self._stop()

    def _show_logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    print("--- the end of %s's %s:\n%s" % (self.name, name, file.read()[-4000:]))

    # To be had by engines.
    def _prepare(self):
        """Writes configuration."""

    def _start(self):
        """Starts the engine's own processes."""

    def _load(self):
        """Brings the image in."""

    def _stop(self):
        """Removes every container, ends what _start() began."""

    def restart_engine(self, how=signal.SIGTERM):
        """Ends the engine's own process and starts it anew. Containers go on. Nothing, where an
        engine is no process."""

    # For engines.
    def _options(self):
        """For subprocess.run and Popen."""
        return {"env": self.environment, "cwd": "/"}

    def _try(self, *words, **options):
        """Runs a short command to its end, whatever that is."""
        try:
            return subprocess.run(list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False,
                                  **{**self._options(), **options})
        except subprocess.TimeoutExpired:
            raise Failure("`%s` does not end" % " ".join(words)) from None

    def _do(self, *words, **options):
        """The same, which must succeed; its stdout."""
        done = self._try(*words, **options)
        check(done.returncode == 0, "`%s` ended with %d: %s" %
              (" ".join(words), done.returncode, done.stderr.strip() or done.stdout.strip()))
        return done.stdout

    def _make_archive(self):
        """The image's path. All engines of a test share it."""
        path = os.path.join(FOLDER, "image.tar")
        if not os.path.exists(path):
            image.make_rootfs(os.path.join(FOLDER, "rootfs"), self._in_image)
            image.make_archive(path, os.path.join(FOLDER, "rootfs"))
        return path

    def _write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path


class Daemon:
    """A daemon that says over $NOTIFY_SOCKET when it serves, as sd_notify(3) describes."""

    def __init__(self, argv, log, folder, environment):
        self._argv, self._log = argv, log
        self._notices = os.path.join(folder, "notices")
        self._environment = {**environment, "NOTIFY_SOCKET": self._notices}
        self.popen = None

    def start(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            notices.bind(self._notices)
            with open(self._log, "ab") as log:
                self.popen = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log,
                                              stderr=log, env=self._environment, cwd="/")
            try:
                self._wait_ready(notices)
            finally:
                os.unlink(self._notices)

    def _wait_ready(self, notices):
        until = time.monotonic() + DEADLINE
        ended = os.pidfd_open(self.popen.pid)
        try:
            while True:
                ready, _, _ = select.select([notices, ended], [], [],
                                            max(0.0, until - time.monotonic()))
                if notices not in ready:
                    raise Failure("%s %s" % (self._argv[0], "ended" if ready else "does not start"))
                text, ancillary, _, _ = notices.recvmsg(4096, socket.CMSG_SPACE(12))
                pid = struct.unpack("3i", ancillary[0][2])[0]
                # Not what a daemon of this daemon says.
                if b"READY=1" in text.split(b"\n") and pid == self.popen.pid:
                    return
        finally:
            os.close(ended)

    def log(self):
        with open(self._log, encoding="utf-8") as file:
            return file.read()

    def stop(self, how=signal.SIGTERM):
        if not self.popen:
            return
        self.popen.send_signal(how)
        try:
            self.popen.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise Failure("%s does not end" % self._argv[0]) from None


def write_settings(node, plain, more=""):
    """cgpud's and the runtime's, in the test's own /etc. `node`: None for a loaded driver."""
    os.makedirs("/etc/cgpu", exist_ok=True)
    with open("/etc/cgpu/config.yaml", "w", encoding="utf-8") as file:
        quiet = "" if "calibrate:" in more else "calibrate: false\n"  # no test waits for it unasked
        file.write("%sruntime: %s\n%s%s" % ("node: %s\n" % node.name if node else "", plain, quiet, more))


def start_cgpud(node, plain, more=""):
    """The one that CGPU_BIN names, with these settings."""
    write_settings(node, plain, more)
    os.makedirs("/run/daemon", exist_ok=True)
    daemon = Daemon([os.path.abspath(os.path.join(PROGRAMS, "cgpud"))], "/run/daemon/log",
                    "/run/daemon", {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    daemon.start()
    return daemon


class _DockerLike(Engine):
    """The command line that docker and podman have in common."""

    def _cli(self, *words):
        raise NotImplementedError

    def _create_words(self, name, argv, plain, want):
        words = ["--name", name, "--runtime", "plain" if plain else "tested"]
        if not any(option.startswith("--network") for option in want.options):
            words += ["--network", "none"]
        for key, value in want.env.items():
            words += ["--env", "%s=%s" % (key, value)]
        for source, target, how in want.mounted():
            words += ["--volume", "%s:%s:%s" % (source, target, how)]
        for cap in want.caps:
            words += ["--cap-add", cap]
        if want.user is not None:
            words += ["--user", str(want.user)]
        if want.seccomp != "default":
            words += ["--security-opt", "seccomp=" + want.seccomp]
        if want.memory:
            words += ["--memory", str(want.memory)]
        words += ["--read-only"] * want.read_only + ["--privileged"] * want.privileged
        return [*words, *want.options, want.image, *argv]

    def run(self, name, argv, detach=False, plain=False, **wants):
        """Runs a container to its end, or in the background. It remains until remove()."""
        words = self._create_words(name, argv, plain, Wants(**wants))
        return self._try(*self._cli("run", *["--detach"] * detach, *words))

    def talk(self, name, argv, plain=False, **wants):
        """Runs a container whose standard streams are the test's, as a Process."""
        words = self._create_words(name, argv, plain, Wants(**wants))
        return Process(self._cli("run", "--interactive", *words), name, **self._options())

    def ask_cli(self, *words):
        """How the container engine's own command line ended, and what it said."""
        return self._try(*self._cli(*words))

    def exec(self, name, argv, options=()):
        return self._try(*self._cli("exec", *options, name, *argv))

    def pause(self, name):
        return self._try(*self._cli("pause", name))

    def unpause(self, name):
        return self._try(*self._cli("unpause", name))

    def kill(self, name, how="KILL"):
        self._do(*self._cli("kill", "--signal", how, name))

    def wait(self, name):
        """Its exit status, once it has ended."""
        return int(self._do(*self._cli("wait", name)))

    def logs(self, name):
        done = self._try(*self._cli("logs", name))
        return done.stdout + done.stderr

    def pid(self, name):
        """The machine's number of its first process; 0 if it does not run."""
        return int(self._do(*self._cli("inspect", "--format", "{{.State.Pid}}", name)))

    def remove(self, name):
        """Also one that runs, or that was refused."""
        for _ in range(10):
            done = self._try(*self._cli("rm", "--force", "--volumes", name))
            if "container not running" not in done.stderr:  # podman gives up on one that just ends
                break
        check(done.returncode == 0 or "no such container" in done.stderr.lower(), done.stderr)

    def _remove_all(self):
        names = self._try(*self._cli("ps", "--all", "--quiet")).stdout.split()
        if names:
            self._do(*self._cli("rm", "--force", "--volumes", *names))


class Docker(_DockerLike):
    """dockerd of its own with a containerd of its own (it starts that itself).

    vfs, since overlayfs cannot lie on every file system; no bridge and no iptables, which need
    kernel modules; live-restore, so that containers outlive it. dockerd keeps its key in
    /etc/docker and its containerd makes /opt/containerd, whatever it is told.
    """

    programs = ("/usr/sbin/dockerd", "/usr/bin/docker", "/usr/bin/containerd")

    def __init__(self, runtime, flags=(), **options):
        super().__init__(runtime, **options)
        self._flags = flags
        self._socket = self.folder + "/docker.sock"
        self._daemon = None

    def _prepare(self):
        path = self._write("daemon.json", json.dumps({
            "hosts": ["unix://" + self._socket], "pidfile": self.folder + "/docker.pid",
            "data-root": self.folder + "/data", "exec-root": self.folder + "/exec",
            "storage-driver": "vfs", "bridge": "none", "iptables": False, "ip6tables": False,
            "ip-forward": False, "ip-masq": False, "userland-proxy": False, "live-restore": True,
            "runtimes": {name: {"path": path} for name, path in (
                ("tested", self.runtime), ("cgpu", self.runtime), ("plain", self.plain))}}))
        self._daemon = Daemon([self.programs[0], "--config-file", path, *self._flags],
                              self.folder + "/dockerd.log", self.folder, self.environment)

    def _start(self):
        self._daemon.start()

    def _load(self):
        self._do(*self._cli("load", "--quiet", "--input", self._make_archive()))

    def ask(self, method, path, body=None):
        """A request to dockerd's own interface, as other programs than docker make; the status and
        the answer."""
        connection = http.client.HTTPConnection("docker")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(DEADLINE)
        connection.sock.connect(self._socket)
        with contextlib.closing(connection):
            connection.request(method, "/v1.41" + path, json.dumps(body) if body else None,
                               {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def compose(self, file, *words):
        """How docker-compose, called with this compose file, ended and what it said."""
        if not os.access(COMPOSE, os.X_OK):
            skip(_lacks(COMPOSE))
        return self._try(COMPOSE, "--host", "unix://" + self._socket, "--ansi", "never", "--file",
                         file, *words)

    def _cli(self, *words):
        return ["/usr/bin/docker", "--host", "unix://" + self._socket, "--config",
                self.folder + "/client", *words]

    def _stop(self):
        if self._daemon and self._daemon.popen and self._daemon.popen.poll() is None:
            self._remove_all()
            self._daemon.stop()

    def restart_engine(self, how=signal.SIGTERM):
        self._daemon.stop(how)
        self._daemon.start()


class Podman(_DockerLike):
    """podman, of root or of a user without rights.

    cgroupfs, since there is no systemd to ask; limits that need no CAP_SYS_RESOURCE; no network.
    Its database must lie in the graph root: podman 4.3 has conmon call `podman --root ... cleanup`,
    which knows of no other place, and waits 20 s for that. Without rights, on cgroups of version 1,
    a container has no cgroup: no limits, and no pause.
    """

    programs = ("/usr/bin/podman", "/usr/bin/conmon")

    def __init__(self, runtime, rootless=False, **options):
        super().__init__(runtime, **options)
        self.rootless = rootless
        self.name = "rootless podman" if rootless else "podman"

    def _prepare(self):
        self._write("storage.conf", "\n".join([
            "[storage]", 'driver = "vfs"', 'graphroot = "%s/graph"' % self.folder,
            'runroot = "%s/storage"' % self.folder]))
        self._write("containers.conf", "\n".join([
            "[containers]", 'netns = "none"',
            'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]', "[engine]",
            'cgroup_manager = "cgroupfs"', 'events_logger = "file"', 'runtime = "tested"',
            "[engine.runtimes]", 'tested = ["%s"]' % self.runtime, 'plain = ["%s"]' % self.plain,
            "[network]", 'network_backend = "cni"']))
        self.environment.update({
            "CONTAINERS_CONF": self.folder + "/containers.conf",
            "CONTAINERS_STORAGE_CONF": self.folder + "/storage.conf",
            "XDG_RUNTIME_DIR": self.folder + "/user"})
        os.mkdir(self.folder + "/user", 0o700)
        if self.rootless:
            add_user()
            for folder in (self.folder, self.folder + "/user"):
                os.chown(folder, USER, USER)

    def _options(self):
        options = super()._options()
        if self.rootless:
            options.update(user=USER, group=USER, extra_groups=[])
        return options

    def _load(self):
        self._do(*self._cli("load", "--quiet", "--input", self._make_archive()))

    def _cli(self, *words):
        if words[0] in ("run", "create"):  # podman's is a word before the command
            at = words.index("--runtime")
            return [self.programs[0], *words[at:at + 2], *words[:at], *words[at + 2:]]
        if words[0] == "rm":
            words = ("rm", "--time", "0", *words[1:])
        return [self.programs[0], *words]

    def _stop(self):
        self._remove_all()
        if self.rootless:  # ends the process that holds the user's namespaces
            self._do(*self._cli("system", "migrate"))


def add_user():
    """A user USER with subordinate users, on this test's own /etc."""
    for path, line in (("/etc/passwd", "cgpu-test:x:%d:%d::/:/bin/sh\n" % (USER, USER)),
                       ("/etc/group", "cgpu-test:x:%d:\n" % USER),
                       ("/etc/subuid", "cgpu-test:%d:65536\n" % SUBORDINATE),
                       ("/etc/subgid", "cgpu-test:%d:65536\n" % SUBORDINATE)):
        with open(path, "a+", encoding="utf-8") as file:
            file.seek(0)
            if line not in file.read():
                file.write(line)
