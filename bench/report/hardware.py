"""What only a real GPU can show: what cgpu costs a launch, and what tenants do to each other within the GPU."""
import json

import cgpu_test as t
import shares
from report.findings import Section, at_least

OVERHEAD_GOAL = 98  # percent of the launches without cgpu


def missing(host):
    """What this run cannot measure: [{what, needs}]."""
    rows = [("L2 cache interference", "a CUDA kernel with a working set of the size of the cache, built with nvcc"),
            ("Faults within the GPU", "a CUDA kernel at an illegal address: tests/gpu/run --only faults")]
    if host.simulated:
        rows = [("Cost of a kernel launch", "a real GPU: the simulated one does not model it"),
                ("Memory bandwidth beside a neighbour", "a real GPU and CUDA"),
                ("Copy engines beside a neighbour", "a real GPU and CUDA"),
                ("Whether freed memory comes back zeroed", "a real GPU and CUDA")] + rows
    return [{"what": what, "needs": needs} for what, needs in rows]


def measure(host, rounds, quick):
    section = Section("hardware", "Within the GPU", "What only a real GPU shows.")
    return section
