"""A newcomer's host, and pages that are followed on it word by word: the packages to install, Docker
with an image under the name that the page says, a shell.

Needs isolation.enter(): all that a page does to the host is the test's alone.
"""
import ctypes
import json
import os
import re
import subprocess

import image
import packages
from cgpu_test import DEADLINE, check, command, skip
from engines import RUNC

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = "/run/tree"  # where the newcomer has built, or unpacked, the packages: in its folder build
UNIT = "docker.service"
_SYS_PIVOT_ROOT = 155
# A machine's own settings, without what tests have no rights for; see Docker in engines.py.
DOCKER = {"storage-driver": "vfs", "bridge": "none", "iptables": False, "ip6tables": False,
          "ip-forward": False, "ip-masq": False, "userland-proxy": False}


def start():
    """The host as it was installed, with the packages at hand: this machine, or the fresh one whose
    root CGPU_FRESH_ROOT names (tools/fresh_root.sh)."""
    packages.take(HOME + "/build")
    fresh = os.environ.get("CGPU_FRESH_ROOT")
    if fresh:
        _move_to(fresh)
        packages.play_systemd()
    else:
        packages.own_usr()


def _move_to(fresh):
    """Goes on with that folder as the root; its changes are the test's own. /run is as it was."""
    root = "/run/fresh/root"
    command("mount", "--make-rprivate", "/")  # pivot_root(2) takes no shared ones
    for part in ("new", "work", "root"):
        os.makedirs("/run/fresh/" + part)
    command("mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=/run/fresh/new,workdir=/run/fresh/work" %
            os.path.abspath(fresh), "overlay", root)
    for folder in ("/proc", "/sys", "/dev", "/run", ROOT):
        os.makedirs(root + folder, exist_ok=True)
        command("mount", "--rbind", folder, root + folder)
    os.makedirs(root + "/former")
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.syscall(_SYS_PIVOT_ROOT, root.encode(), (root + "/former").encode()) == 0,
          "no other root: " + os.strerror(ctypes.get_errno()))
    os.chdir("/")
    command("umount", "-l", "/former")
    command("mount", "--make-rshared", "/")


def start_docker(name, programs=()):
    """Gives the host Docker, which has the image `name` already, with `programs` (paths of static
    ones)."""
    for program in ("/usr/sbin/dockerd", "/usr/bin/docker", RUNC, image.BUSYBOX):
        if not os.access(program, os.X_OK):
            skip("no %s on this machine" % program)
    os.makedirs("/etc/docker", exist_ok=True)
    with open("/etc/docker/daemon.json", "w", encoding="utf-8") as file:
        json.dump(DOCKER, file)
    with open("/etc/systemd/system/" + UNIT, "w", encoding="utf-8") as file:
        file.write("[Service]\nExecStart=/usr/sbin/dockerd\n")
    shell("systemctl start docker")
    image.make_rootfs("/run/rootfs", programs)
    image.make_archive("/run/image.tar", "/run/rootfs", name=name)
    shell("docker load --quiet --input /run/image.tar")


def shell(script):
    """Runs a script as root's shell does that types it; what it says. Fails if one line fails."""
    print("# " + script.replace("\n", "\n# "))
    done = subprocess.run(["sh", "-exc", script], cwd=HOME, stdin=subprocess.DEVNULL, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=2 * DEADLINE)
    print(done.stdout)
    check(done.returncode == 0, "`%s` ended with %d" % (script, done.returncode))
    return done.stdout


def commands(page):
    """The commands of a page, which stand in its fenced blocks behind "# " and "$ "."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = re.findall(r"^```\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    found = [line[2:] for block in blocks for line in block.splitlines()
             if line.startswith(("# ", "$ "))]
    check(len(found) > 5, page + " has no commands")
    return found
