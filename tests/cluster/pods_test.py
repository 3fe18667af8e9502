"""Asks of pods, on a real cluster: containers of each kind with a part of their own,
weights, high priority, HAMi's names, placement by the node's label. The node has two GPUs of
16160 MiB."""
import http.client
import json
import os
import sys
import time

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import NODE, make_pod  # noqa: E402
from sliced import COMPUTE, COUNT, MEMORY, PORT, make_slice_pod, mib, of_parts, part, sliced  # noqa: E402

KERNELS = os.path.abspath(os.path.join(t.TEST_BIN, "kernels"))
SHOW = "rmtool info; exec sleep 1000"
FEED = "(echo feed; exec sleep 1000) | kernels 20000"  # kernels of 20 ms, without end
SECOND = 10 ** 9  # nanoseconds


def relabel(one, mode, placement):
    """Sets the labels of the node to another mode, and waits until cgpu-scheduler has seen them."""
    one.cluster.kubectl("label", "--overwrite", "node", NODE, "ack.node.gpu.schedule=" + mode,
                        "ack.node.gpu.placement=" + placement)
    probe = make_slice_pod("probe", 1, "true", compute=5)
    probe["metadata"].update(uid="probe", namespace="default")

    def seen():
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
        connection.request("POST", "/filter", json.dumps({"Pod": probe, "NodeNames": [NODE]}))
        fits = json.loads(connection.getresponse().read())["NodeNames"] == [NODE]
        return fits == (mode == "core_mem")
    one.cluster.wait("cgpu-scheduler does not see the labels", seen)


def containers():
    """A sidecar, an init container and two containers of one pod, each with a part of its own. The
    pod takes the most that runs at a time: 14 of 15 GiB, while the init container runs beside the
    sidecar."""
    with sliced() as one:
        cluster = one.cluster
        none = make_pod("", "sh", "-c", "ls /dev; exec sleep 1000")["spec"]["containers"][0]
        cluster.apply(of_parts(
            "many", part("a", 5, SHOW), part("b", 4, SHOW), {**none, "name": "none"},
            initContainers=[part("side", 2, SHOW, restartPolicy="Always"),
                            part("first", 12, "rmtool info")]))
        cluster.wait_phase("many", "Running")
        for name, units in (("side", 2), ("first", 12), ("a", 5), ("b", 4)):
            said = cluster.kubectl("logs", "many", "-c", name)
            check("%dMiB total" % mib(units) in said and said.count("total") == 1,
                  "%s sees %s" % (name, said))
        check("nvidia" not in cluster.kubectl("logs", "many", "-c", "none"), "it has a GPU's files")
        check(len(one.node.containers()) == 3, one.node.containers())
        said = one.cluster.events("many")
        check(said and not any(each.startswith("Failed") for each in said), said)
        # One GiB is left of that GPU.
        cluster.apply(make_slice_pod("two", 2, "sleep", "1000"))
        cluster.wait_phase("two", "Running")
        cluster.apply(make_slice_pod("one", 1, "sleep", "1000"))
        cluster.wait_phase("one", "Running")
        check(one.decision("two")["gpus"] != one.decision("many")["gpus"], "there is no room")
        check(one.decision("one")["gpus"] == one.decision("many")["gpus"], "it is not packed")


def _groups(one, gpu):
    """Time that each shim's channel groups got, by the driver's accounting."""
    times = {}
    for group in t.groups(one.node.books()["gpus"][gpu]):
        times[group["pid"]] = times.get(group["pid"], 0) + group["gpu_time_ns"]
    return times


def _index(one, pod):
    (uuid,) = one.decision(pod)["gpus"]
    return next(gpu["index"] for gpu in one.node.info()["gpus"] if gpu["uuid"] == uuid)


def _feeding(one, gpu, before):
    """The shim that has come to the GPU."""
    def new():
        return [pid for pid, spent in _groups(one, gpu).items() if pid not in before and spent]
    return one.cluster.wait("it does not use the GPU", new)[0]


