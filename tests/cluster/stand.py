"""A cluster for a person, which stands until it is told to end (`make cluster-up`, `make cluster-down`):

    stand.py up             starts it: one node with two simulated GPUs, shared by cgpu
    stand.py kubectl WORDS  kubectl there, with this terminal
    stand.py down           ends it, with all that it has made

It is apart from the machine as the tests are, so it can stand beside another cluster, but there is
one for each user of the machine.
"""
import json
import os
import select
import signal
import subprocess
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import start_time  # noqa: E402
from cluster import FOLDER, find_kube  # noqa: E402
from sliced import sliced  # noqa: E402

_CACHE = os.environ.get("CGPU_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cgpu")
STATE, LOG = os.path.join(_CACHE, "cluster.json"), os.path.join(_CACHE, "cluster.log")


def fail(sentence, hint):
    sys.exit("error: %s\nhint: %s" % (sentence, hint))


def standing():
    """The cluster's process (its number and a pidfd), or None."""
    try:
        with open(STATE, encoding="utf-8") as file:
            state = json.load(file)
        pidfd = os.pidfd_open(state["pid"])
        began = start_time(state["pid"])
    except (OSError, ValueError):
        return None
    return (state["pid"], pidfd) if began == state["began"] else None


def serve():
    """The cluster itself: stands until SIGTERM."""
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    isolation.enter()
    with sliced():
        with open(STATE + ".new", "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "began": start_time(os.getpid())}, file)
        os.rename(STATE + ".new", STATE)
        signal.sigwait(signals)
        os.unlink(STATE)


def up():
    find_kube()
    if standing():
        fail("the cluster stands already", "make cluster-down")
    os.makedirs(_CACHE, exist_ok=True)
    with open(LOG, "wb") as log:
        process = subprocess.Popen([sys.executable, __file__, "serve"], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True)
    ended = os.pidfd_open(process.pid)
    while not standing():
        if select.select([ended], [], [], 0.2)[0]:
            fail("the cluster has not come up", "see " + LOG)
    me = os.path.relpath(__file__)
    print("The cluster stands. Its node has two simulated GPUs of 15 GiB, its image is "
          "localhost/cgpu-test:1.\n\n  python3 %s kubectl get nodes\n  make cluster-down" % me)


def kubectl(*words):
    cluster = standing()
    if not cluster:
        fail("no cluster stands", "make cluster-up")
    os.execv("/usr/bin/nsenter", ["nsenter", "--target", str(cluster[0]), "--net", "--mount", "--",
                                  find_kube(), "kubectl", "--kubeconfig",
                                  FOLDER + "/keys/admin.conf", *words])


def down():
    cluster = standing()
    if not cluster:
        fail("no cluster stands", "make cluster-up starts one")
    signal.pidfd_send_signal(cluster[1], signal.SIGTERM)
    select.select([cluster[1]], [], [])


if __name__ == "__main__":
    _COMMANDS = {"serve": serve, "up": up, "kubectl": kubectl, "down": down}
    if sys.argv[1:2] == [] or sys.argv[1] not in _COMMANDS:
        sys.exit(__doc__)
    _COMMANDS[sys.argv[1]](*sys.argv[2:])
