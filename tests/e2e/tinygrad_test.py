"""tinygrad's NV back end, which speaks to the driver without any of NVIDIA's libraries, as a client
that knows nothing of cgpu: with and without it, it opens a GPU, copies data there and back, fills
what it may have, and gives it back, by the driver's own accounting. Cases by name, see tests/lib/cgpu_test.py."""
import os
import sys

import cgpu_test as t

HERE = os.path.dirname(os.path.abspath(__file__))
RMTOOL = os.path.join(t.BIN, "rmtool")
PACKAGES = os.environ.get("CGPU_PYTHON_PACKAGES", "build/python")
# Ampere: of the simulated GPUs the oldest that tinygrad knows.
GPUS = "a10:1"
DRIVER = "580"
LIMIT_MIB = 2048


def client_argv():
    if not os.path.isdir(os.path.join(PACKAGES, "tinygrad")):
        t.skip("tinygrad is not in %s: tools/install_python.sh installs it" % PACKAGES, excused=True)
    return [sys.executable, os.path.join(HERE, "tinygrad_client.py"), "--packages", PACKAGES]


def _opened(node, client):
    """Waits until the client has opened its GPU; what that took."""
    client.expect("^opened sm_86$")
    books = node.books()
    (gpu,) = books["gpus"]
    t.check(len(gpu["groups"]) == 1, "channel groups: %s" % gpu["groups"])
    t.check(len(books["clients"]) >= 1, "clients: %s" % books["clients"])
    t.check(gpu["used_bytes"] > 0, "an open card takes nothing")
    return gpu["used_bytes"]


def _copies(node, client):
    """The client has compared what came back: here, that the GPU's engine did it."""
    client.say("")
    total = int(client.expect(r"^copied (\d+)$").group(1))
    (gpu,) = node.books()["gpus"]
    (group,) = gpu["groups"]
    t.check(group["copied_bytes"] >= 2 * total, "%d bytes were copied there and back by %s" %
            (total, group))
    t.check(group["gpu_time_ns"] > 0 and group["fault"] == 0, "the group: %s" % group)
    t.check(all(c["gp_get"] == c["gp_put"] > 0 for c in gpu["channels"]),
            "work is left: %s" % gpu["channels"])
    print("copied %d bytes in %.1f ms of the card's time" % (2 * total, group["gpu_time_ns"] / 1e6))


def _empties(node, client, reaches):
    """The client has the cache emptied that all who use the GPU share: whether the driver is asked."""
    client.say("")
    client.expect("^emptied$")
    asked = node.books()["received"].get("NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE", 0)
    t.check(asked == reaches, "the driver was asked %d times" % asked)


def _fills_and_frees(node, client, limit, with_cgpu):
    """Twice, as the client does."""
    before = _opened(node, client)
    _copies(node, client)
    _empties(node, client, 0 if with_cgpu else 1)
    for turn in ("first", "second"):
        with t.Peak(node) as peak:
            client.say("")
            got = int(client.expect(r"^allocated (\d+)$").group(1))
            used = node.used()
        print("%s time: %d bytes allocated, %d in use of %d" % (turn, got, used, limit))
        t.check(got >= limit * 90 // 100, "only %d bytes were had" % got)
        t.check(used >= got, "%d bytes are allocated and %d in use" % (got, used))
        t.check(max(used, peak.bytes) <= limit, "%d bytes are in use" % max(used, peak.bytes))
        yield used
        client.say("")
        client.expect(r"^freed \d+$")
        t.check(node.used() == before, "%d bytes are in use after the free, %d before" %
                (node.used(), before))
    client.say("")
    t.check(client.end() == 0, "the client failed")
    node.wait_used(0, "after the client")


def plain():
    """Without cgpu it has the whole GPU."""
    argv = client_argv()
    with t.Node(GPUS, DRIVER) as node:
        whole = node.info()["gpus"][0]["memory_bytes"]
        for _ in _fills_and_frees(node, node.exec(argv, "tinygrad"), whole, False):
            pass


# Has all of its slice before the other fills its own, and again meanwhile.
NEIGHBOUR = """
"$0" alloc 1024 --page big && echo before
read line
"$0" alloc 1024 --page big && echo meanwhile
"""


def slice_of_a_card():
    """With cgpu it has its slice, and a neighbour keeps its own."""
    argv = client_argv()
    with t.Node(GPUS, DRIVER) as node:
        neighbour = node.run(["sh", "-c", NEIGHBOUR, RMTOOL], mem="1024MiB", name="neighbour")
        neighbour.expect("^before$")
        node.wait_used(0, "before the client")
        client = node.run(argv, mem="%dMiB" % LIMIT_MIB, name="tinygrad")
        for used in _fills_and_frees(node, client, LIMIT_MIB * t.MIB, True):
            if neighbour.popen.poll() is None:
                neighbour.say("")
                neighbour.expect("^meanwhile$")
                t.check(neighbour.end() == 0, "the neighbour failed")
                node.wait_used(used, "after the neighbour")
                print("the neighbour had its 1024 MiB")


if __name__ == "__main__":
    t.main({"plain": plain, "slice": slice_of_a_card})
