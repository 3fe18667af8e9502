"""A real Kubernetes of one node on the loopback of the test's own network namespace:

    isolation.enter()
    with Cluster() as cluster:
        cluster.apply({...})
        cluster.kubectl("get", "pods")

One binary (../build_go.sh) is etcd, the API server, the controllers, the scheduler, the kubelet and
kubectl; containerd, runc and the CNI plugins are Debian's. The image is the one of tests/engines.
The processes write their logs to FOLDER/logs; __exit__ shows the ends of them where a test fails.

Some settings are there because the machine may lack systemd, CAP_SYS_RESOURCE and a registry. Each
of them says so where it is set.
"""
import http.client
import json
import os
import signal
import ssl
import subprocess
import time

import cgpu_test
import image
from cgpu_test import Failure, check, skip
from keys import Keys

FOLDER = "/run/cluster"
NODE = "127.0.0.1"  # the kubelet takes its name for its address, loopback or not
PAUSE = "localhost/pause:1"
DEADLINE = 120
_HERE = os.path.dirname(os.path.abspath(__file__))
_PROGRAMS = ("/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/lib/cni/bridge",
             "/usr/bin/openssl", image.BUSYBOX)
_BRIDGE = {"cniVersion": "0.4.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipMasq": False,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]],
              "routes": [{"dst": "0.0.0.0/0"}]}}]}
