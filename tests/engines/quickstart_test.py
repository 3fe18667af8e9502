"""README's quickstart, each command as it stands there, by a shell: apt, dockerd with /etc/docker as
`cgpu install docker` leaves it, and an image made here under the name of the one that is named."""
import json
import os
import re

import cgpu_test as t
import isolation
import systemctl
from newcomer import DOCKER, UNIT, shell, start, start_docker

README = os.path.join(os.path.dirname(__file__), "../../README.md")
SIMULATED = " && cgpu sim start --gpus v100-16g:1"


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


def _sees_slice(line):
    out = shell(line)
    t.check(re.search(r"\b0MiB / +3072MiB", out), "3 GiB are not seen")


def docker():
    real, simulated = _commands()
    start()
    start_docker(re.search(r" (\S+) nvidia-smi$", real[2]).group(1))
    for line in simulated[:2]:
        shell(line)
    _sees_slice(simulated[2])
    out = shell(simulated[2].replace(" --runtime=cgpu -e CGPU_MEM=3GiB", "") + " 2>&1 || true")
    t.check("this container has no slice of a GPU" in out and "CGPU_MEM=4GiB" in out and
            "sim start" not in out, "without a slice it says: " + out)
    with open("/etc/docker/daemon.json", encoding="utf-8") as file:
        written = json.load(file)
    t.check(written == {**DOCKER, "runtimes": {"cgpu": {"path": "/usr/bin/cgpu-runtime"}}},
            "daemon.json: %s" % written)
    # The file is what a new dockerd starts with; and the commands for a node with GPUs, on this one.
    shell("systemctl restart docker")
    for line in real[:2]:
        shell(line)
    _sees_slice(real[2])
    shell("cgpu sim stop")
    shell("systemctl stop docker; systemctl stop cgpud")
    t.check(not systemctl.pid_of(UNIT), "dockerd goes on")
    isolation.wait_alone()


isolation.main({"docker": docker})
