"""Caps on calibrated GPUs. By an idle group: where channels may not be taken off, cgpud's own channel group
takes what nobody may have. Case `windows`: by a duty cycle. What containers get is judged by the simulated
engines' accounting. Cases by name, see tests/lib/cgpu_test.py."""
import json
import os
import signal
import time

import cgpu_test as t
import engines
import isolation
from compute_cards_test import alone_on
from compute_test import BURN, MS, Member, _engine, _groups, _times, asked_node, close, gets, of_card, run, shares, waits
from engines import start_cgpud
from exporter_test import Exporter


def calibrated(node):
    """Calibrates GPU 0. The others are of its kind: they get its record."""
    t.command(t.CGPU, "calibrate", "0", "--node", node.name, "--interruptions", "1")
    folder = "/run/cgpu-sim/%s/cards" % node.name
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        record = json.load(file)
    t.check(record["holds"] is True, record)
    for uuid in (gpu["uuid"] for gpu in json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))):
        with open(os.path.join(folder, uuid + ".json"), "w", encoding="utf-8") as file:
            json.dump({**record, "uuid": uuid}, file)


def of_gpus(node, members, seconds):
    """Returns what each gets from now on in so many seconds of the GPUs' time, in percent of it, and what all
    channel groups of each GPU have together, cgpud's too. `members`: a list for each GPU."""
    def look():
        looks = []
        for gpu, here in zip(node.books()["gpus"], members):
            groups, engine = t.groups(gpu), t.graphics(gpu)
            looks.append([*(sum(group["gpu_time_ns"] for group in groups if group["pid"] == member.shim)
                            for member in here), engine["busy_ns"], t.counted_ns(engine)])
        return looks

    first = now = look()
    while any(after[-1] - before[-1] < seconds * 1e9 for after, before in zip(now, first)):
        t.pause()
        now = look()
    return [[100.0 * (b - a) / (after[-1] - before[-1]) for a, b in zip(before[:-1], after[:-1])]
            for before, after in zip(first, now)]


def of_gpu(node, members, seconds):
    """The same of the first GPU, without the sum."""
    return of_gpus(node, [members], seconds)[0][:-1]


def held_all(node, members, wanted, seconds=3, points=1.0, full=True):
    """They come to what is wanted, and then are there for so many seconds. `full`: nothing of the time is lost."""
    def come():
        got = of_gpus(node, members, 2)
        return all(abs(one - want) < points for here, there in zip(got, wanted) for one, want in zip(here, there))

    t.wait_for(come, lambda: "they do not come to %s: %s" % (wanted, of_gpus(node, members, 1)))
    for got, there in zip(of_gpus(node, members, seconds), wanted):
        print("wanted %s, they get %s; all together %.1f %%" % (there, ["%.2f" % one for one in got[:-1]], got[-1]))
        close(got, there, points)
        t.check(got[-1] > 96.5 or not full, "all together have %.1f %%" % got[-1])


def held(node, members, wanted, seconds=3):
    held_all(node, [members], [wanted], seconds)


CAPS = (2, 10, 30, 50)


def on_calibrated(function, *words, gpus=1, capping="idle-group"):
    """A case on a calibrated node that stands for real GPUs, with a cgpud of its own."""
    def case(_, daemon):
        daemon.stop()
        make = asked_node if capping == "idle-group" else windows_node
        with make(*words, gpus=gpus) as node:
            calibrated(node)
            daemon = start_cgpud(node, engines.RUNC)
            policy = json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))[0]
            t.check((policy["caps"], policy["capping"]) == (True, capping), policy)
            function(node, daemon)
            daemon.stop()
        daemon.start()
    return case


def windows_node(*words, gpus=1):
    """As asked_node(), but channels go off there."""
    return t.Node("a10:%d" % gpus, "580", "--copy-gbps", "2", *words)


def caps(node, _, full=True):
    """Caps of 2, 10, 30 and 50 %, on a GPU each, over 10 s of its time; then beside a full queue."""
    capped = [alone_on(node, "cap%d" % cap, card, "--compute", str(cap)) for card, cap in enumerate(CAPS)]
    held_all(node, [[member] for member in capped], [[cap] for cap in CAPS], seconds=10, points=1.0 if full else 0.7, full=full)
    beside = [alone_on(node, "beside%d" % cap, card, "--compute", "40") for card, cap in enumerate(CAPS)]
    held_all(node, list(map(list, zip(capped, beside))), [[cap, 40] for cap in CAPS], seconds=10, full=full)
    for member in (*capped, *beside):
        member.process.kill()


