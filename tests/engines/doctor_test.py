"""`cgpu doctor` on a host with a simulated node: nothing is wrong at first, and it names what the test
breaks. Cases by name, see tests/lib/cgpu_test.py."""
import contextlib
import json
import os
import signal
import stat

import cgpu_test as t
import isolation
from bundles import Runc
from engines import Docker, start_cgpud

SETTINGS = "/etc/cgpu/config.yaml"
ADVERSARY = os.path.abspath(os.path.join(t.TEST_BIN, "adversary"))
REFUSED = "0x56"  # NV_ERR_NOT_SUPPORTED
DOCKER = "/etc/docker/daemon.json"
USER = 47110


def doctor(*words, **options):
    """Exit status, and the findings by id."""
    done = t.command(t.CGPU, "doctor", "-o", "json", *words, ok=False, **options)
    t.check(done.returncode in (0, 1), "cgpu doctor: %s" % done)
    found = json.loads(done.stdout)
    checks = {one["id"]: one for one in found["checks"]}
    errors = [one["id"] for one in found["checks"] if one["status"] == "error"]
    t.check(len(errors) == found["errors"] and done.returncode == bool(errors),
            "%d with %s" % (done.returncode, errors))
    return done.returncode, checks


def status_of(check, *words):
    return doctor(*words)[1][check]["status"]


