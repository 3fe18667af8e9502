"""The GPUs of a Kubernetes node as the kubelet counts them: by mode, through restarts of the kubelet
and of the device plugin, and while a GPU is lost. What is counted is read from the kubelet, what a pod
holds from the driver's own accounting."""
import json
import os
import subprocess
import sys
import urllib.request

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import NODE, make_pod  # noqa: E402
from sliced import COMPUTE, COUNT, MEMORY, PORT, make_slice_pod, sliced  # noqa: E402

MODE = "ack.node.gpu.schedule"
PLUGIN = "cgpu-device-plugin"
PART = 16160 * 8 // 15  # MiB of 8 GiB
_PODRESOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "podresources.py")


def asked_of_kubelet():
    """None while it does not answer."""
    done = subprocess.run([_PODRESOURCES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_counted(one, memory, compute=None, count=None):
    """Waits until the kubelet itself can give so much, and the node says so."""
    wanted = {MEMORY: memory, COMPUTE: compute, COUNT: count}
    wanted = {name: number for name, number in wanted.items() if number is not None}

    def counted():
        kubelet = asked_of_kubelet()
        said = one.cluster.get("node", NODE)["status"]["allocatable"]
        return kubelet and all(kubelet["allocatable"].get(name, 0) == number and
                               said.get(name) == str(number) for name, number in wanted.items())
    one.cluster.wait("the kubelet does not count %s" % wanted, counted)


def set_mode(one, mode):
    one.cluster.kubectl("label", "--overwrite", "node", NODE, "%s=%s" % (MODE, mode))


def why_not(one, pod):
    """The reason that cgpu-scheduler has against the node; "" if it has none."""
    body = json.dumps({"Pod": pod, "NodeNames": [NODE]}).encode()
    with urllib.request.urlopen("http://127.0.0.1:%d/filter" % PORT, body, timeout=10) as answer:
        return (json.load(answer).get("FailedNodes") or {}).get(NODE, "")


def wait_refused(one, pod, words):
    one.cluster.wait("cgpu-scheduler does not say: " + words, lambda: words in why_not(one, pod))


def wait_taken(one, pod):
    one.cluster.wait("cgpu-scheduler does not take the node", lambda: not why_not(one, pod))


def run(one, *pods):
    one.cluster.apply(*pods)
    for pod in pods:
        one.cluster.wait_phase(pod["metadata"]["name"], "Running")


def container_of(one, pod):
    """An id that is another after a restart."""
    return one.cluster.get("pod", pod)["status"]["containerStatuses"][0]["containerID"]


def alloc(one, pod, mib):
    """The words of rmtool in the pod, which takes so much GPU memory."""
    return one.cluster.kubectl("exec", pod, "--", "rmtool", "alloc", str(mib), "--page", "big",
                               "--fill", ok=False).stdout


def share():
    """A node that isolates nothing: a pod sees its GPU whole, is told its part, and is not held to
    it. Compute time is not promised there."""
    with sliced() as one:
        set_mode(one, "share")
        wait_counted(one, 30, 0, 0)
        promised = make_slice_pod("promised", 8, "true", compute=30)
        wait_refused(one, promised, "promises no compute time")
        run(one, make_slice_pod("a", 8, "sh", "-c", "env; rmtool info; sleep 1000"))
        check("not_isolated" in one.decision("a"), str(one.decision("a")))
        one.cluster.wait("the pod says nothing", lambda: "MiB total" in
                         one.cluster.kubectl("logs", "a"))
        said = one.cluster.kubectl("logs", "a")
        gpu = [card["uuid"] for card in one.node.books()["gpus"]].index(one.decision("a")["gpus"][0])
        for words in ("ALIYUN_COM_GPU_MEM_CONTAINER=8\n", "ALIYUN_COM_GPU_MEM_DEV=15\n",
                      "ALIYUN_COM_GPU_MEM_IDX=%d\n" % gpu):
            check(words in said, said)
        check(said.count("16160MiB total") == 1, said)
        check("after %d MiB" % PART not in alloc(one, "a", 16160), "the pod is held to its part")


def switched():
    """Modes change while pods run: what runs keeps what it has, new pods get what the mode gives. What
    somebody changes of the node's description is written again."""
    with sliced() as one:
        cluster = one.cluster
        wait_counted(one, 30, 200, 2)
        run(one, make_slice_pod("a", 8, "sleep", "1000", compute=30))
        before = container_of(one, "a")
        set_mode(one, "share")
        wait_counted(one, 30, 0, 0)
        wait_refused(one, make_slice_pod("p", 1, "true", compute=30), "promises no compute time")
        run(one, make_slice_pod("b", 7, "sleep", "1000"))
        check(one.decision("b")["gpus"] == one.decision("a")["gpus"], "they are not packed")
        check("after %d MiB" % PART in alloc(one, "a", 16160), "a is not held to its part")
        check("after" not in alloc(one, "b", 12000), "b is held to its part")
        set_mode(one, "default")
        wait_counted(one, 0, 0, 0)
        wait_refused(one, make_slice_pod("p", 1, "true"), "not shared")
        check(cluster.phase("a") == cluster.phase("b") == "Running", "the pods do not run on")
        set_mode(one, "cgpu")
        wait_counted(one, 30, 0, 2)
        wait_taken(one, make_slice_pod("p", 1, "true"))
        check(container_of(one, "a") == before, "the container of a is another")
        cluster.kubectl("annotate", "--overwrite", "node", NODE, "cgpu.dev/gpus=[]")
        cluster.kubectl("label", "--overwrite", "node", NODE, "aliyun.accelerator/nvidia_count=9")

        def described():
            metadata = cluster.get("node", NODE)["metadata"]
            return (len(json.loads(metadata["annotations"]["cgpu.dev/gpus"])) == 2 and
                    metadata["labels"]["aliyun.accelerator/nvidia_count"] == "2")
        cluster.wait("the node is not described again", described)


def killed():
    """The kubelet and the device plugin are killed: the GPUs are counted again, and the pods run on. The
    kubelet names the pod among those that have devices."""
    with sliced() as one:
        cluster = one.cluster
        wait_counted(one, 30, 200, 2)
        run(one, make_slice_pod("a", 8, "sleep", "1000", compute=30))
        before = container_of(one, "a")
        has = {MEMORY: 8, COMPUTE: 30}
        check(asked_of_kubelet()["pods"]["default/a/main"] == has, str(asked_of_kubelet()))
        cluster.kill("kubelet")
        cluster.start_kubelet()
        wait_counted(one, 30, 200, 2)
        cluster.kill(PLUGIN)
        wait_counted(one, 0)
        one.start_plugin()
        wait_counted(one, 30, 200, 2)
        cluster.kill(PLUGIN)
        cluster.kill("kubelet")
        one.start_plugin()
        cluster.start_kubelet()
        wait_counted(one, 30, 200, 2)
        check(asked_of_kubelet()["pods"]["default/a/main"] == has, str(asked_of_kubelet()))
        check(cluster.phase("a") == "Running" and container_of(one, "a") == before,
              "the pod does not run on")
        check("after %d MiB" % PART in alloc(one, "a", 16160), "a is not held to its part")
        run(one, make_slice_pod("b", 7, "sleep", "1000"))


def lost():
    """A GPU falls off the bus: its share is not given, the others' is. It comes back."""
    with sliced() as one:
        wait_counted(one, 30, 200, 2)
        uuids = [card["uuid"] for card in one.node.books()["gpus"]]

        def healthy():
            text = one.cluster.get("node", NODE)["metadata"]["annotations"]["cgpu.dev/gpus"]
            return {gpu["uuid"]: gpu["healthy"] for gpu in json.loads(text)}
        one.node.sim("lose", "--gpu", "0")
        wait_counted(one, 15, 100, 1)
        check(healthy() == {uuids[0]: False, uuids[1]: True}, str(healthy()))
        run(one, make_slice_pod("a", 8, "sleep", "1000"))
        check(one.decision("a")["gpus"] == [uuids[1]], "the pod has the lost GPU")
        wait_refused(one, make_slice_pod("p", 8, "true"), "GPU")
        one.node.sim("restore", "--gpu", "0")
        wait_counted(one, 30, 200, 2)
        check(healthy() == {uuids[0]: True, uuids[1]: True}, str(healthy()))
        run(one, make_slice_pod("b", 8, "sleep", "1000"))
        check(one.decision("b")["gpus"] == [uuids[0]], "the pod has no GPU of its own")


def exclusive():
    """A GPU that is for whole use alone beside one that is shared: each pod gets what it asks for, and
    nobody a part of the exclusive one."""
    with sliced() as one:
        cluster = one.cluster
        wait_counted(one, 30, 200, 2)
        uuids = [card["uuid"] for card in one.node.books()["gpus"]]
        cluster.kubectl("annotate", "node", NODE, "cgpu.dev/exclusive=" + uuids[0])
        wait_counted(one, 15, 100, 2)
        wait_refused(one, make_slice_pod("p", 2, "true", count=2), "GPU 0 is given as a whole alone")
        run(one, make_slice_pod("a", 8, "sleep", "1000"), make_slice_pod("b", 7, "sleep", "1000"))
        for pod in "ab":
            check(one.decision(pod)["gpus"] == [uuids[1]], "%s has the exclusive GPU" % pod)
        run(one, make_pod("whole", "sh", "-c", "rmtool info; sleep 1000", limits={COUNT: "1"}))
        check(one.decision("whole")["gpus"] == [uuids[0]], "the whole GPU is another")
        cluster.wait("the pod says nothing", lambda: "16160MiB total" in
                     cluster.kubectl("logs", "whole"))
        wait_refused(one, make_pod("p", "true", limits={COUNT: "1"}), "container")
        # The GPU is shared again once the pod that has it whole is gone.
        cluster.kubectl("annotate", "node", NODE, "cgpu.dev/exclusive-")
        wait_counted(one, 30, 200, 2)
        wait_refused(one, make_slice_pod("p", 1, "true"), "has 0 of 1 GiB free")
        cluster.kubectl("delete", "pod", "whole")
        wait_taken(one, make_slice_pod("p", 15, "true"))
        mixed = make_pod("mixed", "true", limits={COUNT: "1", MEMORY: "4"})
        said = cluster.apply(mixed, ok=False).stderr
        check("have one container ask for whole GPUs" in said, said)


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (share, switched, killed, lost,
                                                  exclusive)})
