"""A container's filter is cgpu's, whatever else there is by which an OCI runtime takes another one.
Judged by the driver's accounting. Cases by name: ENGINE-CASE."""
import base64
import contextlib
import json
import os
import re
import select
import struct
import subprocess

import cgpu_test as t
from engines import write_settings
from slices_test import RUNTIME, called, expect, main, stand_in
from upgrading import NEXT, OWN, upgrade

LIMIT, WANTED = 1024, 8192  # MiB: the slice, and what its tenant is after
SLICE = {"CGPU_MEM": "%dMiB" % LIMIT}
BPF_DATA = "run.oci.seccomp_bpf_data"
# A filter of one instruction that lets everything pass: linux/bpf_common.h, linux/seccomp.h.
ALLOW_ALL = base64.b64encode(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)).decode()


def _with(annotations):
    return {"edit": lambda spec: spec.setdefault("annotations", {}).update(annotations)}


def _attack(test, name="attack", **wants):
    """The tenant takes what it can and holds it; what it has, by the accounting, and its status if it
    ended."""
    process = test.engine.talk(name, ["rmtool", "hold", str(WANTED), "--page", "big"], env=SLICE,
                               **wants)
    with contextlib.suppress(t.Failure):
        process.expect("holding")
    test.node.sync()
    used = test.node.used() // t.MIB
    t.check(used <= LIMIT, "the books say %d MiB in a slice of %d" % (used, LIMIT))
    status = process.end()
    test.engine.remove(name)
    return status


def annotation(test):
    """crun takes its filter from an annotation in place of the configuration's: refused, with a slice
    and without."""
    t.check(_attack(test, **_with({BPF_DATA: ALLOW_ALL})) == test.refused, "it was started")
    for name, env in (("slice", SLICE), ("none", {})):
        test.run(test.refused, BPF_DATA, name, ["true"], env=env, **_with({BPF_DATA: ALLOW_ALL}))


def environment(test):
    """Variables of the container engine's environment that runtimes act on do not reach them; those
    that they need do."""
    seen = "/run/seen"
    write_settings(test.node, stand_in("runtime", "tr '\\0' '\\n' < /proc/$$/environ >> %s\nexec %s \"$@\"" %
                                       (seen, test.engine.plain)))
    test.engine.environment.update({
        "LD_PRELOAD": "/no/such.so", "LD_LIBRARY_PATH": ".", "RUN_OCI_SECCOMP_RECEIVER": "/no/such",
        "_LIBCONTAINER_STATEDIR": "/no/such", "XDG_CONFIG_HOME": "/no/such",
        "_CONTAINERS_ROOTLESS_UID": "0", "PATH": ".:" + test.engine.environment["PATH"]})
    test.run(2, "out of memory", "held", ["rmtool", "alloc", str(LIMIT + 1), "--page", "big"], env=SLICE)
    with open(seen, encoding="utf-8") as file:
        names = {line.split("=")[0] for line in file.read().splitlines()}
    t.check(names == {"PATH", "HOME", "_CONTAINERS_ROOTLESS_UID"}, "the runtime has %s" % names)


# Stands between cgpu-runtime and the runtime, and changes what cgpu-runtime wrote as somebody could who
# found a way past it: `annotations` go in, and hooks of startContainer out if `hooks` is not to have them.
BETWEEN = """#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
if "run" in words or "create" in words:
    path = words[words.index("--bundle") + 1] + "/config.json"
    with open(path) as file:
        spec = json.load(file)
    spec.setdefault("annotations", {{}}).update({annotations})
    if not {hooks}:
        spec.get("hooks", {{}}).pop("startContainer", None)
    with open(path, "w") as file:
        json.dump(spec, file)
os.execv("{runtime}", ["{runtime}", *words])
"""


def _go_between(test, annotations, hooks):
    path = stand_in("between")
    with open(path, "w", encoding="utf-8") as file:
        file.write(BETWEEN.format(annotations=annotations, hooks=hooks, runtime=test.engine.plain))
    write_settings(test.node, path)