@contextlib.contextmanager
def host():
    """A host with a simulated node and cgpud, and without a container engine's configuration."""
    for path in (DOCKER, DOCKER + ".before-cgpu"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    t.command("addgroup", "--system", "cgpu")
    with t.Node("v100-16g:2") as node:
        daemon = start_cgpud(node, "/usr/sbin/runc")
        try:
            yield node, daemon
        finally:
            daemon.stop()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def healthy():
    """Nothing is wrong with a host right after its start, nor with one on which a slice runs."""
    with host() as (node, _):
        status, checks = doctor()
        t.check(status == 0, "wrong: %s" % [one for one in checks.values() if one["status"] == "error"])
        for name in ("gpu-source", "driver-answers", "cgpud-running", "cgpu-settings", "sim-nodes",
                     "cgpu-programs", "seccomp-notify", "registry-dead"):
            t.check(checks[name]["status"] == "ok", "%s" % checks[name])
        load = node.run(["sleep", "1000"])
        t.wait_for(node.containers, "nothing runs")
        status, checks = doctor()
        t.check(status == 0 and checks["shims-answer"]["status"] == "ok" and
                checks["other-processes"]["status"] == "ok", "with a slice: %s" % checks)
        load.kill()


def broken():
    """Each thing that is broken is named by its id, and no other error comes with it."""
    with host() as (node, daemon):
        write(SETTINGS, "max_inst: many\n")
        status, checks = doctor("--only", "cgpu")
        t.check(status == 1 and "max_inst" in checks["cgpu-settings"]["found"], "%s" % checks)
        write(SETTINGS, "node: %s\nruntime: /usr/sbin/runc\n" % node.name)
        t.check(doctor("--only", "cgpu")[0] == 0, "mended, and still wrong")
        write(DOCKER, json.dumps({"runtimes": {"cgpu": {"path": "/opt/gone/cgpu-runtime"}}}))
        status, checks = doctor("--only", "engines")
        t.check(status == 1 and checks["docker-program"]["status"] == "error" and
                "/opt/gone/cgpu-runtime" in checks["docker-program"]["found"], "%s" % checks)
        os.unlink(DOCKER)
        daemon.stop()
        status, checks = doctor("--only", "cgpu")
        wrong = [one["id"] for one in checks.values() if one["status"] == "error"]
        t.check(status == 1 and wrong == ["cgpud-running"], "%s" % wrong)
        write("/run/cgpu/ba9876543210.grant", "")
        t.check(status_of("registry-dead", "--only", "cgpu") == "warning", "a dead reservation")
        os.unlink("/run/cgpu/ba9876543210.grant")
        daemon.start()
        t.check(doctor("--only", "cgpu", "--wait", "20")[0] == 0, "cgpud runs again, and is not seen")


def outside():
    """A process that uses a GPU outside of all slices is named, as is a node that was killed."""
    with host() as (node, _):
        load = node.exec([os.path.abspath(os.path.join(t.BIN, "rmtool")), "hold", "100", "--forever"])
        t.wait_for(lambda: node.used() > 0, "nothing is held")
        checks = doctor("--only", "driver")[1]
        t.check("rmtool" in checks["other-processes"]["found"], "%s" % checks["other-processes"])
        load.kill()
        with t.Node() as other:
            folder = other.folder
            for entry in os.listdir("/proc"):
                with contextlib.suppress(OSError):
                    words = open("/proc/%s/cmdline" % entry, "rb").read().split(b"\0")
                    if words[0].endswith(b"cgpu-sim") and other.name.encode() in words:
                        os.kill(int(entry), signal.SIGKILL)
            t.wait_for(lambda: status_of("sim-nodes", "--only", "driver") == "warning",
                       "a killed node is not named")
            t.check(folder + "/mnt" in doctor("--only", "cgpu")[1]["leftover-mounts"]["found"],
                    "its mount is not named")


def silent():
    """A shim that gives no answer is named."""
    with host() as (node, _):
        load = node.run(["sleep", "1000"])
        t.wait_for(node.containers, "nothing runs")
        name = node.containers()[0]["id"]
        shim = t.shim_at("/run/cgpu/%s.sock" % name)
        os.kill(shim, signal.SIGSTOP)
        status, checks = doctor("--only", "cgpu")
        t.check(status == 1 and name in checks["shims-answer"]["found"], "%s" % checks["shims-answer"])
        os.kill(shim, signal.SIGCONT)
        t.check(doctor("--only", "cgpu", "--wait", "20")[0] == 0, "it answers again, and is not heard")
        load.kill()


def firmware():
    """A control of the firmware that cgpu does not list is named with its size; root may let it pass, in
    that size alone, for containers that start from then on."""
    number = "0x20808513"  # the simulated firmware takes it in any size

    def asked(*sizes, run):
        words = [word for size in sizes for word in (number, size)]
        process = run([ADVERSARY, "firmware-ask", *words])
        process.expect("^holding$")
        said = [found.group(1) for found in process.said("^asked %s [0-9]+: (0x[0-9a-f]+)$" % number)]
        return process, said

    def received(node):
        return node.books()["received"].get("GSS_LEGACY_8513", 0)

    with host() as (node, daemon), Runc(os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))) as engine:
        t.check(status_of("firmware-refused", "--only", "cgpu") == "ok", "nothing runs yet")
        plain, said = asked("8", "9", run=node.exec)
        t.check(said == ["0x0", "0x0"] and received(node) == 2, "without cgpu: %s" % said)
        plain.end()
        refused, said = asked("8", "9", run=node.run)
        t.check(said == [REFUSED, REFUSED] and received(node) == 2, "in a slice: %s" % said)
        checks = doctor("--only", "cgpu")[1]
        found = checks["firmware-refused"]
        t.check(found["status"] == "warning" and number + "/8" in found["found"] and
                number + "/9" in found["found"], "%s" % found)
        t.check(checks["firmware-allowed"]["status"] == "ok", "%s" % checks["firmware-allowed"])
        refused.end()

        more = "firmware: %s/8\n" % number
        daemon.stop()
        daemon = start_cgpud(node, "/usr/sbin/runc", more)
        try:
            allowed, said = asked("8", "9", run=node.run)
            t.check(said == ["0x0", REFUSED] and received(node) == 3, "root's slice: %s" % said)
            checks = doctor("--only", "cgpu")[1]
            t.check(number + "/9" in checks["firmware-refused"]["found"] and
                    number + "/8" not in checks["firmware-refused"]["found"], "%s" % checks)
            t.check("1 controls" in checks["firmware-allowed"]["found"], "%s" % checks)
            allowed.end()
            done = engine.run("asks", ["/adversary", "firmware-ask", number, "8", number, "9"],
                              env={"CGPU_MEM": "1024MiB"}, mounts=((ADVERSARY, "/adversary", "ro"),))
            said = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("asked")]
            t.check(said == ["0x0", REFUSED] and received(node) == 4, "a container: %s" % done)
            # The container has ended, and `cgpu ps` knows it no more. A host with systemd has the log in
            # its journal.
            named = "control-%s (9 bytes): a control of the GPU's firmware that is not listed" % number
            t.wait_for(lambda: 'refused="%s' % named in daemon.log(), lambda: daemon.log())
            done = engine.run("says", ["/adversary", "firmware-ask", number, "9"],
                              env={"CGPU_MEM": "1024MiB", "CGPU_FIRMWARE": number + "/9"},
                              mounts=((ADVERSARY, "/adversary", "ro"),))
            t.check(REFUSED in done.stdout and received(node) == 4, "the tenant's word: %s" % done)
        finally:
            daemon.stop()


