"""A cluster on which the chart can be installed as its users do: with the images, and the API server
where pods look for it. The Kubernetes node has simulated GPUs; its containerd knows nothing of cgpu.
"""
import contextlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading

import cgpu_test as t
import image
from cgpu_test import check, skip
from cluster import FOLDER, NODE, Cluster, find_kube

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = ROOT + "/deploy/chart/cgpu"
NAMESPACE = "cgpu-system"
IMAGE, SCHEDULER_IMAGE = "localhost/cgpu", "localhost/kube-scheduler"
ASKED = FOLDER + "/restart-containerd"  # cgpu-node asks for it so
USER = FOLDER + "/user"  # the administrator's folder: the tree of sources, and own files
SECONDS = 400
_PROGRAMS = ("cgpu", "cgpud", "cgpu-runtime", "cgpu-shim", "cgpu-scheduler", "cgpu-device-plugin",
             "cgpu-exporter")
_SERVICE = "10.96.0.1"  # of the API server, for pods


def find_helm():
    """The path of Helm. Skips the test where it is not built."""
    done = subprocess.run([os.path.join(ROOT, "tests/build_go.sh"), "helm"],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        skip("Helm is not built on this machine")
    return done.stdout.strip()


def version():
    return t.command(t.CGPU, "--version").split()[1]


def add_program(rootfs, program, name=None):
    """Copies a program into /bin, with the libraries that it is linked with."""
    path = os.path.join(rootfs, "bin", name or os.path.basename(program))
    if os.path.lexists(path):
        os.unlink(path)  # busybox's
    shutil.copy(program, path)
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False).stdout
    for word in said.split():
        if word.startswith("/") and not os.path.exists(rootfs + word):
            os.makedirs(os.path.dirname(rootfs + word), exist_ok=True)
            shutil.copy(word, rootfs + word)


def make_image(cluster, tag, programs=None):
    """The image of deploy/image/Containerfile, of this build's programs. `programs`: others, by
    name."""
    rootfs = "%s/rootfs-%s" % (FOLDER, tag)
    image.make_rootfs(rootfs)
    os.makedirs(rootfs + "/usr")
    os.symlink("../bin", rootfs + "/usr/bin")
    for name in _PROGRAMS:
        add_program(rootfs, (programs or {}).get(name, os.path.abspath(os.path.join(t.BIN, name))), name)
    add_program(rootfs, "/usr/bin/nsenter")
    add_program(rootfs, ROOT + "/deploy/image/cgpu-node.sh")
    os.chmod(rootfs + "/bin/cgpu-shim", 0o711)
    cluster.import_image("%s:%s" % (IMAGE, tag), rootfs)


def _make_scheduler_image(cluster):
    rootfs = FOLDER + "/rootfs-kube-scheduler"
    image.make_rootfs(rootfs, [find_kube()])
    path = rootfs + "/bin/kube-scheduler"
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec kube scheduler \"$@\"\n")
    os.chmod(path, 0o755)
    cluster.import_image(SCHEDULER_IMAGE + ":1", rootfs)


