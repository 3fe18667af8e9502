"""containerd, as ctr drives it and as the kubelet does (CRI)."""
import base64
import contextlib
import itertools
import json
import os
import re
import select
import signal
import subprocess

import image
from cgpu_test import DEADLINE, Failure, Process, check, wait_for
from engines import FOLDER, IMAGE, Daemon, Engine, Wants

_SERVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cri_client.py")
# Copies what a container says, for its shim (containerd's "binary" log URI: stdout is 3, stderr 4, and
# 5 is closed once it is ready).
_KEEPER = """#!/bin/sh
cat <&3 >"$2.stdout" 5>&- &
cat <&4 >"$2.stderr" 5>&- &
exec 5>&-
wait
"""
_SYSTEM_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-grpcio is for


class Containerd(Engine):
    """A containerd of its own, driven by ctr.

    The native snapshotter, since overlayfs cannot lie on every file system. It keeps its runtimes'
    state and its shims' sockets in /run/containerd, whatever it is told. `seccomp="default"` is
    containerd's default profile, which ctr uses only on demand.
    """

    programs = ("/usr/bin/containerd", "/usr/bin/ctr")
    _namespace = "default"

    def __init__(self, runtime, **options):
        super().__init__(runtime, **options)
        self._socket = self.folder + "/containerd.sock"
        self._daemon = None
        self._keeper = self.folder + "/keeper"
        self._numbers = itertools.count()
        self._ended = {}  # exit statuses, once wait() has seen them

    def _config(self):
        # No TOML in Python 3.11's library that writes; JSON's strings are TOML's.
        handlers = ""
        for name, path in (("tested", self.runtime), ("plain", self.plain)):
            handlers += """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%s]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%s.options]
  BinaryName = "%s"
""" % (name, name, path)
        return """
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
  default_runtime_name = "tested"
{handlers}""".format(folder=self.folder, socket=self._socket, image=IMAGE, handlers=handlers)

    def _prepare(self):
        path = self._write("config.toml", self._config())
        self._daemon = Daemon([self.programs[0], "--config", path], self.folder + "/containerd.log",
                              self.folder, self.environment)
        os.chmod(self._write("keeper", _KEEPER), 0o755)

    def _start(self):
        self._daemon.start()

    def _load(self):
        self._import(self._make_archive())

    def _import(self, path):
        self._do(*self._ctr("images", "import", "--snapshotter", "native", path))

    def _ctr(self, *words):
        return [self.programs[1], "--address", self._socket, "--namespace", self._namespace, *words]

    def _log(self, name):
        return "%s/%s.out" % (self.folder, name)

    def _id(self, name):
        """Returns containerd's name of the container."""
        return name

    def _create_words(self, name, argv, plain, want):
        words = ["--snapshotter", "native", "--runc-binary", self.plain if plain else self.runtime]
        for key, value in want.env.items():
            words += ["--env", "%s=%s" % (key, value)]
        for source, target, how in want.mounted():
            words += ["--mount", "type=bind,src=%s,dst=%s,options=rbind:%s" % (source, target, how)]
        for cap in want.caps:
            words += ["--cap-add", cap]
        if want.seccomp == "default":
            words += ["--seccomp"] if not want.privileged else []
        elif want.seccomp != "unconfined":
            words += ["--seccomp", "--seccomp-profile", want.seccomp]
        if want.memory:
            words += ["--memory-limit", str(want.memory)]
        words += ["--read-only"] * want.read_only + ["--privileged"] * want.privileged
        return [*words, *want.options, self._image_of(want.user), name, *argv]

    def _image_of(self, user):
        """ctr takes the user from the image only."""
        if user is None:
            return IMAGE
        name = "%s-user-%d" % (IMAGE, user)
        path = "%s/user-%d.tar" % (self.folder, user)
        if not os.path.exists(path):
            image.make_archive(path, FOLDER + "/rootfs", name, user)
            self._import(path)
        return name

    def run(self, name, argv, detach=False, plain=False, **wants):
        """Runs a container to its end, or in the background. It remains until remove()."""
        words = self._create_words(name, argv, plain, Wants(**wants))
        if detach:
            words = ["--detach", "--log-uri", "file://" + self._log(name), *words]
            return self._try(*self._ctr("run", *words))
        return self._keep(next(self._numbers), ["run"], words)

    def talk(self, name, argv, plain=False, **wants):
        """Runs a container whose standard streams are the test's, as a Process."""
        words = self._create_words(name, argv, plain, Wants(**wants))
        return Process(self._ctr("run", *words), name, **self._options())

    def exec(self, name, argv):
        number = next(self._numbers)
        return self._keep(number, ["tasks", "exec"],
                          ["--exec-id", "exec%d" % number, self._id(name), *argv])

    def _keep(self, number, verb, words):
        """Runs a command of ctr to its end, which runs a program; with what the program said. ctr itself
        may lose the words of a short one (containerd/containerd#13931)."""
        path = "%s/said%d" % (self.folder, number)
        done = self._try(*self._ctr(*verb, "--log-uri",
                                    "binary://%s?path=%s" % (self._keeper, path), *words))
        for stream in ("stdout", "stderr"):
            with contextlib.suppress(FileNotFoundError):
                with open("%s.%s" % (path, stream), encoding="utf-8", errors="replace") as file:
                    setattr(done, stream, file.read() + getattr(done, stream))
        return done

    def pause(self, name):
        return self._try(*self._ctr("tasks", "pause", self._id(name)))

    def unpause(self, name):
        return self._try(*self._ctr("tasks", "resume", self._id(name)))

    def kill(self, name, how="KILL"):
        self._do(*self._ctr("tasks", "kill", "--signal", "SIG" + how, self._id(name)))

    def _task(self, name):
        """Its number and state; (0, "NONE") without one."""
        for line in self._do(*self._ctr("tasks", "list")).splitlines()[1:]:
            task, pid, state = line.split()
            if task == self._id(name):
                return int(pid), state
        return 0, "NONE"

    def wait(self, name):
        """Its exit status, once it has ended."""
        if name not in self._ended:
            wait_for(lambda: self._task(name)[1] == "STOPPED", "%s does not end" % name)
            # It says it there; its own exit status is 0.
            done = self._try(*self._ctr("tasks", "delete", self._id(name)))
            said = re.search(r"exit code (\d+)", done.stderr)
            self._ended[name] = int(said.group(1)) if said else done.returncode
        return self._ended[name]

    def logs(self, name):
        with open(self._log(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def pid(self, name):
        """The machine's number of its first process; 0 if it does not run."""
        pid, state = self._task(name)
        return pid if state in ("RUNNING", "PAUSED") else 0

    def remove(self, name):
        """Also one that runs, or that was refused."""
        if self._task(name)[1] != "NONE":
            self._try(*self._ctr("tasks", "delete", "--force", name))
        done = self._try(*self._ctr("containers", "delete", name))
        check(done.returncode == 0 or "not found" in done.stderr, done.stderr)
        self._ended.pop(name, None)
        self._remove_log(name)

    def _remove_log(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._log(name))

    def _remove_all(self):
        for name in self._do(*self._ctr("containers", "list", "--quiet")).split():
            self.remove(name)

    def _stop(self):
        if self._daemon and self._daemon.popen and self._daemon.popen.poll() is None:
            self._remove_all()
            self._daemon.stop()

    def restart_engine(self, how=signal.SIGTERM):
        self._daemon.stop(how)
        self._start()


class Cri(Containerd):
    """The same as the kubelet drives it: a pod for each container, on the machine's network, so
    that no CNI plugin is needed.

    restrict_oom_score_adj, since a pod's default of -998 needs CAP_SYS_RESOURCE. CRI knows no pause
    and only one way to kill: for those ctr stands in.
    """

    programs = (*Containerd.programs, _SYSTEM_PYTHON, "/usr/bin/protoc")
    _namespace = "k8s.io"

    def __init__(self, runtime, **options):
        super().__init__(runtime, **options)
        self._client = None
        self._pods = {}  # by name
        self._containers = {}

    def _start(self):
        super()._start()
        self._end_client()
        self._client = subprocess.Popen(
            [_SYSTEM_PYTHON, _SERVICE, self._socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={"PATH": self.environment["PATH"]})
        wait_for(self._serves, "containerd does not serve CRI")

    def _serves(self):
        """It serves CRI a little after it says that it is ready."""
        try:
            return self.call("Version")
        except Failure:
            return None

    def _end_client(self):
        if self._client:
            self._client.communicate(timeout=DEADLINE)
            self._client = None

    def call(self, method, service="Runtime", **request):
        """One call of CRI, in JSON's words; the answer. Fails with the engine's sentence."""
        self._client.stdin.write(json.dumps([service, method, request]) + "\n")
        self._client.stdin.flush()
        ready, _, _ = select.select([self._client.stdout], [], [], DEADLINE)
        line = self._client.stdout.readline() if ready else ""
        if not line:
            raise Failure("no answer to %s" % method)
        kind, answer = json.loads(line)
        if kind == "error":
            raise Failure("%s: %s" % (method, answer))
        return answer

    def _load(self):
        super()._load()
        wait_for(lambda: "image" in self.call("ImageStatus", "Image", image={"image": IMAGE}),
                 "containerd does not see the image")

    def _id(self, name):
        return self._containers[name]

    def _create(self, name, argv, plain, want):
        pod = {"metadata": {"name": name, "uid": "uid-of-" + name, "namespace": "tests"},
               "log_directory": self.folder,
               "linux": {"cgroup_parent": "/pods", "security_context": {
                   "namespace_options": {"network": "NODE"}, "privileged": want.privileged}}}
        security = {"namespace_options": {"network": "NODE"}, "privileged": want.privileged,
                    "readonly_rootfs": want.read_only,
                    "capabilities": {"add_capabilities": [cap.removeprefix("CAP_") for cap in want.caps]},
                    "seccomp": {"default": {"profile_type": "RuntimeDefault"},
                                "unconfined": {"profile_type": "Unconfined"}}.get(
                                    want.seccomp, {"profile_type": "Localhost",
                                                   "localhost_ref": want.seccomp})}
        if want.user is not None:
            security["run_as_user"] = {"value": want.user}
        config = {"metadata": {"name": name}, "image": {"image": IMAGE}, "command": list(argv),
                  "envs": [{"key": key, "value": value} for key, value in want.env.items()],
                  "mounts": [{"container_path": target, "host_path": source,
                              "readonly": how == "ro"} for source, target, how in want.mounted()],
                  "log_path": os.path.basename(self._log(name)),
                  "linux": {"security_context": security, "resources": {
                      "memory_limit_in_bytes": want.memory or 0}}}
        if want.edit:
            want.edit(config)
        handler = "plain" if plain else "tested"
        self._pods[name] = self.call("RunPodSandbox", config=pod,
                                     runtime_handler=handler)["pod_sandbox_id"]
        self._containers[name] = self.call("CreateContainer", pod_sandbox_id=self._pods[name],
                                           config=config, sandbox_config=pod)["container_id"]
        self.call("StartContainer", container_id=self._id(name))

    def run(self, name, argv, detach=False, plain=False, **wants):
        """Runs a container to its end, or in the background. It remains until remove()."""
        try:
            self._create(name, argv, plain, Wants(**wants))
        except Failure as failure:
            return subprocess.CompletedProcess(argv, 125, "", str(failure))
        if detach:
            return subprocess.CompletedProcess(argv, 0, "", "")
        return subprocess.CompletedProcess(argv, self.wait(name), *self._streams(name))

    def talk(self, name, argv, plain=False, mounts=(), **wants):
        """Runs a container whose standard streams are the test's, by way of two pipes, as a
        Process. That Process's exit status says nothing of the container's: see wait()."""
        folder = "%s/%s.pipes" % (self.folder, name)
        os.mkdir(folder)
        for pipe in ("in", "out"):
            os.mkfifo(os.path.join(folder, pipe))
            os.chmod(os.path.join(folder, pipe), 0o666)
        started = self.run(name, ["sh", "-c", 'exec "$@" < /pipes/in > /pipes/out', "sh", *argv],
                           detach=True, plain=plain, mounts=(*mounts, (folder, "/pipes")), **wants)
        check(started.returncode == 0, started.stderr)
        return Process(["sh", "-c", "exec 3<&0; cat <&3 > in & exec cat out"], name, cwd=folder)

    def exec(self, name, argv):
        try:
            answer = self.call("ExecSync", container_id=self._id(name), cmd=list(argv),
                               timeout=int(DEADLINE))
        except Failure as failure:
            return subprocess.CompletedProcess(argv, 125, "", str(failure))
        return subprocess.CompletedProcess(
            argv, answer["exit_code"], *(base64.b64decode(answer[stream]).decode(errors="replace")
                                         for stream in ("stdout", "stderr")))

    def _status(self, name):
        return self.call("ContainerStatus", container_id=self._id(name))["status"]

    def wait(self, name):
        """Its exit status, once it has ended."""
        wait_for(lambda: self._status(name)["state"] == "CONTAINER_EXITED", "%s does not end" % name)
        return self._status(name)["exit_code"]

    def _streams(self, name):
        """Its standard output and error, from lines such as `TIME stdout F text`."""
        streams = {"stdout": "", "stderr": ""}
        with open(self._log(name), encoding="utf-8", errors="replace") as file:
            for line in file:
                _, stream, part, text = line.split(" ", 3)
                streams[stream] += text if part == "F" else text.removesuffix("\n")
        return streams["stdout"], streams["stderr"]

    def logs(self, name):
        return "".join(self._streams(name))

    def remove(self, name):
        """Also one that runs, or that was refused."""
        pod = self._pods.pop(name, None)
        if pod:
            self.call("StopPodSandbox", pod_sandbox_id=pod)
            self.call("RemovePodSandbox", pod_sandbox_id=pod)
        self._containers.pop(name, None)
        self._remove_log(name)

    def _remove_all(self):
        for name in list(self._pods):
            self.remove(name)

    def _stop(self):
        super()._stop()
        self._end_client()
