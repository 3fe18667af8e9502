"""Many equal pods at once on a real cluster, again and again, also while parts of the cluster are
killed. For each pod, the GPU that its process holds memory of by the driver's accounting is the one
that was written on it; no GPU is given beyond what it has; nothing is left when the pods are deleted.

CGPU_BURST_PODS (30) and CGPU_BURST_ROUNDS (2) say how many; before a release it is run with 200 and 20.
"""
import collections
import json
import os
import random
import re
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import MIB, check  # noqa: E402
from cluster import NODE  # noqa: E402
from sliced import SCHEDULER, UNITS, make_slice_pod, sliced  # noqa: E402

PODS = int(os.environ.get("CGPU_BURST_PODS", "30"))
ROUNDS = int(os.environ.get("CGPU_BURST_ROUNDS", "2"))
HELD = 256  # MiB that each pod allocates
DEADLINE = 900


def gpus_of_pods():
    """The numbers of the GPUs whose files processes of pods have open, by the uids of the pods. The
    cgroups of another test's pods begin with /.. here."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cgroup" % pid, encoding="utf-8") as file:
                pod = re.search(r":/kubepods(?:/\w+)?/pod([0-9a-f-]{36})/", file.read())
            for fd in os.listdir("/proc/%s/fd" % pid) if pod else ():
                # The name is the machine's: a simulated node keeps its GPUs' numbers.
                name = os.readlink("/proc/%s/fd/%s" % (pid, fd)).removesuffix(" (deleted)")
                number = re.fullmatch(r".*/nvidia(\d+)", name)
                if number:
                    found.setdefault(pod.group(1), set()).add(int(number.group(1)))
        except OSError:  # it has ended
            pass
    return found


class Burst:
    def __init__(self, one):
        self.one, self.cluster, self.node = one, one.cluster, one.node
        self.index = {gpu["uuid"]: gpu["index"] for gpu in self.node.info()["gpus"]}

    def pods(self):
        """All pods; None where the API server does not answer."""
        return (self.cluster.get("pods") or {"items": None})["items"]

    def living(self):
        """The pods that have not ended, by uid. A kubelet that starts anew refuses some, which then
        have failed: it does not know the GPUs yet. The controller makes others."""
        return {pod["metadata"]["uid"]: pod for pod in self.pods() or ()
                if pod["status"].get("phase") not in ("Failed", "Succeeded")}

    def wait(self, sentence, happened, pause=0.05):
        """Waits as long as a loaded machine may need."""
        def look():
            self.cluster.restart_ended()
            return happened()
        return self.cluster.wait(sentence, look, deadline=DEADLINE, pause=pause)

    def create(self):
        pod = make_slice_pod("", 1, "rmtool", "hold", str(HELD), "--forever")
        spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "burst"}},
                "template": {"metadata": {"labels": {"app": "burst"}},
                             "spec": {**pod["spec"], "restartPolicy": "Always"}}}
        self.cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment",
                            "metadata": {"name": "burst"}, "spec": spec})

    def holding(self):
        """How many pods hold their memory, by the driver's accounting."""
        return self.node.used() // (HELD * MIB)

    def check_all(self):
        """Waits until all pods hold what they ask for; compares it with what is written on them."""
        self.wait("not all pods hold their memory", lambda: self.holding() == PODS and set(
            self.living()) == set(gpus_of_pods()), pause=1)
        seen = gpus_of_pods()
        given = collections.Counter()
        count = collections.Counter()
        for pod in self.living().values():
            text = pod["metadata"]["annotations"]["cgpu.dev/decision"]
            decision = json.loads(text.rsplit(" ", 1)[0])
            written = {self.index[uuid] for uuid in decision["gpus"]}
            check(seen.get(pod["metadata"]["uid"]) == written, "%s has the GPUs %s open, not %s" % (
                pod["metadata"]["name"], seen.get(pod["metadata"]["uid"]), written))
            for number in written:
                given[number] += decision["memory"]
                count[number] += 1
        check(count.total() == PODS, "%d pods" % count.total())
        check(max(given.values()) <= UNITS, "given twice: %s" % given)
        for number, pods in count.items():
            check(self.node.used(number) == pods * HELD * MIB, "the driver has another use of GPU %d "
                  "than its %d pods make" % (number, pods))

    def delete(self, meanwhile=lambda _: None):
        self.cluster.wait("the pods cannot be deleted", lambda: self.cluster.kubectl(
            "delete", "deployment", "burst", "--ignore-not-found", "--wait=false",
            ok=False).returncode == 0)
        meanwhile(self)
        self.wait("pods are left", lambda: self.pods() == [], pause=1)
        self.node.wait_used(0, "memory is left", deadline=DEADLINE)
        self.cluster.wait("slices are left", lambda: not self.node.containers())
        self.cluster.wait("the node lets something in still", lambda: not self.cluster.get(
            "node", NODE)["metadata"]["annotations"].get("cgpu.dev/admitted"))


