"""Containers of real engines have their shares of a simulated GPU's time, as their environment asks: by the
accounting of its engines. Cases by name: ENGINE-CASE."""
import threading

import cgpu_test as t
from compute_test import close, shares
from slices_test import expect, main


class Fed:
    """A container that keeps a queue of the GPU full."""

    def __init__(self, test, name, **env):
        self.test, self.name = test, name
        before = self._shims()
        self.process = test.engine.talk(name, ["kernels", "20000"], env={"CGPU_MEM": "500MiB", **env})
        self.process.expect("^ready$")
        # For the driver all of a container's clients are its shim's.
        (self.shim,) = self._shims() - before
        self.process.say("feed")
        self.process.expect("^feeding$")

    def _shims(self):
        return {group["pid"] for group in t.groups(self.test.node.books()["gpus"][0])}

    def groups(self):
        return [group for group in t.groups(self.test.node.books()["gpus"][0])
                if group["pid"] == self.shim]

    def slice_us(self):
        (group,) = self.groups()
        return group["timeslice_us"]

    def end(self):
        self.process.say("")
        self.process.expect("^fed ")
        self.process.end()
        self.test.engine.remove(self.name)


def weights(test):
    """By weight, under our own name and Alibaba Cloud's; what exec adds is within its container's."""
    three = Fed(test, "three", ALIYUN_COM_GPU_SCHD_WEIGHT="3")
    one = Fed(test, "one", CGPU_WEIGHT="1")
    t.wait_for(lambda: three.slice_us() == 3 * one.slice_us() > 0, "no slices")
    close(shares(test.node, one, three), [25, 75])
    enough = threading.Event()

    def add():
        while not enough.is_set():
            expect(test.engine.exec("one", ["sh", "-c", "echo run 64 | kernels 10000"]), 0)

    added = threading.Thread(target=add)
    added.start()
    try:
        t.wait_for(lambda: len(one.groups()) == 2, "what exec adds has no channels")
        close(shares(test.node, one, three), [25, 75])
    finally:
        enough.set()
        added.join()
    one.end()
    three.end()


def percentages(test):
    """A percentage and a maximum, and what does not fit is refused before the container is made."""
    one = Fed(test, "one", CGPU_COMPUTE="20", CGPU_COMPUTE_MAX="100")
    two = Fed(test, "two", CGPU_COMPUTE="80", CGPU_COMPUTE_MAX="100")
    t.wait_for(lambda: two.slice_us() == 4 * one.slice_us() > 0, "no slices")
    close(shares(test.node, one, two), [20, 80])
    test.run(test.refused, "has 0 % of its compute time left", "third", ["true"],
             env={"CGPU_MEM": "500MiB", "CGPU_COMPUTE": "1"})
    test.run(test.refused, "knows no weights", "third", ["true"],
             env={"CGPU_MEM": "500MiB", "CGPU_WEIGHT": "2"})
    (row,) = [row for row in test.node.containers() if row["compute"]["percent"] == 20]
    t.command(t.CGPU, "set", row["id"], "--compute", "10")
    t.wait_for(lambda: two.slice_us() > 7 * one.slice_us(), "no other slices")
    close(shares(test.node, one, two), [100 / 9, 800 / 9])
    one.end()
    two.end()


def priority(test):
    """Only root gives it, and to the engines of root."""
    other = Fed(test, "other")
    high = Fed(test, "high", ALIYUN_COM_GPU_HIGH_PRIO="1")
    t.wait_for(lambda: all(group["interleave"] == 2 for group in high.groups()), "no level")
    t.check(all(group["interleave"] == 0 for group in other.groups()), "the other has a level")
    high.end()
    other.end()


main({"weights": weights, "percentages": percentages, "priority": priority})
