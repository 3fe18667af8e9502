"""cgpud as systemd's service, with its own unit, under a systemd that the test boots: process 1 of a
pid namespace, with a cgroup hierarchy of version 2 and no units but ours. What shims' scopes are
good for, and what becomes of slices where systemd gives none."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess

import cgpu_test as t
import isolation
from cgpu_test import BIN, DEADLINE, check, wait_for

SYSTEMD = "/lib/systemd/systemd"
FOLDER = "/run/programs"
UNITS = "/run/units"
CGPU, RMTOOL = FOLDER + "/cgpu", FOLDER + "/rmtool"
USER, MEMBERS = 47110, 47112

# Everything in the cgroup that the test has by now, seen as the whole.
BOOT = """
set -e
umount -l -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export SYSTEMD_UNIT_PATH=%s container=test
exec %s --system --unit=test.target --log-target=console --log-level=warning --show-status=no
""" % (UNITS, SYSTEMD)


class Machine:
    """systemd and what it runs. cgpud finds programs in /run/first before the machine's."""

    def __enter__(self):
        for program in (SYSTEMD, "/usr/bin/systemd-run", "/usr/bin/systemctl", "/usr/bin/nsenter"):
            if not os.access(program, os.X_OK):
                t.skip("no %s on this machine" % program)
        os.makedirs(UNITS)
        _write(UNITS + "/test.target", "[Unit]\nDefaultDependencies=no\n")
        with open(os.path.join(os.path.dirname(__file__), "../../deploy/systemd/cgpud.service"),
                  encoding="utf-8") as file:
            unit = file.read().replace("@BINDIR@", FOLDER)
        # Targets that the machine would have, and a log that the test can read.
        unit = unit.replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n")
        unit = unit.replace("[Service]\n", "[Service]\nStandardError=append:/run/cgpud.log\n"
                                           "Environment=PATH=/run/first:/usr/sbin:/usr/bin\n")
        _write(UNITS + "/cgpud.service", unit)
        _write(UNITS + "/docker.service", "[Unit]\nDefaultDependencies=no\n"
                                          "[Service]\nExecStart=/bin/sleep 1000\n")
        os.mkdir("/run/first")
        self.log = open("/run/systemd.log", "wb")  # pylint: disable=consider-using-with
        self.popen = subprocess.Popen(  # pylint: disable=consider-using-with
            ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--mount-proc", "--kill-child",
             "sh", "-c", BOOT], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.init = None
        wait_for(self._booted, "systemd does not boot")
        self.systemctl("start", "cgpud.service", "docker.service")
        return self

    def _booted(self):
        if self.popen.poll() is not None:
            t.skip("systemd does not boot here: " + _read("/run/systemd.log")[-1000:])
        for child in _read("/proc/%d/task/%d/children" % (self.popen.pid, self.popen.pid)).split():
            if os.readlink("/proc/%s/exe" % child) == os.path.realpath(SYSTEMD):
                self.init = int(child)
        return (self.init and os.path.exists("/run/systemd/private")
                and self.run("systemctl", "is-active", "test.target").returncode == 0)

    def __exit__(self, kind, *_):
        if kind:
            print("--- systemd: " + _read("/run/systemd.log")[-3000:])
            with contextlib.suppress(OSError):
                print("--- cgpud: " + _read("/run/cgpud.log")[-3000:])
        t.Process.end_all()
        os.kill(self.init, signal.SIGKILL)  # and all that are in its pid namespace
        self.popen.wait(DEADLINE)
        self.log.close()

    def words(self, *words):
        return ["nsenter", "-t", str(self.init), "-m", "-p", "-C", "--", *words]

    def run(self, *words, **options):
        return subprocess.run(self.words(*words), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, **options)

    def systemctl(self, *words):
        done = self.run("systemctl", *words)
        check(done.returncode == 0, "systemctl %s: %s" % (" ".join(words), done))
        return done.stdout

    def show(self, unit, name):
        return self.systemctl("show", "--property=" + name, "--value", unit).strip()

    def scopes(self):
        """Scopes of shims that are not over: name -> numbers, in the machine's, of its processes."""
        found = {}
        for line in self.systemctl("list-units", "--plain", "--no-legend", "--type=scope",
                                   "cgpu-shim-*").splitlines():
            name = line.split()[0]
            found[name] = self._processes(self.show(name, "ControlGroup"))
        return found

    def _processes(self, group):
        """Those of a cgroup, as this test numbers processes."""
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and _read("/proc/%s/cgroup" % entry).split("::")[1].strip() \
                        .endswith(group) and _read("/proc/%s/cmdline" % entry):
                    found.append(int(entry))
        return found


