"""Compose files, by docker-compose against dockerd. Cases by name: docker-CASE."""
import functools
import json
import os
import re

import cgpu_test as t
import isolation
import slices_test
from engines import IMAGE
from slices_test import expect

# No service has a network: bridges need kernel modules.
SERVICE = """
  {name}:
    image: %s
    network_mode: none
    command: "{command}"
""" % IMAGE
# Slices by both families of names, and environments in both forms.
SLICES = """
    runtime: cgpu
    environment:
      CGPU_MEM: 3GiB
""", """
    runtime: cgpu
    environment:
      - ALIYUN_COM_GPU_MEM_CONTAINER=2
      - ALIYUN_COM_GPU_MEM_DEV=15
""", """
    runtime: cgpu
    environment: ["CGPU_MEM=12GiB"]
"""
DEVICES = """
    deploy:
      resources:
        reservations:
          devices:
            - capabilities: [gpu]
              count: 1
"""


def _project(test, version, services):
    """Writes a compose file of this format (the newest where it is empty) with services: (name,
    command, what else there is to say). What calls docker-compose with it."""
    folder = test.engine.folder + "/project"
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/docker-compose.yml", "w", encoding="utf-8") as file:
        if version:
            file.write("version: '%s'\n" % version)
        file.write("services:")
        for name, command, more in services:
            file.write(SERVICE.format(name=name, command=command).rstrip("\n") + more)
    return functools.partial(test.engine.compose, file.name)


def _networks(test):
    """The names of dockerd's networks: it lists them in any order."""
    _, text = test.engine.ask("GET", "/networks")
    return sorted(network["Name"] for network in json.loads(text))


def slices(test):
    """Services with slices: each sees its own and stops at it; one that does not fit is refused."""
    before = _networks(test)
    holding = {"first": 3072, "second": 2154}
    commands = ["rmtool hold %d --page big --forever" % mib for mib in holding.values()]
    compose = _project(test, "2.4", [*zip(holding, commands, SLICES), ("third", "true", SLICES[2])])
    expect(compose("up", "--detach", *holding), 0)
    test.node.wait_used(sum(holding.values()) * t.MIB, "both services")
    for name, mib in holding.items():
        expect(compose("exec", "-T", name, "rmtool", "alloc", "1"), 2, "out of memory")
        out = expect(compose("exec", "-T", name, "rmtool", "info"), 0)
        t.check(re.findall(r"(\d+)MiB total", out) == [str(mib)], "rmtool info says " + out)
    test.check_used(sum(holding.values()))
    expect(compose("up", "--detach", "third"), 1, "12288 MiB")
    expect(compose("down", "--timeout", "0"), 0)
    t.check(_networks(test) == before, "networks are left: %s" % (_networks(test),))


def devices(test):
    """A reservation of devices: dockerd's own error where NVIDIA's hook is not installed, ours where it
    is; without it the same service is held."""
    for version in ("3.8", ""):
        compose = _project(test, version,
                          [("whole", "true", SLICES[0] + DEVICES),
                           ("held", "rmtool alloc 3073 --page big", SLICES[0])])
        expect(compose("run", "--rm", "whole"), 1, "could not select device driver")
        expect(compose("run", "--rm", "held"), 2, "out of memory")
    hook = slices_test.stand_in("nvidia-container-runtime-hook")
    test.engine.restart_engine()  # it looks for it when it starts
    slices_test.BEFORE.extend(isolation.processes())
    expect(compose("run", "--rm", "whole"), 1, re.escape(hook) + ".*leave --gpus out")
    t.check(not slices_test.called(), "the hook was run for a container with a slice")
    expect(compose("down"), 0)


slices_test.main({"slices": slices, "devices": devices})
