"""How CUDA begins on this driver, what its start does when one call is refused, and what of it a slice
does not let through: what nobody has published yet, first and in less than a minute. The numbers are
those of src/boundary/testdata/asked.tsv with whose refusal a program is on record ending, or may end."""
import collections
import glob
import json
import os
import re
import sys
import tempfile
import time

from kit import lines
from kit.report import HERE, Skip

SECONDS = 60  # for all of it; the slices are left their part
FOR_SLICES = 20
OF_A_PROGRAM = 15
CANNOT = 125  # gpu-trace: no tracing here
NAMES = {"driver": "CUDA's start by the driver API", "cudart": "CUDA's start by cudart"}
PROGRAM = os.path.join(HERE, "kit", "start_program.py")
# Told to the program in place of the driver's answer, the most wanted first. 0x22 is
# NV_ERR_INVALID_CLASS, 0x56 NV_ERR_NOT_SUPPORTED.
ANSWERS = ("alloc:0x2081=0x22", "alloc:0x2081=0x56", "control:0x20808159=0x56", "control:0x20808162=0x56",
           "control:0x83de0309=0x56", "control:0x00801909=0x56", "control:0x20809001=0x56",
           "control:0x20809009=0x56", "control:0x20809064=0x56", "control:0x20810108=0x56",
           "control:0x208001a3=zeros", "control:0x20801210=0x56", "control:0x20802209=0x56",
           "control:0x2080a026=0x56", "control:0x2080a084=0x56", "alloc:0xde=0x56")


def words(what):
    return [sys.executable, PROGRAM, what]


def said(done):
    """Returns what the program said of its steps, or what ended it before."""
    text = done.output.strip().splitlines()
    try:
        return json.loads(text[-1])
    except (IndexError, ValueError):
        return {"ended": done.last_words()}


def told(results):
    """The steps that failed, in words."""
    failed = ["%s %s" % item for item in results.items()
              if item[1] not in (0, None) and not item[0].endswith("_khz") and item[0] != "cards"]
    clocks = ["%s %s" % item for item in results.items() if item[0].endswith("_khz")]
    return ", ".join((failed or ["each step succeeds"]) + clocks)


def trace(report, folder, what, *flags):
    """(what the program said, gpu-trace's lines)"""
    path = os.path.join(folder, "trace")
    if os.path.exists(path):
        os.unlink(path)
    done = report.do(*report.plain(report.tool("gpu-trace"), "--out", path, "--details", *flags, "--", *words(what)),
                     seconds=OF_A_PROGRAM)
    if done.status == CANNOT or not os.path.exists(path):
        raise Skip(done.last_words())
    with open(path, encoding="utf-8", errors="replace") as file:
        return said(done), file.read()


def untraced(report):
    """As native(), where no process can be traced: calls are None."""
    found = {}
    for what, name in NAMES.items():
        results = said(report.do(*report.plain(*words(what)), seconds=OF_A_PROGRAM))
        report.judge(name + ", without cgpu", "ended" not in results, "not recorded; " + told(results))
        found[what] = (results, None)
    return found


def native(report, folder):
    """The recordings without cgpu, {program: (results, calls)}, and their other lines."""
    found, others = {}, []
    for what, name in NAMES.items():
        results, text = trace(report, folder, what, "--bytes", "firmware")
        if results.get("cudaGetDeviceCount", 0) is None:
            report.row(name + ", without cgpu", "skip", "there is no libcudart here")
            continue
        calls, more = lines.parse(text)
        report.calls[name + " without cgpu"] = lines.plain(text)
        report.keep(name + " without cgpu", {"results": results, "calls": len(calls), "steps": steps(text)})
        failed = collections.Counter("%s %s" % (call.key(), call.status) for call in calls if not call.done())
        report.judge(name + ", without cgpu", "ended" not in results and calls != [], "%d calls; %s%s" % (
            len(calls), told(results), "; the driver refused: " + ", ".join(sorted(failed)) if failed else ""))
        found[what] = (results, calls)
        others += more
    return found, others


def steps(text):
    """How many calls each step made."""
    counted, name = {"before": 0}, "before"
    for line in text.splitlines():
        part = line.split()
        if part[1:2] == ["step"]:
            name = part[2]
            counted.setdefault(name, 0)
        elif isinstance(lines.parse_line(line), lines.Line):
            counted[name] += 1
    return counted


def injected(report, folder, asked, until):
    """Finds out what each of the answers does to the program."""
    for answer in (*ANSWERS, *report.answers):
        number = answer.split("=")[0]
        what = "told %s for %s" % (answer.split("=")[1], number)
        if normal(number) not in asked:
            report.row(what, "pass", "CUDA's start does not ask for it on this driver")
            continue
        if time.monotonic() > until:
            report.row(what, "skip", "there is no time for it in this check")
            continue
        results, text = trace(report, folder, "both", "--answer", answer)
        calls, _ = lines.parse(text)
        answered = sum(call.who == "trace" for call in calls)
        report.keep(what, {"results": results, "answered": answered, "calls": len(calls), "steps": steps(text),
                           "after": [call.plain for call in after(calls)]})
        report.judge(what, answered > 0, "x%d: %s" % (answered, told(results)))


