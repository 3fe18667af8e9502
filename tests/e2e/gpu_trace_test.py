"""gpu-trace (tests/gpu/trace) and what the kit for machines with a GPU asks by it first, on a simulated node.
Cases: books, records, answers, threads, start, untraced, lacking."""
import collections
import json
import os
import subprocess
import sys
import tempfile

import caller
import cgpu_test as t
import replay

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KIT = os.path.join(ROOT, "tests", "gpu", "kit")
sys.path.insert(0, os.path.dirname(KIT))

from kit import lines  # noqa: E402

CUDA = os.path.abspath(os.environ.get("CGPU_CUDA", os.path.join(t.BIN, os.pardir, "cuda")))
CUDART = os.path.abspath(os.path.join(t.TEST_BIN, os.pardir, "cudart"))
TRACE = os.path.join(t.TEST_BIN, "gpu-trace")
RMTOOL = os.path.join(t.BIN, "rmtool")
MANY = """
import fcntl, os, signal, sys, threading
def ask(times=50):
    fd = os.open("/dev/nvidiactl", os.O_RDWR)
    for _ in range(times):
        fcntl.ioctl(fd, 0xC00446D6, bytearray(4))  # NV_ESC_SYS_PARAMS of a size that no driver takes
    os.close(fd)
def tolerant():
    try:
        ask(1)
    except OSError:
        pass
def asks():
    for _ in range(50):
        tolerant()
threads = [threading.Thread(target=asks) for _ in range(4)]
for thread in threads:
    thread.start()
if os.fork() == 0:
    asks()
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getppid(), signal.SIGCONT)
    os.execv(sys.executable, [sys.executable, "-c", "import os; os.open('/dev/nvidia-uvm-tools', os.O_RDWR)"])
for thread in threads:
    thread.join()
os.wait()
asks()
"""
CALLS_OF_MANY = 6 * 50


def _traced(node, words, *flags, status=0):
    """(calls, other lines, what the program said)"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        done = t.command(t.CGPU, "sim", "exec", "--name", node.name, "--", TRACE, "--out", path, "--details", *flags,
                         "--", *words, ok=False, env={**os.environ, "LD_LIBRARY_PATH": CUDA})
        t.check(done.returncode == status, "%s: %s" % (words, done))
        with open(path, encoding="utf-8") as file:
            return *lines.parse(file.read()), done.stdout + done.stderr


def _as_in_the_books(call):
    """The name that the simulated driver counts a call by."""
    first = call.name.split()[0]
    if "class" in call.more:
        return "%s %s" % (first, call.more["class"])
    if "cmd" in call.more:
        selected = call.name.split()[1]
        return "%s %s" % (first, call.more["cmd"]) if selected.startswith("control-") else selected
    return first.replace("escape-", "ioctl ")


def _counted(node):
    books = node.books()
    return collections.Counter(books["received"]), collections.Counter(books["refused"])


def _compare(node, words, status=0):
    """Each call that the driver's accounting says it received and refused is a line, and no other."""
    received, refused = _counted(node)
    calls, _, _ = _traced(node, words, status=status)
    now_received, now_refused = _counted(node)
    seen = collections.Counter(map(_as_in_the_books, calls))
    failed = collections.Counter(_as_in_the_books(call) for call in calls
                                 if call.error != 0 or call.status not in ("-", "0x0"))
    t.check(seen == now_received - received, "%s: received %s, seen %s" % (words, now_received - received, seen))
    t.check(failed == now_refused - refused, "%s: refused %s, seen %s" % (words, now_refused - refused, failed))
    t.check(seen, "%s asks nothing" % words)
    return calls


