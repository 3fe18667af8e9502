"""cgpu calibrate finds out how a GPU takes orders. Simulated GPUs are told how they do; the command is
not. Cases by name, see tests/lib/cgpu_test.py."""
import json
import os
import re
import signal
import subprocess

import cgpu_test as t

# For what a GPU needs (cgpu sim start --slices-take-effect): the way that is found, and whether time
# slices hold that are set before a group is first scheduled.
SLICES = {"at-once": ("at-once", True), "preempt": ("preempt", True), "own-schedule": ("schedule", True),
          "any-schedule": ("schedule", True), "restart": ("restart", False), "never": ("none", False)}
DISABLE_CHANNELS, RESTART_RUNLIST = 0x2080110b, 0xa06f0111
# Copies cost the simulated GPU the time of a processor, so there are few of them.
SLOW = ("--copy-gbps", "2")


def calibrate(node, *words, interruptions=200, **options):
    return t.command(t.CGPU, "calibrate", "--node", node.name, "--interruptions", str(interruptions), *words,
                     **options)


def asked(node, *words, **options):
    return json.loads(calibrate(node, "--json", *words, **options))


def check_nothing_left(node, used, sentence):
    node.sync()
    books = node.books()
    t.check(not books["clients"] and not any(gpu["groups"] or gpu["channels"] for gpu in books["gpus"]),
            "%s, the driver has %s" % (sentence, books["clients"]))
    t.check(node.used() == used, "%s, %d bytes are in use, not %d" % (sentence, node.used(), used))


def way(slices):
    """Each way in which time slices take effect, with each in which channels go off."""
    for channels in ("at-once", "restart"):
        with t.Node("h100:1", "580", "--slices-take-effect", slices, "--channels-go-off", channels,
                    *SLOW) as node:
            used = node.used()
            card = asked(node)
            found = (card["slices"], card["slices_at_start"], card["off"])
            t.check(found == (*SLICES[slices], channels),
                    "of a GPU with %s, %s it found %s: %s" % (slices, channels, found, card["figures"]))
            t.check(card["levels"] and card["switches"], "levels, list of switches: %s" % card)
            t.check(card["holds"] is (slices != "never"), "an idle group holds the GPU: %s" % card)
            # A simulated GPU stands a duty cycle where channels go off without more.
            wanted = "duty-cycle" if channels == "at-once" else "none" if slices == "never" else "idle-group"
            (policy,) = json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))
            t.check(policy["capping"] == wanted, "it caps by %s, not by %s" % (policy["capping"], wanted))
            check_nothing_left(node, used, "after it")


def figures():
    """It measures what the node was told."""
    with t.Node("a10:1", "550", "--context-switch-us", "400", *SLOW) as node:
        card = asked(node)
        t.check(abs(card["copy_switch_us"] - 400) < 40, "a switch of 400 us takes %s" % card["copy_switch_us"])
        off = card["figures"]["taking off what runs, us"]
        t.check(off >= 300, "taking off takes %s us, less than the driver needs" % off)


def models():
    """Every model that there is, with old and new drivers."""
    for model, driver in (("v100-16g", "535"), ("t4", "550"), ("a10", "570"), ("a100-80g", "590"),
                          ("h100", "595"), ("h200", "610"), ("l4", "535"), ("b200", "610")):
        with t.Node(model + ":1", driver, *SLOW) as node:
            card = asked(node)
            t.check((card["slices"], card["off"]) == ("at-once", "at-once"), "a %s: %s" % (model, card))


def interrupted():
    """Work is taken off and brought back ten thousand times."""
    with t.Node("h200:1", "580", *SLOW) as node:
        done = asked(node, interruptions=10000)["figures"]["interruptions"]
        t.check(done > 1000, "30 s were enough for %d interruptions" % done)


def refused():
    """An order that the driver refuses is no way."""
    with t.Node("h200:1", "580", *SLOW) as node:
        node.fault("--status", 0x56, count=100, control=DISABLE_CHANNELS)
        card = asked(node)
        t.check(card["off"] == "none", "channels that the driver does not take off: %s" % card)
    with t.Node("h200:1", "580", "--slices-take-effect", "restart", *SLOW) as node:
        node.fault("--status", 0x1b, count=100, control=RESTART_RUNLIST)
        card = asked(node)
        t.check(card["slices"] == "none", "a restart that is refused: %s" % card)


def lost():
    """On a GPU whose channels do not come back, an idle group caps: no answer is lost with them."""
    with t.Node("h100:1", "580", "--channels-go-off", "for-good", *SLOW) as node:
        used = node.used()
        card = asked(node)
        t.check((card["slices"], card["off"], card["holds"]) == ("at-once", "none", True), "%s" % card)
        (policy,) = json.loads(t.command(t.CGPU, "policy", "--json", "--node", node.name))
        t.check(policy["capping"] == "idle-group", "%s" % policy)
        check_nothing_left(node, used, "after it")


