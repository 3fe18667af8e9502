"""How many pods a second the real kube-scheduler binds with cgpu-scheduler as its extender, and without:
1,000 pods with slices, or plain ones, wait for 1,000 nodes when it starts. There are an API server and
etcd on the same processors; nodes and pods are objects only, nobody runs them. A round has both, one after
the other. The rate is from the first pod that is bound to the last. Fails where a pod is not bound as was
written on it, where a GPU is given twice, or where the scheduler reports an error of binding.

Needs root. ROUNDS (3), PODS and NODES (1000). The last line has the medians of the rounds.
"""
import collections
import http.client
import json
import os
import ssl
import statistics
import sys
import threading
import time

_TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests")
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import Cluster, make_pod  # noqa: E402
from sliced import MEMORY, SCHEDULER, extender, program  # noqa: E402

PODS = int(os.environ.get("PODS", "1000"))
NODES = int(os.environ.get("NODES", "1000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
DEADLINE = 120
GPUS, GIB = 4, 16
PLAIN = "plain-scheduler"


class Client:
    """A connection to the API server."""

    def __init__(self, cluster):
        context = ssl.create_default_context(cafile=cluster.keys.path("ca.crt"))
        context.load_cert_chain(cluster.keys.path("admin.crt"), cluster.keys.path("admin.key"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=context)

    def ask(self, method, path, value=None):
        kind = "merge-patch+json" if method == "PATCH" else "json"
        self._connection.request(method, path, value and json.dumps(value),
                                 {"Content-Type": "application/" + kind})
        answer = self._connection.getresponse()
        body = answer.read()
        check(answer.status < 300, "%s %s: %s" % (method, path, body[:500]))
        return json.loads(body)

    def lines(self, path):
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)


def make_node(number):
    name = "node-%04d" % number
    gpus = [{"uuid": "GPU-%04d-%d" % (number, i), "mib": GIB * 1024, "healthy": True}
            for i in range(GPUS)]
    resources = {"cpu": "64", "memory": "256Gi", "pods": "250", MEMORY: str(GPUS * GIB)}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"ack.node.gpu.schedule": "core_mem",
                                                  "kubernetes.io/hostname": name},
                         "annotations": {"cgpu.dev/gpus": json.dumps(gpus)}},
            "status": {"capacity": resources, "allocatable": resources,
                       "conditions": [{"type": "Ready", "status": "True"}]}}


class Burst:
    def __init__(self, cluster):
        self.cluster = cluster
        self.client = Client(cluster)

    def prepare(self):
        self.cluster.keys.make_signing_key("decisions")
        self.client.ask("POST", "/api/v1/namespaces/default/serviceaccounts",
                        {"apiVersion": "v1", "kind": "ServiceAccount",
                         "metadata": {"name": "default"}})
        for node in map(make_node, range(NODES)):
            self.client.ask("POST", "/api/v1/nodes", node)
            # A node is made with the taint "not ready", which a controller takes away.
            self.client.ask("PATCH", "/api/v1/nodes/" + node["metadata"]["name"],
                            {"spec": {"taints": None}})
        self.cluster.start(SCHEDULER, program("cgpu-scheduler"), "--kubeconfig",
                           self.cluster.keys.path("admin.conf"), "--signing-key",
                           self.cluster.keys.path("decisions.key"))
        self.cluster.wait("cgpu-scheduler does not know the cluster",
                          lambda: "knows the cluster" in self.cluster.log(SCHEDULER))

    def pods(self):
        return self.client.ask("GET", "/api/v1/namespaces/default/pods")

    def rate(self, scheduler, limits, extenders):
        """Pods a second."""
        for number in range(PODS):
            pod = make_pod("pod-%04d" % number, "true", limits=limits, schedulerName=scheduler,
                           automountServiceAccountToken=False)
            self.client.ask("POST", "/api/v1/namespaces/default/pods", pod)
        version = self.pods()["metadata"]["resourceVersion"]
        times = {}
        watches = threading.Thread(target=self._watch, args=(version, times), daemon=True)
        watches.start()
        process = "scheduler-" + scheduler
        self.cluster.start_scheduler(process, scheduler, extenders)
        watches.join(DEADLINE)
        check(len(times) == PODS, "%d pods are bound: %s" % (len(times), self.cluster.log(process)[-2000:]))
        self.cluster.kill(process)
        if extenders:
            self._check_decisions()
        # That of a kube-scheduler is "Error" of "bind", or in words of an event.
        check("rror binding" not in self.cluster.log(process), "an error of binding")
        self.client.ask("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
        self.cluster.wait("pods are left", lambda: not self.pods()["items"])
        return (len(times) - 1) / (max(times.values()) - min(times.values()))

    def _watch(self, version, times):
        path = "/api/v1/namespaces/default/pods?watch=1&resourceVersion=" + version
        for event in Client(self.cluster).lines(path):
            pod = event["object"]
            if event["type"] == "MODIFIED" and pod["spec"].get("nodeName"):
                times.setdefault(pod["metadata"]["name"], time.monotonic())
            if len(times) == PODS:
                return

    def _check_decisions(self):
        given = collections.Counter()
        for pod in self.pods()["items"]:
            text = pod["metadata"]["annotations"]["cgpu.dev/decision"]
            decision = json.loads(text.rsplit(" ", 1)[0])
            check(decision["node"] == pod["spec"]["nodeName"], "bound elsewhere")
            for gpu in decision["gpus"]:
                given[gpu] += decision["memory"]
        check(given.total() == PODS and max(given.values()) <= GIB, "given twice")


def burst():
    with Cluster(with_node=False) as cluster:
        one = Burst(cluster)
        one.prepare()
        rounds = []
        for number in range(ROUNDS):
            sliced = one.rate(SCHEDULER, {MEMORY: "1"}, [extender(12345)])
            plain = one.rate(PLAIN, None, [])
            rounds.append((sliced, plain))
            print("round %d: %.0f pods/s with the extender, %.0f without: %.0f %%" % (
                number, sliced, plain, 100 * sliced / plain), flush=True)
        sliced, plain = (statistics.median(one[i] for one in rounds) for i in (0, 1))
        ratio = statistics.median(one[0] / one[1] for one in rounds)
        print("extender-burst: %.0f %% (%.0f pods/s, %.0f without)" % (100 * ratio, sliced, plain))


if __name__ == "__main__":
    t.require_machine()
    isolation.enter()
    burst()