def docker():
    """A dockerd that runs tells which runtimes it knows."""
    runtime = os.path.abspath(os.path.join(t.BIN, "cgpu-runtime"))
    with host(), Docker(runtime) as engine:
        at = {"DOCKER_HOST": "unix://%s/docker.sock" % engine.folder, "PATH": os.environ["PATH"]}
        write(DOCKER, json.dumps({"runtimes": {"cgpu": {"path": runtime}}}))
        checks = doctor("--only", "engines", env=at)[1]
        for name in ("docker-loaded", "docker-program", "docker-config", "engine-same"):
            t.check(checks[name]["status"] == "ok", "%s" % checks[name])
        path = engine.folder + "/daemon.json"
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
        del settings["runtimes"]["cgpu"]
        write(path, json.dumps(settings))
        engine.restart_engine()
        checks = doctor("--only", "engines", env=at)[1]
        t.check(checks["docker-loaded"]["status"] == "warning", "%s" % checks["docker-loaded"])


def hung():
    """A program that hangs holds up neither doctor nor other checks."""
    with host():
        write("/run/programs/nvidia-ctk", "#!/bin/sh\nsleep 1000\n")
        os.chmod("/run/programs/nvidia-ctk", 0o755)
        checks = doctor("--only", "engines", env={"PATH": "/run/programs:/usr/bin:/bin"})[1]
        t.check(checks["nvidia-toolkit"]["status"] == "skipped", "%s" % checks["nvidia-toolkit"])
        t.check(checks["oci-runtime"]["status"] == "ok", "%s" % checks["oci-runtime"])


def user():
    """An ordinary user is told which checks need root, and nothing is called wrong for want of rights."""
    with host():
        status, checks = doctor(user=USER, group=USER, extra_groups=[])
        t.check(status == 0, "wrong: %s" % [one for one in checks.values() if one["status"] == "error"])
        t.check("only root" in checks["registry-dead"]["found"], "%s" % checks["registry-dead"])
        t.check(checks["seccomp-notify"]["status"] == "ok", "%s" % checks["seccomp-notify"])


def changes_nothing():
    """No file of the host is another one after it."""
    def tree():
        found = {}
        for top in ("/etc/cgpu", "/etc/docker", "/run/cgpu", "/run/cgpu-sim", "/var/lib/cgpu"):
            for base, folders, files in os.walk(top):
                for name in folders + files:
                    path = os.path.join(base, name)
                    if "/mnt" not in path:
                        info = os.lstat(path)
                        found[path] = (info.st_mode, info.st_uid, info.st_mtime_ns
                                       if stat.S_ISREG(info.st_mode) and not path.endswith("log") else 0)
        return found
    with host():
        write("/run/cgpu/ba9876543210.grant", "")
        write(DOCKER, "{}")
        doctor()
        before = tree()
        doctor()
        t.check(tree() == before, "changed: %s" % (set(tree().items()) ^ set(before.items())))
        os.unlink("/run/cgpu/ba9876543210.grant")


def forms():
    """The forms of output, the categories, and wrong options."""
    with host():
        brief = t.command(t.CGPU, "doctor", "-o", "short", "--only", "cgpu")
        t.check("ok  " not in brief and "0 errors" in brief, brief)
        table = t.command(t.CGPU, "doctor", "--only", "cgpu")
        t.check("cgpud-running: cgpud listens" in table, table)
        t.check(all(len(line) <= 80 for line in table.splitlines()), table)
        before = doctor("--pre")[1]
        t.check("cgpud-running" not in before and "kernel-version" in before, "%s" % list(before))
        for words in (["--only", "kernels"], ["-o", "yaml"], ["--nothing"]):
            done = t.command(t.CGPU, "doctor", *words, ok=False)
            t.check(done.returncode == 2 and done.stderr.startswith("error: "), "%s" % done)


isolation.main({"healthy": healthy, "broken": broken, "outside": outside, "silent": silent,
                "docker": docker, "hung": hung, "user": user, "changes-nothing": changes_nothing,
                "forms": forms, "firmware": firmware})
