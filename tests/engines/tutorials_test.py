"""The pages of docs/tutorial for one host, each command as it stands there, by a shell: the packages as
apt installs them, dockerd, and an image made here under the name of the one that is named.
tests/cluster has the page for Kubernetes."""
import json
import re

import cgpu_test as t
import isolation
import systemctl
from newcomer import DOCKER, UNIT, commands, shell, start, start_docker


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
            "^holding 2048 MiB$", r"\b2048MiB / +3072MiB", "^exit status 2$",
            "^allocated 2048 MiB",
            r"12288 MiB asked on GPU 0 .* where 10016 MiB of 16160 MiB are free", "^exit status 125$",
            "was set from 3072 MiB to 6144 MiB")
    with open("/etc/docker/daemon.json", encoding="utf-8") as file:
        t.check(json.load(file) == DOCKER, "Docker's configuration is not what it was")
    shell("systemctl stop docker")
    t.check(not systemctl.pid_of(UNIT), "dockerd goes on")
    isolation.wait_alone()


isolation.main({"docker": docker})
