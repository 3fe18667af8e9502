"""Attacks through nvidia-uvm: memory that no RM object shows (managed.cc)."""
from attack import (LIMIT, NEIGHBOUR, argv, at_least, balanced, counted, hold, more_than, nothing,
                    within, without)
from cgpu_test import MIB, Node, check, main

ENDED_BY_CGPU = 137


def _kept(process, _node):
    process.expect(r"^got (\d+) MiB$")


def kept():
    """UVM's mappings keep memory whose handles are freed."""
    def rest(process):
        got = process.number(r"^got (\d+) MiB$")
        process.say("on")
        again = int(process.expect(r"^again (\d+) MiB$").group(1))
        process.expect("^holding$")
        check(again == got, "%d MiB of %d could be had again" % (again, got))

    def more(node, process):
        more_than(LIMIT)(node, process)
        rest(process)

    def all_of_it(node, process):
        at_least(LIMIT * 9 // 10)(node, process)
        rest(process)
        at_least(LIMIT * 9 // 10)(node, process)

    without(["uvm-kept", 4096], more, _kept)
    within(["uvm-kept", 4096], all_of_it, _kept)


def hidden():
    """A file with mappings that is only on its way through a socket."""
    without(["uvm-hidden", 4096], more_than(LIMIT))
    within(["uvm-hidden", 4096])


def tables():
    """One small object mapped at every second MiB: page tables, which nobody asked for."""
    without(["uvm-tables", 24], more_than(20))
    within(["uvm-tables", 24], at_least(10), mem="16MiB", limit=16)


def _managed(form):
    def run():
        words = ["managed", form, 256, 4096]
        without(words, more_than(LIMIT))
        within(words)

    run.__doc__ = "Managed memory by mmap, form %s." % form
    return run


def usable():
    """Managed memory within the limit is had, counted, and given back."""
    def all_of_it(node, process):
        check(process.number(r"^got (\d+) MiB$") >= LIMIT * 3 // 4, "the slice is not usable")
        node.sync()
        ours, drivers = counted(node), node.used() - NEIGHBOUR * MIB
        check(ours >= drivers > LIMIT * 3 // 4 * MIB,
              "cgpu counts %d bytes, the driver %d" % (ours, drivers))

    within(["managed", "fixed", 64, 4096], all_of_it)


def null_swapped():
    """The descriptor swapped and the address left to the kernel, which has one place left: nothing
    prevents it, so the container ends."""
    words = ["managed", "null-swapped", 256, 4096]

    def course(process, node):
        if node.containers():
            process.wait()
        else:
            hold(process, node)

    without(words, more_than(LIMIT), course)
    with Node() as node:
        process = node.run(argv(*words), mem="%dMiB" % LIMIT, flags=("--gpus", "1"), name="with")
        process.wait()
        if not process.said("^holding$"):
            check(process.wait() != 0, "the container went on")
        node.wait_used(0, "after the container's end")


def remapped():
    """remap_file_pages does not exist in a slice."""
    def works(_node, process):
        check(process.number(r"^remapped (\d+)$") == 0, "the kernel has no remap_file_pages")

    def fails(_node, process):
        check(process.number(r"^remapped (\d+)$") == 38, "remap_file_pages is there")

    without(["remapped"], works)
    within(["remapped"], fails)


def zombies():
    """Managed memory of processes that have ended, in a space that lives on."""
    without(["zombies", 4096], more_than(LIMIT))
    within(["zombies", 4096], nothing)


def tools():
    """The tools' requests: refused, all of them."""
    def some(_node, process):
        check(any(line.endswith(" 0x0") for line in process.lines if line.startswith("UVM_TOOLS")),
              "the driver has no tools: %s" % process.lines)

    def none(_node, process):
        answers = [line for line in process.lines if line.startswith("UVM_TOOLS")]
        check(answers and all(line.endswith(" 0x56") for line in answers), "%s" % answers)

    without(["uvm-tools"], some)
    within(["uvm-tools"], none)


def uuid():
    """A GPU that is not granted, registered by its uuid."""
    for with_cgpu in (False, True):
        with Node("v100-16g:2") as node:
            other = node.info()["gpus"][1]
            words = argv("uvm-uuid", other["uuid"][4:].replace("-", ""), other["minor"])
            process = (node.run(words, mem="256MiB", flags=("--gpus", "1"), name="with")
                       if with_cgpu else node.exec(words, name="without"))
            status = process.expect(r"^registered (0x[0-9a-f]+)$").group(1)
            check((status == "0x0") != with_cgpu, "REGISTER_GPU gave %s" % status)
            process.end()


CASES = {"uvm-kept": kept, "uvm-hidden": hidden, "uvm-tables": tables, "managed-usable": usable,
         "managed-null-swapped": null_swapped, "remapped": remapped, "zombies": zombies,
         "uvm-tools": tools, "uvm-uuid": uuid}
for FORM in ("fixed", "noreplace", "validate", "hint", "misaligned", "null", "swapped"):
    CASES["managed-" + FORM] = _managed(FORM)
main(CASES)
