"""NVIDIA's own device plugin for Kubernetes on a simulated node, unmodified, with a kubelet's side that
is made here: which GPUs it offers, and which it takes for broken. CGPU_NVIDIA_PLUGIN is the program;
`make test-go` builds it. Cases by name, see tests/lib/cgpu_test.py.

The plugin waits for Xid errors by NVML's event sets, skips those of programs, and takes all GPUs for
broken when the wait fails (its internal/rm/health.go, k8s-device-plugin v0.18.0). It never takes one
for mended.
"""
import contextlib
import json
import os

import cgpu_test as t
import isolation

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "../../src/kubelet/deviceplugin.proto")
PYTHON = "/usr/bin/python3"
GPUS = 8


class _Plugin:
    """The plugin on a node, once it waits for errors of its GPUs."""

    def __init__(self, node):
        program = os.environ.get("CGPU_NVIDIA_PLUGIN")
        if not program:
            t.skip("CGPU_NVIDIA_PLUGIN names no device plugin: make test-go builds it")
        t.check(os.access(program, os.X_OK), "no program %s" % program)
        if t.command(PYTHON, "-c", "import grpc, google.protobuf", ok=False).returncode != 0:
            t.skip("no gRPC for Python on this machine (packages python3-grpcio, python3-protobuf)")
        self._kubelet = t.Process([PYTHON, os.path.join(HERE, "nvidia_plugin/kubelet.py"), PROTO],
                                  "kubelet")
        self._kubelet.expect("^ready$")
        node.exec([program], "plugin")
        self._kubelet.expect("^resource nvidia.com/gpu$")
        self.first = self.devices()
        t.wait_for(lambda: node.books()["kernel"]["os_events"] == GPUS,
                   lambda: "the plugin waits for no errors: %s" % node.books()["kernel"])

    def devices(self):
        """The next list of devices: ID -> health."""
        return json.loads(self._kubelet.expect("^devices (.*)$").group(1))


@contextlib.contextmanager
def _on_node():
    """A plugin, its node, and the GPUs' UUIDs."""
    t.require_machine()
    with t.Node("a100-80g:%d" % GPUS) as node:
        uuids = [gpu["uuid"] for gpu in node.books()["gpus"]]
        plugin = _Plugin(node)
        t.check(plugin.first == dict.fromkeys(uuids, "Healthy"),
                "GPUs %s, the plugin offers %s" % (uuids, plugin.first))
        yield plugin, node, uuids


def xid():
    """An error of a GPU makes that one unhealthy; one that NVIDIA lays to programs does not."""
    with _on_node() as (plugin, node, uuids):
        broken = {}
        node.sim("fault", "--gpu", "2", "--xid", "31")  # of a program: a page fault
        for index, number in ((3, 79), (5, 48)):
            node.sim("fault", "--gpu", str(index), "--xid", str(number))
            broken[uuids[index]] = "Unhealthy"
            devices = plugin.devices()
            t.check(devices == {**plugin.first, **broken}, "after Xid %d: %s" % (number, devices))


def lost():
    """A GPU off the bus ends the plugin's wait, which tells nothing of which GPU it is: the plugin
    takes all for broken."""
    with _on_node() as (plugin, node, uuids):
        node.sim("lose", "--gpu", "3")
        while (devices := plugin.devices()) != dict.fromkeys(uuids, "Unhealthy"):
            t.check(set(devices) == set(uuids), "offered: %s" % devices)
        node.sim("restore", "--gpu", "3")


isolation.main({"xid": xid, "lost": lost})
