"""The cluster as cgpu-scheduler shows it, on a real one with the chart: a Deployment grows and shrinks by
what its pods use of their shares, and nobody but the API server is told that."""
import base64
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import image  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER, make_pod  # noqa: E402
from deployed import NAMESPACE, NODE, add_program, deployed  # noqa: E402

BURN_IMAGE = "localhost/burn:1"
API = "/apis/custom.metrics.k8s.io/v1beta2"
PODS = API + "/namespaces/default/pods/*/"
SHARE = 0.2  # of a GPU, that each pod may use
NEAR = 0.03  # of a GPU
TOKEN = "0123456789abcdef0123456789abcdef"


def _install(cluster):
    image.make_rootfs(FOLDER + "/rootfs-burn")
    add_program(FOLDER + "/rootfs-burn", os.path.abspath(os.path.join(t.BIN, "cgpu-burn")))
    cluster.import_image(BURN_IMAGE, FOLDER + "/rootfs-burn")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "secret", "generic", "cgpu-metrics", "-n", NAMESPACE,
                    "--from-literal=token=" + TOKEN)
    cluster.install("metrics.tokenSecret=cgpu-metrics", "autoscaling.enabled=true",
                    "page.enabled=true", "scheduler.replicas=1")


def _deployment():
    """A Deployment of one pod, which burns until somebody ends that."""
    pod = make_pod("", "sh", "-c", "cgpu-burn; sleep 1000",
                   limits={"aliyun.com/gpu-mem": "2",
                           "aliyun.com/gpu-core.percentage": str(int(100 * SHARE))})
    pod["spec"]["restartPolicy"] = "Always"
    pod["spec"]["containers"][0]["image"] = BURN_IMAGE
    labels = {"app": "trainer"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "trainer"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": pod["spec"]}}}


def _autoscaler():
    at_once = {"stabilizationWindowSeconds": 0}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "trainer"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment",
                                        "name": "trainer"},
                     "minReplicas": 1, "maxReplicas": 2,
                     "behavior": {"scaleUp": at_once, "scaleDown": at_once},
                     "metrics": [{"type": "Pods", "pods": {
                         "metric": {"name": name},
                         "target": {"type": "AverageValue", "averageValue": value}}}
                                 for name, value in (("cgpu_share_used", "600m"),
                                                     ("cgpu_waiting", "900m"))]}}


def _values(cluster, metric):
    """When the metric was taken, and its value for each pod; none yet: (None, {})."""
    said = cluster.kubectl("get", "--raw", PODS + metric + "?labelSelector=app%3Dtrainer", ok=False)
    items = json.loads(said.stdout)["items"] if said.returncode == 0 else []
    values = {item["describedObject"]["name"]: int(item["value"].removesuffix("m")) / 1000
              for item in items}
    return (items[0]["timestamp"], values) if items else (None, {})


def _busy(before, now):
    """GPUs' worth of time for which the engines worked between two states of the driver's accounting."""
    parts = 0
    for one, other in zip(before["gpus"], now["gpus"]):
        first, second = t.graphics(one), t.graphics(other)
        time = t.counted_ns(second) - t.counted_ns(first)
        parts += (second["busy_ns"] - first["busy_ns"]) / time if time else 0
    return parts


def _next(cluster, metric):
    """The values of the metric once they are others' than those that are there."""
    time, _ = _values(cluster, metric)
    cluster.wait("the exporter is not asked again", lambda: _values(cluster, metric)[0] != time)
    return _values(cluster, metric)[1]


def _check_true(cluster):
    """The pods' busy time is that of the driver's engines."""
    cluster.wait("they do not use their shares", lambda: [
        value > 0.6 for value in _values(cluster, "cgpu_share_used")[1].values()] == [True, True])
    before = cluster.node.books()
    values = _next(cluster, "cgpu_busy")
    true = _busy(before, cluster.node.books())
    check(abs(sum(values.values()) - true) < NEAR,
          "%s are busy for %.3f GPUs by the driver's accounting" % (values, true))
    check(true > SHARE, "the engines are busy for %.3f" % true)


def _replicas(cluster):
    status = cluster.get("deployment", "trainer")["status"]
    return status.get("replicas", 0), status.get("readyReplicas", 0)


