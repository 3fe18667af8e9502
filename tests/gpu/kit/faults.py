"""A kernel of one container that accesses what is not its: it ends with CUDA's error, and its neighbour
computes on."""
import json

from kit.burns import Burn

ILLEGAL_ADDRESS = 700
FAULTS = 3


def fault(report, argv):
    """CUDA's error, or what went wrong."""
    done = report.do(*argv)
    try:
        return json.loads(done.output.strip().splitlines()[-1])["error"]
    except (ValueError, IndexError, KeyError):
        return done.last_words()


def check(report):
    report.require_cuda()
    report.require_cgpu()
    report.need(15)
    with Burn(report, ["--steps", "1000000", "--queue", "4"], ["--mem", "2GiB"]) as neighbour:
        began = neighbour.wait(1)
        errors = [fault(report, report.slice(*report.cuda(), "fault", flags=["--mem", "2GiB"]))
                  for _ in range(FAULTS)]
        # The second of the last fault, and one after it.
        goes_on = neighbour.wait(len(neighbour.seconds()) + 2)
        status = neighbour.stop()
        seconds, text = neighbour.seconds(), neighbour.text()
    report.keep("faults", {"errors": errors, "said": text[-20000:]})
    name = "a kernel at an illegal address ends with CUDA's error %d" % ILLEGAL_ADDRESS
    if not report.judge(name, errors == [ILLEGAL_ADDRESS] * FAULTS, str(errors)) and \
            fault(report, report.plain(*report.cuda(), "fault")) == ILLEGAL_ADDRESS:
        report.lack(["%s: in a slice %s" % (name, errors)])
    report.judge("its neighbour computes on",
                 began and goes_on and status == 0 and all(second["launches"] > 0 for second in seconds),
                 "status %s; %s ms of kernels each second; %s" % (
                     status, ", ".join("%.0f" % second["kernel_ms"] for second in seconds),
                     text.strip().split("\n")[-1][-300:]))
