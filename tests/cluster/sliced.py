"""A cluster of tests/cluster whose node shares its simulated GPUs by cgpu:

    with sliced(gpus=2) as one:
        one.cluster.apply(make_slice_pod("p", 8, "sleep", "1000"))

Each GPU has 16160 MiB, which aliyun.com/gpu-mem counts as 15 GiB. What a pod holds is to be read
from the driver's own accounting (one.node).
"""
import base64
import contextlib
import json
import os
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
from cluster import NODE, Cluster, make_pod  # noqa: E402
from engines import start_cgpud  # noqa: E402

MEMORY, COMPUTE, COUNT = ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage",
                          "aliyun.com/gpu-count")
PORT, WEBHOOK = 12345, 9443  # of the first replica of the scheduler; the next one has the next
SCHEDULER = "cgpu-scheduler"
UNITS = 15  # GiB of a GPU


def extender(port):
    return {"urlPrefix": "http://127.0.0.1:%d" % port, "filterVerb": "filter",
            "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 10,
            "nodeCacheCapable": True, "httpTimeout": "10s",
            "managedResources": [{"name": name, "ignoredByScheduler": False}
                                 for name in (MEMORY, COUNT)]}


def program(name):
    return os.path.abspath(os.path.join(t.BIN, name))


class Sliced:
    """A cluster whose node shares its GPUs. `schedulers`: replicas of the scheduler for slices.
    `options`: more of cgpu-scheduler's."""

    def __init__(self, node, cluster, schedulers, options):
        self.node, self.cluster, self.schedulers = node, cluster, schedulers
        self.options = options
        self.daemon = None

    def start(self):
        keys = self.cluster.keys
        keys.make_signing_key("decisions")
        keys.add_server("webhook", "/CN=webhook")
        self.daemon = start_cgpud(self.node, "/usr/sbin/runc", "kubernetes: true\n")
        self.start_plugin()
        self.cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=core_mem")
        self.cluster.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                            "metadata": {"name": "cgpu"}, "handler": "cgpu"})
        units = str(UNITS * len(self.node.info()["gpus"]))
        self.cluster.wait("the node does not say what it has", lambda: self.cluster.get(
            "node", NODE)["status"]["allocatable"].get(MEMORY) == units)
        for number in range(self.schedulers):
            self.start_scheduler(number)
            self.start_kube_scheduler(number)
        self.wait_known()
        self._register_webhook()

    def wait_known(self, count=1):
        """Waits until one cgpu-scheduler has known the cluster so many times."""
        self.cluster.wait("cgpu-scheduler does not know the cluster", lambda: any(
            self.cluster.log(SCHEDULER + str(number)).count("knows the cluster") >= count
            for number in range(self.schedulers)))

    def _register_webhook(self):
        with open(self.cluster.keys.path("ca.crt"), "rb") as file:
            bundle = base64.b64encode(file.read()).decode()
        self.cluster.apply({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "cgpu"}, "webhooks": [{
                "name": "pods.cgpu.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {"url": "https://127.0.0.1:%d/admit" % WEBHOOK, "caBundle": bundle},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                           "operations": ["CREATE"]}]}]})
        # The API server takes a moment to call it.
        probe = make_slice_pod("probe", 8, "true", count=3)
        self.cluster.wait("the webhook refuses nothing", lambda: "cannot share evenly" in
                          self.cluster.kubectl("create", "--dry-run=server", "-f", "-",
                                               text=json.dumps(probe), ok=False).stderr)

    def start_scheduler(self, number=0):
        keys = self.cluster.keys
        electing = ("--lease", "kube-system/" + SCHEDULER, "--lease-identity",
                    self._host(number) + "_") if self.schedulers > 1 else ()
        self.cluster.start(SCHEDULER + str(number), program("cgpu-scheduler"), "--kubeconfig",
                           keys.path("admin.conf"), "--port", str(PORT + number), "--signing-key",
                           keys.path("decisions.key"), "--webhook-port", str(WEBHOOK + number),
                           "--tls-cert", keys.path("webhook.crt"), "--tls-key",
                           keys.path("webhook.key"), *electing, *self.options)

    def start_kube_scheduler(self, number=0):
        self.cluster.start_scheduler(
            "scheduler-of-slices%d" % number, SCHEDULER, [extender(PORT + number)],
            host=self._host(number) if self.schedulers > 1 else None)

    @staticmethod
    def _host(number):
        return "replica%d" % number

    def restart_daemon(self):
        self.daemon.popen.kill()
        self.daemon.popen.wait()
        self.daemon.start()

    def start_plugin(self):
        self.cluster.start("cgpu-device-plugin", program("cgpu-device-plugin"), "--kubeconfig",
                           self.cluster.keys.path("admin.conf"), "--kube-node", NODE, "--node",
                           self.node.name, "--verify-key", self.cluster.keys.path("decisions.pub"))

    def restart_scheduler(self):
        """All that cgpu-scheduler knows comes anew."""
        self.cluster.kill(SCHEDULER + "0")
        self.start_scheduler()
        self.wait_known(2)

    def why_pending(self, pod):
        """The messages that say why the pod is not scheduled."""
        return [event for event in self.cluster.events(pod) if event.startswith("FailedScheduling: ")]

    def decision(self, pod):
        """The decision that is written on the pod."""
        text = self.cluster.get("pod", pod)["metadata"]["annotations"]["cgpu.dev/decision"]
        return json.loads(text.rsplit(" ", 1)[0])


@contextlib.contextmanager
def sliced(gpus=2, schedulers=1, options=(), in_image=()):
    with t.Node("v100-16g:%d" % gpus) as node:
        with Cluster(handlers={"cgpu": program("cgpu-runtime")},
                     in_image=[program("rmtool"), *in_image]) as cluster:
            one = Sliced(node, cluster, schedulers, options)
            one.start()
            yield one
            cluster.kubectl("delete", "pods,jobs", "--all", "--grace-period=0", "--force")
            cluster.wait("slices are left", lambda: not node.containers())


def make_slice_pod(name, memory, *command, compute=None, count=None, **more):
    limits = {MEMORY: str(memory)}
    if compute is not None:
        limits[COMPUTE] = str(compute)
    labels = {COUNT: str(count)} if count else {}
    return make_pod(name, *command, limits=limits, labels=labels, **more)


def mib(units):
    """MiB that a container with so many units of a GPU sees."""
    return 16160 * units // UNITS


def part(name, memory, script, env=None, **more):
    """A container with a part of its pod's GPU."""
    container = make_pod("", "sh", "-c", script, limits={MEMORY: str(memory)})["spec"]["containers"][0]
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {**container, "name": name, "env": variables, **more}


def of_parts(name, *containers, **spec):
    pod = make_pod(name, "true", **spec)
    pod["spec"]["containers"] = list(containers)
    return pod
