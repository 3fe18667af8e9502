"""Pods that want more of a GPU than cgpu-scheduler gave them, or anything of one without it, on a real
cluster. What a pod gets is read from the driver's own accounting."""
import json
import os
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER, NODE, make_pod  # noqa: E402
from sliced import COUNT, make_slice_pod, mib, of_parts, part, sliced  # noqa: E402

# Tries the GPU's files of every process that it sees.
TRY = ("for p in /proc/[0-9]*/root; do rmtool --dev $p/dev alloc 100 --page big && echo got; done; "
       "echo tried")
MIB = 1 << 20


def why(one, pod, *words):
    """Waits for an event of the pod with one of these words. Returns it."""
    def said():
        return [each for each in one.cluster.events(pod) if any(word in each for word in words)]
    return one.cluster.wait("no event of %s has one of %s" % (pod, words), said)[0]


def words():
    """The environment, labels and annotations of a pod are its own words: it has what the decision
    says, and a pod without one has nothing, whosever uid it claims. The test's containerd hands all
    annotations of pods to the runtime."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("victim", 8, "sleep", "1000"))
        cluster.wait_phase("victim", "Running")
        uid = cluster.get("pod", "victim")["metadata"]["uid"]
        claims = {"io.kubernetes.cri.sandbox-uid": uid, "io.kubernetes.pod.uid": uid,
                  "io.kubernetes.cri.container-name": "main", "io.kubernetes.container.name": "main"}
        cluster.apply(make_pod("claims", "sleep", "1000", annotations=claims, runtimeClassName="cgpu",
                               labels={COUNT: "2"}))
        why(one, "claims", "two annotations that say which it is", "no decision of cgpu-scheduler")
        check(cluster.phase("claims") != "Running", "it runs")
        # A container without a part that calls itself the one with a part, and a sandbox that does so.
        twice = of_parts("twice", part("main", 2, "exec sleep 1000"),
                         {**part("other", 0, "exec sleep 1000"), "resources": {}})
        twice["metadata"]["annotations"] = {"io.kubernetes.container.name": "main"}
        cluster.apply(twice)
        why(one, "twice", "two annotations that say which it is")

        def main_runs():
            states = cluster.get("pod", "twice")["status"]["containerStatuses"]
            return [each for each in states if each["name"] == "main" and "running" in each["state"]]
        cluster.wait("the container with the part does not run", main_runs)
        more = {"CGPU_MEM": "15GiB", "CGPU_DISABLE": "true", "ALIYUN_COM_GPU_MEM_CONTAINER": "15",
                "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "all",
                "CGPU_DEVICES": "all", "CGPU_COMPUTE": "100"}
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "high"},
                       "data": {"ALIYUN_COM_GPU_HIGH_PRIO": "1", "CGPU_WEIGHT": "100"}})
        cluster.apply(of_parts("greedy", part("main", 2, "exec sleep 1000", more,
                                              envFrom=[{"configMapRef": {"name": "high"}}])))
        cluster.wait_phase("greedy", "Running")
        said = cluster.kubectl("exec", "greedy", "--", "rmtool", "alloc", "16160", "--page", "big",
                               "--fill", ok=False).stdout
        check("after %d MiB" % mib(2) in said, said)
        slices = [(len(each["gpus"]), each["compute"]) for each in one.node.containers()
                  if each["gpus"][0]["limit_bytes"] == mib(2) * MIB]
        check((1, {}) in slices, one.node.containers())
        # Past the runtime there is no GPU.
        cluster.apply(make_pod("plain", "sleep", "1000"))
        cluster.wait_phase("plain", "Running")
        check("nvidia" not in cluster.kubectl("exec", "plain", "--", "ls", "/dev"), "it has files")


def beside():
    """A container without a part, and one that `kubectl debug` adds, see the processes and the GPU's
    files of one with a part, and get nothing by them."""
    with sliced() as one:
        cluster = one.cluster
        thief = make_pod("", "sleep", "1000")["spec"]["containers"][0]
        cluster.apply(of_parts("pod", part("main", 8, "exec rmtool hold 1000 --page big --forever"),
                               {**thief, "name": "thief"}, shareProcessNamespace=True))
        cluster.wait_phase("pod", "Running")
        one.node.wait_used(1000 * MIB, "main does not hold its memory")

        def tries(container):
            return cluster.kubectl("exec", "pod", "-c", container, "--", "sh", "-c", TRY)
        check("got" in tries("main"), "the files are not found by this way")
        said = tries("thief")
        check("tried" in said and "got" not in said, said)
        def debug(profile):
            cluster.kubectl("debug", "pod", "--image=" + thief["image"], "-c", profile,
                            "--image-pull-policy=Never", "--target=main", "--profile=" + profile, "--",
                            "sh", "-c", TRY)
        debug("baseline")

        def ended():
            states = cluster.get("pod", "pod")["status"].get("ephemeralContainerStatuses") or []
            return [each for each in states if each["state"].get("terminated")]
        cluster.wait("the debug container does not end", ended)
        said = cluster.kubectl("logs", "pod", "-c", "baseline")
        check("tried" in said and "got" not in said, said)
        # Profiles with capabilities that would undo the boundary.
        for profile in ("general", "sysadmin"):
            debug(profile)
            why(one, "pod,involvedObject.fieldPath=spec.ephemeralContainers{%s}" % profile,
                "cannot be held to a slice")
        one.node.wait_used(1000 * MIB, "somebody else holds memory")


def hostpaths():
    """A container with a part does not get cgpu's own folders: a mount of one is refused, and in one of
    a folder above they are empty."""
    with sliced() as one:
        cluster = one.cluster

        def mounting(name, path):
            pod = make_slice_pod(name, 1, "sleep", "1000",
                                 volumes=[{"name": "host", "hostPath": {"path": path}}])
            pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]
            cluster.apply(pod)
        for name, path in (("registry", "/run/cgpu"), ("grants", "/run/cgpu/pods"),
                           ("driver", one.node.folder)):
            mounting(name, path)
            why(one, name, "would have %s of cgpu itself" % path)
            check(cluster.phase(name) != "Running", "it runs with %s" % path)
        for name, path, run in (("run", "/run", "/host"), ("root", "/", "/host/run")):
            mounting(name, path)
            cluster.wait_phase(name, "Running")
            folders = [run + "/cgpu", run + "/cgpu-sim"]
            seen = cluster.kubectl("exec", name, "--", "find", *folders).split()
            check(seen == folders, "of cgpu's folders is seen: %s" % seen)


def static():
    """A static pod, which no scheduler places, gets nothing, whatever it asks for."""
    with sliced() as one:
        pod = make_slice_pod("static", 8, "sleep", "1000", runtimeClassName="cgpu")
        with open(FOLDER + "/static/pod.json", "w", encoding="utf-8") as file:
            json.dump(pod, file)
        mirror = "static-" + NODE
        why(one, mirror, "no decision of cgpu-scheduler")
        check(one.cluster.phase(mirror) != "Running", "it runs")
        check(not one.node.containers(), one.node.containers())
        os.unlink(FOLDER + "/static/pod.json")
        one.cluster.wait("the static pod stays", lambda: not one.cluster.get("pod", mirror))


def relabelled():
    """The labels of a pod can be changed while it runs. It holds what was decided, also for a
    cgpu-scheduler that starts after that."""
    with sliced() as one:
        cluster = one.cluster
        cluster.apply(make_slice_pod("a", 16, "sleep", "1000", count=2))
        cluster.wait_phase("a", "Running")
        for label in ("16", "many"):
            cluster.kubectl("label", "--overwrite", "pod", "a", "%s=%s" % (COUNT, label))
            one.restart_scheduler()
            name = "with-" + label
            cluster.apply(make_slice_pod(name, 8, "sleep", "1000"))
            check("has 7 of 8 GiB free" in why(one, name, "GiB free"), "it is counted by its label")
            cluster.kubectl("delete", "pod", name)
        check(len(one.node.containers()) == 1, one.node.containers())


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (words, beside, hostpaths, static, relabelled)})
