#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

constexpr const char* kDriver = "580.142";

void AddKernel(FakeHost& host) {
  host.files["/proc/sys/kernel/osrelease"] = "6.12.43+deb13-amd64\n";
  host.files["/proc/self/status"] = "Name:\tcgpu\nSeccomp:\t0\nSeccomp_filters:\t0\n";
  host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n";
  host.files["/proc/sys/user/max_user_namespaces"] = "63432\n";
  host.files["/proc/sys/kernel/unprivileged_userns_clone"] = "1\n";
  host.files["/proc/self/mountinfo"] =
      "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  host.files["/proc/sys/fs/inotify/max_user_instances"] = "128\n";
  host.files["/proc/sys/fs/inotify/max_user_watches"] = "65536\n";
  host.files["/proc/sys/fs/file-nr"] = "2048\t0\t9223372036854775807\n";
  host.files["/run/systemd/system/x"] = "";
  host.Install("/usr/bin/systemd-run");
  host.AddDevice("/dev/fuse", 10, 229);
  host.Says("uname -m", "x86_64\n");
}

void AddDriver(FakeHost& host) {
  host.files["/proc/driver/nvidia/version"] =
      std::string("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  ") + kDriver +
      "  Release Build  (dvs-builder@x)\nGCC version:  gcc 12\n";
  for (const char* const minor : {"0", "1"}) {
    host.files[std::string("/proc/driver/nvidia/gpus/0000:0") + minor + ":00.0/information"] =
        std::string("Model: \t\t X\nDevice Minor: \t ") + minor + "\nGPU Excluded:\t No\n";
  }
  host.files["/proc/driver/nvidia/capabilities/mig/config"] = "DeviceFileMinor: 1\n";
  host.files["/proc/driver/nvidia/capabilities/gpu0/mig/x"] = "";
  host.files["/proc/modules"] = "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\n";
  host.files["/proc/devices"] =
      "Character devices:\n195 nvidia\n507 nvidia-uvm\n\nBlock devices:\n";
  host.files["/proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu vme sse2\n";
  host.files["/usr/lib/x86_64-linux-gnu/libcuda.so.580.142"] = "";
  host.files["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] = "";
  host.AddDevice("/dev/nvidiactl", 195, 255);
  host.AddDevice("/dev/nvidia0", 195, 0);
  host.AddDevice("/dev/nvidia1", 195, 1);
  host.AddDevice("/dev/nvidia-uvm", 507, 0);
  host.AddProcess("700", "nvidia-persistenced", "/usr/bin/nvidia-persistenced");
  host.Says("modinfo -F version nvidia", std::string(kDriver) + "\n");
  host.Says("/usr/bin/cgpu smi -L", "GPU 0: X (UUID: GPU-0)\nGPU 1: X (UUID: GPU-1)\n");
  host.Says("/usr/bin/cgpu ps --unmanaged --json", "[]\n");
  host.Says("/usr/bin/cgpu smi -q",
            "GPU 00000000:01:00.0\n    Product Name                          : X\n"
            "    Product Architecture                  : Hopper\n");
  host.Says("/usr/bin/cgpu policy --json", R"([{"index": 0, "caps": true}])");
}

void AddEngines(FakeHost& host) {
  for (const char* const program : {"/usr/sbin/dockerd", "/usr/bin/containerd", "/usr/bin/crio",
                                    "/usr/bin/podman", "/usr/bin/kubelet", "/usr/sbin/runc"}) {
    host.Install(program);
  }
  host.files["/etc/docker/daemon.json"] =
      R"({"runtimes": {"cgpu": {"path": "/usr/bin/cgpu-runtime"}}})";
  host.files["/etc/containerd/config.toml"] =
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.cgpu]\n"
      "runtime_type = \"io.containerd.runc.v2\"\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.cgpu.options]\n"
      "BinaryName = \"/usr/bin/cgpu-runtime\"\n";
  host.files["/etc/crio/crio.conf.d/cgpu.conf"] =
      "[crio.runtime.runtimes.cgpu]\nruntime_path = \"/usr/bin/cgpu-runtime\"\n";
  host.files["/etc/containers/containers.conf.d/cgpu.conf"] =
      "[engine.runtimes]\ncgpu = [ \"/usr/bin/cgpu-runtime\" ]\n";
  host.files["/etc/nvidia-container-runtime/config.toml"] =
      "[nvidia-container-runtime]\nmode = \"cdi\"\nruntimes = [\"/usr/bin/cgpu-runtime\"]\n";
  host.files["/usr/share/containers/oci/hooks.d/x.json"] = R"({"hook": {"path": "/usr/bin/x"}})";
  host.files["/etc/cdi/nvidia.yaml"] =
      "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n  containerEdits: {}\n"
      "containerEdits:\n  mounts:\n"
      "  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.142\n"
      "    containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.142\n"
      "    options: [ro, nosuid, nodev, bind]\n";
  host.Says("dockerd --version", "Docker version 28.2.2, build e6534b4\n");
  host.Says("containerd --version", "containerd github.com/containerd/containerd 1.7.24 x\n");
  host.Says("podman --version", "podman version 5.4.2\n");
  host.Says("docker info --format {{json .Runtimes}}",
            R"({"cgpu":{"path":"/usr/bin/cgpu-runtime"},"runc":{"path":"runc"}})");
  host.Says("runc --version", "runc version 1.5.0\n");
  host.Says(
      "runc features",
      R"({"linux": {"seccomp": {"supportedFlags": ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]}}})");
  host.Says("nvidia-ctk --version", "NVIDIA Container Toolkit CLI version 1.18.1\ncommit: 1\n");
}

void AddCgpu(FakeHost& host) {
  for (const char* const name : {"cgpu", "cgpud", "cgpu-runtime", "cgpu-shim", "cgpu-exporter"}) {
    host.Install(std::string("/usr/bin/") + name);
  }
  host.files["/etc/cgpu/config.yaml"] = "unmanaged: refuse\n";
  host.files["/etc/group"] = "root:x:0:\ncgpu:x:998:anna\n";
  host.files["/etc/passwd"] =
      "root:x:0:0:root:/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n";
  host.files["/etc/subuid"] = "anna:100000:65536\n";
  host.files["/run/cgpu/3f2a00bc11de.grant"] = "";
  host.looks["/run/cgpu"] = {FileFacts::Kind::kFolder, 0711, 0, 0, 0};
  host.sockets["/run/cgpu/3f2a00bc11de.sock"] = 0;
  host.sockets["/run/cgpu/3f2a00bc11de.agent"] = 0;
  host.sockets["/run/cgpu/cgpud.sock"] = 0;
  host.AddProcess("800", "cgpud", "/usr/bin/cgpud");
  host.AddProcess("801", "cgpu-shim", "/usr/bin/cgpu-shim");
  host.Says("/usr/bin/cgpud --version", "1.2.3\n");
  host.Says("/usr/bin/cgpu-exporter --version", "1.2.3\n");
  host.Says("/usr/bin/cgpu ps --json", R"([{"id": "3f2a00bc11de", "state": "running"}])");
  host.Says("/usr/bin/cgpu ps -v",
            "train (3f2a00bc11de): user anna, process 7\nRefused driver calls:\n"
            "       2  control-0x20809abc (7 bytes): not known to cgpu\n");
  host.Says("systemctl is-enabled cgpud.service", "enabled\n");
  host.Says("systemctl is-failed cgpud.service", "active\n", 1);
  host.Says("systemctl is-failed cgpu-exporter.service", "inactive\n", 1);
  host.Says("systemctl list-units --all --plain --no-legend cgpu-shim-*.scope",
            "cgpu-shim-3f2a00bc11de.scope loaded active running /usr/bin/cgpu-shim\n");
}

// Answers what the checks of rights ask.
void AddRights(FakeHost& host) {
  const auto may = [&](const std::string& right, const std::string& account) {
    host.Says("kubectl --request-timeout=8s auth can-i " + right +
                  " --as=system:serviceaccount:cgpu-system:" + account + " -n cgpu-system",
              "Warning: resource 'nodes' is not namespace scoped\n\nyes\n");
  };
  for (const char* const right : {"list nodes", "watch pods", "create pods --subresource=binding",
                                  "patch pods --subresource=status", "get leases/cgpu-scheduler"}) {
    may(right, "cgpu-scheduler");
  }
  for (const char* const right : {"patch nodes", "watch nodes", "watch pods"}) {
    may(right, "cgpu-node");
  }
}

// Answers what the checks of objects ask that the chart makes once.
void AddObjects(FakeHost& host) {
  const std::string here = " -n cgpu-system";
  host.Says("kubectl version --client", "Client Version: v1.37.2\n");
  host.Says("kubectl --request-timeout=8s version -o json",
            R"({"serverVersion": {"gitVersion": "v1.37.2"}})");
  host.Says(Get("namespaces cgpu-system"),
            R"({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})");
  host.Says(Get("runtimeclasses"),
            R"({"items": [{"metadata": {"name": "cgpu"}, "handler": "cgpu"}]})");
  host.Says("kubectl --request-timeout=8s get secrets cgpu-signing-key -n cgpu-system -o name",
            "secret/cgpu-signing-key\n");
  host.Says(Get("configmaps cgpu-verify-key" + here), R"({"data": {"decisions.pub": "-----"}})");
  for (const char* const kind :
       {"validatingadmissionpolicies", "validatingadmissionpolicybindings"}) {
    host.Says(std::string("kubectl --request-timeout=8s get ") + kind + " cgpu-node -o name",
              "x\n");
  }
  host.Says(Get("mutatingwebhookconfigurations cgpu"),
            R"({"webhooks": [{"name": "pods.cgpu.dev", "clientConfig": {"caBundle": "Q0E=",
                "service": {"name": "cgpu-webhook", "namespace": "cgpu-system"}}}]})");
  host.Says(
      "kubectl --request-timeout=8s get secrets cgpu-webhook -n cgpu-system -o "
      "jsonpath={.data.tls\\.crt}",
      "Q1JU");
  host.says = [](const std::string& command) -> std::optional<Output> {
    if (command.find("openssl verify") != std::string::npos &&
        command.ends_with("sh Q0E= Q1JU cgpu-webhook.cgpu-system.svc")) {
      return Output{"/dev/stdin: OK\n", 0};
    }
    if (command.find("openssl x509") != std::string::npos && command.ends_with("sh Q1JU")) {
      return Output{"notAfter=Dec  1 09:50:42 2036 GMT\nCertificate will not expire\n", 0};
    }
    return std::nullopt;
  };
  host.Says(Get("endpointslices -n cgpu-system -l kubernetes.io/service-name=cgpu-webhook"),
            R"({"items": [{"endpoints": [{"addresses": ["10.0.0.7"]}]}]})");
}

