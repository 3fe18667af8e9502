"""The pages of docs/tutorial for one host, each command as it stands there, by a shell: the packages as
apt installs them, dockerd, and an image made here under the name of the one that is named.
tests/cluster has the page for Kubernetes."""
import json
import os
import re

import cgpu_test as t
import isolation
import systemctl
from newcomer import DOCKER, HOME, ROOT, UNIT, commands, shell, start, start_docker


def _expect(said, *patterns):
    """Each is said after the one before it."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(said, at)
        t.check(found, "nothing says %s" % pattern)
        at = found.end()


def docker():
    start()
    start_docker("debian:12")
    said = shell("\n".join(commands("docs/tutorial/docker.md")))
    _expect(said, r"\b0MiB / +3072MiB",
            "out of memory .*after 3072 MiB", "^exit status 2$",
            "^holding 2048 MiB$", r" train .*\b2048 / 3072 MiB", "^exit status 2$",
            "^allocated 2048 MiB",
            r"12288 MiB asked on GPU 0 .* where 10016 MiB of 16160 MiB are free", "^exit status 125$",
            "was set from 3072 MiB to 6144 MiB")
    with open("/etc/docker/daemon.json", encoding="utf-8") as file:
        t.check(json.load(file) == DOCKER, "Docker's configuration is not what it was")
    shell("systemctl stop docker")
    t.check(not systemctl.pid_of(UNIT), "dockerd goes on")
    isolation.wait_alone()


def simulated_node():
    """The page, then the lines that its job for GitHub Actions runs."""
    page = "docs/tutorial/simulated-node.md"
    start()
    said = shell("\n".join(commands(page)))
    _expect(said, "^GPU 7: NVIDIA A100", r"^GPU 2 .* 4096\.0 of 81920\.0 MiB", "^2, 4096$", "^NVML counts 8$",
            "out of memory .* after 81920 MiB", "^exit status 2$", r"^sum: .* launches ended",
            "10240MiB total", "out of memory .* after 10240 MiB", "^exit status 2$",
            "^7$", "^8$")
    shell("apt-get purge --yes cgpu")
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        steps = re.findall("^ +- run: (.*)$", file.read(), re.MULTILINE)
    t.check(len(steps) == 4, "the job has the steps %s" % steps)
    with open(HOME + "/your-tests", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec cgpu smi -L\n")
    os.chmod(HOME + "/your-tests", 0o755)
    _expect("".join(map(shell, steps)), "^GPU 7: NVIDIA A100", "^driver 580")
    shell("systemctl stop cgpud")
    isolation.wait_alone()


isolation.main({"docker": docker, "simulated-node": simulated_node})