def books():
    for driver in ("535", "580"):
        with t.Node("h100:1", driver=driver) as node:
            for words, status in ((["info"], 0), (["alloc", "64", "--groups", "2"], 0), (["raw", "alloc", "16", "--short"], 0),
                                  (["raw", "alloc", "16", "--xfer"], 0), (["raw", "alloc", "16", "--vidheap"], 0),
                                  (["raw", "ioctl", "200", "2304"], 0), (["alloc", "99999"], 2)):
                _compare(node, [RMTOOL, *words], status)
            for words in (["start_program.py", "driver"], ["cuda_memory.py", "managed", "64"],
                          ["cuda_memory.py", "ipc"]):
                calls = _compare(node, [sys.executable, os.path.join(KIT, words[0]), *words[1:]])
            t.check({"ctl", "gpu0", "uvm"} <= {call.file for call in calls}, "files: %s" % calls)
            node.wait_used(0, "after the programs")


def _played(record, *flags):
    """Plays a record of what a program asked of a real GPU. Returns (answers by row, gpu-trace's
    calls, the driver's accounting)."""
    with t.Node("%s:%d" % (record.chip, record.cards), record.branches[0]) as node, \
            tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        program = caller.Caller(node.exec([TRACE, "--out", path, "--details", *flags, "--", caller.PROGRAM], name="traced"))
        player = replay.Player(program, program.tables(node.info()["driver"]), record.branches[0], node.sync)
        found, _ = player.play(record.all_rows())
        books_now = node.books()
        t.check(program.process.end() == 0, "the program that makes the calls failed")
        with open(path, encoding="utf-8") as file:
            return found, lines.parse(file.read())[0], books_now


def _said(row, got):
    """Returns what a line must say of a played row."""
    name = row.call if row.call == "NV_ESC_RM_ALLOC_MEMORY" else " ".join(filter(None, (row.call, row.selected)))
    handles = {key: row.keys[key] for key in ("object", "parent", "memory", "device")
               if key in row.keys and row.call in HANDLES and key in HANDLES[row.call]}
    return row.file_kind, name, got[0], got[1], handles


HANDLES = {"NV_ESC_RM_ALLOC": ("object", "parent"), "NV_ESC_RM_CONTROL": ("object",), "NV_ESC_RM_FREE": ("object", "parent"),
           "NV_ESC_RM_MAP_MEMORY": ("device", "memory")}


def records():
    """The lines of a program that plays a record are the record's, in its order; what a real libcuda is told on
    record to end by can be told to it."""
    for folder, name in (("580", "cuinit"), ("555", "cuctxcreate"), ("580", "cudart")):
        record = replay.Record(folder, name)
        found, calls, _ = _played(record)
        rows = [(row, got) for row, got, _ in found if row.call not in ("open", "mmap")]
        t.check(len(rows) == len(calls) > 10, "%s: %d rows, %d lines" % (name, len(rows), len(calls)))
        for (row, got), call in zip(rows, calls):
            wanted = _said(row, got)
            status = None if call.status == "-" else int(call.status, 16)
            seen = (call.file, call.name, call.error, status, {key: call.more.get(key) for key in wanted[4]})
            t.check(seen == wanted, "%s: %s, seen %s" % (row, wanted, call.plain))
            if row.call == "NV_ESC_RM_CONTROL" and folder == record.branches[0]:
                t.check(call.size == row.size, "%s: %s" % (row, call.plain))
    record = replay.Record("580", "cuinit")
    for answer, what, status in (("alloc:0x2081=0x22", "NV2081_BINAPI", 0x22),
                                 ("control:0x20808159=0x56", "GSS_LEGACY_8159", 0x56)):
        found, calls, books_now = _played(record, "--answer", answer)
        t.check({got for row, got, _ in found if row.what() == what} == {(0, status)}, "%s: %s" % (answer, found[-1]))
        t.check(any(call.who == "trace" and call.more["was"] == "0x0" for call in calls), answer)
        t.check(not any(what in name or "0x2081" in name for name in books_now["refused"]), str(books_now["refused"]))


