"""NVML on a simulated node (sim/nvml), by unmodified programs of others: without cgpu they show the
whole GPUs, in a slice the slice. What they show is compared with the driver's own accounting, and with
the processes in /proc. Cases by name, see tests/lib/cgpu_test.py."""
import json
import os
import subprocess
import sys

import cgpu_test as t

HERE = os.path.dirname(os.path.abspath(__file__))
BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
PACKAGES = os.path.abspath(os.environ.get("CGPU_PYTHON_PACKAGES", "build/python"))
# The node itself offers its library.
ENVIRONMENT = dict(os.environ, PYTHONPATH=PACKAGES, PYTHONDONTWRITEBYTECODE="1")
PACKAGE_FOLDERS = {"nvidia-ml-py": ("pynvml.py",), "nvitop": ("pynvml.py", "psutil", "nvitop"),
                   "gpustat": ("pynvml.py", "psutil", "blessed", "wcwidth", "gpustat")}
SLICE_MIB = 2048
HELD_MIB = 512
POINTS = 5  # of 100, that a use may differ from the engines' own accounting
LOOKS = 4   # a second apart
# A load in the slice of the client, which has the rest of the words.
LOADED = '"$0" --duty 40 --period-ms 50 >/dev/null & shift 0; exec "$@"'


def python_client(library):
    for part in PACKAGE_FOLDERS[library]:
        if not os.path.exists(os.path.join(PACKAGES, part)):
            t.skip("%s is not in %s: tools/install_python.sh installs it" % (part, PACKAGES),
                   excused=True)
    return [sys.executable, os.path.join(HERE, "nvml_client.py"), library]


def go_client():
    """The program on go-nvml."""
    program = os.environ.get("CGPU_NVML_GO")
    if not program:
        t.skip("CGPU_NVML_GO names no program on go-nvml: make test-go builds it")
    return [program]


def look(client):
    client.say("")
    return json.loads(client.expect("^look (.*)$").group(1))


def engine(node):
    return t.graphics(node.books()["gpus"][0])


def use_of(before, after):
    """Percent of the time between two looks at the accounting that the engine was on something."""
    spent = t.counted_ns(after) - t.counted_ns(before)
    return 100 * (after["busy_ns"] - before["busy_ns"]) / spent


def check_cards(seen, node, total=None):
    """The GPUs are those of the node, or the one of a slice with so much memory."""
    gpus = node.info()["gpus"] if total is None else node.info()["gpus"][:1]
    t.check(seen["driver"] == node.info()["driver"], "driver %s" % seen["driver"])
    t.check([card["uuid"] for card in seen["cards"]] == [gpu["uuid"] for gpu in gpus],
            "cards: %s" % seen["cards"])
    for card, gpu in zip(seen["cards"], gpus):
        # nvitop leaves out the first word.
        t.check(gpu["name"].endswith(card["name"].removeprefix("NVIDIA ")), "name: %s" % card)
        bus = "0000" + gpu["bdf"].upper()
        t.check(card.get("bus", bus) == bus, "bus: %s" % card)
        t.check("not supported" in str(card["temperature"]).lower()
                or card["temperature"] in (None, "N/A"), "a temperature: %s" % card)
        check_memory(card, total or gpu["memory_bytes"])


