"""The kit for machines with a GPU (tests/gpu/run), on a simulated node. Cases: bundle, wrong."""
import json
import os
import subprocess
import sys
import tempfile

import cgpu_test as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _unpack(folder):
    """The kit as it travels: nothing of the tree but the bundle."""
    bundle = os.path.join(folder, "bundle.tar.gz")
    subprocess.run([os.path.join(ROOT, "tools", "gpu_bundle.sh"), t.BIN, bundle], check=True)
    t.check(os.path.getsize(bundle) <= 30 << 20, "the bundle is too large to travel")
    subprocess.run(["tar", "-C", folder, "-xzf", bundle], check=True)
    return os.path.join(folder, "cgpu-gpu", "run")


def _run(kit, folder, *words):
    """(exit status, {(check, what): outcome}, raw data)."""
    out = os.path.join(folder, "out")
    environment = {name: value for name, value in os.environ.items() if name != "CGPU_BIN"}
    done = subprocess.run([sys.executable, kit, "--out", out, *words], env=environment, check=False)
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    t.check(len(os.listdir(out)) <= 6, "the results are too many files to come back")
    return done.returncode, {(row[0], row[1]): row[2] for row in results["rows"]}, results["raw"]


def bundle():
    """Each check is made; none fails; what was recorded is what the driver was asked."""
    with t.Node("h100:1", driver="580") as node, tempfile.TemporaryDirectory() as folder:
        status, rows, raw = _run(_unpack(folder), folder, "--node", node.name)
        t.check(status == 0 and "FAIL" not in rows.values(), "status %d: %s" % (status, rows))
        made = {check for check, _ in rows}
        t.check(made == {"ground", "record", "identity", "memory"}, "checks: %s" % made)
        t.check(raw["record"]["rmtool info"]["calls"] > 5, "recorded: %s" % raw["record"])
        t.check(rows["memory", "a raw client is stopped at its slice"] == "pass", str(rows))
        t.check(rows["memory", "the rest"] == "skip", "CUDA on a simulated node: %s" % rows)
        node.wait_used(0, "after the kit")


def wrong():
    """What is not as cgpu needs it fails, and the rest says why it was left out."""
    with tempfile.TemporaryDirectory() as folder:
        kit = _unpack(folder)
        status, rows, _ = _run(kit, folder, "--node", "no-such-node")
        t.check(status == 1, "status %d: %s" % (status, rows))
        t.check(rows["ground", "cgpu run -- true"] == "FAIL", str(rows))
        t.check(rows["memory", "the rest"] == "skip", str(rows))
        status, rows, _ = _run(kit, folder, "--node", "no-such-node", "--budget", "0")
        t.check(status == 0 and set(rows.values()) == {"skip"}, "status %d: %s" % (status, rows))
        status = subprocess.run([sys.executable, kit, "--only", "junk"], check=False,
                                stderr=subprocess.DEVNULL).returncode
        t.check(status == 2, "a check that is not there: status %d" % status)


if __name__ == "__main__":
    t.main({"bundle": bundle, "wrong": wrong})