def kept():
    """A record is kept for the GPU and the driver, until it is asked anew."""
    with t.Node("a10:2", "550", *SLOW) as node:
        first = asked(node, "1")
        t.check(asked(node, "1") == first, "it was not kept")
        node.fault("--status", 0x56, count=1000, control=DISABLE_CHANNELS)
        t.check(asked(node, "1", "--again")["off"] == "none", "--again did not ask again")
        t.check(asked(node, "1")["off"] == "none", "the new answer was not kept")
        node.clear()
        name = node.info()["gpus"][1]["uuid"]
        path = "%s/cards/%s.json" % (node.folder, name)
        with open(path, encoding="utf-8") as file:
            card = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**card, "driver": "550.1.1"}, file)
        t.check(asked(node, "1")["off"] == "at-once", "the answer of another driver was taken")
        t.check(asked(node, "0")["uuid"] != name, "GPU 0 was taken for GPU 1")
        policy = t.command(t.CGPU, "policy", "--node", node.name)
        t.check(policy.count("; time slices take effect at once\n") == 2, policy)
        text = calibrate(node)
        t.check(re.search(r"(?s)GPU 0, .*GPU 1, .*take effect at once", text), text)


def busy():
    """Nobody's work is disturbed."""
    with t.Node("a10:2", "550", *SLOW) as node:
        tenant = node.run(["sh", "-c", "echo up; read line"], flags=("--gpus", "device=0"))
        tenant.expect("up")
        done = calibrate(node, "0", ok=False)
        t.check(done.returncode == 125 and "GPU 0 is in use: container" in done.stderr, done.stderr)
        t.check(asked(node, "1")["off"] == "at-once", "GPU 1 is free")
        tenant.end()
        node.wait_nothing_left()
        path = next(device["path"] for device in node.info()["files"] if device["name"] == "nvidia0")
        file = os.open(path, os.O_RDWR)
        done = calibrate(node, "0", ok=False)
        t.check(done.returncode == 125 and "GPU 0 is in use: process %d" % os.getpid() in done.stderr, done.stderr)
        os.close(file)
        # A container that comes while it asks spoils the answers.
        record = "%s/cards/%s.json" % (node.folder, node.info()["gpus"][0]["uuid"])
        asking = t.Process(["sh", "-c", "exec %s calibrate 0 --node %s 2>&1" % (t.CGPU, node.name)])
        asking.expect("measuring")
        tenant = node.run(["sh", "-c", "echo up; read line"], flags=("--gpus", "device=0"))
        tenant.expect("up")
        t.check(asking.end() == 125 and "GPU 0 is in use" in asking.lines[-2], asking.lines)
        t.check(not os.path.exists(record), "it was kept")
        tenant.end()
        node.wait_nothing_left()
        t.check(asked(node, "0")["off"] == "at-once", "GPU 0 is free again")


def killed():
    """Killed at any moment, it leaves nothing behind."""
    with t.Node("a10:1", "550", *SLOW) as node:
        node.may_leak = True  # the kernel closes its files
        used = node.used()
        seen = []
        ended = None
        while ended is None:
            process = subprocess.Popen([t.CGPU, "calibrate", "--node", node.name, "--interruptions", "500"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            new = next((line for line in process.stderr if line not in seen), None)
            if new:
                seen.append(new)
                process.send_signal(signal.SIGKILL)
            else:
                ended = process.wait()
            process.stderr.close()
            process.wait()
            check_nothing_left(node, used, "killed at %r" % new)
        t.check(ended == 0, "it ended with %d: %s" % (ended, seen[-1]))
        t.check(len(seen) > 5, "it said only %s" % seen)


def wrong():
    """Wrong input, and users who may not."""
    with t.Node("a10:1", "550") as node:
        for words, said in ((("7",), "GPU"), (("--interruption", "0"), "interruption")):
            done = calibrate(node, *words, ok=False)
            t.check(done.returncode != 0 and said in done.stderr, "%s: %s" % (words, done.stderr))
        done = calibrate(node, ok=False, user=65534)
        t.check(done.returncode == 125 and "only root" in done.stderr, done.stderr)


if __name__ == "__main__":
    t.main({**{"way-" + name: (lambda name=name: way(name)) for name in SLICES},
            "figures": figures, "models": models, "interrupted": interrupted, "refused": refused, "lost": lost,
            "kept": kept, "busy": busy, "killed": killed, "wrong": wrong})