def check_memory(card, total):
    if "memory_mib" in card:
        t.check(card["memory_mib"][0] == total // t.MIB, "memory: %s of %d" % (card, total))
    else:
        t.check(card["memory"][0] == total, "memory: %s of %d" % (card, total))
        t.check(card["memory"][1] + card["memory"][2] == total, "memory: %s" % card)
    if "memory_v2" in card:
        t.check(card["memory_v2"] == card["memory"] + [0], "versions of memory: %s" % card)


def check_used(card, used):
    used = -(-used // 1024) * 1024  # the driver tells what is free in whole KiB
    if "memory_mib" in card:
        t.check(card["memory_mib"][1] == used // t.MIB, "used: %s, not %d" % (card, used))
    else:
        t.check(card["memory"][2] == used, "used: %s, not %d" % (card, used))


def outside(node, argv):
    """The whole GPUs, and the processes of all."""
    client = node.exec(argv, "client", env=ENVIRONMENT)
    holder = node.exec([RMTOOL, "hold", str(HELD_MIB), "--page", "big", "--gpu", "1"], "holder")
    holder.expect("^holding")
    burn = node.exec([BURN, "--duty", "40", "--period-ms", "50"], "burn")
    burn.expect("^second 1:")
    client.expect("^ready$")
    books = node.books()
    seen = look(client)
    check_cards(seen, node)
    for card, gpu in zip(seen["cards"], books["gpus"]):
        check_used(card, gpu["used_bytes"])
        pids = sorted({group["pid"] for group in gpu["groups"]})
        t.check(sorted(map(int, card["processes"])) == pids, "processes: %s, not %s" % (card, pids))
    # Loads of other tests are in /proc, too.
    t.check(list(map(int, seen["cards"][0]["processes"])) == [burn.popen.pid]
            and burn.popen.pid in seen["workers"], "not the load's number: %s" % seen)
    if "bar1" in seen["cards"][0]:
        for card, gpu in zip(seen["cards"], books["gpus"]):
            free = gpu["bar1_bytes"] - gpu["bar1_used_bytes"]
            t.check(card["bar1"] == [gpu["bar1_bytes"], free, gpu["bar1_used_bytes"]],
                    "BAR1: %s of %s" % (card, gpu))
    follows_work(node, client, burn)
    holder.close()
    holder.end()
    node.sync()
    check_used(look(client)["cards"][1], node.books()["gpus"][1]["used_bytes"])
    client.end()


def follows_work(node, client, burn):
    """The use is that of the engines' accounting, and goes when the load goes."""
    # A look shows the last second.
    before = engine(node)
    shown, of_process = [], []
    for _ in range(LOOKS):
        burn.expect("^second ")
        card = look(client)["cards"][0]
        shown.append(card["use"])
        of_process += card.get("use_by_process", {}).values()
    real = use_of(before, engine(node))
    for figures in filter(None, (shown, of_process)):
        mean = sum(figures) / len(figures)
        t.check(abs(mean - real) <= POINTS, "shown %s, on the engine %.1f %%" % (figures, real))
    t.check(real > 30, "the load is on the engine for %.1f %%" % real)
    burn.popen.terminate()
    burn.end()
    t.wait_for(lambda: look(client)["cards"][0]["use"] == 0, "it stays in use")
    t.check(not look(client)["cards"][0]["processes"], "a process that has ended is listed")


def inside(node, argv):
    """The slice, and its processes alone: by their numbers in the slice."""
    other = node.exec([BURN, "--duty", "20"], "other")
    other.expect("^second 1:")
    client = node.run(["sh", "-c", LOADED, BURN, *argv], mem="%dMiB" % SLICE_MIB, name="client",
                      flags=("--gpus", "device=0"), env=ENVIRONMENT)
    client.expect("^ready$")
    t.wait_for(lambda: len(node.books()["gpus"][0]["groups"]) == 2, "the load does not begin")
    seen = t.wait_for(lambda: (now := look(client))["cards"][0]["processes"] and now,
                      "the slice has no process")
    check_cards(seen, node, SLICE_MIB * t.MIB)
    t.check(sorted(map(int, seen["cards"][0]["processes"])) == seen["workers"],
            "processes: %s" % seen)
    (container,) = node.containers()
    check_used(seen["cards"][0], container["gpus"][0]["used_bytes"])
    # The driver's samples tell of all tenants, so a slice is told nothing.
    use = seen["cards"][0]["use"]
    t.check(use in (None, "N/A") or "not supported" in str(use).lower(), "use: %s" % use)
    client.kill()


def both(argv):
    with t.Node("a100-80g:1,t4:1") as node:
        outside(node, argv)
        inside(node, argv)


def python():
    both(python_client("nvidia-ml-py"))


def gpustat():
    both(python_client("gpustat"))


def nvitop():
    both(python_client("nvitop"))


def go():
    both(go_client())


def details():
    """Versions, modes, handles by other names, and what is not known, by nvidia-ml-py."""
    argv = python_client("nvidia-ml-py")
    with t.Node("a100-80g:1,t4:1", "580") as node:
        client = node.exec(argv, "client", env=ENVIRONMENT)
        client.expect("^ready$")
        seen = look(client)
        t.check(seen["cuda"] == 13000 and seen["nvml"] == "13." + seen["driver"], "%s" % seen)
        for index, card in enumerate(seen["cards"]):
            t.check(card["same"] == [index] * 3 and card["minor"] == index, "handles: %s" % card)
            t.check([card["compute_mode"], card["persistence"]] == [0, 1], "modes: %s" % card)
            for name in ("temperature", "power", "clock", "fan"):
                t.check(card[name] == "Not Supported", "%s: %s" % (name, card))
        first, second = seen["cards"]
        t.check(first["mig"] == [0, 0] and second["mig"] == "Not Supported", "MIG: %s" % seen)
        t.check([first["capability"], second["capability"]] == [[8, 0], [7, 5]], "%s" % seen)
        t.check([first["pci"], second["pci"]] == [0x20B210DE, 0x1EB810DE], "%s" % seen)
        client.end()
        absent = subprocess.run([sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
                                env=dict(ENVIRONMENT, LD_LIBRARY_PATH=node.info()["libraries"]),
                                check=False, text=True, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, timeout=t.DEADLINE)
        t.check("Driver Not Loaded" in absent.stderr, "without a driver: %s" % absent.stderr)


def _shown(client, index):
    return look(client)["cards"][index]


def faults():
    """Faults of a GPU, by nvidia-ml-py, also in a slice: errors of its memory, and its loss. The other
    GPU has none of them."""
    argv = python_client("nvidia-ml-py")
    with t.Node("a100-80g:2") as node:
        clients = [node.exec(argv, "outside", env=ENVIRONMENT),
                   node.run(argv, name="inside", flags=("--gpus", "2"), env=ENVIRONMENT)]
        for client in clients:
            client.expect("^ready$")
            t.check(_shown(client, 0)["ecc"] == [[1, 1], 0, 0], "errors without a fault")
        node.sim("fault", "--gpu", "0", "--ecc-corrected", "40")
        node.sim("fault", "--gpu", "0", "--ecc-corrected", "2")
        node.sim("fault", "--gpu", "0", "--ecc-uncorrected", "3")
        (gpu, other) = node.books()["gpus"]
        t.check([gpu["ecc_corrected"], gpu["ecc_uncorrected"]] == [42, 3], "accounting: %s" % gpu)
        t.check([other["ecc_corrected"], other["ecc_uncorrected"]] == [0, 0], "%s" % other)
        for client in clients:
            t.check(_shown(client, 0)["ecc"] == [[1, 1], 42, 3], "errors: %s" % client.lines[-1])
            t.check(_shown(client, 1)["ecc"] == [[1, 1], 0, 0], "errors: %s" % client.lines[-1])
            client.end()
        refused = t.command(t.CGPU, "sim", "fault", "--name", node.name, "--gpu", "2",
                            "--ecc-corrected", "1", ok=False)
        t.check(refused.returncode != 0 and "no such GPU" in refused.stderr, "%s" % refused)


def lost():
    """A GPU that is lost is counted, and says so, to a program that had it and to one that begins. It
    works again when it is back."""
    argv = python_client("nvidia-ml-py")
    with t.Node("a100-80g:2") as node:
        before = node.exec(argv, "before", env=ENVIRONMENT)
        before.expect("^ready$")
        t.check(len(look(before)["cards"]) == 2, "not two GPUs")
        node.sim("lose", "--gpu", "0")
        after = node.exec(argv, "after", env=ENVIRONMENT)
        after.expect("^ready$")
        told = look(after)["cards"]
        t.check(told[0] == "GPU is lost" and told[1]["uuid"] == node.info()["gpus"][1]["uuid"],
                "the lost GPU: %s" % told)
        before.say("")
        t.check(before.end() != 0, "a lost GPU tells its memory")
        node.sim("restore", "--gpu", "0")
        again = node.exec(argv, "again", env=ENVIRONMENT)
        again.expect("^ready$")
        check_cards(look(again), node)


def xid():
    """An error of a GPU reaches those that wait for one, by NVML's event sets. In a slice its number is
    hidden, since it may be another tenant's; NVML has 999 for a number that is not known."""
    python_client("nvidia-ml-py")
    argv = [sys.executable, os.path.join(HERE, "nvml_client.py"), "events"]
    with t.Node("a100-80g:2") as node:
        outside_of_slices = node.exec(argv, "outside", env=ENVIRONMENT)
        in_a_slice = node.run(argv, name="inside", flags=("--gpus", "2"), env=ENVIRONMENT)
        for client in (outside_of_slices, in_a_slice):
            client.expect("^none: Timeout$")
        t.check(node.books()["kernel"]["os_events"] == 4, "%s" % node.books()["kernel"])
        for index, number in ((1, 79), (0, 48), (0, 48)):
            node.sim("fault", "--gpu", str(index), "--xid", str(number))
            outside_of_slices.expect("^event: type 8, card %d, Xid %d$" % (index, number))
            in_a_slice.expect("^event: type 8, card %d, Xid 999$" % index)
        node.sim("lose", "--gpu", "1")
        for client in (outside_of_slices, in_a_slice):
            client.expect("^end: GPU is lost$")
            t.check(client.end() == 0, "%s failed" % client.name)
        node.sim("restore", "--gpu", "1")


def many():
    """A node of 16 GPUs, and of as many as a driver has."""
    argv = python_client("nvidia-ml-py")
    for count in (16, 32):
        with t.Node("t4:%d" % count) as node:
            client = node.exec(argv, "client", env=ENVIRONMENT)
            client.expect("^ready$")
            seen = look(client)
            check_cards(seen, node)
            t.check([card["same"] for card in seen["cards"]] == [[i] * 3 for i in range(count)],
                    "handles: %s" % seen)


if __name__ == "__main__":
    t.require_machine()
    t.main({"python": python, "details": details, "gpustat": gpustat, "nvitop": nvitop, "go": go,
            "faults": faults, "lost": lost, "xid": xid, "many": many})
