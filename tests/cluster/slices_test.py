"""Pods with slices on a real cluster: they get the GPUs that cgpu-scheduler has decided, no more, and
no other way leads to one. What a pod holds is read from the driver's own accounting.

The node has two simulated GPUs of 16160 MiB, which aliyun.com/gpu-mem counts as 15 GiB each.
"""
import base64
import json
import os
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import contextlib  # noqa: E402

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER, NODE, Cluster, make_pod  # noqa: E402
from engines import start_cgpud  # noqa: E402

MEMORY, COMPUTE, COUNT = ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage",
                          "aliyun.com/gpu-count")
PORT, WEBHOOK = 12345, 9443
EXTENDER = {"urlPrefix": "http://127.0.0.1:%d" % PORT, "filterVerb": "filter",
            "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 10,
            "nodeCacheCapable": True, "httpTimeout": "10s",
            "managedResources": [{"name": MEMORY, "ignoredByScheduler": False}]}
SCHEDULER = "cgpu-scheduler"


def program(name):
    return os.path.abspath(os.path.join(t.BIN, name))


class Sliced:
    """A cluster whose node shares its GPUs."""

    def __init__(self, node, cluster, options=()):
        """`options`: more of cgpu-scheduler's."""
        self.node, self.cluster, self.options = node, cluster, options
        self.daemon = None

    def start(self):
        keys = self.cluster.keys
        keys.make_signing_key("decisions")
        keys.add_server("webhook", "/CN=webhook")
        self.daemon = start_cgpud(self.node, "/usr/sbin/runc", "kubernetes: true\n")
        self.start_scheduler()
        self.start_plugin()
        self.cluster.kubectl("label", "node", NODE, "ack.node.gpu.schedule=core_mem")
        self.cluster.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                            "metadata": {"name": "cgpu"}, "handler": "cgpu"})
        self.cluster.wait("the node does not say what it has", lambda: self.cluster.get(
            "node", NODE)["status"]["allocatable"].get(MEMORY) == "30")
        self.cluster.wait("cgpu-scheduler does not know the cluster",
                          lambda: "knows the cluster" in self.cluster.log(SCHEDULER))
        self.cluster.start_scheduler("scheduler-of-slices", SCHEDULER, [EXTENDER])
        self._register_webhook()

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
        probe = slice_pod("probe", 8, "true", count=3)
        self.cluster.wait("the webhook refuses nothing", lambda: "cannot share evenly" in
                          self.cluster.kubectl("create", "--dry-run=server", "-f", "-",
                                               text=json.dumps(probe), ok=False).stderr)

    def start_scheduler(self):
        keys = self.cluster.keys
        self.cluster.start(SCHEDULER, program("cgpu-scheduler"), "--kubeconfig",
                           keys.path("admin.conf"), "--port", str(PORT), "--signing-key",
                           keys.path("decisions.key"), "--webhook-port", str(WEBHOOK), "--tls-cert",
                           keys.path("webhook.crt"), "--tls-key", keys.path("webhook.key"), *self.options)

    def start_plugin(self):
        self.cluster.start("cgpu-device-plugin", program("cgpu-device-plugin"), "--kubeconfig",
                           self.cluster.keys.path("admin.conf"), "--kube-node", NODE, "--node",
                           self.node.name, "--verify-key", self.cluster.keys.path("decisions.pub"))

    def decision(self, pod):
        """The decision that is written on the pod."""
        text = self.cluster.get("pod", pod)["metadata"]["annotations"]["cgpu.dev/decision"]
        return json.loads(text.rsplit(" ", 1)[0])


@contextlib.contextmanager
def sliced(*options, in_image=()):
    with t.Node("v100-16g:2") as node:
        with Cluster(handlers={"cgpu": program("cgpu-runtime")},
                     in_image=[program("rmtool"), *in_image]) as cluster:
            one = Sliced(node, cluster, options)
            one.start()
            yield one
            cluster.kubectl("delete", "pods,jobs", "--all", "--grace-period=0", "--force")
            cluster.wait("slices are left", lambda: not node.containers())


def slice_pod(name, memory, *command, compute=None, count=None, **more):
    limits = {MEMORY: str(memory)}
    if compute is not None:
        limits[COMPUTE] = str(compute)
    labels = {COUNT: str(count)} if count else {}
    return make_pod(name, *command, limits=limits, labels=labels, **more)


def documented():
    """ACK's example: 8 GiB over two GPUs as a job ("Enable Multi-GPU Sharing with Shared GPU
    Scheduling"); its pod sees 4309 MiB on each."""
    with sliced() as one:
        spec = slice_pod("", 8, "rmtool", "info", count=2)
        one.cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "example"},
                           "spec": {"template": {"metadata": {"labels": spec["metadata"]["labels"]},
                                                 "spec": spec["spec"]}}})
        one.cluster.wait("the job does not succeed", lambda: one.cluster.get(
            "job", "example")["status"].get("succeeded") == 1)
        said = one.cluster.kubectl("logs", "job/example")
        one.cluster.say("the documented example is done")
        check(said.count("4309MiB total") == 2, said)