def _read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def hold(machine, mib, *flags):
    """A user's command that holds so much."""
    words = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--groups", str(MEMBERS), CGPU,
             "run", *flags, "--", RMTOOL, "hold", str(mib), "--page", "big"]
    process = t.Process(machine.words(*words), "hold", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    process.expect("holding %d MiB" % mib)
    return process


def ignore_internal_signals():
    """As whoever was started by posix_spawn() has inherited it, and all that he starts."""
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    rt_sigaction, ignore = 13, (ctypes.c_ulong * 4)(int(signal.SIG_IGN))
    for internal in (32, 33):  # which the C library's own functions leave alone
        check(system_call(rt_sigaction, internal, ignore, None, 8) == 0, "signals cannot be ignored")


def shims():
    return [pid for pid, line in isolation.processes().items() if line == "cgpu-shim"]


def own(node, machine):
    """Each shim is alone in a scope; cgpud's end, new start and upgrade change nothing of it."""
    first = hold(machine, 500, "--mem", "1GiB")
    second = hold(machine, 500, "--mem", "1GiB")
    scopes = machine.scopes()
    ids = {row["id"] for row in json.loads(machine.run(CGPU, "ps", "--json").stdout)}
    check({"cgpu-shim-%s.scope" % one for one in ids} == set(scopes) and len(ids) == 2,
          "the scopes are %s, the containers %s" % (scopes, ids))
    pids = sorted(pid for of_one in scopes.values() for pid in of_one)
    check(pids == sorted(shims()) and all(len(one) == 1 for one in scopes.values()),
          "in the scopes are %s, shims are %s" % (scopes, shims()))
    # A shim as ever: nothing of systemd-run's is left in it.
    for pid in pids:
        check(_read("/proc/%d/cmdline" % pid) == "cgpu-shim\0" and
              not _read("/proc/%d/environ" % pid), "the shim's words or environment are others")
        fields = dict(line.split(":\t", 1) for line in _read("/proc/%d/status" % pid).splitlines()
                      if ":\t" in line)
        check(int(fields["Uid"].split()[0]) >= 2_000_000_000 and fields["NoNewPrivs"] == "1" and
              fields["SigBlk"] == "0" * 16 and fields["SigIgn"] == "0" * 16 and
              {int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} ==
              {1 << 19 | 1 << 5 | 1 << 1}, "the shim's status is %s" % fields)
        check(all(os.readlink("/proc/%d/fd/%d" % (pid, fd)) == "/dev/null" for fd in (0, 1, 2)),
              "the shim's standard streams are not /dev/null")
        check(os.readlink("/proc/%d/cwd" % pid) == "/", "the shim is in another folder")
    after = machine.show("docker.service", "After").split()
    check(set(scopes) <= set(after), "docker would not be stopped before: it is after %s" % after)
    done = machine.run(CGPU, "upgrade")
    check(done.returncode == 0 and done.stdout.count(": upgraded;") == 2, "cgpu upgrade: %s" % done)
    check(machine.scopes() == scopes, "after the upgrade: %s" % machine.scopes())
    machine.systemctl("restart", "cgpud.service")
    machine.systemctl("stop", "cgpud.service")
    check(machine.show("cgpud.service", "ActiveState") == "inactive", "cgpud does not stop")
    check(machine.scopes() == scopes and first.popen.poll() is None, "a stopped cgpud took them along")
    node.sync()
    check(node.used() == 1000 * t.MIB, "the books say %d" % node.used())
    machine.systemctl("start", "cgpud.service")
    first.end()
    wait_for(lambda: len(machine.scopes()) == 1, "the first scope stays")
    # A scope that is stopped is its shim's end, and the container's with it.
    machine.systemctl("stop", *machine.scopes())
    second.wait()
    node.wait_used(0, "after a stopped scope")
    wait_for(lambda: not machine.scopes() and not shims(), "a scope or shim stays")
    failed = machine.systemctl("list-units", "--plain", "--no-legend", "--all", "cgpu-shim-*")
    check(not failed.strip(), "units stay: " + failed)
    check("has no scope" not in _read("/run/cgpud.log"), "cgpud had no scope: " + _read("/run/cgpud.log"))


def without(node, machine):
    """Where systemd gives no scope the slice comes without one, the log says why, and cgpud's unit
    ends without it."""
    stand_in = "/run/first/systemd-run"
    for script, why in (("echo 'Failed to start transient scope unit: no' >&2; exit 1",
                         "Failed to start transient scope unit: no"),
                        ("exit 0", "systemd-run failed"),
                        ("exec sleep 1000", "systemd-run does not end")):
        _write(stand_in, "#!/bin/sh\necho \"$@\" >/run/first/words\n%s\n" % script)
        os.chmod(stand_in, 0o755)
        process = hold(machine, 500, "--mem", "1GiB")
        (shim,) = shims()
        check(not machine.scopes(), "there is a scope: %s" % machine.scopes())
        check("sleep 1000" not in isolation.processes().values(), "systemd-run goes on")
        words = _read("/run/first/words")
        check(re.search(r"--scope .*--unit=cgpu-shim-[0-9a-f]{12} .* -- %s/cgpud become-shim \d+$"
                        % FOLDER, words), "systemd-run was called with " + words)
        said = _read("/run/cgpud.log").splitlines()[-1]
        check("has no scope of its own" in said and why in said, "cgpud's log says " + said)
        machine.systemctl("stop", "cgpud.service")
        check(shims() == [shim] and process.popen.poll() is None, "a stopped cgpud took it along")
        machine.systemctl("start", "cgpud.service")
        check(process.end() == 0, "the command failed")
        wait_for(lambda: not shims(), "the shim stays")


CASES = {"own": own, "without": without}


def run(function):
    ignore_internal_signals()
    os.mkdir(FOLDER, 0o755)
    for program in ("cgpu", "cgpud", "cgpu-shim", "rmtool"):
        shutil.copy(os.path.join(BIN, program), FOLDER)
    with open("/etc/group", "a", encoding="utf-8") as file:
        file.write("cgpu-members:x:%d:\n" % MEMBERS)
    with t.Node("v100-16g:1") as node:
        os.makedirs("/etc/cgpu", exist_ok=True)
        _write("/etc/cgpu/config.yaml", "node: %s\ngroup: cgpu-members\n" % node.name)
        with Machine() as machine:
            function(node, machine)
            node.wait_used(0, "after the commands")


if __name__ == "__main__":
    isolation.main({name: lambda function=function: run(function)
                    for name, function in CASES.items()})