def bypassed(test):
    """With the annotation past the check the container proves nothing, and does not start."""
    _go_between(test, {BPF_DATA: ALLOW_ALL}, True)
    t.check(_attack(test) != 0, "it was started")
    test.run(test.refused, "cgpu-prove", "said", ["true"], env=SLICE)


def silent(test):
    """Where the runtime does not ask for the proof either, the container is ended when it runs: nothing
    of it is left, and root is told."""
    _go_between(test, {BPF_DATA: ALLOW_ALL}, False)
    process = test.engine.talk("attack", ["rmtool", "hold", str(WANTED), "--page", "big"], env=SLICE)
    t.check(process.wait() == 137, "it ended with %d" % process.wait())
    test.node.wait_used(0, "after the container")
    process.end()
    test.engine.remove("attack")


def created(test):
    """A container that is made and not yet started proves its filter to the next version of its shim."""
    for hooks in (True, False):
        name = "hooks-%s" % hooks
        _go_between(test, {}, hooks)
        words = test.engine.command(name, ["sleep", "1000"], env=SLICE)
        words[words.index("run")] = "create"
        with open("/dev/null", "r+b") as null:
            done = subprocess.run(words, stdin=null, stdout=null, stderr=null, check=False,
                                  timeout=t.DEADLINE)
        t.check(done.returncode == 0, "it was not made")
        (row,) = test.node.containers()
        for program in (NEXT, OWN):
            upgrade(row["id"], program)
        first = os.pidfd_open(test.engine.pid(name))
        start = test.engine._try(*test.engine._words(name, "start", name))
        if hooks:
            t.check(start.returncode == 0, "it does not start: %s" % start)
            t.wait_for(lambda: test.engine._state(name)["status"] == "running", "it does not run")
            expect(test.engine.exec(name, ["rmtool", "alloc", str(LIMIT - 24), "--page", "big"]), 0)
            t.check(not select.select([first], [], [], 0)[0], "it was ended")
        else:
            t.check(select.select([first], [], [], t.DEADLINE)[0], "it is not ended")
        os.close(first)
        test.engine.remove(name)


def _file(path):
    """The state of a file: content, mode, owner and inode."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        return file.read(), status.st_mode, status.st_uid, status.st_ino


def program(test):
    """The program that makes the proof is the node's: root in the container cannot change it. It proves
    this container's filter and no other's."""
    path = "/dev/.nvidia/cgpu-prove"
    attacks = ("echo x >> {0}", "chmod 777 {0}", "rm {0}", "umount {0}")
    script = "id -u; " + "".join("(%s) 2>&1 && echo changed; " % attack for attack in attacks)
    script += "{0} prove 0123456789ab </dev/null 2>/dev/null; echo other $?"
    before = _file(RUNTIME)
    out = test.run(0, "", "program", ["sh", "-c", script.format(path)], env=SLICE)
    t.check(out.startswith("0\n") and "changed" not in out and "other 1" in out.splitlines(), "it said: " + out)
    t.check(_file(RUNTIME) == before, "the node's program is not what it was")
    # A file that is executed cannot be written anywhere: "Text file busy" where Docker asks this very program
    # for something meanwhile.
    for refusal in ("(create|open) .*(Read-only file system|Permission denied|Text file busy)",
                    "chmod: .*(Read-only file system|Permission denied)", "rm: .*busy", "umount: .*ermitted"):
        t.check(re.search(refusal, out), "it said: " + out)
    other = test.engine.talk("other", ["sh", "-c", "echo ready; read line"], env=SLICE)
    other.expect("ready")
    (row,) = test.node.containers()
    expect(test.engine.exec("other", [path, "prove", row["id"]]), 0)
    other.end()
    test.engine.remove("other")


def restored(test):
    """A runtime that restores a container builds no filter, but takes what somebody's image says; one that
    mounts into a container which runs asks nobody. Neither is executed for it, nor for what is not known."""
    write_settings(test.node, stand_in("runtime", "exec %s \"$@\"" % test.engine.plain))
    test.run(0, "", "held", ["rmtool", "alloc", "1"], env=SLICE)
    test.engine.command("back", ["true"])
    called()
    for command, why in ((["restore", "--bundle", test.engine._bundle("back"), "--image-path", "/tmp"], "filter"),
                         (["mounts", "add"], "mounts"), (["rebuild"], "not known"), (["--debug", "rest"], "not known")):
        expect(test.engine._try(*test.engine._words("back", *command, "back")), 1, "cgpu: .*" + why)
    t.check(called() == [], "the runtime was executed")
    expect(test.engine._try(*test.engine._words("back", "list")), 0)
    t.check(any(line.endswith(" list") for line in called()), "nor is it for what harms nobody")
    test.engine.remove("back")


def _profile(profile):
    """The path of a profile of the user's own."""
    os.makedirs("/run/profiles", exist_ok=True)
    with open("/run/profiles/own.json", "w", encoding="utf-8") as file:
        json.dump(profile, file)
    return file.name


