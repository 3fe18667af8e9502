"""Channel groups of one container that come and go: its slice is the others' that are left. By the simulated
GPU's own accounting. Cases by name, see tests/lib/cgpu_test.py."""
import cgpu_test as t
import compute_test
import isolation
from compute_test import KERNELS, Crowd, Member, shares


def _left(end):
    def case(node, _):
        """The processes that remain when one of their container has ended have all of its slice."""
        other = Member(node, "other").feed()
        script = "(echo feed; exec sleep 1000) | %s 20000 & sleep 1000 | %s %s 1000; wait"
        rest = Crowd(node, "rest", script % (KERNELS, end, KERNELS))

        def slices():
            return [group["timeslice_us"] for group in rest.groups(node)]

        t.wait_for(lambda: slices() == [2925, 2925], lambda: "its slice is not divided: %s" % rest.groups(node))
        t.wait_for(lambda: slices() == [6000], lambda: "it has not got its slice back: %s" % rest.groups(node))
        t.wait_for(lambda: abs(shares(node, other, rest)[0] - 50) < 2, "they do not get the same")
        rest.process.kill()
        other.stop()
        other.end()
    return case


CASES = {"killed": _left("timeout -s KILL 1"), "ended": _left("timeout -s TERM 1")}

if __name__ == "__main__":
    isolation.main({name: lambda function=function: compute_test.run(function)
                    for name, function in CASES.items()})
