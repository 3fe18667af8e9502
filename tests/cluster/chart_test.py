"""The chart on a real cluster: what it installs gives pods their slices, an update of its DaemonSet
disturbs no running container, and what it has put on the Kubernetes node goes again."""
import filecmp
import glob
import os
import re
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER, make_pod  # noqa: E402
from deployed import CHART, NAMESPACE, NODE, ROOT, deployed, find_helm, make_image, version  # noqa: E402
from sliced import extender  # noqa: E402
from upgrading import LOOP  # noqa: E402

MEMORY = "aliyun.com/gpu-mem"
HELD = 600  # MiB


def slice_pod(name, *command):
    return make_pod(name, *command, limits={MEMORY: "2"})


def rounds(cluster, pod):
    """How often the pod's load has succeeded. It never fails."""
    said = cluster.kubectl("logs", pod).split()
    check("failed" not in said, "a call of %s failed" % pod)
    return said.count("round")


def goes_on(cluster, pod):
    before = rounds(cluster, pod)
    cluster.wait("%s does not go on" % pod, lambda: rounds(cluster, pod) >= before + 4)


def shims(node):
    """The shims among the driver's clients. cgpu-device-plugin is one, too."""
    return {client["pid"] for client in node.books()["clients"]
            if os.readlink("/proc/%d/exe" % client["pid"]).startswith("/opt/cgpu/bin/cgpu-shim")}


def key(cluster):
    return cluster.get("secret", "-n", NAMESPACE, "cgpu-signing-key")["data"]


def cgpud(cluster):
    """The uids of the pods that cgpud is in: one."""
    pods = cluster.get("pods", "-n", NAMESPACE, "-l", "app=cgpu-node")["items"]
    return [pod["metadata"]["uid"] for pod in pods]


def change(cluster, *values):
    """Changes the DaemonSet; the load's calls go on, and its shim is the same process."""
    served, signed, daemon = shims(cluster.node), key(cluster), cgpud(cluster)
    cluster.install(*values)
    cluster.wait_rolled_out()
    check(cgpud(cluster) != daemon, "the DaemonSet's pod is the same")
    check(key(cluster) == signed, "the signing key is another")
    goes_on(cluster, "load")
    check(served <= shims(cluster.node), "the shim has gone")
    check(cluster.node.used() >= HELD * t.MIB, "the slice is gone")


def updated():
    """A pod works on its slice while the DaemonSet's pods are replaced: by others with another
    environment, then by a new version, which its shim becomes. Pods get slices afterwards."""
    with deployed() as cluster:
        node = cluster.node
        cluster.apply(slice_pod("load", "sh", "-c", "rmtool hold %d --page big --forever & %s; sleep 1000"
                                % (HELD, LOOP)))
        cluster.wait_phase("load", "Running")
        cluster.wait("the load holds nothing", lambda: node.used() >= HELD * t.MIB)
        goes_on(cluster, "load")
        (shim,) = shims(node)
        change(cluster, "node.env.ROUND=2")
        cluster.say("the DaemonSet has another environment")
        next_shim = FOLDER + "/cgpu-shim"
        t.command("strip", "-o", next_shim, os.path.join(t.BIN, "cgpu-shim"))
        make_image(cluster, "next", {"cgpu-shim": next_shim})
        before = os.stat("/proc/%d/exe" % shim)
        change(cluster, "image.tag=next")
        now = os.stat("/proc/%d/exe" % shim)
        check(os.path.samestat(now, os.stat("/opt/cgpu/bin/cgpu-shim")) and
              not os.path.samestat(now, before), "the shim was not upgraded")
        cluster.say("the DaemonSet has a new version")
        cluster.apply(slice_pod("next", "rmtool", "info"))
        cluster.wait_phase("next", "Succeeded")


def removed():
    """Everything that the chart has put on the Kubernetes node goes again, once no container has a slice."""
    config = FOLDER + "/containerd.toml"
    with deployed() as cluster:
        with open(config, encoding="utf-8") as file:
            check("runtimes.cgpu" in file.read(), "containerd was not told of cgpu")
        cluster.apply(slice_pod("load", "sleep", "1000"))
        cluster.wait_phase("load", "Running")
        cluster.install("node.remove=true")
        cluster.wait("nobody waits for the container with a slice", lambda: "waits for the end of" in
                     cluster.kubectl("logs", "-n", NAMESPACE, "-l", "app=cgpu-node", ok=False).stdout)
        cluster.kubectl("delete", "pod", "load", "--wait=false")
        cluster.restart_containerd()
        cluster.wait_rolled_out()
        cluster.say("cgpu is removed from the Kubernetes node")
        cluster.user("helm", "uninstall", "cgpu", "--namespace", NAMESPACE, "--wait")
        cluster.say("the chart is uninstalled")
        with open(config, encoding="utf-8") as file:
            check(file.read() == cluster.config, "containerd's configuration is not what it was")
        for path in ("/opt/cgpu/bin", "/etc/cgpu/config.yaml"):
            check(not os.path.exists(path), path + " is left")
        left = [name for kind in ("clusterroles", "clusterrolebindings", "runtimeclasses",
                                  "mutatingwebhookconfigurations", "validatingadmissionpolicies")
                for name in cluster.kubectl("get", kind, "-o", "name").split() if "cgpu" in name]
        check(not left, "left are %s" % left)


