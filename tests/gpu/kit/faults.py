"""A kernel of one container that accesses what is not its: it ends with CUDA's error, and its neighbour
computes on."""
import json
import os
import subprocess
import tempfile
import time

ILLEGAL_ADDRESS = 700
FAULTS = 3
PATIENCE = 60  # seconds


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def seconds_of(path):
    """What the neighbour said of each second."""
    said = [line for line in text_of(path).split("\n")[:-1] if line.startswith("{")]
    return [second for second in map(json.loads, said) if "second" in second]


def wait_for(report, neighbour, path, count):
    """Until it has told of so many seconds."""
    until = time.monotonic() + min(PATIENCE, max(1, report.left()))
    while len(seconds_of(path)) < count and neighbour.poll() is None and time.monotonic() < until:
        time.sleep(0.05)


def fault(report):
    """CUDA's error, or what went wrong."""
    done = report.do(*report.slice(*report.cuda(), "fault", flags=["--mem", "2GiB"]))
    try:
        return json.loads(done.output.strip().splitlines()[-1])["error"]
    except (ValueError, IndexError, KeyError):
        return done.last_words()


def check(report):
    report.require_cuda()
    report.require_cgpu()
    with tempfile.TemporaryDirectory() as folder:
        said = os.path.join(folder, "said")
        neighbour = subprocess.Popen(
            report.slice(report.tool("cgpu-burn"), "--cuda", "--json", "--kernel-us", "1000", "--queue", "4",
                         flags=["--mem", "2GiB"]),
            stdin=subprocess.DEVNULL, stdout=open(said, "w", encoding="utf-8"), stderr=subprocess.STDOUT)
        try:
            wait_for(report, neighbour, said, 1)
            before = len(seconds_of(said))
            errors = [fault(report) for _ in range(FAULTS)]
            # The second of the last fault, and one after it.
            wait_for(report, neighbour, said, len(seconds_of(said)) + 2)
            neighbour.terminate()
            neighbour.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            neighbour.kill()
            neighbour.wait()
        seconds = seconds_of(said)
        text = text_of(said)
    report.keep("faults", {"errors": errors, "said": text[-20000:]})
    report.judge("a kernel at an illegal address ends with CUDA's error %d" % ILLEGAL_ADDRESS,
                 errors == [ILLEGAL_ADDRESS] * FAULTS, str(errors))
    report.judge("its neighbour computes on",
                 neighbour.returncode == 0 and before >= 1 and len(seconds) >= before + 2
                 and all(second["launches"] > 0 for second in seconds),
                 "status %s; %s ms of kernels each second; %s" % (
                     neighbour.returncode, ", ".join("%.0f" % second["kernel_ms"] for second in seconds),
                     text.strip().split("\n")[-1][-300:]))