def after(calls):
    """The first ones after an answer of ours: what the library does about it."""
    first = next((n for n, call in enumerate(calls) if call.who == "trace"), len(calls))
    return calls[first:first + 6]


def normal(number):
    kind, _, value = number.partition(":")
    return "%s:0x%x" % (kind, int(value, 16))


def facts(report, calls, others):
    """Keeps what the recordings say beside names and statuses."""
    firmware = {(call.more["cmd"], call.size, call.status, call.more["in"], call.more["out"])
                for call in calls if "in" in call.more}
    report.keep("the firmware's controls", sorted(firmware))
    sizes = sorted({"%s/%s" % one[:2] for one in firmware})
    report.row("the firmware's controls (number/bytes)", "pass", ", ".join(sizes) or "none is asked")
    flags = collections.Counter("%s %s" % (call.name, call.more["callflags"]) for call in calls
                                if "callflags" in call.more)
    report.row("flags of NVOS54 and NVOS64", "pass", ", ".join("%s x%d" % one for one in flags.items()) or "always zero")
    timeouts = sorted({int(call.more["timeout"]) for call in calls if "timeout" in call.more})
    report.row("IDLE_CHANNELS", "pass", "timeouts %s" % timeouts if timeouts else "never called")
    wrapped = sum(call.more.get("wrapped") == "1" for call in calls)
    report.row("calls inside NV_ESC_IOCTL_XFER_CMD", "pass", str(wrapped))
    opened = collections.Counter(" ".join(line[2:]) if line[1] == "path" else "open %s %s" % (line[1], line[5])
                                 for line in others if line[1] == "path" or line[2:3] == ["open"])
    report.keep("opened", dict(opened))
    tools = ["%s x%d" % one for one in opened.items() if "nvidia-uvm-tools" in one[0] or one[0].startswith("mknod")]
    report.row("/dev/nvidia-uvm-tools and mknod (path, errno)", "pass", ", ".join(tools) or "neither is tried")


def parameters(report):
    """ModifyDeviceFiles of the driver, and what a slice shows of it."""
    def value(*argv):
        done = report.do(*argv, seconds=OF_A_PROGRAM)
        found = re.search(r"^ModifyDeviceFiles: *(\d+)", done.output, re.MULTILINE)
        return found.group(1) if found else "not said" if done.status == 0 else done.last_words()
    path = "/proc/driver/nvidia/params"
    text = value(*report.plain("cat", path))
    if report.notification:
        text += "; in a slice " + value(*report.slice("cat", path))
    report.row("ModifyDeviceFiles", "pass", text)


def sliced(report, folder, recordings):
    """The same programs in a slice: what succeeded without cgpu and does not there."""
    path = os.path.join(folder, "record")
    for what, (results, calls) in recordings.items():
        within = said(report.do(*report.slice(*words(what), flags=["--record", path]), seconds=OF_A_PROGRAM))
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            os.unlink(path)
        name = NAMES[what] + " in a slice"
        report.calls[name] = text
        found, unasked = lines.lacking(calls, lines.parse(text)[0])
        differ = ["%s: %s without cgpu, %s in the slice" % (step, results.get(step), within.get(step))
                  for step in {**results, **within} if results.get(step) != within.get(step)]
        report.keep(name, {"results": within, "lacking": found, "different": differ, "not asked": unasked})
        report.lack([name + ": " + one for one in differ + found])
        report.judge(name, not differ, "; ".join(differ) or "as without cgpu; %d calls failed there alone, %d were not made" % (
            len(found), len(unasked)))


def awake(report):
    """The GPUs' files, open: else each program waits for the GPU to begin."""
    if report.node:
        return []
    paths = [path for path in glob.glob("/dev/nvidia*") if re.fullmatch(r"/dev/nvidia(ctl|\d+)", path)]
    held = []
    for path in paths:
        try:
            held.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except OSError:
            continue  # `ground` says which there are
    return held


def alone(report, folder, until):
    """All that is asked without cgpu; the recordings."""
    try:
        recordings, others = native(report, folder)
    except Skip as reason:
        report.row("recordings, and what CUDA does when told something else", "skip", str(reason))
        return untraced(report)
    calls = [call for _, some in recordings.values() for call in some]
    injected(report, folder, {normal(call.number()) for call in calls if call.number()}, until)
    facts(report, calls, others)
    return recordings


def check(report):
    until = time.monotonic() + SECONDS - FOR_SLICES
    report.require_cuda()
    if not os.path.exists(report.tool("gpu-trace")):
        raise Skip("there is no gpu-trace beside the kit")
    held = awake(report)
    try:
        with tempfile.TemporaryDirectory() as folder:
            recordings = alone(report, folder, until)
            parameters(report)
            report.require_cgpu()
            sliced(report, folder, recordings)
    finally:
        for fd in held:
            os.close(fd)
