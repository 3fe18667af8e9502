"""Settings of GPUs that root makes with `cgpu policy`: what they do, and how long they last. Cases by
name."""
import json
import os
import re
import signal
import stat
import subprocess

import cgpu_test as t
import isolation
from bundles import Runc
from engines import RUNC, start_cgpud, write_settings

RMTOOL = os.path.abspath(os.path.join(t.BIN, "rmtool"))
RUNTIME = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
SETTINGS = "/etc/cgpu/config.yaml"
SAVED = "/var/lib/cgpu/policy"
SOME_USER = 47111


def policy(*words, gpu="0"):
    """Returns the policy of the GPU as `cgpu policy GPU ...` shows it."""
    said = t.command(t.CGPU, "policy", gpu, *words)
    found = re.fullmatch(r"GPU %s: (\w+) \((\d)\), max-inst (\d+), prio-ratio (\d+)\n" % gpu, said)
    t.check(found, said)
    return found.group(1), int(found.group(3)), int(found.group(4))


def refused(*words):
    done = t.command(t.CGPU, "policy", *words, ok=False)
    t.check(done.returncode == 125 and not done.stdout, "cgpu policy %s: %s" % (words, done))
    return done.stderr


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def booted(daemon):
    """The machine boots: /run is empty, cgpud starts."""
    daemon.stop()
    for entry in os.listdir("/run/cgpu"):
        if entry.endswith(".card"):
            os.unlink("/run/cgpu/" + entry)
    daemon.start()


def shown():
    """Names and numbers, for one GPU or all; what is no setting is refused and changes nothing; root
    alone may."""
    with t.Node("v100-16g:2") as node:
        write_settings(node, RUNC, "max_inst: 7\n")
        all_ = "GPU 0: preempt (1), max-inst 7, prio-ratio 90\nGPU 1: preempt (1), max-inst 7, prio-ratio 90\n"
        t.check(t.command(t.CGPU, "policy") == all_, t.command(t.CGPU, "policy"))
        listed = [{key: one[key] for key in ("index", "policy", "number", "max_inst", "prio_ratio")}
                  for one in json.loads(t.command(t.CGPU, "policy", "--json"))]
        t.check(listed == [{"index": index, "policy": "preempt", "number": 1, "max_inst": 7,
                            "prio_ratio": 90} for index in (0, 1)], "%s" % listed)
        for number, name in enumerate(("fair", "preempt", "weight", "fixed", "soft", "native")):
            t.check(policy(str(number)) == (name, 7, 90), "%d is not %s" % (number, name))
        t.check(policy("fixed", "--max-inst", "64", "--prio-ratio", "20") == ("fixed", 64, 20), "all at once")
        t.check(policy("--prio-ratio", "99") == ("fixed", 64, 99), "prio-ratio alone")
        t.check(policy("--max-inst", "1") == ("fixed", 1, 99), "max-inst alone")
        for wrong in ("0", "65", "many", "-1"):
            t.check("from 1 to 64" in refused("0", "--max-inst=" + wrong), wrong)
        for wrong in ("19", "100", "many"):
            t.check("from 20 to 99" in refused("0", "--prio-ratio=" + wrong), wrong)
        # One bad word, and nothing is set.
        refused("0", "soft", "--max-inst", "5", "--prio-ratio", "100")
        refused("0", "6", "--max-inst", "5")
        for words in (("", "soft"), ("0", "")):  # as of a variable that is not set
            t.check("is empty" in refused(*words), "%s" % (words,))
        t.check("no GPU is named" in refused("--max-inst", "5"), "for which GPU?")
        t.check("no GPU is named" in refused("--reset"), "for which GPU?")
        t.check("--reset alone" in refused("0", "--max-inst", "5", "--reset"), "both")
        t.check(policy() == ("fixed", 1, 99) and policy(gpu="1") == ("preempt", 7, 90), "it changed")
        as_user = {"user": SOME_USER, "group": SOME_USER, "extra_groups": []}
        done = t.command(t.CGPU, "policy", "0", "--max-inst", "9", ok=False, **as_user)
        t.check(done.returncode == 125 and "only root may see and set" in done.stderr, "%s" % done)
        t.check(policy() == ("fixed", 1, 99), "a user set it")
        # A promise stays honoured.
        held = node.run([RMTOOL, "hold", "1"], flags=("--gpus", "device=0", "--compute", "30"))
        held.expect("holding")
        refused("0", "weight", "--prio-ratio", "50")
        t.check(policy("soft") == ("soft", 1, 99), "soft honours percentages")
        held.end()