class _Forward(socketserver.BaseRequestHandler):
    """Hands a connection on to the API server, as kube-proxy would."""

    open = set()

    def handle(self):
        self.open.add(self.request)
        with contextlib.suppress(OSError):  # one of the two has gone
            with socket.create_connection(("127.0.0.1", 6443)) as server:
                back = threading.Thread(target=self._copy, args=(server, self.request))
                back.start()
                self._copy(self.request, server)
                back.join()
        self.open.discard(self.request)

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _serve_to_pods():
    done = subprocess.run(["ip", "address", "add", _SERVICE + "/32", "dev", "lo"], check=False)
    check(done.returncode == 0, "the service's address cannot be added")
    socketserver.ThreadingTCPServer.daemon_threads = True
    server = socketserver.ThreadingTCPServer((_SERVICE, 443), _Forward)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Deployed(Cluster):
    """`node`: the simulated one (cgpu_test.Node)."""

    def __init__(self, node, **more):
        super().__init__(**more)
        self.node = node
        self._helm = find_helm()
        self.config = None  # containerd's, before the chart
        self._server = None
        # Values that a test must say, beside a user's own. YAML is a superset of JSON.
        self._values = {
            "image": {"repository": IMAGE},
            "scheduler": {"kubeScheduler": {"repository": SCHEDULER_IMAGE, "tag": "1"}},
            "node": {"simulated": node.name, "containerd": {
                "config": FOLDER + "/containerd.toml", "restart": "touch " + ASKED}}}

    def __enter__(self):
        super().__enter__()
        with open(FOLDER + "/containerd.toml", encoding="utf-8") as file:
            self.config = file.read()
        self._server = _serve_to_pods()
        os.mkdir(USER)
        os.symlink(ROOT + "/deploy", USER + "/deploy")
        with open(USER + "/cgpu-values.yaml", "w", encoding="utf-8") as file:
            json.dump(self._values, file)
        os.mkdir(FOLDER + "/bin")
        for name, program in (("helm", self._helm), ("kubectl", find_kube()),
                              ("kubectl-inspect-cgpu", t.BIN + "/kubectl-inspect-cgpu")):
            os.symlink(os.path.abspath(program), "%s/bin/%s" % (FOLDER, name))
        make_image(self, version())
        _make_scheduler_image(self)
        return self

    def __exit__(self, *error):
        # The API server waits for those who watch before it ends, and pods outlive the kubelet.
        self._server.shutdown()
        self._server.server_close()
        for connection in list(_Forward.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().__exit__(*error)

    def user(self, *words):
        """Runs a command as the cluster's administrator, who has helm, kubectl, its plugin and
        cgpu-values.yaml; returns the output."""
        done = subprocess.run(words, cwd=USER, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
                              env={"PATH": FOLDER + "/bin:/usr/bin:/bin", "HOME": FOLDER,
                                   "KUBECONFIG": self.keys.path("admin.conf")})
        print(done.stdout)
        check(done.returncode == 0, "%s ended with %d" % (words, done.returncode))
        return done.stdout

    def install(self, *values):
        """Installs the chart or changes its values."""
        words = ["helm", "upgrade", "--install", "cgpu", CHART, "--namespace", NAMESPACE,
                 "--create-namespace", "--values", "cgpu-values.yaml"]
        for value in values:
            words += ["--set", value]
        self.user(*words)

    def restart_containerd(self):
        """Does what cgpu-node asks for."""
        self.wait("nobody asks to restart containerd", lambda: os.path.exists(ASKED))
        os.unlink(ASKED)
        self.kill("containerd")
        self.start_containerd()

    def wait_rolled_out(self):
        """Waits until all pods of the chart are those of its last values, and ready."""
        for kind, name in (("daemonset", "cgpu-node"), ("deployment", "cgpu-scheduler")):
            self.wait("%s %s is not ready" % (kind, name),
                      lambda kind=kind, name=name: self._is_rolled_out(kind, name))

    def _is_rolled_out(self, kind, name):
        it = self.get("--namespace", NAMESPACE, kind, name)
        status = it["status"] if it else {}
        if status.get("observedGeneration") != (it or {"metadata": {}})["metadata"].get("generation"):
            return False
        if kind == "daemonset":
            wanted, updated, ready = (status.get(field, 0) for field in (
                "desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"))
        else:
            wanted, updated, ready = (it["spec"]["replicas"], status.get("updatedReplicas", 0),
                                      status.get("availableReplicas", 0))
        return wanted and wanted == updated == ready

    def show_pods(self):
        """Prints what the chart's pods say, for a test that fails."""
        print(self.kubectl("get", "pods", "-A", "-o", "wide", ok=False).stdout)
        for pod in (self.get("--namespace", NAMESPACE, "pods") or {"items": []})["items"]:
            name = pod["metadata"]["name"]
            print("--- %s: %s" % (name, self.kubectl("logs", "-n", NAMESPACE, name, "--all-containers",
                                                     "--prefix", "--tail=15", ok=False).stdout[-3000:]))
        for event in (self.get("events", "-A") or {"items": []})["items"]:
            if event["type"] != "Normal":
                print("event: %s: %s" % (event["involvedObject"]["name"], event["message"][:300]))


@contextlib.contextmanager
def deployed(install=Deployed.install):
    """A cluster with the chart installed, on a node that shares its two GPUs."""
    rmtool = os.path.abspath(os.path.join(t.BIN, "rmtool"))
    with t.Node("v100-16g:2") as node:
        with Deployed(node, in_image=[rmtool]) as cluster:
            try:
                cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=core_mem")
                install(cluster)
                cluster.restart_containerd()
                cluster.wait_rolled_out()
                cluster.say("the chart is installed")
                yield cluster
            except t.Failure:
                cluster.show_pods()
                raise


__all__ = ["CHART", "Deployed", "NAMESPACE", "NODE", "ROOT", "add_program", "deployed", "find_helm", "make_image", "version"]
