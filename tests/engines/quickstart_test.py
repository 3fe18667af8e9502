"""README's quickstart, each command as it stands there, by a shell: apt, dockerd with /etc/docker as
`cgpu install docker` leaves it, and an image made here under the name of the one that is named."""
import json
import os
import re
import subprocess

import cgpu_test as t
import image
import isolation
import packages
import systemctl
from engines import RUNC

README = os.path.join(os.path.dirname(__file__), "../../README.md")
SIMULATED = " && cgpu sim start --gpus v100-16g:1"
UNIT = "docker.service"
# A machine's own settings, without what tests have no rights for; see Docker in engines.py.
DOCKER = {"storage-driver": "vfs", "bridge": "none", "iptables": False, "ip6tables": False,
          "ip-forward": False, "ip-masq": False, "userland-proxy": False}


def _commands():
    """Those with a GPU, and those without; each three."""
    with open(README, encoding="utf-8") as file:
        section = re.search(r"^## Quickstart.*?(?=^## )", file.read(), re.MULTILINE | re.DOTALL)
    t.check(section, "README has no quickstart")
    blocks = [[line[2:] for line in block.splitlines() if line.startswith("# ")]
              for block in re.findall(r"^```\n(.*?)^```", section.group(0), re.MULTILINE | re.DOTALL)]
    t.check([len(block) for block in blocks] == [3, 3], "not twice three commands: %s" % blocks)
    real, simulated = blocks
    t.check([line.replace(SIMULATED, "") for line in simulated] == real and real != simulated,
            "with a GPU: %s; without: %s" % (real, simulated))
    return real, simulated


def _shell(line):
    print("# " + line)
    done = subprocess.run(["sh", "-c", line], cwd="/run/tree", stdin=subprocess.DEVNULL, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/run/tree"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=t.DEADLINE)
    print(done.stdout)
    t.check(done.returncode == 0, "`%s` ended with %d" % (line, done.returncode))
    return done.stdout


def _start_docker(name):
    """A machine with Docker, which has the image already."""
    for program in ("/usr/sbin/dockerd", "/usr/bin/docker", RUNC, image.BUSYBOX):
        if not os.access(program, os.X_OK):
            t.skip("no %s on this machine" % program)
    os.makedirs("/etc/docker", exist_ok=True)
    with open("/etc/docker/daemon.json", "w", encoding="utf-8") as file:
        json.dump(DOCKER, file)
    unit = "/etc/systemd/system/" + UNIT
    with open(unit, "w", encoding="utf-8") as file:
        file.write("[Service]\nExecStart=/usr/sbin/dockerd\n")
    _shell("systemctl start docker")
    image.make_rootfs("/run/rootfs")
    image.make_archive("/run/image.tar", "/run/rootfs", name=name)
    _shell("docker load --quiet --input /run/image.tar")


def _sees_slice(line):
    out = _shell(line)
    t.check(re.search(r"\b0MiB / +3072MiB", out), "3 GiB are not seen")


def docker():
    real, simulated = _commands()
    packages.own_usr()
    packages.make("/run/tree/build")
    _start_docker(re.search(r" (\S+) cgpu-smi$", real[2]).group(1))
    for line in simulated[:2]:
        _shell(line)
    _sees_slice(simulated[2])
    with open("/etc/docker/daemon.json", encoding="utf-8") as file:
        written = json.load(file)
    t.check(written == {**DOCKER, "runtimes": {"cgpu": {"path": "/usr/bin/cgpu-runtime"}}},
            "daemon.json: %s" % written)
    # The file is what a new dockerd starts with; and the commands for a node with GPUs, on this one.
    _shell("systemctl restart docker")
    for line in real[:2]:
        _shell(line)
    _sees_slice(real[2])
    _shell("cgpu sim stop")
    _shell("systemctl stop docker; systemctl stop cgpud")
    t.check(not systemctl.pid_of(UNIT), "dockerd goes on")
    isolation.wait_alone()


isolation.main({"docker": docker})