def max_inst():
    """So many slices of a GPU and no more, whatever starts them; what was set stays."""
    with t.Node("v100-16g:2") as node, Runc(RUNTIME) as engine:
        daemon = start_cgpud(node, RUNC, "max_inst: 2\n")

        def start(name, works, gpu=0):
            done = engine.run(name, ["sleep", "100000"], detach=True,
                              env={"CGPU_MEM": "100MiB", "CGPU_DEVICES": str(gpu)})
            said = done.stdout + done.stderr
            t.check((done.returncode == 0) == works, "%s: %s" % (name, said))
            t.check(works or re.search("GPU 0 .* slices? already, and its max_inst is", said), said)
            if not works:
                engine.remove(name)

        def run(works):
            done = t.command(t.CGPU, "run", "--node", node.name, "--mem", "1MiB", "--gpus",
                             "device=0", "--", "true", ok=False)
            t.check(done.returncode == (0 if works else 125), "cgpu run: %s" % done)
            t.check(works or "max_inst" in done.stderr, done.stderr)

        for name in ("first", "second"):
            start(name, True)
        start("third", False)
        run(False)
        start("elsewhere", True, gpu=1)
        policy("--max-inst", "3")
        run(True)
        start("third", True)
        # Fewer than there are: they go on.
        policy("--max-inst", "1")
        t.check(len(node.containers()) == 4, "somebody has ended")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        t.check((policy()[1], policy(gpu="1")[1]) == (1, 2), "it has forgotten")
        for name in ("first", "second"):
            engine.remove(name)
        start("again", False)
        run(False)
        engine.remove("third")
        start("again", True)
        for name in ("again", "elsewhere"):
            engine.remove(name)
        daemon.stop()


def kept():
    """It outlives the boot, in a file of cgpu's own; config.yaml is not touched. Two commands at once
    leave the file as the GPU is."""
    with t.Node("v100-16g:2") as node:
        daemon = start_cgpud(node, RUNC, "# mine\n")
        before = read(SETTINGS)
        t.check(policy("fixed", "--max-inst", "5", "--prio-ratio", "60") == ("fixed", 5, 60), "it is set")
        policy("soft", gpu="1")
        policy("--prio-ratio", "61")
        now = os.stat(SAVED)
        t.check((stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid) == (0o644, 0, 0), "%s" % (now,))
        left = set(os.listdir(os.path.dirname(SAVED))) - {"cards"}  # a calibrated machine has that folder
        t.check(left == {"events", "policy"}, "a part is left: %s" % left)
        booted(daemon)
        t.check(policy() == ("fixed", 5, 61) and policy(gpu="1") == ("soft", 20, 90), "it has forgotten")
        for _ in range(8):
            both = [subprocess.Popen([t.CGPU, "policy", "0", *words], stdout=subprocess.DEVNULL)
                    for words in (("soft",), ("fair", "--max-inst", "6"), ("--prio-ratio", "70"))]
            t.check([one.wait() for one in both] == [0, 0, 0], "some at once")
            last = policy()
            t.check(last[0] in ("soft", "fair") and last[1:] == (6, 70), "one undid another: %s" % (last,))
            booted(daemon)
            t.check(policy() == last, "%s, and after the boot %s" % (last, policy()))
        # cgpu keeps nothing for a simulated node that is named.
        t.command(t.CGPU, "policy", "0", "native", "--node", node.name)
        booted(daemon)
        t.check(policy() == last, "it is kept: %s" % (policy(),))
        t.check(read(SETTINGS) == before, "config.yaml is: " + read(SETTINGS))
        # cgpud names a file that it cannot read, and neither uses nor overwrites it.
        with open(SAVED, "w", encoding="utf-8") as file:
            file.write("policy\n")
        booted(daemon)
        t.check(SAVED in daemon.log() and policy()[0] == "preempt", daemon.log())
        t.check("remove that file" in refused("0", "soft"), "no hint")
        t.check(read(SAVED) == "policy\n" and policy()[0] == "preempt", "it was set")
        daemon.stop()


