"""The annotation in which a Kubernetes node says what it has let in has room for all its pods. A
stand-in for the API server bounds annotations as Kubernetes does; cgpu-scheduler and
cgpu-device-plugin are real. Cases by name, see tests/lib/cgpu_test.py."""
import contextlib
import http.server
import json
import os
import queue
import re
import threading
import urllib.request
import uuid

import cgpu_test as t
import isolation
from exporter_test import free_port, own_registry

MOST_ANNOTATIONS = 256 << 10  # TotalAnnotationSizeLimitB of Kubernetes' apimachinery
FOLDER = "/run/cluster"


def _merge(value, patch):
    for name, new in patch.items():
        if new is None:
            value.pop(name, None)
        elif isinstance(new, dict):
            _merge(value.setdefault(name, {}), new)
        else:
            value[name] = new


class World:
    """The objects, by kind and name."""

    def __init__(self):
        self.lock = threading.RLock()
        self.version = 1
        self.objects = {"nodes": {}, "pods": {}}
        self.watches = []
        self.refusals = 0

    def put(self, kind, value):
        with self.lock:
            self.version += 1
            value["metadata"]["resourceVersion"] = str(self.version)
            name = value["metadata"]["name"]
            how = "MODIFIED" if name in self.objects[kind] else "ADDED"
            self.objects[kind][name] = value
            for of, lines in self.watches:
                if of == kind:
                    lines.put(json.dumps({"type": how, "object": value}))

    def change(self, kind, name, patch):
        """Returns the object, or None where its annotations would be too large."""
        with self.lock:
            new = json.loads(json.dumps(self.objects[kind][name]))
            _merge(new, patch)
            annotations = new["metadata"].get("annotations", {})
            if sum(len(one) + len(text) for one, text in annotations.items()) > MOST_ANNOTATIONS:
                self.refusals += 1
                return None
            self.put(kind, new)
            return new