def _install_manifests(cluster):
    """Installs the chart's manifests by the script for those who have no Helm; twice, as the second
    time keeps the keys."""
    cluster.user("sh", "-c", "helm template cgpu deploy/chart/cgpu --namespace %s --values "
                 "cgpu-values.yaml --set keys.create=false >cgpu.yaml" % NAMESPACE)
    cluster.user("deploy/kubernetes/install.sh", "cgpu.yaml")
    signed = key(cluster)
    said = cluster.user("deploy/kubernetes/install.sh", "cgpu.yaml")
    check(key(cluster) == signed and "created" not in said, said)


def _check_holds_to_own_node(cluster):
    """A pod of the DaemonSet may change its own Kubernetes node and no other."""
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
    (pod,) = cluster.get("pods", "-n", NAMESPACE, "-l", "app=cgpu-node")["items"]
    token = cluster.kubectl("create", "token", "cgpu-node", "-n", NAMESPACE, "--bound-object-kind",
                            "Pod", "--bound-object-name", pod["metadata"]["name"]).strip()
    annotate = ("kubectl --kubeconfig /dev/null --server %s --certificate-authority %s --token %s "
                "annotate node " % (cluster.keys.server, cluster.keys.path("ca.crt"), token))
    cluster.user("sh", "-c", annotate + NODE + " tried=yes")
    said = cluster.user("sh", "-c", "! %s other tried=yes" % annotate)
    check("may change its own Kubernetes node only" in said, said)


def _check_others_go_on(cluster):
    """Without cgpu-scheduler, pods that ask for GPUs are refused, and others are made."""
    cluster.kubectl("scale", "deployment", "cgpu-scheduler", "-n", NAMESPACE, "--replicas=0")
    cluster.wait("cgpu-scheduler goes on", lambda: not cluster.get(
        "pods", "-n", NAMESPACE, "-l", "app=cgpu-scheduler")["items"])
    said = cluster.apply(slice_pod("refused", "true"), ok=False).stderr
    check("failed calling webhook" in said, said)
    cluster.apply(make_pod("plain", "true"))
    cluster.wait_phase("plain", "Succeeded")


def manifests():
    """The manifests without Helm give a pod its slice."""
    with deployed(_install_manifests) as cluster:
        _check_holds_to_own_node(cluster)
        cluster.apply(slice_pod("first", "rmtool", "info"))
        cluster.wait_phase("first", "Succeeded")
        check("2154MiB total" in cluster.kubectl("logs", "first"), cluster.kubectl("logs", "first"))
        _check_others_go_on(cluster)


def rendered():
    """The manifests in the repository are those of the chart; its version is the programs'."""
    path = FOLDER + "-rendered.yaml"
    t.command(ROOT + "/deploy/kubernetes/render.sh", path,
              env={"PATH": "/usr/bin:/bin", "HELM": find_helm()})
    check(filecmp.cmp(path, ROOT + "/deploy/kubernetes/cgpu.yaml", False),
          "deploy/kubernetes/cgpu.yaml is not what deploy/kubernetes/render.sh writes")
    with open(path, encoding="utf-8") as file:
        asked = re.findall(r"- name: (\S+)\n +ignoredByScheduler: false\n", file.read())
    check(asked == [one["name"] for one in extender(0)["managedResources"]],
          "kube-scheduler asks the extender about pods with %s" % asked)
    with open(CHART + "/Chart.yaml", encoding="utf-8") as file:
        check(file.read().count("ersion: %s\n" % version()) == 2, "the chart has another version")


def monitored():
    """Alerts and dashboards are rendered as they are in the repository, if they are asked for."""
    words = [find_helm(), "template", "cgpu", CHART, "--set", "metrics.tokenSecret=token"]
    paths = sorted(glob.glob(ROOT + "/deploy/grafana/*.json")) + [ROOT + "/deploy/prometheus/rules.yml"]
    check(len(paths) == 4, "there are %s" % paths)
    said = t.command(*words)
    check("PrometheusRule" not in said and "grafana_dashboard" not in said, "nobody asked for them")
    said = t.command(*words, "--set", "metrics.alerts=true,metrics.dashboards=true")
    check(said.count("kind: PrometheusRule\n") == 1 and
          said.count('grafana_dashboard: "1"\n') == len(paths) - 1, said)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read().rstrip().replace("\n", "\n  " if path.endswith(".yml") else "\n    ")
        check(text in said, "%s is not rendered as it is" % path)


if __name__ == "__main__":
    isolation.main({case.__name__: case
                    for case in (rendered, monitored, manifests, updated, removed)})