def hand_written():
    """A policy that is written into config.yaml, by hand or by an older cgpu, holds from a boot on.
    The command's settings win over it, "auto" too. All commands find cgpud at the socket that the
    file names."""
    with t.Node("v100-16g:2") as node:
        one, two = [gpu["uuid"] for gpu in node.info()["gpus"]]
        lines = "socket: /run/daemon/own.sock\npolicy %s: fixed\npolicy %s: soft\npolicy GPU-none: soft\n" % (
            one, two)
        daemon = start_cgpud(node, RUNC, lines)
        said = t.command(t.CGPU, "upgrade")
        t.check(said == "cgpud: upgraded\n", said)
        t.check("GPU-none, which is no GPU of this host" in daemon.log(), daemon.log())
        t.check((policy()[0], policy(gpu="1")[0]) == ("fixed", "soft"), "config.yaml does not hold")
        policy("--max-inst", "4")
        booted(daemon)
        t.check(policy() == ("fixed", 4, 90), "another setting hides the line: %s" % (policy(),))
        policy("weight")
        policy("auto", gpu="1")
        booted(daemon)
        t.check((policy()[0], policy(gpu="1")[0]) == ("weight", "preempt"), "the line wins")
        t.check("keeps the compute policy" not in daemon.log(), daemon.log())
        policy("--reset", gpu="1")
        # Changed while the machine runs: it counts from the next boot, which is said.
        daemon.stop()
        write_settings(node, RUNC, lines.replace("soft", "native"))
        daemon.start()
        t.check("keeps the compute policy soft" in daemon.log(), daemon.log())
        t.check(policy(gpu="1")[0] == "soft", "it changed")
        booted(daemon)
        t.check((policy()[0], policy(gpu="1")[0]) == ("weight", "native"), "after the boot")
        daemon.stop()


def reset():
    """Forgets what the command has set for the GPU: config.yaml holds at once, and after a boot."""
    with t.Node("v100-16g:2") as node:
        (one, _) = [gpu["uuid"] for gpu in node.info()["gpus"]]
        daemon = start_cgpud(node, RUNC, "max_inst: 3\npolicy %s: fixed\n" % one)
        for gpu in ("0", "1"):
            policy("soft", "--max-inst", "9", "--prio-ratio", "50", gpu=gpu)
        t.check(policy("--reset") == ("fixed", 3, 90), "%s" % (policy(),))
        t.check(one not in read(SAVED), "it is still there: " + read(SAVED))
        t.check(policy(gpu="1") == ("soft", 9, 50), "the other GPU's are gone")
        booted(daemon)
        t.check(policy() == ("fixed", 3, 90) and policy(gpu="1") == ("soft", 9, 50), "after the boot")
        t.check(policy("--reset", gpu="1") == ("preempt", 3, 90), "%s" % (policy(gpu="1"),))
        t.check(policy("--reset", gpu="1") == ("preempt", 3, 90), "for the second time")
        # The first container's choice stays, and promises are honoured.
        held = node.run([RMTOOL, "hold", "1"], flags=("--gpus", "device=1", "--compute", "30"))
        held.expect("holding")
        policy("soft", gpu="1")
        t.check(policy("--reset", gpu="1")[0] == "fixed", "the container's choice is lost")
        write_settings(node, RUNC, "policy %s: weight\n" % node.info()["gpus"][1]["uuid"])
        policy("soft", gpu="1")
        t.check("promised" in refused("1", "--reset"), "a promised percentage is forgotten")
        t.check(policy(gpu="1")[0] == "soft", "it changed")
        held.end()
        daemon.stop()


def hidden():
    """No container gets the folder, whatever it has of the host."""
    look = ["sh", "-c", "cat /host/var/lib/cgpu/policy && echo x > /host/var/lib/cgpu/policy"]
    with t.Node() as node, Runc(RUNTIME, in_image=(RMTOOL,)) as engine:
        daemon = start_cgpud(node, RUNC)
        policy("soft")
        before = read(SAVED)

        def edit(spec):
            spec["mounts"].append({"source": "/", "destination": "/host", "type": "bind",
                                   "options": ["rbind", "rslave"]})

        # One that cgpu has nothing to do with sees it: so there is something to hide.
        seen = engine.run("plain", ["cat", "/host" + SAVED], edit=edit, plain=True)
        t.check(seen.returncode == 0 and seen.stdout == before, "it is hidden anyway: %s" % seen)
        engine.remove("plain")
        done = engine.run("slice", look, edit=edit, env={"CGPU_MEM": "1MiB"})
        t.check(done.stdout == "" and done.returncode != 0 and read(SAVED) == before, "%s" % done)
        engine.remove("slice")
        for source in (os.path.dirname(SAVED), SAVED):
            done = engine.run("refused", ["true"], mounts=((source, "/its"),),
                              env={"CGPU_MEM": "1MiB"})
            t.check(done.returncode != 0 and "of cgpu itself" in done.stderr, "%s" % done)
            engine.remove("refused")
        daemon.stop()


isolation.main({"shown": shown, "max-inst": max_inst, "kept": kept, "reset": reset,
                "hand-written": hand_written, "hidden": hidden})