def limits():
    """Two pods on one GPU: each gets its part and no more, by the driver's accounting."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(slice_pod("a", 8, "sleep", "1000"), slice_pod("b", 7, "sleep", "1000"))
        for pod in ("a", "b"):
            cluster.wait_phase(pod, "Running")
        check(one.decision("a")["gpus"] == one.decision("b")["gpus"], "they are not packed")
        for pod, mib in (("a", 16160 * 8 // 15), ("b", 16160 * 7 // 15)):
            said = cluster.kubectl("exec", pod, "--", "rmtool", "alloc", "16160", "--page", "big",
                                   "--fill", ok=False).stdout
            check("after %d MiB" % mib in said, "%s: %s" % (pod, said))
        one.node.wait_used(0, "memory is left")


def refused():
    """Pods that cannot be are refused at once, with a number that would do."""
    with sliced() as one:
        def said(pod):
            return one.cluster.apply(pod, ok=False).stderr
        words = said(slice_pod("p", 8, "true", count=3))
        check("which 3 GPUs cannot share evenly; ask for 9" in words, words)
        words = said(slice_pod("p", 16, "true"))
        check("the largest GPU of the cluster has 15; ask for at most 15" in words, words)
        one.cluster.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                           "metadata": {"name": "other"}, "handler": "runc"})
        words = said(slice_pod("p", 8, "true", runtimeClassName="other"))
        check("leave runtimeClassName out, or set it to cgpu" in words, words)
        forged = slice_pod("p", 8, "true")
        forged["metadata"]["annotations"]["cgpu.dev/decision"] = "{}"
        words = said(forged)
        check("is cgpu-scheduler's to write" in words, words)


def pending():
    """A pod that does not fit waits; its event says how far the best GPU is. It runs once there is
    room."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(slice_pod("a", 12, "sleep", "1000"), slice_pod("b", 13, "sleep", "1000"))
        for pod in ("a", "b"):
            cluster.wait_phase(pod, "Running")
        cluster.apply(slice_pod("c", 4, "sleep", "1000"))

        def why():
            events = cluster.get("events", "--field-selector", "involvedObject.name=c") or {}
            return [event["message"] for event in events.get("items", ())
                    if event["reason"] == "FailedScheduling"]
        cluster.wait("the pod is not said to wait", why)
        check("has 3 of 4 GiB free" in why()[0], why()[0])
        cluster.kubectl("delete", "pod", "b")
        cluster.wait_phase("c", "Running")


def bypassed():
    """Pods that go past the scheduler, and pods whose environment asks for a slice, get nothing of a
    GPU; the pod's event says why."""
    with sliced() as one:
        cluster = one.cluster
        past = slice_pod("past", 8, "sleep", "1000", nodeName=NODE)
        asks = make_pod("asks", "sleep", "1000", runtimeClassName="cgpu")
        asks["spec"]["containers"][0]["env"] = [
            {"name": "ALIYUN_COM_GPU_MEM_CONTAINER", "value": "8"},
            {"name": "ALIYUN_COM_GPU_MEM_DEV", "value": "15"}]
        cluster.apply(past, asks)

        def why(pod):
            events = cluster.get("events", "--field-selector", "involvedObject.name=" + pod) or {}
            return [event["message"] for event in events.get("items", ())
                    if "no decision of cgpu-scheduler" in event["message"]]
        for pod in ("past", "asks"):
            cluster.wait("the event of %s does not say why" % pod, lambda pod=pod: why(pod))
            check(cluster.phase(pod) != "Running", "%s runs" % pod)
        check(not one.node.containers(), "there are slices")


def forged():
    """A pod whose annotation is changed after it is bound keeps what it has; a decision that was made
    for another pod is worth nothing."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(slice_pod("a", 8, "sleep", "1000"), slice_pod("b", 2, "sleep", "1000"))
        for pod in ("a", "b"):
            cluster.wait_phase(pod, "Running")
        text = cluster.get("pod", "a")["metadata"]["annotations"]["cgpu.dev/decision"]
        cluster.kubectl("annotate", "--overwrite", "pod", "b", "cgpu.dev/decision=" + text)
        past = slice_pod("past", 8, "sleep", "1000", nodeName=NODE)
        cluster.apply(past)
        cluster.kubectl("annotate", "pod", "past", "cgpu.dev/decision=" + text)
        cluster.wait("the forged decision is not noticed", lambda: "takes no decision for the pod "
                     "default/past: it is for another pod" in cluster.log("cgpu-device-plugin"))
        # All that cgpu-scheduler knows comes anew, with the changed annotation.
        cluster.kill(SCHEDULER)
        one.start_scheduler()
        cluster.apply(slice_pod("c", 13, "sleep", "1000"))
        cluster.wait_phase("c", "Running")
        check(one.decision("c")["gpus"] != one.decision("a")["gpus"],
              "the GPU of the pod whose annotation was changed is given twice")


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (documented, limits, refused, pending, bypassed, forged)})
