"""cgpu-burn: what it says that it did is what the engines' own accounting says. Cases by name, see
tests/lib/cgpu_test.py."""
import json
import os
import signal
import subprocess

import cgpu_test as t

BURN = os.path.abspath(os.path.join(t.BIN, "cgpu-burn"))
MS = 1000000  # nanoseconds


def busy_ms(node):
    """The time that the GPU's graphics engine has worked."""
    return t.graphics(node.books()["gpus"][0])["busy_ns"] / MS


def ended(process):
    """Its last line, an object, once it has ended well."""
    t.check(process.end() == 0, "%s failed" % process.name)
    return json.loads(process.lines[-1])


def _counted(node, run, words, kernels):
    """It runs so many kernels of 1 ms, and no more."""
    before = busy_ms(node)
    done = ended(run([BURN, "--json", *words], name="burn"))
    busy = busy_ms(node) - before
    print("%s: %.3f ms of the engine; %s" % (words, busy, done))
    t.check(done["kernel_ms"] == kernels and done["left"] == 0, "it says %s" % done)
    # Entries and methods take some time too.
    t.check(kernels <= busy <= 1.02 * kernels, "the engine worked for %.3f ms" % busy)
    latency = done["latency_us"]
    t.check(1000 <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"],
            "no latencies of kernels of 1 ms: %s" % latency)


def counted():
    """So many launches, queued and one by one, of one kernel and of many, also bursts."""
    with t.Node("a10:1", "580") as node:
        _counted(node, node.exec, ("--count", "100"), 100)
        _counted(node, node.exec, ("--count", "100", "--queue", "1", "--gap-us", "100"), 100)
        _counted(node, node.exec, ("--count", "4", "--graph", "50", "--queue", "3"), 200)
        _counted(node, node.exec, ("--count", "60", "--duty", "50", "--period-ms", "40"), 60)
        _counted(node, node.exec, ("--count", "30", "--rigid"), 30)
        _counted(node, node.exec, ("--count", "1"), 1)
        node.wait_used(0, "after the loads")


def models():
    """Kernels begin on chips whose launches are laid out in another way."""
    for model, driver in (("l4", "550"), ("b200", "580")):
        with t.Node(model + ":1", driver) as node:
            _counted(node, node.exec, ("--count", "20", "--graph", "3"), 60)


def open_loop():
    """With --rate launches are due whatever has ended, and the wait for a place in the queue is part of
    their latency. --each tells all of them."""
    with t.Node("a10:1", "580") as node:
        # All are due within some 5 ms; the GPU is at work for 100.
        process = node.exec([BURN, "--json", "--each", "--rate", "10000", "--kernel-us", "2000",
                             "--queue", "2", "--count", "50"], "burn")
        done = ended(process)
        each = [json.loads(line[0])["each_us"] for line in process.said('^{"each_us":.*')]
        print("%s ... %s: %s" % (each[:3], each[-3:], done))
        t.check(done["launches"] == len(each) == 50, "%d lines: %s" % (len(each), done))
        t.check(each[-1] > 80000 and max(each) == done["latency_us"]["max"],
                "the last took %s us; %s" % (each[-1], done))
        # 40 launches take 100 ms on the average, and those that this seed draws 157.8.
        done = ended(node.exec([BURN, "--json", "--rate", "400", "--seed", "201", "--kernel-us", "100",
                                "--count", "40"], "burn"))
        t.check(done["seconds"] > 0.157 and done["launches"] == 40, "it says %s" % done)


def cards():
    """The GPU that is named, in a slice of cgpu's."""
    with t.Node("a10:2", "580") as node:
        done = ended(node.run([BURN, "--json", "--gpu", "1", "--count", "50"], name="burn"))
        t.check(done["launches"] == 50, "it says %s" % done)
        first, second = node.books()["gpus"]
        t.check(not first["runlists"] or not first["runlists"][0]["busy_ns"], "the first: %s" % first)
        t.check(second["runlists"][0]["busy_ns"] >= 50 * MS, "the second: %s" % second)


def _until_second(process):
    process.expect('^{"gpu":0,"kernel_us":1000,')
    process.expect('^{"second":1,"launches":')


def signals():
    """It ends when it is told, says the sum, and nothing of it is left on the GPU."""
    with t.Node("a10:1", "580") as node:
        for how in (signal.SIGINT, signal.SIGTERM):
            before = busy_ms(node)
            process = node.exec([BURN, "--json"], "burn")
            _until_second(process)
            process.popen.send_signal(how)
            done = ended(process)
            busy = busy_ms(node) - before
            t.check(done["launches"] > 0, "it says %s" % done)
            t.check(done["kernel_ms"] <= busy <= 1.02 * (done["kernel_ms"] + done["left"]),
                    "the engine worked for %.3f ms; it says %s" % (busy, done))
        # A kernel that does not end in its time is not waited for.
        process = node.exec([BURN, "--json", "--kernel-us", "1000000000", "--queue", "3"], "long")
        process.expect('^{"second":1,')
        process.popen.send_signal(signal.SIGTERM)
        t.check(ended(process)["left"] == 3, "it does not say what is left")
        node.wait_used(0, "after the loads")
        gpu = node.books()["gpus"][0]
        t.check(not gpu["groups"] and not gpu["channels"], "something is left: %s" % gpu)


def seconds():
    """A line each second and the sum, for people too."""
    with t.Node("a10:1", "580") as node:
        process = node.exec([BURN, "--seconds", "2"], "burn")
        t.check(process.end() == 0, "it failed")
        for pattern in ("^GPU 0: launches of 1 x 1000 us, 64 at a time$", r"^second 1: [\d.]+ ms/s",
                        r"^second 2: [\d.]+ ms/s", r"^latency: p50 \d+ us, p90 \d+ us, p99 \d+ us",
                        r"^sum: [\d.]+ ms of kernels in [\d.]+ s, .* launches ended, \d+ had not$"):
            t.check(len(process.said(pattern)) == 1, "no line %s" % pattern)


def wrong():
    """A load that cannot be is refused in a sentence with a hint."""
    with t.Node("a10:1", "580") as node:
        on_node = [t.CGPU, "sim", "exec", "--name", node.name, "--"]
        for before, words, says in (
                ([], (), "cannot open /dev/nvidiactl"),
                ([], ("--gap-us", "5"), "--gap-us needs --queue 1"),
                ([], ("--kernel-us", "0"), "--kernel-us"),
                ([], ("--fast",), "--fast"),
                (on_node, ("--gpu", "1"), "there is no GPU 1; there are 1 here"),
                (on_node, ("--queue", "4096", "--graph", "1024"), None)):
            done = subprocess.run([*before, BURN, *words, "--count", "1"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=t.DEADLINE, check=False)
            if says is None:
                t.check(done.returncode == 0, "%s: %s" % (words, done))
                continue
            t.check(done.returncode == 1 and says in done.stderr and "hint: " in done.stderr and
                    not done.stdout, "%s: %s" % (words, done))


if __name__ == "__main__":
    t.main({"counted": counted, "models": models, "open-loop": open_loop, "cards": cards, "signals": signals,
            "seconds": seconds, "wrong": wrong})
