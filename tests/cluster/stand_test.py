"""The cluster for a person: it comes up, kubectl reaches it, and nothing of it is left."""
import os
import subprocess
import sys
import tempfile

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import find_kube  # noqa: E402


def stands():
    stand = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand.py")
    kube = os.path.dirname(find_kube())
    with tempfile.TemporaryDirectory() as cache:
        os.symlink(kube, os.path.join(cache, os.path.basename(kube)))

        def call(*words):
            return subprocess.run([sys.executable, stand, *words], capture_output=True, text=True,
                                  timeout=300, check=False, env={**os.environ, "CGPU_CACHE": cache})
        check("no cluster stands" in call("kubectl", "get", "nodes").stderr, "there is one")
        done = call("up")
        check(done.returncode == 0, done.stderr)
        try:
            check("stands already" in call("up").stderr, "there are two")
            done = call("kubectl", "get", "nodes", "--output",
                        "jsonpath={.items[*].status.allocatable.aliyun\\.com/gpu-mem}")
            check(done.stdout == "30", done.stdout + done.stderr)
        finally:
            done = call("down")
        check(done.returncode == 0, done.stderr)
        check("no cluster stands" in call("down").stderr, "it stands still")


if __name__ == "__main__":
    t.main({"stands": stands}, apart=False)