def windows(node, daemon):
    """The same by a duty cycle, which lends nobody the time between windows."""
    caps(node, daemon, full=False)


def neighbours(node, daemon):
    """A neighbour that falls idle, or comes and goes, gives a container no more than its cap; nor does cgpud
    that is killed and comes back."""
    a = Member(node, "thirty", "--compute", "30").feed()
    b = Member(node, "fifty", "--compute", "50", kernel=5000).feed()
    held(node, [a, b], [30, 50])
    b.stop()
    t.wait_for(lambda: of_gpu(node, [b], 0.5)[0] < 0.1, "it does not stop")
    held(node, [a], [30])
    end, first, passed = time.monotonic() + 10, _times(node, [a])[0], _engine(node)[1]
    while time.monotonic() < end:
        b.feed()
        gets(node, [b], lambda got: got[0] > 100 * MS)
        b.stop()
    got = 100 * (_times(node, [a])[0] - first) / (_engine(node)[1] - passed)
    print("beside one that comes and goes: %.1f %%" % got)
    t.check(20 < got < 31, "it gets %.1f %%" % got)
    daemon.stop(signal.SIGKILL)
    t.wait_for(lambda: of_gpu(node, [a], 0.5)[0] > 90, "who holds it back?")
    daemon.start()
    held(node, [a], [30])
    a.stop()
    for member in (a, b):
        member.end()
    t.wait_for(lambda: not node.books()["gpus"][0]["groups"], lambda: "the idle group stays: %s" % node.books())


def full(node, _):
    """Where the caps leave nothing, the idle group wants nothing, and takes what one leaves; a maximum under
    `soft` holds."""
    a = Member(node, "a", "--compute", "50").feed()
    b = Member(node, "b", "--compute", "50").feed()
    t.wait_for(lambda: sum(of_gpu(node, [a, b], 1)) > 97, "the idle group has a part of it")
    close(shares(node, a, b), [50, 50])
    b.stop()
    held(node, [a], [50])
    a.stop()
    for member in (a, b):
        member.end()
    a = Member(node, "low", "--compute", "30", "--compute-max", "60").feed()
    held(node, [a], [60])
    b = Member(node, "high", "--compute", "70").feed()
    t.wait_for(lambda: abs(shares(node, a, b, total_ms=500)[0] - 30) < 3, "not 30 and 70")
    for member in (a, b):
        member.stop()
        member.end()


