"""Pods with slices on a real cluster: they get the GPUs that cgpu-scheduler has decided, no more, and
no other way leads to one. What a pod holds is read from the driver's own accounting.

The node has two simulated GPUs of 16160 MiB, which aliyun.com/gpu-mem counts as 15 GiB each.
"""
import os
import re
import signal
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import NODE, make_pod  # noqa: E402
from sliced import make_slice_pod, sliced  # noqa: E402


def documented():
    """ACK's example: 8 GiB over two GPUs as a job ("Enable Multi-GPU Sharing with Shared GPU
    Scheduling"); its pod sees 4309 MiB on each."""
    with sliced() as one:
        spec = make_slice_pod("", 8, "rmtool", "info", count=2)
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
        cluster.apply(make_slice_pod("a", 8, "sleep", "1000"), make_slice_pod("b", 7, "sleep", "1000"))
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
        words = said(make_slice_pod("p", 8, "true", count=3))
        check("which 3 GPUs cannot share evenly; ask for 9" in words, words)
        words = said(make_slice_pod("p", 16, "true"))
        check("the largest GPU of the cluster has 15; ask for at most 15" in words, words)
        one.cluster.apply({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                           "metadata": {"name": "other"}, "handler": "runc"})
        words = said(make_slice_pod("p", 8, "true", runtimeClassName="other"))
        check("leave runtimeClassName out, or set it to cgpu" in words, words)
        forged = make_slice_pod("p", 8, "true")
        forged["metadata"]["annotations"]["cgpu.dev/decision"] = "{}"
        words = said(forged)
        check("is cgpu-scheduler's to write" in words, words)


def pending():
    """A pod that does not fit waits; its event says how far the best GPU is. It runs once there is
    room."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("a", 12, "sleep", "1000"), make_slice_pod("b", 13, "sleep", "1000"))
        for pod in ("a", "b"):
            cluster.wait_phase(pod, "Running")
        cluster.apply(make_slice_pod("c", 4, "sleep", "1000"))

        cluster.wait("the pod is not said to wait", lambda: one.why_pending("c"))
        check("has 3 of 4 GiB free" in one.why_pending("c")[0], one.why_pending("c")[0])
        cluster.kubectl("delete", "pod", "b")
        cluster.wait_phase("c", "Running")


def bypassed():
    """Pods that go past the scheduler, and pods whose environment asks for a slice, get nothing of a
    GPU; the pod's event says why."""
    with sliced() as one:
        cluster = one.cluster
        past = make_slice_pod("past", 8, "sleep", "1000", nodeName=NODE)
        asks = make_pod("asks", "sleep", "1000", runtimeClassName="cgpu")
        asks["spec"]["containers"][0]["env"] = [
            {"name": "ALIYUN_COM_GPU_MEM_CONTAINER", "value": "8"},
            {"name": "ALIYUN_COM_GPU_MEM_DEV", "value": "15"}]
        cluster.apply(past, asks)

        def why(pod):
            return [event for event in cluster.events(pod)
                    if "no decision of cgpu-scheduler" in event]
        for pod in ("past", "asks"):
            cluster.wait("the event of %s does not say why" % pod, lambda pod=pod: why(pod))
            check(cluster.phase(pod) != "Running", "%s runs" % pod)
        check(not one.node.containers(), "there are slices")


def forged():
    """A pod whose annotation is changed after it is bound keeps what it has; a decision that was made
    for another pod is worth nothing."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("a", 8, "sleep", "1000"), make_slice_pod("b", 2, "sleep", "1000"))
        for pod in ("a", "b"):
            cluster.wait_phase(pod, "Running")
        text = cluster.get("pod", "a")["metadata"]["annotations"]["cgpu.dev/decision"]
        cluster.kubectl("annotate", "--overwrite", "pod", "b", "cgpu.dev/decision=" + text)
        past = make_slice_pod("past", 8, "sleep", "1000", nodeName=NODE)
        cluster.apply(past)
        cluster.kubectl("annotate", "pod", "past", "cgpu.dev/decision=" + text)
        cluster.wait("the forged decision is not noticed", lambda: "takes no decision for the pod "
                     "default/past: the decision on the pod is for another pod" in cluster.log("cgpu-device-plugin"))
        # All that cgpu-scheduler knows comes anew, with the changed annotation.
        one.restart_scheduler()
        cluster.apply(make_slice_pod("c", 13, "sleep", "1000"))
        cluster.wait_phase("c", "Running")
        check(one.decision("c")["gpus"] != one.decision("a")["gpus"],
              "the GPU of the pod whose annotation was changed is given twice")


def stripped():
    """A pod whose annotation is deleted keeps what it has, though cgpu-scheduler is started anew: the
    node says what it has let in."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("a", 8, "sleep", "1000"))
        cluster.wait_phase("a", "Running")
        gpus = one.decision("a")["gpus"]
        cluster.kubectl("annotate", "pod", "a", "cgpu.dev/decision-")
        one.restart_scheduler()
        cluster.apply(make_slice_pod("b", 8, "sleep", "1000"))
        cluster.wait_phase("b", "Running")
        check(one.decision("b")["gpus"] != gpus, "the GPU is given twice")
        said = cluster.kubectl("exec", "a", "--", "rmtool", "alloc", "16160", "--page", "big",
                               "--fill", ok=False).stdout
        check("after %d MiB" % (16160 * 8 // 15) in said, said)


def forced():
    """A pod that is deleted by force holds its part until its containers have ended."""
    with sliced(gpus=1) as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("a", 12, "sleep", "1000"))
        cluster.wait_phase("a", "Running")
        cluster.kill("kubelet")
        cluster.kubectl("delete", "pod", "a", "--force", "--grace-period=0")
        cluster.apply(make_slice_pod("b", 4, "sleep", "1000"))
        cluster.wait("the pod is not said to wait", lambda: one.why_pending("b"))
        check("has 3 of 4 GiB free" in one.why_pending("b")[0], one.why_pending("b")[0])
        check(len(one.node.containers()) == 1, "the container has ended")
        cluster.start_kubelet()
        cluster.wait_phase("b", "Running")


def orphaned():
    """A container whose start the kubelet did not live to see, and which containerd 1.6 leaves behind,
    gives way to the one that the kubelet has made in its place."""
    with sliced(gpus=1) as one:
        cluster = one.cluster
        os.kill(one.daemon.popen.pid, signal.SIGSTOP)
        cluster.apply(make_slice_pod("a", 15, "sleep", "1000"))
        # Its sandbox is made by the same runtime, which asks no cgpud for that.
        cluster.wait("there is no sandbox", lambda: any(
            one["type"] == "PodReadyToStartContainers" and one["status"] == "True"
            for one in cluster.get("pod", "a")["status"].get("conditions", ())))
        cluster.wait("no container is made", lambda: any(
            re.search("cgpu-runtime .*create", line) for line in isolation.processes().values()))
        cluster.kill("kubelet")
        os.kill(one.daemon.popen.pid, signal.SIGCONT)
        cluster.wait("the container gets no slice", one.node.containers)
        left = one.node.containers()[0]["engine_id"]
        cluster.start_kubelet()
        cluster.wait_phase("a", "Running")
        running = [row["engine_id"] for row in one.node.containers()]
        check(len(running) == 1 and running != [left], "there are %s, after %s" % (running, left))


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (
        documented, limits, refused, pending, bypassed, forged, stripped, forced,
        orphaned)})
