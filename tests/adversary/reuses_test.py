"""Attacks on nvidia-uvm by a handle that goes to larger memory meanwhile (reuses.cc)."""
from attack import LIMIT, NEIGHBOUR, counted, more_than, within, without
from cgpu_test import MIB, check, main

WITHOUT = 5000  # rounds at most without cgpu, where it ends as soon as it has enough


def _made(process):
    """It proves nothing unless the handle was reused, and UVM took something in time."""
    found = process.said(r"^rounds (\d+) reused (\d+) taken (\d+)$")
    check(found and all(int(number) > 0 for number in found[0].groups()), "it said %s" % process.lines)


def _covered(node, process):
    """The driver holds no byte that cgpu does not count."""
    _made(process)
    node.sync()
    ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
    check(drivers <= ours, "cgpu counts %d bytes, the driver %d" % (ours, drivers))


def _reused(what):
    def case(rounds=1000, threads=12, seed=1):
        def more(node, process):
            _made(process)
            more_than(LIMIT)(node, process)

        without(["reused-" + what, WITHOUT, threads, seed], more)
        within(["reused-" + what, rounds, threads, seed], _covered)

    case.__doc__ = "Something larger under the handle of the %s that UVM is given. ROUNDS THREADS SEED" % what
    return case


main({"reused-memory": _reused("memory"), "reused-channel": _reused("channel")})
