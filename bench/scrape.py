"""How long a scrape of cgpu-exporter takes with 64 containers on two GPUs: 200 scrapes, one after
the other. Beside it: the processor time of the exporter and of all shims at one scrape in 5 s, in percent
of one processor, and the exporter's memory. Needs root; the last line is the figure.
"""
import contextlib
import http.client
import os
import socket
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.setdefault("CGPU_BIN", os.path.join(ROOT, "build", "bin"))
sys.path += [os.path.join(ROOT, "tests", folder) for folder in ("lib", "engines")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402

CONTAINERS = 64
SCRAPES = 200
EVERY_S = 5
IDLE_SCRAPES = 12
RMTOOL = os.path.abspath(os.path.join(BIN, "rmtool"))


def scrape(port):
    """The text of the answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read()
        t.check(answer.status == 200, "a scrape is answered %d: %s" % (answer.status, text))
        return text


def listens(port):
    with contextlib.suppress(ConnectionRefusedError):
        return scrape(port)
    return None


def processor_s(pids):
    """The processor time that these have had, all their threads together."""
    taken = 0
    for pid in pids:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, thread), encoding="utf-8") as file:
                taken += int(file.read().split()[0])
    return taken / 1e9


def memory_mib(pid):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return {line.split()[0]: int(line.split()[1]) / 1024 for line in file
                if line.startswith(("RssAnon", "VmRSS"))}


def shims(node):
    """The processes that the driver's clients of the containers belong to."""
    return {client["pid"] for client in node.books()["clients"]}


def start(node):
    """The containers, each on both GPUs."""
    for number in range(CONTAINERS):
        process = node.run([RMTOOL, "hold", "10"], mem="100MiB", name="c%d" % number,
                           flags=("--name", "c%d" % number, "--gpus", "all"))
        process.expect("^holding 10 MiB$")


def measure(node, port, exporter):
    before = shims(node)
    start(node)
    served = shims(node) - before
    t.check(len(served) == CONTAINERS, "%d shims" % len(served))
    text = scrape(port)
    times = []
    for _ in range(SCRAPES):
        begin = time.monotonic()
        scrape(port)
        times.append(1000 * (time.monotonic() - begin))
    times.sort()
    print("%d series, %d bytes; p50 %.1f ms, p90 %.1f ms, worst %.1f ms" %
          (text.count(b"\n") - text.count(b"\n#"), len(text), statistics.median(times),
           times[int(0.9 * SCRAPES)], times[-1]), flush=True)
    pids = {"the exporter": [exporter.popen.pid], "the shims": served}
    print("memory of the exporter: %s MiB" % memory_mib(exporter.popen.pid), flush=True)
    first = {name: processor_s(which) for name, which in pids.items()}
    begin = time.monotonic()
    for number in range(IDLE_SCRAPES):
        scrape(port)
        time.sleep(max(0, begin + EVERY_S * (number + 1) - time.monotonic()))
    took = time.monotonic() - begin
    print("one scrape in %d s: %s" % (EVERY_S, ", ".join(
        "%s %.2f %%" % (name, 100 * (processor_s(which) - first[name]) / took)
        for name, which in pids.items())), flush=True)
    print("scrape: %.1f ms" % times[int(0.99 * SCRAPES)])


def main():
    t.require_machine()
    isolation.enter()
    for folder in ("/etc/cgpu", "/run/cgpu"):
        os.makedirs(folder, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with t.Node("a10:2", "580") as node:
        settings = "node: %s\nmax_inst: %d\nexporter_listen: 127.0.0.1:%d\n"
        with open("/etc/cgpu/config.yaml", "w", encoding="utf-8") as file:
            file.write(settings % (node.name, CONTAINERS, port))
        exporter = t.Process([os.path.join(BIN, "cgpu-exporter")])
        t.wait_for(lambda: listens(port), "cgpu-exporter does not listen")
        measure(node, port, exporter)


if __name__ == "__main__":
    main()
