"""A search for what a container must not know in all that it can read (search.cc)."""
import os

from attack import argv
from cgpu_test import MIB, Node, check, main
from tenant import Tenant

# Sizes in MiB that nothing else has, in bytes, KiB or MiB.
CARDS = (15913, 15737)
KINDS = ("uuid", "uuid-bytes", "bus", "id", "pid", "card-size", "used")
FOLDERS = ("/proc", "/sys", "/dev")


def _sizes(kind, size):
    return ["%s number %d" % (kind, size >> shift) for shift in (0, 10, 20)]


def _names(gpu):
    plain = gpu["uuid"][4:]
    names = ["uuid text %s" % plain, "uuid text %s" % plain.upper(),
             "uuid-bytes bytes %s" % plain.replace("-", ""), "id id %d" % gpu["gpu_id"]]
    # The machine may have a device of its own at this place.
    if not os.path.exists("/sys/bus/pci/devices/" + gpu["bdf"]):
        names += ["bus text %s" % gpu["bdf"], "bus text %s" % gpu["bdf"].upper()]
    return names


def _children(pid):
    path = "/proc/%d/task/%d/children" % (pid, pid)
    with open(path, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _family(pid):
    """A process and all its descendants, by the machine's numbers."""
    return [pid] + [one for child in _children(pid) for one in _family(child)]


def _needles(node, with_cgpu, tenant, other):
    books = node.books()
    lines = _names(node.info()["gpus"][1])
    for gpu in books["gpus"]:
        lines += _sizes("card-size", gpu["memory_bytes"])
        lines.append("card-size number %d" % (gpu["memory_bytes"] - 1))  # the last byte
        lines.append("card-size text %d" % gpu["memory_bytes"])
    for process in (tenant, other):
        pids = set(process.pids()) | set(_family(process.process.popen.pid))
        lines += ["pid pid %d" % pid for pid in sorted(pids)]
        bytes_of = {c["pid"]: c["bytes"] for c in books["clients"]}
        lines += [line for pid in process.pids() if pid in bytes_of
                  for line in _sizes("used", bytes_of[pid])]
    if with_cgpu:
        for container in node.containers():
            for gpu in container["gpus"]:
                if gpu["limit_bytes"] != 256 * MIB:
                    lines += _sizes("slice", gpu["limit_bytes"])
    return lines


def search():
    """A neighbour on the same card and one on another, whose names, numbers and sizes are looked
    for."""
    gpus = ",".join("v100-16g@%dMiB" % mib for mib in CARDS)
    for with_cgpu in (False, True):
        with Node(gpus) as node:
            tenants = [Tenant(node, with_cgpu, card=card) for card in (0, 1)]
            searcher = (node.run(argv("search", *FOLDERS), mem="256MiB",
                                 flags=("--gpus", "device=0"), name="searcher")
                        if with_cgpu else node.exec(argv("search", *FOLDERS), name="searcher"))
            searcher.expect("^ready$")
            lines = _needles(node, with_cgpu, *tenants)
            print("\n".join("  looked for: " + line for line in lines))
            for line in lines:
                searcher.say(line)
            searcher.say("go")
            searcher.expect("^holding$")
            found = {kind: searcher.said("^found %s " % kind) for kind in KINDS}
            everything = [match.string for match in searcher.said("^found ")]
            check(searcher.number(r"^devices (\d+)$") == (1 if with_cgpu else 2),
                  "not the cards that there are")
            check(searcher.number(r"^answered (\d+)$") > 40, "hardly anything was asked")
            if with_cgpu:
                check(not everything, "the slice tells: %s" % everything)
            else:
                check(all(found.values()), "without cgpu not everything is told: %s" %
                      sorted(kind for kind in KINDS if not found[kind]))
            for tenant in tenants:
                tenant.must_go_on()
            searcher.end()
            for tenant in tenants:
                check(tenant.process.end() == 0, "a tenant failed")
            node.wait_used(0, "after all have ended")


main({"search": search})
