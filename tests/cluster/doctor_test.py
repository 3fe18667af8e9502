"""`cgpu doctor --kubernetes` on a real cluster with the chart: nothing is wrong at first, and it names
what the test breaks."""
import base64
import json
import os
import subprocess
import sys

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_TESTS, folder) for folder in ("lib", "engines", "cluster")]

import cgpu_test as t  # noqa: E402
import isolation  # noqa: E402
from cgpu_test import check  # noqa: E402
from cluster import FOLDER, make_pod  # noqa: E402
from deployed import SECONDS, deployed  # noqa: E402


def doctor(cluster, *words):
    """Exit status, and the findings by id."""
    done = subprocess.run([os.path.abspath(t.CGPU), "doctor", "--only", "kubernetes", "-o", "json", *words],
                          stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False,
                          env={"PATH": FOLDER + "/bin:/usr/bin:/bin", "HOME": FOLDER,
                               "KUBECONFIG": cluster.keys.path("admin.conf")})
    return done.returncode, {one["id"]: one for one in json.loads(done.stdout)["checks"]}


def wrong(checks, *statuses):
    return {name: one["found"] for name, one in checks.items()
            if one["status"] in (statuses or ("error",))}


def story():
    """A cluster right after the chart's installation is healthy, also with a pod that has a part of a
    GPU. Without its RuntimeClass, and with another authority's bundle, it is not."""
    with deployed() as cluster:
        status, checks = doctor(cluster, "--wait", "60")
        check(status == 0 and not wrong(checks, "warning"), "%s" % wrong(checks, "error", "warning"))
        skipped = wrong(checks, "skipped")
        check(not skipped, "nobody looked: %s" % skipped)
        cluster.apply(make_pod("first", "sleep", "1000", limits={"aliyun.com/gpu-mem": "2"}))
        cluster.wait_phase("first", "Running")
        status, checks = doctor(cluster)
        check(status == 0, "with a pod: %s" % wrong(checks))
        cluster.say("the cluster is healthy")

        cluster.kubectl("delete", "runtimeclass", "cgpu")
        status, checks = doctor(cluster)
        check(status == 1 and list(wrong(checks)) == ["k8s-runtimeclass"], "%s" % wrong(checks))
        cluster.install()
        check(not wrong(doctor(cluster, "--wait", "60")[1]), "mended, and still wrong")

        # A self-signed certificate of nobody's.
        done = t.command("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2",
                         "-subj", "/CN=other", "-keyout", "/dev/null")
        bundle = base64.b64encode(done.encode()).decode()
        cluster.kubectl("patch", "mutatingwebhookconfiguration", "cgpu", "--type=json", "-p", json.dumps(
            [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]))
        status, checks = doctor(cluster)
        check(status == 1 and list(wrong(checks)) == ["k8s-webhook-certificate"], "%s" % wrong(checks))
        # The API server agrees.
        done = cluster.apply(make_pod("second", "true", limits={"aliyun.com/gpu-mem": "2"}), ok=False)
        check(done.returncode != 0 and "certificate" in done.stderr, "%s" % done.stderr)
        cluster.say("a foreign bundle is found")


isolation.main({"story": story})