def nul(test):
    """A rule for "ioctl" and a NUL is one for ioctl to the runtimes, and it stays beside cgpu's: it let all
    pass that has a third argument. Refused, like every other name that is none."""
    for word in ("ioctl\0", "ioctl\0x", "ioctl "):
        rule = {"names": [word], "action": "SCMP_ACT_LOG",
                "args": [{"index": 2, "value": 0, "op": "SCMP_CMP_NE"}]}
        path = _profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]})
        t.check(_attack(test, seccomp=path) != 0, "it was started")


def _for_shim(path):
    """A profile that hands ioctl over at a socket, as cgpu's own does."""
    rules = [{"names": ["ioctl"], "action": "SCMP_ACT_NOTIFY",
              "args": [{"index": 1, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}]}
             for bit in range(16, 30)]
    return _profile({"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": path, "listenerMetadata": "x",
                     "syscalls": rules})


def adopted(test):
    """A container without a slice whose own profile names the socket of another one's shim: it is not made
    with cgpu's runtime; with another the shim does not take its processes for its own."""
    victim = test.engine.talk("victim", ["sh", "-c", "echo up; read line; rmtool alloc 900 --page big; echo $?"],
                              env=SLICE)
    victim.expect("^up$")
    (row,) = test.node.containers()
    base = test.node.folder + "/mnt/dev/"
    files = tuple((base + at, "/dev/" + at.split("/")[1])
                  for at in ("ctl/nvidiactl", "gpu0/nvidia0", "uvm/nvidia-uvm"))
    agent = "/run/cgpu/%s.agent" % row["id"]
    os.symlink(agent, "/run/profiles.link")
    for path in (agent, "/run/profiles.link", "/run/../run/cgpu/x.agent"):
        test.run(test.refused, "listener", "thief", ["true"], mounts=files, seccomp=_for_shim(path))
    thief = test.engine.talk("thief", ["sh", "-c", "rmtool hold 900 --page big; echo $?; read line"], plain=True,
                             mounts=files, seccomp=_for_shim(agent))
    t.check(thief.expect(r"^(\d+|holding.*)$").group(1)[0] in "123456789", "it is in the victim's slice")
    test.node.sync()
    t.check(test.node.used() < 64 * t.MIB, "it has %d bytes" % test.node.used())
    victim.say("go")
    victim.expect("^0$")
    thief.say("end")
    thief.end()
    t.check(victim.end() == 0, "the victim did not end well")
    for name in ("thief", "victim"):
        test.engine.remove(name)


CASES = {"nul": nul, "adopted": adopted, "restored": restored, "program": program, "bypassed": bypassed, "silent": silent, "created": created, "environment": environment, "annotation": annotation}

if __name__ == "__main__":
    main(CASES)
