"""Many equal pods at once on a real cluster, again and again, also while parts of the cluster are
killed. For each pod, the GPU that its process holds memory of by the driver's accounting is the one
that was written on it; no GPU is given beyond what it has; nothing is left when the pods are deleted.

CGPU_BURST_PODS (200) and CGPU_BURST_ROUNDS (20) say how many.
"""
import json
import os
import random
import re
import sys
import threading

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import MIB, check  # noqa: E402
from sliced import MEMORY, SCHEDULER, make_slice_pod, sliced  # noqa: E402

PODS = int(os.environ.get("CGPU_BURST_PODS", "200"))
ROUNDS = int(os.environ.get("CGPU_BURST_ROUNDS", "20"))
UNITS = 15  # GiB of a GPU, as aliyun.com/gpu-mem counts them
HELD = 256  # MiB that each pod allocates
DEADLINE = 900


def pod_of(pid):
    """The uid of the pod that the process is of, by its cgroup; None: of none."""
    try:
        with open("/proc/%d/cgroup" % pid, encoding="utf-8") as file:
            found = re.search(r"pod([0-9a-f-]{36})", file.read())
    except OSError:
        return None
    return found and found.group(1)


def gpus_of(pid):
    """The numbers of the GPUs whose files the process has open."""
    numbers = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        found = re.fullmatch(r".*/nvidia(\d+)", os.readlink("/proc/%d/fd/%s" % (pid, fd)))
        if found:
            numbers.add(int(found.group(1)))
    return numbers


class Burst:
    def __init__(self, one):
        self.one, self.cluster, self.node = one, one.cluster, one.node
        self.index = {gpu["uuid"]: gpu["index"] for gpu in self.node.info()["gpus"]}

    def pods(self):
        return (self.cluster.get("pods") or {"items": []})["items"]

    def create(self):
        pod = make_slice_pod("", 1, "rmtool", "hold", str(HELD), "--forever")
        spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "burst"}},
                "template": {"metadata": {"labels": {"app": "burst"}},
                             "spec": {**pod["spec"], "restartPolicy": "Always"}}}
        self.cluster.apply_until({"apiVersion": "apps/v1", "kind": "Deployment",
                                  "metadata": {"name": "burst"}, "spec": spec})

    def holding(self):
        """The uids of the pods whose processes hold their memory, by the driver's accounting, with
        the GPUs that these have open."""
        found = {}
        for client in self.node.books()["clients"]:
            uid = pod_of(client["pid"])
            if uid and client["bytes"] >= HELD * MIB:
                try:
                    found[uid] = gpus_of(client["pid"])
                except OSError:  # it has ended
                    pass
        return found

    def check_all(self):
        """Waits until all pods hold what they ask for; compares it with what is written on them."""
        self.cluster.wait("not all pods hold their memory", lambda: len(self.holding()) >= PODS,
                          deadline=DEADLINE, pause=1)
        pods = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        given = {}
        for uid, numbers in self.holding().items():
            text = pods[uid]["metadata"]["annotations"]["cgpu.dev/decision"]
            decision = json.loads(text.rsplit(" ", 1)[0])
            written = [self.index[uuid] for uuid in decision["gpus"]]
            check(sorted(numbers) == sorted(written),
                  "%s has the GPUs %s open, not %s" % (uid, numbers, written))
            for number in written:
                given[number] = given.get(number, 0) + decision["memory"]
        check(all(units <= UNITS for units in given.values()), "given twice: %s" % given)

    def delete(self):
        self.cluster.wait("the pods cannot be deleted", lambda: self.cluster.kubectl(
            "delete", "deployment", "burst", "--ignore-not-found", "--wait=false",
            ok=False).returncode == 0)
        self.cluster.wait("pods are left", lambda: self.cluster.get("pods") == {
            **(self.cluster.get("pods") or {}), "items": []}, deadline=DEADLINE, pause=1)
        self.node.wait_used(0, "memory is left", deadline=DEADLINE)
        self.cluster.wait("slices are left", lambda: not self.node.containers())
        self.cluster.wait("the node lets something in still", lambda: not self.cluster.get(
            "node", self.one.name)["metadata"]["annotations"].get("cgpu.dev/admitted"))


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
            killer.run(burst)
            burst.check_all()
            one.cluster.say("round %d: all hold what was given; killed %s" % (
                number, " ".join(killer.killed)))
            burst.delete()


class Killer:
    """Kills one part after the other, each once so many pods hold their memory, and starts it again."""

    def __init__(self, one, rng):
        self.one, self.rng, self.killed = one, rng, []
        self.parts = {"kubelet": one.cluster.start_kubelet, "apiserver": one.cluster.start_apiserver,
                      "cgpu-device-plugin": one.start_plugin, "cgpud": one.restart_daemon}
        for number in range(one.schedulers):
            name = SCHEDULER + str(number)
            self.parts[name] = lambda number=number: one.start_scheduler(number)

    def run(self, burst):
        names = list(self.parts)
        self.rng.shuffle(names)
        marks = sorted(self.rng.randrange(PODS) for _ in names)
        for name, mark in zip(names, marks):
            self.one.cluster.wait("fewer than %d pods hold memory" % mark,
                                  lambda mark=mark: len(burst.holding()) >= mark,
                                  deadline=DEADLINE, pause=0.2)
            if name == "cgpud":
                self.one.daemon.kill()
            else:
                self.one.cluster.kill(name)
            self.parts[name]()
            self.killed.append("%s@%d" % (name, mark))


if __name__ == "__main__":
    isolation.main({case.__name__: case for case in (steady, killed)})
