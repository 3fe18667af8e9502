"""docs/tutorial/kubernetes.md, each command as it stands there, by a shell. The test brings what a user
brings: the cluster, the images, and values that say where they are."""
import os
import re
import sys
import threading

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import image  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER  # noqa: E402
from deployed import ASKED, ROOT, Deployed  # noqa: E402

PAGE = ROOT + "/docs/tutorial/kubernetes.md"
PODS = "docker.io/library/debian:12"  # the image that the pods of the page name


def _commands():
    with open(PAGE, encoding="utf-8") as file:
        found = re.findall(r"^\$ (.*)$", file.read(), re.MULTILINE)
    check(len(found) > 10, "the page has no commands")
    return found


def _serve_restarts(cluster, done):
    """Restarts containerd whenever cgpu-node asks for it, as systemd would."""
    while not done.wait(0.1):
        if os.path.exists(ASKED):
            cluster.restart_containerd()


def as_written():
    with t.Node("v100-16g:2") as node, Deployed(node) as cluster:
        image.make_rootfs(FOLDER + "/rootfs-debian")
        cluster.import_image(PODS, FOLDER + "/rootfs-debian")
        done = threading.Event()
        restarts = threading.Thread(target=_serve_restarts, args=(cluster, done))
        restarts.start()
        try:
            said = cluster.user("sh", "-exuc", "\n".join(_commands()))
        except t.Failure:
            cluster.show_pods()
            raise
        finally:
            done.set()
            restarts.join()
        for text in ("3232MiB", "4309MiB", r"first +default +3\b", r"second +default +4\b"):
            check(re.search(text, said), "nothing says " + text)
        node.wait_nothing_left()


if __name__ == "__main__":
    isolation.main({"as_written": as_written})
