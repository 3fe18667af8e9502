"""Plays what programs asked of real GPUs (tests/gpu/records) on a simulated node, without cgpu and
in a slice: what a GPU answered with success, a slice answers with success, and with the content on
record.

  replay_test.py play FOLDER/NAME BRANCH
  replay_test.py refusals FOLDER/NAME BRANCH   each refusal that is known to end the program, by itself, ends it
"""
import caller
import cgpu_test as t
import replay

# Part of a GPU's memory: enough for all the programs, of what is divided by memory too (NVENC's
# sessions).
SLICE_MIB = {"t4": 12288, "a10": 16384, "h200": 20480}

# Answers that differ from those of the GPU on record, and why they end no program.
# The GPUs on record have no error correction; the simulated ones have it, as their data sheets say.
WITH_ECC = {"NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS": (0, 0)}
WITHOUT_CGPU = WITH_ECC | {
    # Whether there is something to do depends on the kernel: uvm_va_space_mm_enabled().
    "UVM_MM_INITIALIZE": (0, 0),
}
IN_A_SLICE = WITH_ECC | {
    # Memory of the machine that the GPU has for its own: no GPU here. gVisor refuses it too.
    "NV_ESC_NUMA_INFO": (22, None),
    # Not in the mode in which processes share an address space, which the shim sets. CUDA goes on
    # without (580-h200/pytorch-in-a-slice.txt).
    "UVM_MM_INITIALIZE": (0, 0x10006),
    # Refused when PyTorch was recorded, and allowed since.
    "GSS_LEGACY_9038": (0, 0),
    # A display. Refused in a guest, Vulkan and EGL went on without one.
    "GF100_DISP_SW": (0, 0x22),
}


def played(record, node, branch, sliced, refuse=None):
    if sliced:
        program = caller.Caller(node.run([caller.PROGRAM], mem="%dMiB" % SLICE_MIB[record.chip], name="sliced",
                                         flags=("--gpus", str(record.cards))))
    else:
        program = caller.plain(node)
    # The simulated driver sees an mmap when it looks at the processes.
    player = replay.Player(program, program.tables(node.info()["driver"]), branch, node.sync, refuse)
    answers, ended = player.play(record.all_rows())
    status = program.process.end()
    t.check(status == 0, "the program that makes the calls ended with %d" % status)
    return answers, ended


def node_of(record, branch):
    t.check(branch in record.branches, "%s is not of %s" % (record.name, branch))
    return t.Node("%s:%d" % (record.chip, record.cards), branch)


def play(name, branch):
    record = replay.Record(*name.split("/"))
    rows = record.all_rows()
    with node_of(record, branch) as node:
        for where, sliced, allowed in (("without cgpu", False, WITHOUT_CGPU),
                                       ("in a slice", True, IN_A_SLICE)):
            if record.headers.get("recorded", where) != where:
                continue
            answers, ended = played(record, node, branch, sliced)
            wrong = ["%s: %s, on record %s" % (row, got, row.expected())
                     for row, got, differs in answers if differs and got != allowed.get(row.what())]
            print("%s: %d of %d calls, %s" % (where, len(answers), len(rows), ended or "to the end"))
            t.check(ended is None, "%s the program ends: %s; %s" % (where, ended, "; ".join(wrong)))
            t.check(not wrong, "%s: %s" % (where, "; ".join(wrong)))
            t.check(answers[-1][0] is rows[-1], "%s the last call is not made" % where)


def refusals(name, branch):
    record = replay.Record(*name.split("/"))
    fatal = [row for row in record.rows if row.fatal]
    t.check(fatal, "no refusal is known to end this program")
    with node_of(record, branch) as node:
        for refuse in fatal:
            answers, ended = played(record, node, branch, True, refuse)
            print("%s refused: %s" % (refuse, ended))
            t.check(ended == refuse.fatal and answers[-1][0] is refuse,
                    "%s is refused, and the program comes to %s: %s" %
                    (refuse, answers[-1][0], ended))


t.main({"play": play, "refusals": refusals})