def waiting(node, _):
    """A program that waits for each of its kernels gets its percentage, too; and a container of high priority
    waits no longer than beside others."""
    one = Member(node, "waits", "--compute", "30", kernel=1000)
    log = node.run([BURN, "--kernel-us", "1000", "--queue", "1"], flags=("--name", "loop", "--compute", "20"))
    t.wait_for(lambda: len(_groups(node)) == 2, "it does not begin")
    (shim,) = {group["pid"] for group in _groups(node)} - {one.shim}
    looper = type("Looper", (), {"shim": shim})
    t.wait_for(lambda: 18 < of_gpu(node, [looper], 1)[0] < 21, lambda: "not 20 %%: %s" % _groups(node))
    t.check(of_gpu(node, [looper], 3)[0] < 21, "more than 20 %")
    log.popen.send_signal(signal.SIGTERM)
    log.end()
    one.end()
    capped = Member(node, "thirty", "--compute", "30").feed()
    urgent = Member(node, "urgent", "--priority", "high", kernel=100)
    t.wait_for(lambda: urgent.group()["interleave"] == 2 and capped.slice_us() == 514,
               lambda: "no priority: %s" % _groups(node))
    t.wait_for(lambda: 25 < of_card(node, capped, total_ms=500) < 31, "no cap beside one of high priority")
    times = sorted(waits(node, urgent, count=200))
    print("it waits %.0f us at the 99th percentile" % times[len(times) * 99 // 100])
    t.check(times[len(times) * 99 // 100] < 1500, "it waits %s us" % times[-5:])
    capped.stop()
    for member in (capped, urgent):
        member.end()


def asked(_, daemon):
    """cgpud has an idle GPU asked how it takes orders. A container that comes meanwhile ends that."""
    daemon.stop()

    def said(text):
        return text in daemon.log()[before:]

    with asked_node() as node:
        before = len(daemon.log())
        daemon = start_cgpud(node, engines.RUNC, "calibrate: true\n")
        t.wait_for(lambda: said("asks GPU") and node.books()["gpus"][0]["groups"], "it does not begin")
        one = Member(node, "comes")
        t.wait_for(lambda: said("a container came"), lambda: "it is not ended: %s" % daemon.log())
        t.wait_for(lambda: {group["pid"] for group in node.books()["gpus"][0]["groups"]} == {one.shim},
                   lambda: "something stays: %s" % node.books())
        t.check(not os.path.exists("/run/cgpu-sim/%s/cards" % node.name), "it has a record of half a calibration")
        one.end()
        daemon.stop()
        before = len(daemon.log())
        daemon.start()
        t.wait_for(lambda: said("was asked how it takes orders"), lambda: "it is not asked: %s" % daemon.log())
        (policy,) = json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))
        t.check((policy["capping"], policy["time_slices"]) == ("idle-group", "at-once"), policy)
        one = Member(node, "thirty", "--compute", "30").feed()
        held(node, [one], [30])
        one.stop()
        one.end()
        daemon.stop()
    daemon.start()


EFFECT = "--slices-take-effect"
# Nodes by what they can: how they are started, whether they are calibrated, and how they cap then.
KINDS = ((("--no-caps",), False, "none"), (("--no-caps", EFFECT, "never"), True, "none"),
         (("--no-caps", EFFECT, "restart"), True, "idle-group"), ((), False, "duty-cycle"))


def promised(_, daemon):
    """Whatever says something about a percentage says cap or share as the GPU's record has it."""
    daemon.stop()
    for words, is_calibrated, capping in KINDS:
        with t.Node("a10:1", "580", "--copy-gbps", "2", *words) as node:
            if is_calibrated:
                t.command(t.CGPU, "calibrate", "--node", node.name, "--interruptions", "1")
            daemon = start_cgpud(node, engines.RUNC)
            one = Member(node, "thirty", "--compute", "30").feed()
            for what, caps_by_it in said_of(node).items():
                t.check(caps_by_it == (capping != "none"), "%s, %s: %s says caps: %s" %
                        (words, capping, what, caps_by_it))
            one.stop()
            one.end()
            daemon.stop()
    daemon.start()


def said_of(node):
    """Returns whether each program says that a percentage is a cap. A container "thirty" has 30 %."""
    share, of_node = "share on these GPUs, and no cap", ("--node", node.name)
    run_it = t.command(t.CGPU, "run", *of_node, "--mem", "100MiB", "--compute", "5", "--", "true", ok=False)
    set_it = t.command(t.CGPU, "set", "thirty", "--compute", "30", ok=False)
    t.check(run_it.returncode == set_it.returncode == 0, "%s, %s" % (run_it, set_it))
    text = t.command(t.CGPU, "policy", *of_node)
    (policy,) = json.loads(t.command(t.CGPU, "policy", "--json", *of_node))
    top = t.command(t.CGPU, "top", "-n", "1", "-d", "1", *of_node)
    (line,) = json.loads(t.command(t.CGPU, "top", "--json", "-n", "1", "-d", "1", *of_node))
    doctor = json.loads(t.command(t.CGPU, "doctor", "-o", "json", ok=False).stdout)["checks"]
    (check,) = (one for one in doctor if one["id"] == "caps")
    with Exporter(node) as exporter:
        most = exporter.scrape().value("cgpu_container_share_max_ratio",
                                       container_id=exporter.scrape().id_of("thirty"))
    return {"run": share not in run_it.stderr, "set": share not in set_it.stderr,
            "policy": "no caps" not in text, "policy --json": policy["caps"],
            "policy --json, capping": policy["capping"] != "none", "top": "no caps" not in top,
            "top --json": line["caps"], "doctor": check["status"] == "ok", "metrics": most == 0.3}


CASES = {"at-once": on_calibrated(caps, gpus=4), "restart": on_calibrated(caps, EFFECT, "restart", gpus=4),
         "schedule": on_calibrated(caps, EFFECT, "own-schedule", gpus=4),
         "preempt": on_calibrated(caps, EFFECT, "preempt", gpus=4), "neighbours": on_calibrated(neighbours),
         "full": on_calibrated(full), "waiting": on_calibrated(waiting), "asked": asked,
         "promised": promised,
         "windows": on_calibrated(windows, gpus=4, capping="duty-cycle")}

if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function) for name, function in CASES.items()})
