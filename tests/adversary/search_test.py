"""A search for what a container must not know in all that it can read (search.cc)."""
import os
import pwd

from attack import argv
from cgpu_test import CGPU, MIB, Node, Process, check, main, skip
from tenant import OTHERS, Tenant

# Sizes in MiB that nothing else has, in bytes, KiB or MiB.
CARDS = (15913, 15737)
KINDS = ("uuid", "uuid-bytes", "bus", "id", "pid", "card-size", "used")
FOLDERS = ("/proc", "/sys", "/dev", "/run")
SMALL = 4096  # numbers of a GPU's own are below: a V100's architecture is 320 (0x140)


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


def _pass_small_pids():
    """Uses up the numbers of processes that a GPU's own numbers may equal, and those just before the
    kernel begins with them again."""
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        last = int(file.read()) - SMALL
    pid = 0
    while not SMALL <= pid < last:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


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
        lines += _sizes("used", next(client["bytes"] for client in books["clients"]
                                     if client["handle"] == process.client))
    slices = [gpu for container in node.containers() for gpu in container["gpus"]
              if gpu["limit_bytes"] != OTHERS * MIB]
    check(len(slices) == (2 if with_cgpu else 0), "the neighbours are not known: %s" % slices)
    for gpu in slices:
        lines += _sizes("slice", gpu["limit_bytes"]) + _sizes("slice", gpu["used_bytes"])
    return lines


def _look(node, with_cgpu, searcher, tenants):
    searcher.expect("^ready$")
    lines = _needles(node, with_cgpu, *tenants)
    print("\n".join("  looked for: " + line for line in lines))
    for line in lines:
        searcher.say(line)
    searcher.say("go")
    searcher.expect("^holding$")
    check(searcher.number(r"^devices (\d+)$") == (1 if with_cgpu else 2),
          "not the cards that there are")
    check(searcher.number(r"^answered (\d+)$") > 40, "hardly anything was asked")
    found = [match.group(1) for match in searcher.said("^found ([a-z-]+) ")]
    if with_cgpu:
        check(not found, "the slice tells: %s" % searcher.lines)
    else:
        check(set(found) == set(KINDS), "without cgpu only this is told: %s" % sorted(set(found)))


def _search(with_cgpu, user=None):
    gpus = ",".join("v100-16g@%dMiB" % mib for mib in CARDS)
    with Node(gpus) as node:
        _pass_small_pids()
        tenants = [Tenant(node, with_cgpu, card=card) for card in (0, 1)]
        words = argv("search", *FOLDERS)
        flags = ("--gpus", "device=0")
        if user is not None:
            searcher = Process(["setpriv", "--reuid", str(user.pw_uid), "--clear-groups", CGPU,
                                "run", "--alone", "--node", node.name, "--mem",
                                "%dMiB" % OTHERS, *flags, "--"] + words, "as a user", env={"PATH": os.environ["PATH"]})
        elif with_cgpu:
            searcher = node.run(words, mem="%dMiB" % OTHERS, flags=flags, name="searcher")
        else:
            searcher = node.exec(words, name="searcher")
        _look(node, with_cgpu, searcher, tenants)
        for tenant in tenants:
            tenant.must_go_on()
        searcher.end()
        for tenant in tenants:
            check(tenant.process.end() == 0, "a tenant failed")
        node.wait_used(0, "after all have ended")


def search():
    """A neighbour on the same GPU and one on another, whose names, numbers and sizes are looked
    for."""
    for with_cgpu in (False, True):
        _search(with_cgpu)


def search_as_user():
    """The same in an ordinary user's slice; what it finds without cgpu is shown above."""
    user = next((u for u in pwd.getpwall() if u.pw_name == "nobody"), None)
    if user is None:
        skip("there is no user nobody")
    _search(True, user)


main({"search": search, "search-as-user": search_as_user})
