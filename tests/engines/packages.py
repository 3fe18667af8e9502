"""The packages as a machine gets them: made of this build, installed by dpkg with their scripts.

Needs isolation.enter() and own_usr(): what is installed is the test's alone.
"""
import glob
import os
import shutil
import subprocess
import sys

import systemctl
from cgpu_test import BIN, DEADLINE, check, command, skip

BUILD = os.path.dirname(os.path.abspath(BIN))
_MADE = BUILD + "/tests/packages"
_NEEDED = ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps", "deb-systemd-invoke", "addgroup")


def make():
    """Makes all packages of this build, once for all tests (CMakeLists.txt, package-made)."""
    for program in _NEEDED:
        if not shutil.which(program, path="/usr/sbin:/usr/bin"):
            skip("no %s on this machine" % program)
    shutil.rmtree(_MADE, ignore_errors=True)
    for kind in ("DEB", "RPM") if shutil.which("rpmbuild") else ("DEB",):
        command("cpack", "-G", kind, "--config", BUILD + "/CPackConfig.cmake", "-B", _MADE)
        shutil.rmtree(_MADE + "/_CPack_Packages")


def take(folder):
    """Copies the packages into `folder`, which it makes; the path of cgpu's own."""
    if not os.path.isdir(_MADE):
        skip("package-made has made no packages")
    shutil.copytree(_MADE, folder)
    (path,) = glob.glob(folder + "/cgpu_*.deb")
    return path


def rpms():
    """The paths of the packages for RPM, by name."""
    if not shutil.which("rpm") or not glob.glob(_MADE + "/*.rpm"):
        skip("no rpm on this machine, or package-made has made none")
    return {name: glob.glob("%s/%s-[0-9]*.rpm" % (_MADE, name))[0]
            for name in ("cgpu", "cgpu-exporter", "cgpu-kubernetes")}


def with_version(package, version, folder, programs=None, edit=None):
    """The same package with another version, with other programs (by name, their paths), and changed
    by `edit`, which gets the folder of its content; its path."""
    content = folder + "/content"
    command("dpkg-deb", "--raw-extract", package, content)
    for name, program in (programs or {}).items():
        shutil.copyfile(program, "%s/usr/bin/%s" % (content, name))  # of the mode that it had
    if edit:
        edit(content)
    with open(content + "/DEBIAN/control", encoding="utf-8") as file:
        lines = [("Version: %s\n" % version) if line.startswith("Version:") else line
                 for line in file]
    with open(content + "/DEBIAN/control", "w", encoding="utf-8") as file:
        file.writelines(lines)
    path = "%s/cgpu_%s.deb" % (folder, version)
    command("dpkg-deb", "-Znone", "--build", content, path)
    shutil.rmtree(content)
    return path


def own_usr(systemd=True):
    """From now on changes below /usr are the test's own, services may be started, and systemctl is
    systemctl.py. `systemd`: whether the machine is to look like one that it runs on."""
    for part in ("new", "work"):
        os.makedirs("/run/changes/usr/" + part)
    done = subprocess.run(
        ["mount", "-t", "overlay", "-o",
         "lowerdir=/usr,upperdir=/run/changes/usr/new,workdir=/run/changes/usr/work", "overlay",
         "/usr"], check=False, timeout=DEADLINE)
    check(done.returncode == 0, "no private /usr")
    if os.path.exists("/usr/sbin/policy-rc.d"):
        os.unlink("/usr/sbin/policy-rc.d")
    if systemd:
        play_systemd()


def play_systemd():
    """From now on systemctl is systemctl.py, and the machine looks like one that systemd runs on."""
    os.makedirs("/run/systemd/system")  # as sd_booted(3) looks for
    os.rename("/usr/bin/systemctl", systemctl.REAL)
    with open("/usr/bin/systemctl", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nPYTHONPATH=%s exec %s %s \"$@\"\n" % (
            ":".join(sys.path), shutil.which(sys.executable) or "/usr/bin/python3", systemctl.__file__))
    os.chmod("/usr/bin/systemctl", 0o755)