def _add_silent_node(cluster):
    """A Kubernetes node with a pod of the DaemonSet, which nobody starts."""
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "other", "labels": {"ack.node.gpu.schedule": "core_mem"}}})
    has = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    cluster.kubectl("patch", "node", "other", "--subresource=status", "--patch",
                    json.dumps({"status": {"capacity": has, "allocatable": has}}))


def _page(cluster, path, token=TOKEN):
    """Status and text of the page's answer."""
    request = urllib.request.Request("http://%s:9401%s" % (_scheduler(cluster), path),
                                     headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request, timeout=t.DEADLINE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _check_page(cluster):
    """The page shows all Kubernetes nodes, to those who have the token."""
    check(_page(cluster, "/")[0] == 200, "there is no page")
    check(_page(cluster, "/api/overview", TOKEN[:-1] + "x")[0] == 401, "another token will do")

    def nodes():
        overview = json.loads(_page(cluster, "/api/overview")[1])
        return {node["name"]: node for node in overview["nodes"]}
    cluster.wait("the page does not show both", lambda: set(nodes()) == {NODE, "other"})
    silent, ours = nodes()["other"], nodes()[NODE]
    check("no address" in silent["error"] and not silent["gpus"], silent)
    check(ours["error"] is None, ours["error"])
    check({gpu["uuid"] for gpu in ours["gpus"]} == {gpu["uuid"] for gpu in cluster.node.info()["gpus"]},
          "the GPUs are %s" % ours["gpus"])
    pods = {pod["metadata"]["name"] for pod in cluster.get("pods", "-l", "app=trainer")["items"]}
    check({container["pod"] for container in ours["containers"]} == pods,
          "the containers are %s" % ours["containers"])


def _scheduler(cluster):
    """The address of cgpu-scheduler's pod."""
    (pod,) = cluster.get("pods", "-n", NAMESPACE, "-l", "app=cgpu-scheduler")["items"]
    return pod["status"]["podIP"]


def _status(cluster, address, client=None):
    """The status of an answer to one who asks cgpu-scheduler itself. `client`: name of its keys."""
    context = ssl.create_default_context(cafile=cluster.keys.path("webhook-authority.crt"))
    context.check_hostname = False  # the certificate names the service, the address is the pod's
    if client:
        context.load_cert_chain(cluster.keys.path(client + ".crt"), cluster.keys.path(client + ".key"))
    try:
        with urllib.request.urlopen("https://%s:9443%s" % (address, API), timeout=t.DEADLINE,
                                    context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def _check_refused(cluster):
    """Only the API server may ask, and only for users who may."""
    authority = cluster.get("secret", "-n", NAMESPACE, "cgpu-webhook-authority")["data"]["ca.crt"]
    with open(cluster.keys.path("webhook-authority.crt"), "wb") as file:
        file.write(base64.b64decode(authority))
    for client, wanted in ((None, 401), ("admin", 401), ("front-proxy", 200)):
        status = _status(cluster, _scheduler(cluster), client)
        check(status == wanted, "with the keys of %s the answer is %d" % (client, status))
    said = cluster.kubectl("get", "--raw", PODS + "cgpu_busy", "--as", "nobody", ok=False).stderr
    check("Forbidden" in said or "forbidden" in said, said)


def grows_and_shrinks():
    """Under load the Deployment grows, and without it shrinks."""
    with deployed(_install) as cluster:
        _check_refused(cluster)
        _add_silent_node(cluster)
        cluster.apply(_deployment(), _autoscaler())
        cluster.wait("the Deployment does not grow", lambda: _replicas(cluster) == (2, 2))
        cluster.say("the Deployment has two pods")
        _check_true(cluster)
        cluster.say("what they use is what the driver says")
        _check_page(cluster)
        for pod in _values(cluster, "cgpu_busy")[1]:
            cluster.kubectl("exec", pod, "--", "killall", "cgpu-burn")
        cluster.wait("the Deployment does not shrink", lambda: _replicas(cluster) == (1, 1))
        cluster.say("the Deployment has one pod")
        before = cluster.node.books()
        cluster.wait("the pods are not idle",
                     lambda: list(_values(cluster, "cgpu_busy")[1].values()) == [0])
        check(_busy(before, cluster.node.books()) < NEAR, "the engines work")


if __name__ == "__main__":
    isolation.main({"grows_and_shrinks": grows_and_shrinks})
