"""Compute shares over several GPUs: a container of two simulated GPUs has its part of each, beside
others that have one. By the accounting of the GPUs' engines; cases by name, see tests/lib/cgpu_test.py."""
import cgpu_test as t
import engines
import isolation
from compute_test import BURN, _groups, close, shares
from engines import start_cgpud

# Feeds both of its GPUs until a line comes, then the first alone until the next.
BOTH = """
"$0" --gpu 0 --kernel-us 20000 --queue 64 & first=$!
"$0" --gpu 1 --kernel-us 20000 --queue 64 & second=$!
read line; kill $second; wait $second
echo left
read line; kill $first; wait
"""


class Container:
    """A container that keeps a queue of each of its GPUs full."""

    def __init__(self, node, name, cards, argv, *flags):
        self._node = node
        self._cards = cards
        before = self._shims(*cards)
        self.process = node.run(argv, name=name, flags=(
            "--name", name, "--gpus", "device=" + ",".join(map(str, cards)), *flags))
        t.wait_for(lambda: all(self._shims(card) - before for card in cards), "no channels of " + name)
        (self.shim,) = self._shims(*cards) - before

    def _shims(self, *cards):
        return {group["pid"] for card in cards or (0, 1)
                for group in _groups(self._node, card)}

    def slice_us(self, card):
        return sum(group["timeslice_us"] for group in _groups(self._node, card)
                   if group["pid"] == self.shim)


def alone_on(node, name, card, *flags):
    return Container(node, name, [card], [BURN, "--kernel-us", "20000", "--queue", "64"], *flags)


def slices(both, first, second, on_first, on_second):
    """Until the slices on the GPUs are as these proportions of both to the other."""
    def right():
        return (on_first[1] * both.slice_us(0) == on_first[0] * first.slice_us(0) and
                on_second[1] * both.slice_us(1) == on_second[0] * second.slice_us(1))

    t.wait_for(right, "slices of %d and %d us, %d and %d us" %
          (both.slice_us(0), first.slice_us(0), both.slice_us(1), second.slice_us(1)))


def weights(node):
    """Its weight counts on each GPU against the others there; what it leaves of one is that GPU's."""
    both = Container(node, "both", [0, 1], ["sh", "-c", BOTH, BURN], "--weight", "3")
    first, second = alone_on(node, "first", 0, "--weight", "1"), alone_on(node, "second", 1, "--weight", "3")
    slices(both, first, second, (3, 1), (1, 1))
    close(shares(node, both, first, card=0), [75, 25])
    close(shares(node, both, second, card=1), [50, 50])
    t.command(t.CGPU, "set", "both", "--weight", "1")
    slices(both, first, second, (1, 1), (1, 3))
    close(shares(node, both, first, card=0), [50, 50])
    close(shares(node, both, second, card=1), [25, 75])
    both.process.say("")
    both.process.expect("^left$")
    # Its shim frees what an ended process had a moment after.
    t.wait_for(lambda: both.slice_us(1) == 0, "its channels on the second GPU stay")
    close(shares(node, both, second, card=1), [0, 100], 0.5)
    close(shares(node, both, first, card=0), [50, 50])
    both.process.say("")
    for one in (both, first, second):
        _end(one)


def percentages(node):
    """Guaranteed on each of its GPUs; what a GPU cannot promise is refused, and names the GPU."""
    both = Container(node, "both", [0, 1], ["sh", "-c", BOTH, BURN], "--compute", "30",
                     "--compute-max", "100")
    second = alone_on(node, "second", 1, "--compute", "70", "--compute-max", "100")
    t.wait_for(lambda: 7 * both.slice_us(1) == 3 * second.slice_us(1), "no slices")
    close(shares(node, both, total_ms=500, card=0), [100])
    close(shares(node, both, second, card=1), [30, 70])
    done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "100MiB", "--gpus", "device=0,1",
                     "--compute", "10", "--", "true", ok=False)
    t.check(done.returncode == 125 and "GPU 1 has 0 % of its compute time left" in done.stderr,
            "10 %% more: %s" % done)
    both.process.say("")
    both.process.expect("^left$")
    both.process.say("")
    for one in (both, second):
        _end(one)


def _end(container):
    if container.process.popen.poll() is None:
        container.process.popen.terminate()
    container.process.end()


def run(function):
    with t.Node("a10:2", "580") as node:
        daemon = start_cgpud(node, engines.RUNC)
        function(node)
        for index in (0, 1):
            t.wait_for(lambda: not node.books()["gpus"][index]["groups"], "groups are left on a card")
        daemon.stop()


CASES = {"weights": weights, "percentages": percentages}

if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
