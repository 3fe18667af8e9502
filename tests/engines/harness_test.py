"""Each engine runs containers here with a runtime of the test's choice, does what the tests ask of
it, and leaves nothing."""
import json
import os
import select
import signal
import sys

import isolation
from bundles import Crun, Runc
from cgpu_test import DEADLINE, Process, check, wait_for
from containerd import Containerd, Cri
from engines import CRUN, RUNC, Docker, Podman

WRITTEN = "/run/runtime-calls"
# When it is told to, it refuses as runc does: containerd reads the reason from the file that --log
# names, podman and people from standard error.
WRAPPER = """#!/bin/sh
echo " $* " >> {written}
case " $* " in *" create "*|*" run "*)
  if [ -e /run/refuse ]; then
    echo "no such slice" >&2
    for word; do
      [ "$last" != --log ] || echo '{{"level": "error", "msg": "no such slice"}}' >> "$word"
      last=$word
    done
    exit 1
  fi;;
esac
exec {real} "$@"
"""


def _make_wrapper(real):
    """A runtime under test: another, that writes down what it is asked."""
    path = "/run/wrapper"
    with open(path, "w", encoding="utf-8") as file:
        file.write(WRAPPER.format(written=WRITTEN, real=real))
    os.chmod(path, 0o755)
    with open(WRITTEN, "w", encoding="utf-8"):
        os.chmod(WRITTEN, 0o666)
    return path


def _mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return {line.split()[4] for line in file}


def _runs_to_its_end(engine):
    """A container like nobody's default: what it is given, it has."""
    os.makedirs("/run/given", exist_ok=True)
    with open("/run/given/file", "w", encoding="utf-8") as file:
        file.write("here\n")
    done = engine.run("one", ["sh", "-c", "echo $A $B; id -u; cat /given/file;"
                              "echo no > /given/file; echo no > /there;"
                              "grep Seccomp: /proc/self/status; exit 7"],
                      env={"A": "a", "B": "two words"}, mounts=[("/run/given", "/given", "ro")],
                      user=12, read_only=True, seccomp="unconfined")
    check(done.returncode == 7, "it ended with %d: %s" % (done.returncode, done.stderr))
    check(done.stdout.split() == ["a", "two", "words", "12", "here", "Seccomp:", "0"],
          "it said: " + done.stdout)
    check(done.stderr.count("Read-only file system") == 2, "it complained: " + done.stderr)
    engine.remove("one")


def _goes_on(engine, pauses):
    """A container in the background, of the name of another that was removed."""
    done = engine.run("one", ["sh", "-c", "echo started; exec sleep 1000"], detach=True)
    check(done.returncode == 0, "it does not start: " + done.stderr)
    pid = engine.pid("one")
    check(os.readlink("/proc/%d/ns/pid" % pid) != os.readlink("/proc/self/ns/pid"),
          "%d is no process of a container" % pid)
    ended = os.pidfd_open(pid)
    asked = engine.exec("one", ["sh", "-c", "echo inside; echo beside >&2; exit 9"])
    check((asked.returncode, asked.stdout, asked.stderr) == (9, "inside\n", "beside\n"),
          "exec: %s" % asked)
    if pauses:
        for step in (engine.pause, engine.unpause):
            done = step("one")
            check(done.returncode == 0, "pause and unpause: " + done.stderr)
    for how in (signal.SIGTERM, signal.SIGKILL):
        engine.restart_engine(how)
        check(engine.pid("one") == pid, "after the engine's end the container is another")
    check(engine.exec("one", ["true"]).returncode == 0, "no exec after a new start")
    check(engine.logs("one") == "started\n", "it said: " + engine.logs("one"))
    engine.kill("one")
    check(engine.wait("one") == 137, "it ended with %d" % engine.wait("one"))
    check(select.select([ended], [], [], DEADLINE)[0], "its process is still there")
    os.close(ended)
    engine.remove("one")


def _talks(engine):
    process = engine.talk("talk", ["cat"])
    process.say("to and fro")
    process.expect("^to and fro$")
    check(process.end() == 0, "the talk ended badly")
    engine.remove("talk")


def _tells_refusals(engine):
    """The container engine tells what the runtime under test refuses, and nothing is left of it."""
    with open("/run/refuse", "w", encoding="utf-8"):
        pass
    done = engine.run("refused", ["true"])
    os.unlink("/run/refuse")
    check(done.returncode != 0 and "no such slice" in done.stderr, "refused: %s" % done)
    engine.remove("refused")


def _lives(make, real=RUNC, pauses=True):
    """Each container engine does all of this."""
    wrapper = _make_wrapper(real)
    mounts = _mounts()
    with make(wrapper) as engine:
        with open(WRITTEN, encoding="utf-8") as file:
            check(file.read() == "", "the control ran with the runtime under test")
        _runs_to_its_end(engine)
        _goes_on(engine, pauses)
        _talks(engine)
        _tells_refusals(engine)
        engine.run("left", ["sleep", "1000"], detach=True)  # the engine's end is its end
    with open(WRITTEN, encoding="utf-8") as file:
        calls = file.read()
    for words in ((" create ", " run "), (" exec ",)):
        check(any(word in calls for word in words), "the runtime was never asked to%s: %s" %
              (words[0], calls))
    isolation.wait_alone()
    check(isolation.containers_cgroups() == [], "cgroups: %s" % isolation.containers_cgroups())
    check(_mounts() == mounts, "mounts: %s" % sorted(_mounts() ^ mounts))


def hang():
    """Part of `killed`: an engine and a container, and then nothing."""
    with Containerd(RUNC) as engine:
        engine.run("long", ["sleep", "1000"], detach=True)
        print(json.dumps({"test": os.getpid(), "container": engine.pid("long"),
                          "cgroups": isolation.folders}), flush=True)
        sys.stdin.read()


def killed():
    """Neither a killed test nor a killed keeper leaves anything."""
    for victim in ("test", "keeper"):
        process = Process([sys.executable, os.path.abspath(__file__), "hang"], "hang")
        said = json.loads(process.expect(r"^(\{.*\}|skipped: .*)$").group(1))
        ended = os.pidfd_open(said["container"])
        check(all(map(os.path.isdir, said["cgroups"])), "no cgroups: %s" % said)
        os.kill(said["test"] if victim == "test" else process.popen.pid, signal.SIGKILL)
        check(process.wait() == 137, "the %s was not killed" % victim)
        check(select.select([ended], [], [], DEADLINE)[0], "the container outlives the " + victim)
        os.close(ended)
        wait_for(lambda: not any(map(os.path.exists, said["cgroups"])), "cgroups outlive the " + victim)


CASES = {
    "runc": lambda: _lives(Runc),
    "crun": lambda: _lives(Crun, CRUN),
    "containerd": lambda: _lives(Containerd),
    "cri": lambda: _lives(Cri),
    "docker": lambda: _lives(Docker),
    "podman": lambda: _lives(Podman),
    # A user without rights has no cgroups to pause a container with.
    "podman-rootless": lambda: _lives(lambda runtime: Podman(runtime, rootless=True), pauses=False),
    "hang": hang,
    "killed": killed,
}
isolation.main(CASES, outside={"killed"})
