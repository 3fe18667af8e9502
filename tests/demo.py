#!/usr/bin/env python3
"""`make demo`: the main job of cgpu on a simulated node, step by step.

Ends with 0 only if every figure is as said, and leaves nothing behind in any case. Waits for events
(a line on a pipe, the end of a process), each with a deadline far beyond what it takes.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # leaves the tree as it was
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
from cgpu_test import CGPU, BIN, MIB, Failure, Node, Process, check, command  # noqa: E402

RMTOOL = os.path.join(BIN, "rmtool")
CARD_MIB = 16160  # what a V100 with 16 GB reports
SLICE_MIB = 4309  # floor(16160 * 4 / 15): 4 of the GPU's 15 units
NEIGHBOUR_MIB = 2000
OUT_OF_MEMORY = 2


def step(title, *what):
    print("\n== %s" % title)
    for line in what:
        print("   " + line)
    sys.stdout.flush()


def shown(words):
    """Prints a command as one would type it, runs it, prints and returns its output."""
    print("$ " + " ".join(words))
    output = command(*words)
    print(output.rstrip("\n"))
    sys.stdout.flush()
    return output


def totals(output):
    return [int(mib) for mib in re.findall(r"(\d+)MiB total", output)]


def expect_totals(output, mib, where):
    check(totals(output) == [mib, mib],
          "%s, two GPUs of %d MiB were to be seen, not %s" % (where, mib, totals(output)))


def print_books(node):
    """The driver's own accounts; cgpu has no part in them."""
    node.sync()
    books = node.books()
    for gpu in books["gpus"]:
        print("   driver's books: GPU %d: %d of %d MiB in use" %
              (gpu["index"], gpu["used_bytes"] // MIB, gpu["memory_bytes"] // MIB))
    for client in books["clients"]:
        print("   driver's books: client %s of process %d holds %d MiB" %
              (client["handle"], client["pid"], client["bytes"] // MIB))
    sys.stdout.flush()
    return books


def holders(books):
    """The clients that hold memory, as (handle, pid, objects, bytes)."""
    return {(c["handle"], c["pid"], c["objects"], c["bytes"]) for c in books["clients"] if c["bytes"]}


def in_slice(node, name, *argv):
    return [CGPU, "run", "--node", node.name, "--name", name, "--units", "8", "--gpus", "2", "--",
            *argv]


def story(node):
    step("1. Without cgpu, a program sees both GPUs whole",
         "`cgpu sim exec` runs it on the simulated node; cgpu is not in between.")
    expect_totals(shown([CGPU, "sim", "exec", "--name", node.name, "--", RMTOOL, "info"]), CARD_MIB,
                  "without cgpu")

    step("2. The same program in a slice: 8 units over 2 GPUs",
         "A GPU of %d MiB has 15 units; 4 of them are %d MiB on each GPU." % (CARD_MIB, SLICE_MIB))
    expect_totals(shown(in_slice(node, "slice", RMTOOL, "info")), SLICE_MIB, "in the slice")

    step("3. A neighbour on the same GPUs takes %d MiB and keeps them" % NEIGHBOUR_MIB,
         "It stays for the rest of the demo, and allocates again when it is asked to.")
    # Holds its memory; for every line of input it allocates and frees as many MiB on top.
    script = ('"$0" hold %d --forever & while read -r mib; do "$0" alloc "$mib"; done; kill $!' %
              NEIGHBOUR_MIB)
    neighbour = Process(in_slice(node, "neighbour", "sh", "-c", script, RMTOOL), "neighbour")
    neighbour.expect(r"^holding %d MiB" % NEIGHBOUR_MIB)
    before = holders(print_books(node))
    check([h[3] for h in before] == [NEIGHBOUR_MIB * MIB], "the books do not show the neighbour")

    step("4. Another slice allocates until it is refused",
         "The limit is its own, to the MiB, and the error is the driver's: out of memory, status 2.",
         "%d MiB of the GPU are free all the while." % (CARD_MIB - NEIGHBOUR_MIB - SLICE_MIB))
    greedy = Process(in_slice(node, "greedy", RMTOOL, "alloc", "5000", "--fill"), "greedy")
    got = int(greedy.expect(r"out of memory .*after (\d+) MiB").group(1))
    status = greedy.end()
    print("   exit status %d" % status)
    check(got == SLICE_MIB, "it got %d MiB, not %d" % (got, SLICE_MIB))
    check(status == OUT_OF_MEMORY, "it ended with %d, not %d" % (status, OUT_OF_MEMORY))
    after = holders(print_books(node))
    check(after == before, "the books show another neighbour than before: %s, %s" % (before, after))

    step("5. A slice that is full, from inside",
         "`cgpu smi` asks the driver as any program does: it sees its slice and its own processes.")
    # Prints the table once the memory is there, and ends with its input.
    script = ('"$0" hold %d | { read -r line; echo "$line"; "$1" smi; echo "end of table"; cat; }' %
              SLICE_MIB)
    full = Process(in_slice(node, "full", "sh", "-c", script, RMTOOL, CGPU), "full")
    full.expect(r"^holding %d MiB" % SLICE_MIB)
    full.expect(r"%dMiB / +%dMiB" % (SLICE_MIB, SLICE_MIB))
    full.expect(r"0MiB / +%dMiB" % SLICE_MIB)
    full.expect(r"end of table")

    step("6. Meanwhile the neighbour has what it had, and gets the rest of its own",
         "It allocates %d MiB on top while the other slice is full." % NEIGHBOUR_MIB)
    books = print_books(node)
    check(before <= holders(books), "the neighbour's memory changed: %s" % holders(books))
    used = books["gpus"][0]["used_bytes"]
    check(used == (NEIGHBOUR_MIB + SLICE_MIB) * MIB, "GPU 0 has %d MiB in use" % (used // MIB))
    neighbour.say(str(NEIGHBOUR_MIB))
    neighbour.expect(r"^allocated %d MiB" % NEIGHBOUR_MIB)

    step("7. From outside: the whole GPUs, and who has what of them")
    table = shown([CGPU, "sim", "exec", "--name", node.name, "--", CGPU, "smi"])
    check(re.search(r"%dMiB / +%dMiB" % (NEIGHBOUR_MIB + SLICE_MIB, CARD_MIB), table),
          "`cgpu smi` does not show the sum of both slices")
    shown([CGPU, "ps"])
    seen = {c["name"]: {g["index"]: g for g in c["gpus"]} for c in node.containers()}
    for name, mib in (("neighbour", NEIGHBOUR_MIB), ("full", SLICE_MIB)):
        check(name in seen, "`cgpu ps` does not show " + name)
        card = seen[name][0]
        check((card["used_bytes"], card["limit_bytes"]) == (mib * MIB, SLICE_MIB * MIB),
              "`cgpu ps` shows %s with %s" % (name, json.dumps(card)))

    step("8. Both end, and everything is given back")
    for process in (full, neighbour):
        check(process.end() == 0, process.name + " did not end well")
    node.wait_used(0, "after the last slice ended")
    check(print_books(node)["clients"] == [], "the driver still knows clients")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if os.geteuid() != 0:
        sys.exit("error: a simulated node is started by root\nhint: run `make demo` as root")
    if not os.path.exists("/dev/fuse"):
        sys.exit("error: this machine has no /dev/fuse, which the simulated node needs\n"
                 "hint: modprobe fuse, or give the container the device /dev/fuse")
    print("cgpu on a simulated node: two Tesla V100 of 16 GB, NVIDIA driver 550. No GPU is involved.")
    sys.stdout.flush()
    try:
        node = Node("v100-16g:2")
        node.name = "demo-%d" % os.getpid()
        node.folder = "/run/cgpu-sim/" + node.name
        with node:
            story(node)
    except Failure as failure:
        sys.exit("\nNOT AS SAID: %s" % failure)
    except subprocess.SubprocessError as error:
        sys.exit("\nNOT AS SAID: %s" % error)
    print("\nAs said: %d MiB without cgpu, %d MiB on each GPU in a slice, out of memory beyond it, and a\n"
          "neighbour that noticed nothing." % (CARD_MIB, SLICE_MIB))


if __name__ == "__main__":
    main()