def weights():
    """Weights in a container's environment are taken from the pod when it is placed. They share the
    GPU, whichever pod came first."""
    with sliced(in_image=[KERNELS]) as one:
        cluster = one.cluster
        relabel(one, "cgpu", "binpack")
        cluster.apply(of_parts("light", part("main", 1, FEED)))
        cluster.wait_phase("light", "Running")
        gpu = _index(one, "light")
        light = _feeding(one, gpu, ())
        cluster.apply(of_parts("heavy", part("main", 1, FEED, {"ALIYUN_COM_GPU_SCHD_WEIGHT": "3"})))
        cluster.wait_phase("heavy", "Running")
        check(_index(one, "heavy") == gpu, "they are not packed")
        heavy = _feeding(one, gpu, (light,))
        # The orders are there once the heavy one gets more than half.
        end = time.monotonic() + t.DEADLINE
        ratio = 0
        while not 2.5 < ratio < 3.5:
            check(time.monotonic() < end, "heavy gets %.2f times the time of light" % ratio)
            first = _groups(one, gpu)
            cluster.wait("they get no time", lambda: sum(_groups(one, gpu).values()) -
                         sum(first.values()) > 4 * SECOND)
            now = _groups(one, gpu)
            ratio = (now[heavy] - first[heavy]) / max(now[light] - first[light], 1)
        cluster.say("heavy gets %.2f times the time of light" % ratio)
        # A percentage is for nodes that share their time by percentages, a weight is not.
        cluster.apply(make_slice_pod("percent", 1, "true", compute=20))
        why = cluster.wait("it is not said why", lambda: one.why_pending("percent"))
        check("Insufficient " + COMPUTE in why[0], why)


def priority():
    """High priority is for the classes that cgpu-scheduler names."""
    with sliced(options=("--high-priority-classes", "online,urgent"), in_image=[KERNELS]) as one:
        cluster = one.cluster
        cluster.apply(*({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                         "metadata": {"name": name}, "value": value}
                        for name, value in (("online", 1000), ("batch", 1))))
        high = {"ALIYUN_COM_GPU_HIGH_PRIO": "1"}
        said = cluster.apply(of_parts("batch", part("main", 1, FEED, high),
                                      priorityClassName="batch"), ok=False).stderr
        check("which the class batch does not give" in said and "online, urgent" in said, said)
        said = cluster.apply(of_parts("bare", part("main", 1, FEED, high)), ok=False).stderr
        check("a pod without a priorityClassName does not give" in said, said)
        cluster.apply(of_parts("online", part("main", 1, FEED, high), priorityClassName="online"))
        cluster.wait_phase("online", "Running")
        gpu = _index(one, "online")
        cluster.wait("the driver knows of no high priority", lambda: any(
            group["interleave"] == 2 for group in t.groups(one.node.books()["gpus"][gpu])))


def placement():
    """Replicas go to different GPUs where the node's label says `spread`, and to one by `binpack`."""
    with sliced() as one:
        cluster = one.cluster
        for mode, label, gpus in (("cgpu", "spread", 2), ("core_mem", "binpack", 1)):
            relabel(one, mode, label)
            spec = make_slice_pod("", 2, "sleep", "1000", restartPolicy="Always")["spec"]
            cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": label},
                           "spec": {"replicas": 2, "selector": {"matchLabels": {"app": label}},
                                    "template": {"metadata": {"labels": {"app": label}},
                                                 "spec": spec}}})
            cluster.wait("the replicas do not run", lambda: cluster.get("deployment", label)[
                "status"].get("availableReplicas") == 2)
            pods = [pod["metadata"]["name"] for pod in cluster.get("pods")["items"]]
            chosen = {uuid for pod in pods for uuid in one.decision(pod)["gpus"]}
            check(len(pods) == 2 and len(chosen) == gpus, "%s: %s" % (label, chosen))
            cluster.kubectl("delete", "deployment", label)
            cluster.wait("the replicas stay", lambda: not cluster.get("pods")["items"])


def hami():
    """A pod that asks by HAMi's names gets what it asks for. What these cannot say in whole GiB is
    refused, with the nearest that can."""
    with sliced(options=["--hami-names"]) as one:
        cluster = one.cluster

        def asking(name, **limits):
            return make_pod(name, "rmtool", "info",
                            limits={"nvidia.com/" + key: value for key, value in limits.items()})
        said = cluster.apply(asking("odd", gpu="1", gpumem="3000"), ok=False).stderr
        check("ask for 3072" in said, said)
        cluster.apply(asking("hami", gpu="2", gpumem="2048", gpucores="30"))
        cluster.wait_phase("hami", "Succeeded")
        said = cluster.kubectl("logs", "hami")
        check(said.count("%dMiB total" % mib(2)) == 2, said)
        limits = cluster.get("pod", "hami")["spec"]["containers"][0]["resources"]["limits"]
        check(limits == {MEMORY: "4", COMPUTE: "60"}, limits)
        check(cluster.get("pod", "hami")["metadata"]["labels"] == {COUNT: "2"}, "its label is wrong")


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (containers, weights, priority, placement, hami)})