def answers():
    """The program sees the answer that it is told, and not what the driver said."""
    with t.Node("h100:1", driver="580") as node:
        calls, _, said = _traced(node, [RMTOOL, "alloc", "64"], "--answer", "alloc:0x40=0x51", status=2)
        told = [call for call in calls if call.who == "trace"]
        t.check(len(told) == 1 and told[0].status == "0x51" and told[0].more["was"] == "0x0", "told: %s" % told)
        t.check("out of memory" in said, said)
        t.check("NV_ESC_RM_ALLOC 0x40" not in node.books()["refused"], "the driver refused it itself")
        # The GPU's name.
        _, _, said = _traced(node, [RMTOOL, "info"], "--answer", "control:0x20800110=zeros")
        t.check("NVIDIA H100" not in said and "81559MiB" in said, said)
        calls, _, said = _traced(node, [RMTOOL, "info"], "--answer", "control:0x20800110=0x56", "--answer", "alloc:0x1=0x1",
                                 status=1)
        t.check([call.number() for call in calls if call.who == "trace"] == ["control:0x20800110"], said)
        # Its own size is the call's own: the bytes before and after.
        calls, _, _ = _traced(node, [RMTOOL, "info"], "--bytes", "all")
        name = next(call for call in calls if call.more.get("cmd") == "0x20800110")
        t.check(lines.content(name.more["out"])[4:].startswith(b"NVIDIA H100")
                and lines.content(name.more["in"]) == bytes(64), name.more)
        # The handles: what is freed was allocated.
        made = {call.more["object"] for call in calls if "class" in call.more}
        t.check({call.more["object"] for call in calls if call.name == "NV_ESC_RM_CONTROL NV2080_CTRL_CMD_GPU_GET_NAME_STRING"}
                <= made and "client" in made, "made: %s" % made)
        for words, status in ((["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "exit 5"], 5), (["/no/program"], 127)):
            calls, _, _ = _traced(node, words, status=status)
            t.check(not calls, "calls: %s" % calls)
        done = t.command(TRACE, "--answer", "junk", "--", "true", ok=False)
        t.check(done.returncode == 125 and "no answer" in done.stderr, str(done))


def threads():
    """Threads, children, what they become, and a stop by somebody else."""
    with t.Node("h100:1", driver="580") as node:
        received, _ = _counted(node)
        calls, others, _ = _traced(node, [sys.executable, "-c", MANY])
        now, _ = _counted(node)
        t.check(len(calls) == CALLS_OF_MANY and {call.error for call in calls} == {22}, "%d calls" % len(calls))
        t.check(sum((now - received).values()) in (0, CALLS_OF_MANY), "received: %s" % (now - received))
        t.check(len({line[0] for line in others}) == 2, "processes: %s" % others)
        tools = [line[2] for line in others if line[1] == "nvidia-uvm-tools"]
        t.check(tools == ["open"], "after exec: %s" % others)


def _kit(node, *flags, programs=t.BIN, cudart=True):
    """({what: (outcome, detail)}, all results) of the kit's first question."""
    with tempfile.TemporaryDirectory() as out:
        libraries = [CUDA, CUDART] if cudart else [CUDA]
        done = subprocess.run(
            [sys.executable, os.path.join(os.path.dirname(KIT), "run"), "--node", node.name, "--only", "1",
             "--budget", "60s", "--out", out, *flags], check=False,
            env={**os.environ, "CGPU_BIN": programs, "LD_LIBRARY_PATH": ":".join(libraries)})
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
    rows = {row[1]: row[2:] for row in results["rows"]}
    t.check(done.returncode == 0, "status %d: %s" % (done.returncode, rows))
    return rows, results


def start():
    """The kit's first question, within its minute; what CUDA is told shows in the rows."""
    with t.Node("h100:1", driver="580") as node:
        rows, results = _kit(node, "--answer", "control:0x20800110=0x56", "--answer", "alloc:0x90f1=0x51")
        t.check(all(row[0] == "pass" for row in rows.values()), str(rows))
        t.check(results["lacking"] == [], "in a slice: %s" % results["lacking"])
        for name in ("CUDA's start by the driver API", "CUDA's start by cudart"):
            t.check("each step succeeds" in rows[name + ", without cgpu"][1], str(rows))
            t.check(results["raw"]["start"][name + " in a slice"]["not asked"] == [], str(results["raw"]["start"]))
        t.check("cuInit 100" in rows["told 0x56 for control:0x20800110"][1]
                and "cudaGetDeviceCount 3" in rows["told 0x56 for control:0x20800110"][1], str(rows))
        told = rows["told 0x51 for alloc:0x90f1"][1]
        t.check("cuInit" not in told and "cuCtxCreate" in told, told)
        t.check("does not ask" in rows["told 0x22 for alloc:0x2081"][1], str(rows))
        node.wait_used(0, "after the kit")


def untraced():
    """Where no process may be traced the kit says so, and asks what can be asked."""
    with t.Node("h100:1", driver="580") as node, tempfile.TemporaryDirectory() as programs:
        for name in os.listdir(t.BIN):
            os.symlink(os.path.abspath(os.path.join(t.BIN, name)), os.path.join(programs, name))
        with open(os.path.join(programs, "gpu-trace"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'no process can be traced here' >&2\nexit 125\n")
        os.chmod(file.name, 0o755)
        rows, results = _kit(node, programs=programs, cudart=False)
        skipped = {what: row[1] for what, row in rows.items() if row[0] == "skip"}
        t.check(len(skipped) == 1 and "no process can be traced" in list(skipped.values())[0], str(rows))
        t.check(rows["CUDA's start by the driver API in a slice"][0] == "pass", str(rows))
        t.check(results["lacking"] == [], str(results["lacking"]))


def lacking():
    """Finds what succeeded without cgpu and not in a slice, of calls that were recorded."""
    control = "1 ctl NV_ESC_RM_CONTROL %s %d %s 0 %s\n"
    native = control % ("A", 4, "0x0", "driver cmd=0x1") + control % ("B", 4, "0x56", "driver") \
        + control % ("C", 8, "0x0", "driver") + control % ("D", 4, "0x10006", "driver") \
        + "1 ctl NV_ESC_RM_ALLOC E - 0x0 0 driver class=0x2081 parent=2\n1 step cuInit\n1 gpu0 NV_ESC_REGISTER_FD 4 - 0 driver\n"
    within = "# driver 580.95.05\n" + control % ("A", 4, "0x56", "cgpu") + control % ("B", 4, "0x56", "cgpu") \
        + control % ("D", 4, "0x0", "cgpu") + "1 ctl NV_ESC_RM_ALLOC E 0 0x22 0 cgpu\n" \
        + "1 uvm mmap 4096 - 0 kernel\n1 other 0xc0204611 - 25 cgpu\n1 gpu0 NV_ESC_REGISTER_FD 4 - 1 cgpu\n"
    found, unasked = lines.lacking(lines.parse(native)[0], lines.parse(within)[0])
    t.check(found == ["NV_ESC_RM_CONTROL A (4 bytes): 1 of 1 failed in the slice (0x56 by cgpu x1); without cgpu 0 of 1",
                      "NV_ESC_RM_ALLOC E: 1 of 1 failed in the slice (0x22 by cgpu x1); without cgpu 0 of 1",
                      "NV_ESC_REGISTER_FD (4 bytes): 1 of 1 failed in the slice (-, errno 1 by cgpu x1); without cgpu 0 of 1"],
            "\n".join(found))
    t.check(unasked == ["NV_ESC_RM_CONTROL C (8 bytes)"], str(unasked))
    found, _ = lines.lacking(None, lines.parse(within)[0])
    t.check(len(found) == 4 and "without cgpu not known" in found[1], "\n".join(found))
    t.check("cmd=" not in lines.plain(native) and "parent=2" in lines.plain(native) and "step cuInit" in lines.plain(native), lines.plain(native))


if __name__ == "__main__":
    t.main({"books": books, "records": records, "answers": answers, "threads": threads, "start": start,
            "untraced": untraced, "lacking": lacking})