def steady():
    """Equal pods at once, many times over."""
    with sliced(gpus=-(-PODS // UNITS)) as one:
        burst = Burst(one)
        for number in range(ROUNDS):
            burst.create()
            burst.check_all()
            one.cluster.say("round %d: all hold what was given" % number)
            burst.delete()


def killed():
    """The same while the kubelet, both cgpu-schedulers in turn, cgpud, the device plugin and the API
    server are killed at random moments."""
    with sliced(gpus=-(-PODS // UNITS), schedulers=2) as one:
        burst = Burst(one)
        seed = int(os.environ.get("CGPU_SEED", random.randrange(1 << 32)))
        one.cluster.say("CGPU_SEED=%d" % seed)
        for number in range(ROUNDS):
            killer = Killer(one, random.Random(seed + number))
            burst.create()
            killer.while_they_come(burst)
            burst.check_all()
            burst.delete(killer.while_they_go)
            one.cluster.say("round %d: all held what was given, nothing is left; killed %s" % (
                number, " ".join(killer.killed)))


class Killer:
    """Kills one part after the other, each once so many pods hold their memory, and starts it again."""

    def __init__(self, one, rng):
        self.one, self.rng, self.killed = one, rng, []
        self.parts = {"kubelet": self.kubelet, "apiserver": self.apiserver, "plugin": self.plugin,
                      "cgpud": one.restart_daemon}
        for number in range(one.schedulers):
            self.parts["scheduler%d" % number] = lambda number=number: self.scheduler(number)

    def kubelet(self):
        self.one.cluster.kill("kubelet")
        self.one.cluster.start_kubelet()

    def apiserver(self):
        self.one.cluster.kill("apiserver")
        self.one.cluster.start_apiserver()

    def plugin(self):
        self.one.cluster.kill("cgpu-device-plugin")
        self.one.start_plugin()

    def scheduler(self, number):
        """The replica with its kube-scheduler: the other one takes over, if this one led."""
        self.one.cluster.kill("scheduler-of-slices%d" % number)
        self.one.cluster.kill(SCHEDULER + str(number))
        self.one.start_scheduler(number)
        self.one.start_kube_scheduler(number)

    def _kill_all(self, burst, rising):
        """Kills every part once: as soon as a number of pods, drawn for it, hold their memory, or
        hold it still."""
        names = list(self.parts)
        self.rng.shuffle(names)
        marks = sorted((self.rng.randrange(PODS) for _ in names), reverse=not rising)
        for name, mark in zip(names, marks):
            burst.wait(
                "the pods come to a halt before %d" % mark,
                lambda mark=mark: burst.holding() >= mark if rising else burst.holding() <= mark)
            self.parts[name]()
            self.killed.append("%s@%d" % (name, mark))

    def while_they_come(self, burst):
        self._kill_all(burst, True)

    def while_they_go(self, burst):
        self._kill_all(burst, False)


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (steady, killed)})
