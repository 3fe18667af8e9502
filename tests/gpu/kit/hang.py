"""Finds what makes a program hang that is making a context, while channels are taken off the GPU by
FIFO_DISABLE_CHANNELS: each order that may do it has a program of its own (tests/gpu/orders/hang.h). All
of it is asked without cgpu."""
from kit.compute import length, lines_of, steps_per_us
from kit.report import Skip

KERNEL_US = 1000
SECONDS = 4  # for the program; it took less than one to make its context
MORE_SECONDS = 12  # until it is said what became of it
NAMES = {
    "unscheduled": "a channel is disabled before it is first scheduled",
    "mixed": "a list names a channel that runs and one that is not scheduled yet",
    "gone": "a list names a channel that is scheduled and one that was freed",
    "rescheduled": "a group is scheduled while its channels are disabled",
    "copies": "a list names channels of copy engines beside one that runs",
    "enabled": "a channel is enabled that was not disabled",
    "cycle": "all channels, as they are made, are disabled for 4 ms of every 6",
    "kept": "the same, but as cgpu does it: scheduled channels alone, and none while its group is scheduled",
}


def ask(report, question, per_us):
    """Returns what gpu-orders says of one question, or None and its last words."""
    done = report.do(*report.plain(report.tool("gpu-orders"), "hang", "--question", question, "--kernel-us",
                                   str(KERNEL_US), "--steps", str(int(per_us * KERNEL_US)), "--seconds", str(SECONDS)),
                     seconds=SECONDS + MORE_SECONDS)
    said = lines_of(done)
    report.keep(question, [done.status, said, done.errors])
    return (said[0], "") if done.status == 0 and said else (None, done.last_words())


def words(said):
    """Tells what became of the program."""
    ended = "; beside it %d launches of 1 ms ended in 0.2 s" % said["ended"]
    orders = "; %d orders, the driver says %s" % (
        said["orders"], ", ".join("%s x%d" % one for one in said["answers"].items()) or "nothing")
    if said["computes"]:
        return "it computes, after %.2f s%s%s" % (said["seconds"], ended, orders)
    what = "it HANGS in %s" % said["step"] if said["error"] == 0 else "%s fails with CUDA's error %d" % (
        said["step"], said["error"])
    after = ", and goes on when its channels are enabled" if said["recovers"] else ", also when its channels are enabled"
    return what + after + ended + orders


def check(report):
    report.require_cuda()
    per_us = steps_per_us(report)
    said, instead = ask(report, "none", per_us)
    if said is None or not said["computes"]:
        raise Skip("a program does not make a context beside %s, without any order: %s" % (
            length(KERNEL_US), instead or words(said)))
    report.row("without any order", "pass", words(said))
    hangs = []
    for question, name in NAMES.items():
        said, instead = ask(report, question, per_us)
        if said is None:
            report.judge(name, False, "gpu-orders hangs, too, or fails: " + instead)
            hangs.append(question)
            continue
        if not said["computes"]:
            hangs.append(question)
        if said["orders"] == 0:
            report.row(name, "skip", "there was no occasion: the library made %d channels, %d of copy engines" % (
                said["channels"], said["copy_channels"]))
        elif question == "kept":  # cgpu relies on it
            report.judge(name, said["computes"], words(said))
        else:
            report.row(name, "pass", words(said))
    report.keep("hangs", hangs)
    report.row("what makes a program hang", "pass", ", ".join(hangs) or "none of these")
