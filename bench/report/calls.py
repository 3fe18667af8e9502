"""Noisy neighbours in the call path: how long one tenant's driver calls take while another floods the driver."""
import contextlib

import flood
from clients import Client
from report.findings import Section, at_most, percentiles
from report.host import tool

GOAL = 2  # bench-flood
QUICK = ("flood",)
ALWAYS = ("alone", "others")
NAMES = {"alone": "alone", "others": "beside untrapped calls", **{kind: "beside a flood of " + what
                                                                 for kind, what in flood.FLOODS.items()}}


def _client(host, engine, name):
    if engine is None:
        return Client(host.words([tool("bench-client")], "1024MiB"), name)
    return flood.sliced(engine, name) if host.cgpu else flood.bare(engine, host.node, name)


def _took(neighbour, flooder, kind, count):
    """Microseconds of each call meanwhile."""
    if kind != "alone":
        flooder.floods(kind, flood.THREADS)
    took = [one / 1000 for one in neighbour.calls(count)]
    if kind != "alone":
        flooder.stop()
    return took


def _measure(host, engine, kinds, rounds, count):
    """{kind: a list for each round of how long calls took}"""
    found = {kind: [] for kind in kinds}
    neighbour, flooder = _client(host, engine, "neighbour"), _client(host, engine, "flooder")
    try:
        neighbour.calls(count)  # warms up
        for _ in range(rounds):
            for kind in kinds:
                found[kind].append(_took(neighbour, flooder, kind, count))
    finally:
        for client in (neighbour, flooder):
            client.end()
    return found


def measure(host, rounds, quick):
    section = Section("calls", "Noisy neighbour in the call path", "A tenant asks the driver for its free memory again and "
                      "again, while its neighbour makes calls from %d threads." % flood.THREADS)
    kinds = [*ALWAYS, *(QUICK if quick else flood.FLOODS)]
    with host.engine() if host.has_engine else contextlib.nullcontext() as engine:
        found = _measure(host, engine, kinds, rounds if quick else 3 * rounds, flood.CALLS)
    if engine is None:
        section.note("All tenants are in one cgroup: a flood of untrapped calls takes the processors from the other one.")
    for kind in (*ALWAYS, "flood"):
        for label, values in zip(("p50", "p99", "p99.9"), zip(*map(percentiles, found[kind]))):
            section.figure("%s_%s" % (kind, label.replace(".", "_")), "A call %s, %s" % (NAMES[kind], label), "µs", values)
    for kind in kinds:
        if kind not in ALWAYS:
            section.figure("ratio_" + kind, "p99 %s, over p99 %s" % (NAMES[kind], NAMES["others"]), "x",
                           [percentiles(one, (0.99,))[0] / percentiles(base, (0.99,))[0]
                            for one, base in zip(found[kind], found["others"])], at_most(GOAL))
    section.curves("How long this part of all calls takes at most", "µs",
                   {NAMES[kind]: sum(found[kind], []) for kind in (*ALWAYS, "flood")})
    if host.simulated:
        section.note("The simulated driver answers by way of FUSE, in a process of its own: a call takes longer than one "
                     "of a real driver, and both tenants share its processors.")
    return section