class Handler(http.server.BaseHTTPRequestHandler):
    """Lists, watches, patches and bindings."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _say(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _say_changed(self, value):
        if value is None:
            self._say(422, {"message": "metadata.annotations: Too long"})
        else:
            self._say(200, value)

    def _place(self):
        words = self.path.partition("?")[0].split("/")
        kind = next((kind for kind in ("nodes", "pods") if kind in words), None)
        name = words[words.index(kind) + 1] if kind and words[-1] != kind else None
        return kind, name

    def do_GET(self):
        kind, name = self._place()
        world = self.server.world
        if kind is None:
            self._say(404, {"message": "none"})
        elif name is not None:
            self._say(200, world.objects[kind][name])
        elif "watch=1" in self.path:
            self._watch(kind)
        else:
            with world.lock:
                self._say(200, {"metadata": {"resourceVersion": str(world.version)},
                                "items": list(world.objects[kind].values())})

    def _watch(self, kind):
        lines = queue.Queue()
        since = int(re.search(r"resourceVersion=(\d+)", self.path).group(1))
        with self.server.world.lock:
            for value in self.server.world.objects[kind].values():
                if int(value["metadata"]["resourceVersion"]) > since:
                    lines.put(json.dumps({"type": "MODIFIED", "object": value}))
            self.server.world.watches.append((kind, lines))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                line = (lines.get() + "\n").encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_PATCH(self):
        self._say_changed(self.server.world.change(*self._place(), self._body()))

    def do_POST(self):  # of a binding
        body = self._body()
        self._say_changed(self.server.world.change(*self._place(), {
            "metadata": {"annotations": body["metadata"]["annotations"]},
            "spec": {"nodeName": body["target"]["name"]}}))


def _pod(name, inits=0):
    def part(container):
        return {"name": container, "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": str(uuid.uuid4())},
            "spec": {"containers": [part("main")],
                     "initContainers": [part("%04d" % one + "x" * 59) for one in range(inits)]},
            "status": {"phase": "Pending"}}


class Cluster:
    """One Kubernetes node `kn` with one GPU: `with Cluster() as cluster`."""

    def __enter__(self):
        own_registry()
        os.makedirs(FOLDER)
        os.makedirs("/var/lib/kubelet/device-plugins", exist_ok=True)
        self.world = World()
        self.world.put("nodes", {"apiVersion": "v1", "kind": "Node", "spec": {}, "status": {},
                                 "metadata": {"name": "kn", "uid": "n1", "annotations": {},
                                              "labels": {"ack.node.gpu.schedule": "cgpu"}}})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.world = self.world
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._write_files("http://127.0.0.1:%d" % self._server.server_address[1])
        self._node = t.Node("v100-16g:1")
        name = self._node.__enter__().name
        self._port = free_port()
        config = ["--kubeconfig", FOLDER + "/kubeconfig"]
        self._programs = [
            t.Process([os.path.join(t.BIN, "cgpu-device-plugin"), *config, "--kube-node", "kn",
                       "--node", name, "--verify-key", FOLDER + "/public.pem"]),
            t.Process([os.path.join(t.BIN, "cgpu-scheduler"), *config, "--signing-key",
                       FOLDER + "/private.pem", "--port", str(self._port)])]
        t.wait_for(lambda: "cgpu.dev/gpus" in self.annotations(), "the GPU is not announced")
        t.wait_for(self._knows_the_node, "cgpu-scheduler does not know the node")
        return self

    def __exit__(self, *_):
        for program in self._programs:
            program.kill()
        self._node.__exit__(None, None, None)
        self._server.shutdown()

    @staticmethod
    def _write_files(server):
        private, public = FOLDER + "/private.pem", FOLDER + "/public.pem"
        t.command("openssl", "genpkey", "-algorithm", "ed25519", "-out", private)
        t.command("openssl", "pkey", "-in", private, "-pubout", "-out", public)
        with open(FOLDER + "/kubeconfig", "w", encoding="ascii") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                       "clusters": [{"name": "a", "cluster": {"server": server}}],
                       "users": [{"name": "a", "user": {}}],
                       "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}, file)

    def annotations(self):
        return self.world.objects["nodes"]["kn"]["metadata"]["annotations"]

    def _call(self, path, question):
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self._port, path),
                                         json.dumps(question).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=t.DEADLINE) as answer:
            return json.load(answer)

    def _knows_the_node(self):
        with contextlib.suppress(OSError):
            return self.filter(_pod("asked")).get("NodeNames") == ["kn"]
        return False

    def filter(self, pod):
        return self._call("/filter", {"Pod": pod, "NodeNames": ["kn"]})

    def schedule(self, pod):
        """Has the pod bound, and returns it; or returns why not."""
        self.world.put("pods", pod)
        answer = self.filter(pod)
        if answer.get("NodeNames") != ["kn"]:
            return json.dumps(answer)
        meta = pod["metadata"]
        bound = self._call("/bind", {"PodName": meta["name"], "PodNamespace": "default",
                                     "PodUID": meta["uid"], "Node": "kn"})
        t.check(bound["Error"] == "", "%s is not bound: %s" % (meta["name"], bound))
        return pod


def _granted(pod):
    return os.path.exists("/run/cgpu/pods/" + pod["metadata"]["uid"])


def many():
    """A pod with very many init containers gets no part, and keeps nobody else from one."""
    with Cluster() as cluster:
        answers = [str(cluster.schedule(_pod("bad%d" % number, 1000)))[:200] for number in range(3)]
        last = cluster.schedule(_pod("last"))
        t.wait_for(lambda: _granted(last), "a pod gets no grant beside large ones")
        for answer in answers:
            t.check("1001 containers of the pod ask for a part of a GPU" in answer, answer)
        t.check(cluster.world.refusals == 0, "the API server refuses")


def foreign():
    """Annotations of others leave room for a small decision alone: its pod gets its part. The other
    pod's decision is tried again, and is published once there is room."""
    with Cluster() as cluster:
        room = sum(len(name) + len(text) for name, text in cluster.annotations().items()) + 2000
        cluster.world.change("nodes", "kn", {"metadata": {"annotations": {
            "others/text": "x" * (MOST_ANNOTATIONS - room)}}})
        large = cluster.schedule(_pod("large", 30))
        t.wait_for(lambda: cluster.world.refusals > 0, "it fits")
        small = cluster.schedule(_pod("small"))
        t.wait_for(lambda: _granted(small), "a small pod waits for a large one")
        t.check(not _granted(large), "the large one has a grant that is not published")
        cluster.world.change("nodes", "kn", {"metadata": {"annotations": {"others/text": None}}})
        t.wait_for(lambda: _granted(large), "the large one gets none")


if __name__ == "__main__":
    isolation.main({"many": many, "foreign": foreign})
