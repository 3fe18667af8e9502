"""The test cluster itself: it runs a job, gives its log, executes in a pod and says why a pod waits,
as Kubernetes does. What fails here is no fault of cgpu's."""
import os
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import Cluster, make_pod  # noqa: E402


def smoke():
    with Cluster() as cluster:
        job = make_pod("", "sh", "-c", "echo hello; id -u")["spec"]
        cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hello"},
                       "spec": {"template": {"spec": job}}})
        cluster.wait("the job does not succeed",
                     lambda: cluster.get("job", "hello")["status"].get("succeeded") == 1)
        said = cluster.kubectl("logs", "job/hello").split()
        check(said == ["hello", "0"], "the job says %s" % said)
        cluster.apply(make_pod("long", "sleep", "1000"),
                      make_pod("never", "true", limits={"example.com/none": "1"}))
        cluster.wait_phase("long", "Running")
        name = cluster.kubectl("exec", "long", "--", "hostname").strip()
        check(name == "long", "the pod's host is called " + name)

        def reason():
            conditions = cluster.get("pod", "never")["status"].get("conditions") or []
            return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), "")
        cluster.wait("the pod is not said to be unschedulable", reason)
        check("Insufficient example.com/none" in reason(), reason())
        cluster.say("the smoke test is done")


if __name__ == "__main__":
    isolation.main({"smoke": smoke})
