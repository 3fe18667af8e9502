"""Plays systemctl for units that are services with a program. What changes files only, as "preset",
does the real one, which needs no systemd for that.

Needs isolation.enter(): what is started ends with the test.
"""
import os
import re
import select
import signal
import sys

from cgpu_test import DEADLINE
from engines import Daemon

_FOLDER = "/run/units"
CALLS = _FOLDER + "/calls"  # what was asked, a line each
REAL = "/usr/bin/systemctl.real"
_PLACES = ("/etc/systemd/system", "/usr/lib/systemd/system")


def pid_of(unit):
    """The number of its process; 0 where none runs."""
    try:
        with open("%s/%s.pid" % (_FOLDER, unit), encoding="utf-8") as file:
            pid = int(file.read())
    except FileNotFoundError:
        return 0
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return 0 if file.read().rsplit(")", 1)[1].split()[0] == "Z" else pid
    except FileNotFoundError:
        return 0


def log_of(unit):
    with open("%s/%s.log" % (_FOLDER, unit), encoding="utf-8") as file:
        return file.read()


def _setting(unit, name):
    for place in _PLACES:
        path = os.path.join(place, unit)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = re.search("^%s=(.*)$" % name, file.read(), re.MULTILINE)
            return found.group(1) if found else ""
    sys.exit("Unit %s not found." % unit)


def _start(unit):
    if pid_of(unit):
        return
    folder = "%s/%s" % (_FOLDER, unit)
    os.makedirs(folder, exist_ok=True)
    daemon = Daemon(_setting(unit, "ExecStart").split(), folder + ".log", folder,
                    {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    daemon.start()
    with open(folder + ".pid", "w", encoding="utf-8") as file:
        file.write(str(daemon.popen.pid))


def _stop(unit):
    pid = pid_of(unit)
    if not pid:
        return
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    if not select.select([process], [], [], DEADLINE)[0]:
        sys.exit("%s does not end" % unit)


def _main(words):
    os.makedirs(_FOLDER, exist_ok=True)
    with open(CALLS, "a", encoding="utf-8") as file:
        file.write(" ".join(words) + "\n")
    verb, *units = [word for word in words if not word.startswith("-")]
    if verb in ("disable", "enable", "is-enabled", "preset"):
        if "--now" in words:
            words.remove("--now")
            for unit in units:
                (_stop if verb == "disable" else _start)(unit)
        os.environ["SYSTEMD_OFFLINE"] = "1"
        os.execv(REAL, ["systemctl", *words])
    for unit in units:
        unit = unit if unit.endswith(".service") else unit + ".service"
        if verb == "start":
            _start(unit)
        elif verb == "stop":
            _stop(unit)
        elif verb == "restart":
            _stop(unit)
            _start(unit)
        elif verb == "reload":
            os.kill(pid_of(unit), signal.SIGHUP)
        elif verb == "try-reload-or-restart":
            if pid_of(unit):
                os.kill(pid_of(unit), signal.SIGHUP)
        elif verb == "is-active":
            sys.exit(0 if pid_of(unit) else 3)
        else:
            sys.exit("systemctl: nothing is known of " + verb)


if __name__ == "__main__":
    _main(sys.argv[1:])