void AddWorkload(FakeHost& host) {
  const std::string here = " -n cgpu-system";
  host.Says(Get("deployments cgpu-scheduler" + here),
            R"({"spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "kube-scheduler", "image": "k/kube-scheduler:v1.37.2"},
                {"name": "cgpu-scheduler", "image": "r:5000/cgpu:1.2.3"}]}}},
                "status": {"readyReplicas": 2}})");
  host.Says(Get("daemonsets cgpu-node" + here),
            R"({"spec": {"template": {"spec": {"containers": [
                {"name": "cgpud", "image": "r:5000/cgpu:1.2.3"}]}}},
                "status": {"desiredNumberScheduled": 1, "numberReady": 1}})");
  host.now = 1'798'290'000;  // 2026-12-26T13:00:00Z
  host.Says(Get("leases cgpu-scheduler" + here),
            R"({"spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 15,
                "renewTime": "2026-12-26T12:59:58.123456Z"}})");
  host.Says(
      Get("configmaps cgpu-scheduler" + here),
      R"({"data": {"config.yaml": "extenders:\n- urlPrefix: http://127.0.0.1:12345\n  bindVerb: bind\n  managedResources:\n  - name: aliyun.com/gpu-mem\n  - name: aliyun.com/gpu-count\n"}})");
  host.Says(Get("nodes"), R"({"items": [
      {"metadata": {"name": "a", "labels": {"ack.node.gpu.schedule": "cgpu"},
                    "annotations": {"cgpu.dev/gpus": "x"}},
       "status": {"allocatable": {"aliyun.com/gpu-mem": "30", "cpu": "2"}}},
      {"metadata": {"name": "b"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}]})");
  host.Says(Get("pods -A"), R"({"items": [
      {"metadata": {"name": "first", "namespace": "default", "creationTimestamp": "2026-12-01T00:00:00Z",
                    "annotations": {"cgpu.dev/decision": "x"}},
       "spec": {"runtimeClassName": "cgpu", "containers": [
         {"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]},
       "status": {"phase": "Running"}},
      {"metadata": {"name": "plain", "namespace": "default"}, "spec": {"containers": [{}]},
       "status": {"phase": "Pending"}}]})");
}

}  // namespace

FakeHost HealthyHost() {
  FakeHost host;
  AddKernel(host);
  AddDriver(host);
  AddEngines(host);
  AddCgpu(host);
  AddObjects(host);
  AddRights(host);
  AddWorkload(host);
  return host;
}

}  // namespace cgpu::doctor