_CONTAINERD = """
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
  default_runtime_name = "runc"
"""
_HANDLER = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
  runtime_type = "io.containerd.runc.v2"
  # The words of tenants reach the runtime, as far as an administrator can let them.
  pod_annotations = ["*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
  BinaryName = "{path}"
"""


def find_kube():
    """The path of the binary. Skips the test where it is not built: that takes ten minutes."""
    done = subprocess.run([os.path.join(_HERE, "../build_go.sh"), "kube"], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        skip("Kubernetes is not built on this machine")
    return done.stdout.strip()


class Cluster:
    """`handlers`: OCI runtimes by the names that RuntimeClasses give them. `in_image`: static
    programs that are to be in the image. `with_node`: without it there is etcd and an API server, and
    nodes and pods are nothing but objects."""

    def __init__(self, handlers=None, in_image=(), with_node=True):
        self._kube = find_kube()
        self._handlers = {"runc": "/usr/sbin/runc", **(handlers or {})}
        self._in_image = in_image
        self._with_node = with_node
        self._processes = {}
        self._began = time.monotonic()
        self.keys = None

    def __enter__(self):
        for program in _PROGRAMS:
            if not os.access(program, os.X_OK):
                skip("no %s on this machine" % program)
        os.makedirs(FOLDER + "/logs")
        os.makedirs(FOLDER + "/cni")
        os.makedirs(FOLDER + "/static")
        try:
            self._start_apiserver()
            if self._with_node:
                self._start_controllers()
                self._start_node()
        except BaseException:
            self._show_logs()
            self._stop()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind:
            self._show_logs()
        self._stop()

    # --- its processes
    def start(self, name, *words):
        """Starts a process of the cluster's, with a log of its own; or again, if it has ended."""
        with open("%s/logs/%s" % (FOLDER, name), "ab") as log:
            self._processes[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": FOLDER})

    def kill(self, name):
        """Ends a process at once, as a fault would."""
        self._processes[name].kill()
        self._processes[name].wait()

    def restart_ended(self):
        """Starts again what has ended, as a service manager does. Kubernetes' own scheduler ends when
        it loses its lease. A program of ours may only have been killed with -9: where numbers of
        processes come again soon (32,768 of them), a container engine can kill the wrong one."""
        for name, popen in list(self._processes.items()):
            if popen.poll() is not None:
                check(popen.returncode == -signal.SIGKILL or not name.startswith("cgpu-"),
                      "%s ended: %d" % (name, popen.returncode))
                self.say("%s (%d) ended by itself: %d" % (name, popen.pid, popen.returncode))
                self.start(name, *popen.args)

    def processor_ms(self, name):
        """The processor time that a process has had."""
        with open("/proc/%d/stat" % self._processes[name].pid, encoding="utf-8") as file:
            user, system = file.read().rsplit(") ", 1)[1].split()[11:13]
        return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")

    def log(self, name):
        with open("%s/logs/%s" % (FOLDER, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, sentence, happened, of=None, deadline=DEADLINE, pause=0.05):
        """Asks again and again, for what nothing tells. `of`: the process that is to do it.
        Returns what `happened` returns."""
        until = time.monotonic() + deadline
        while True:
            try:
                value = happened()
            except (OSError, http.client.HTTPException):
                value = None
            if value:
                return value
            check(of is None or self._processes[of].poll() is None, "%s: %s ended" % (sentence, of))
            check(time.monotonic() < until, sentence)
            time.sleep(pause)

    def say(self, what):
        print("%6.1f s  %s" % (time.monotonic() - self._began, what), flush=True)

    def _show_logs(self):
        for name, popen in self._processes.items():
            print("--- %s, %s:\n%s" % (name, popen.poll(), self.log(name)[-3000:]))

    def _stop(self):
        for name, popen in reversed(self._processes.items()):
            popen.terminate()
            try:
                popen.wait(20)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
                print("had to be killed: " + name)

    # --- the control plane
    def _start_apiserver(self):
        keys = self.keys = Keys(FOLDER + "/keys", "https://127.0.0.1:6443")
        keys.add_server("apiserver", "/CN=kube-apiserver")
        keys.add_server("kubelet-server", "/CN=system:node:" + NODE)
        keys.add_client("admin", "/O=system:masters/CN=admin")
        keys.add_client("controller-manager", "/CN=system:kube-controller-manager")
        keys.add_client("scheduler", "/CN=system:kube-scheduler")
        keys.add_client("kubelet", "/O=system:nodes/CN=system:node:" + NODE)
        keys.add_front_proxy("front-proxy")
        self._start_etcd()
        self.start_apiserver()

    def _start_controllers(self):
        keys = self.keys
        self.start("controller-manager", self._kube, "controller-manager",
                   "--kubeconfig=" + keys.path("controller-manager.conf"), "--leader-elect=false",
                   "--use-service-account-credentials=true", "--bind-address=127.0.0.1",
                   "--service-account-private-key-file=" + keys.path("sa.key"),
                   "--root-ca-file=" + keys.path("ca.crt"),
                   "--horizontal-pod-autoscaler-sync-period=1s")
        self.start_scheduler("scheduler")
        self.say("the control plane serves")

    def _start_etcd(self):
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        self.start("etcd", self._kube, "etcd", "--unsafe-no-fsync", "--data-dir", FOLDER + "/etcd",
                   "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", "default=" + peer)

        def healthy():
            connection = http.client.HTTPConnection("127.0.0.1", 2379, timeout=2)
            connection.request("GET", "/health")
            return b"true" in connection.getresponse().read()
        self.wait("etcd does not serve", healthy, of="etcd")

    def start_apiserver(self):
        keys = self.keys
        self.start("apiserver", self._kube, "apiserver", "--etcd-servers=http://127.0.0.1:2379",
                   "--bind-address=127.0.0.1", "--secure-port=6443",
                   # An address of this machine's, which must not be loopback, is of no use here.
                   "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
                   "--tls-cert-file=" + keys.path("apiserver.crt"),
                   "--tls-private-key-file=" + keys.path("apiserver.key"),
                   "--client-ca-file=" + keys.path("ca.crt"), "--authorization-mode=Node,RBAC",
                   "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false",
                   "--service-account-issuer=https://kubernetes.default.svc",
                   "--service-account-key-file=" + keys.path("sa.pub"),
                   "--service-account-signing-key-file=" + keys.path("sa.key"),
                   "--kubelet-certificate-authority=" + keys.path("ca.crt"),
                   "--kubelet-client-certificate=" + keys.path("admin.crt"),
                   "--kubelet-client-key=" + keys.path("admin.key"),
                   "--service-cluster-ip-range=10.96.0.0/24", "--allow-privileged=true",
                   # There is no kube-proxy: webhooks are called at the addresses of their pods.
                   "--enable-aggregator-routing=true",
                   "--requestheader-client-ca-file=" + keys.path("front-proxy-ca.crt"),
                   "--requestheader-allowed-names=front-proxy",
                   "--requestheader-username-headers=X-Remote-User",
                   "--requestheader-group-headers=X-Remote-Group",
                   "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                   "--proxy-client-cert-file=" + keys.path("front-proxy.crt"),
                   "--proxy-client-key-file=" + keys.path("front-proxy.key"),
                   "--profiling=false")
        context = ssl.create_default_context(cafile=keys.path("ca.crt"))
        context.load_cert_chain(keys.path("admin.crt"), keys.path("admin.key"))

        def ready():
            connection = http.client.HTTPSConnection("127.0.0.1", 6443, timeout=2, context=context)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        self.wait("the API server is not ready", ready, of="apiserver")

    def start_scheduler(self, process, name="default-scheduler", extenders=(), host=None):
        """Starts a scheduler for the pods that name `name`. `host`: it is one of several, on a host
        of that name, which elect one of them that leads, in seconds."""
        # Without its own limits the scheduler's client makes 50 requests a second.
        config = {"apiVersion": "kubescheduler.config.k8s.io/v1",
                  "kind": "KubeSchedulerConfiguration",
                  "clientConnection": {"kubeconfig": self.keys.path(
                      "admin.conf" if host else "scheduler.conf"),
                                       "qps": 1000, "burst": 1000},
                  "leaderElection": {
                      "leaderElect": host is not None, "leaseDuration": "6s",
                      "renewDeadline": "4s", "retryPeriod": "500ms", "resourceLock": "leases",
                      "resourceName": name, "resourceNamespace": "kube-system"},
                  "profiles": [{"schedulerName": name}], "extenders": list(extenders)}
        path = "%s/%s.json" % (FOLDER, process)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        # A candidate's identity begins with the name of its host.
        on_host = ("/usr/bin/unshare", "--uts", "/bin/busybox", "sh", "-c",
                   'hostname "$0" && exec "$@"', host) if host else ()
        self.start(process, *on_host, self._kube, "scheduler", "--config=" + path,
                   "--bind-address=127.0.0.1", "--secure-port=0")

    # --- the node
    def _start_node(self):
        with open(FOLDER + "/cni/10-pods.conflist", "w", encoding="utf-8") as file:
            json.dump(_BRIDGE, file)
        text = _CONTAINERD.format(folder=FOLDER, pause=PAUSE)
        for name, path in self._handlers.items():
            text += _HANDLER.format(name=name, path=path)
        with open(FOLDER + "/containerd.toml", "w", encoding="utf-8") as file:
            file.write(text)
        self.start_containerd()
        image.make_rootfs(FOLDER + "/rootfs", self._in_image)
        for name in (PAUSE, image.NAME):
            self.import_image(name, FOLDER + "/rootfs")
        self.start_kubelet()
        self.wait("the Kubernetes node does not become ready", self._is_ready, of="kubelet")
        self.wait("there is no default service account",
                  lambda: self.get("serviceaccount", "default"))
        self.say("the Kubernetes node is ready")

    def _ctr(self, *words):
        return subprocess.run(["/usr/bin/ctr", "--address", FOLDER + "/containerd.sock",
                               "--namespace", "k8s.io", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False)

    def start_containerd(self):
        self.start("containerd", "/usr/bin/containerd", "--config", FOLDER + "/containerd.toml")
        self.wait("containerd does not serve", lambda: self._ctr("version").returncode == 0,
                  of="containerd")

    def import_image(self, name, rootfs):
        image.make_archive(FOLDER + "/image.tar", rootfs, name)
        done = self._ctr("images", "import", "--snapshotter", "native", FOLDER + "/image.tar")
        check(done.returncode == 0, "cannot import %s: %s" % (name, done.stdout))

    def start_kubelet(self):
        keys = self.keys
        nothing = {"memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                   "imagefs.available": "0%", "imagefs.inodesFree": "0%"}
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "healthzBindAddress": "127.0.0.1",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": keys.path("ca.crt")}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": keys.path("kubelet-server.crt"),
            "tlsPrivateKeyFile": keys.path("kubelet-server.key"),
            "containerRuntimeEndpoint": "unix://%s/containerd.sock" % FOLDER,
            # Without systemd, CAP_SYS_RESOURCE and iptables, with cgroups of version 1.
            "cgroupDriver": "cgroupfs", "failCgroupV1": False, "failSwapOn": False,
            "oomScoreAdj": 0, "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False, "evictionHard": nothing,
            "imageGCHighThresholdPercent": 100,
            "staticPodPath": FOLDER + "/static",
            "volumePluginDir": FOLDER + "/volume-plugins", "podLogsDir": FOLDER + "/pod-logs",
            "syncFrequency": "5s", "nodeStatusUpdateFrequency": "2s", "maxPods": 240}
        with open(FOLDER + "/kubelet.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        # Device plugins' sockets are in /var/lib/kubelet whatever the folder is.
        self.start("kubelet", self._kube, "kubelet", "--config=" + FOLDER + "/kubelet.json",
                   "--kubeconfig=" + keys.path("kubelet.conf"), "--hostname-override=" + NODE,
                   "--root-dir=/var/lib/kubelet", "--cert-dir=" + FOLDER + "/kubelet-keys")

    def _is_ready(self):
        node = self.get("node", NODE)
        return node and not node["spec"].get("taints") and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in node["status"]["conditions"])

    # --- use
    def kubectl(self, *words, text=None, ok=True):
        """Returns the output; with `ok=False` the finished process."""
        done = subprocess.run(
            [self._kube, "kubectl", "--kubeconfig", self.keys.path("admin.conf"), *words],
            input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=DEADLINE, check=False, env={"PATH": "/usr/bin:/bin", "HOME": FOLDER})
        if not ok:
            return done
        check(done.returncode == 0, "kubectl %s: %s" % (" ".join(words), done.stderr))
        return done.stdout

    def apply(self, *objects, ok=True):
        """Creates or changes these objects."""
        many = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "-f", "-", text=json.dumps(many), ok=ok)

    def get(self, *words):
        """An object or a list; None if there is none, or the API server does not answer."""
        done = self.kubectl("get", *words, "-o", "json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def events(self, pod):
        """The events of a pod, as "REASON: MESSAGE"."""
        events = self.get("events", "--field-selector", "involvedObject.name=" + pod) or {}
        return [event["reason"] + ": " + event["message"] for event in events.get("items", ())]

    def phase(self, pod):
        return ((self.get("pod", pod) or {}).get("status") or {}).get("phase")

    def wait_phase(self, pod, phase):
        self.wait("pod %s does not become %s" % (pod, phase), lambda: self.phase(pod) == phase)


def make_pod(name, *command, limits=None, labels=None, annotations=None, **spec):
    """A pod of one container from the test's image."""
    container = {"name": "main", "image": image.NAME, "imagePullPolicy": "Never",
                 "command": list(command)}
    if limits:
        container["resources"] = {"limits": limits}
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "containers": [container], **spec}}


__all__ = ["Cluster", "Failure", "NODE", "cgpu_test", "make_pod"]
