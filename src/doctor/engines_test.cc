#include "doctor/engines.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

const std::string kDocker = "/etc/docker/daemon.json";
const std::string kContainerd = "/etc/containerd/config.toml";
const std::string kCrio = "/etc/crio/crio.conf.d/cgpu.conf";
const std::string kPodman = "/etc/containers/containers.conf.d/cgpu.conf";
const std::string kRuntime = "/usr/bin/cgpu-runtime";

void RemoveEngines(FakeHost& host) {
  for (const char* const path :
       {"/usr/sbin/dockerd", "/usr/bin/containerd", "/usr/bin/crio", "/usr/bin/podman"}) {
    host.Remove(path);
  }
}

TEST(Engines, AFolderThatContainerdImportsCanHaveTheRuntime) {
  FakeHost host = HealthyHost();
  const std::string entry = host.files[kContainerd];
  host.files[kContainerd] = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
  EXPECT_EQ(EngineProgram(host, install::Engine::kContainerd).kind, Finding::Kind::kSkipped);
  host.files["/etc/containerd/conf.d/cgpu.toml"] = entry;
  EXPECT_EQ(EngineProgram(host, install::Engine::kContainerd).kind, Finding::Kind::kRight);
}

TEST(Engines, WhatThisUserMayNotReadIsNotJudged) {
  FakeHost host = HealthyHost();
  host.closed.insert(kDocker);
  EXPECT_EQ(EngineConfig(host, install::Engine::kDocker).kind, Finding::Kind::kSkipped);
  EXPECT_EQ(EngineProgram(host, install::Engine::kDocker).kind, Finding::Kind::kSkipped);
}

TEST(Engines, WithoutAnyTheirConfigurationsAreNotJudged) {
  FakeHost host = HealthyHost();
  RemoveEngines(host);
  EXPECT_EQ(EngineConfig(host, install::Engine::kDocker).kind, Finding::Kind::kSkipped);
  EXPECT_EQ(EngineKnows(host).kind, Finding::Kind::kSkipped);
}

TEST(Toolkit, EachVersionHasItsHoles) {
  FakeHost host = HealthyHost();
  const auto found = [&](const std::string& version) {
    host.Says("nvidia-ctk --version", "NVIDIA Container Toolkit CLI version " + version + "\n");
    return ToolkitVersion(host).text;
  };
  EXPECT_NE(found("1.16.1").find("CVE-2024-0132, CVE-2025-23359, CVE-2025-23266, CVE-2025-23267"),
            std::string::npos);
  EXPECT_EQ(found("1.17.3").find("CVE-2024-0132"), std::string::npos);
  EXPECT_EQ(found("1.17.7").find("CVE-2025-23359"), std::string::npos);
  EXPECT_NE(found("1.17.7").find("CVE-2025-23266, CVE-2025-23267"), std::string::npos);
  EXPECT_EQ(found("1.17.8").find("CVE"), std::string::npos);
}

}  // namespace

std::vector<Fault> EngineFaults() {
  const std::string broken = "[ = 3\n";
  const auto without = [](const std::string& id, const std::string& file) {
    return Fault{id, file + " names the runtime /usr/bin/cgpu-runtime",
                 [](FakeHost& host) { host.Remove("/usr/bin/cgpu-runtime"); }};
  };
  return {
      {"engine-installed", "none of", RemoveEngines},
      Said("engine-versions", "docker 19.3.15", "dockerd --version",
           "Docker version 19.03.15, b\n"),
      {"engine-knows", "no container engine knows",
       [](FakeHost& host) {
         for (const std::string& file : {kDocker, kContainerd, kCrio, kPodman}) {
           host.Remove(file);
         }
       }},
      Changed("engine-same", "/opt/cgpu/bin/cgpu-runtime", kDocker,
              R"({"runtimes": {"cgpu": {"path": "/opt/cgpu/bin/cgpu-runtime"}}})"),
      Changed("docker-config", kDocker, kDocker, "{\"runtimes\": }"),
      without("docker-program", kDocker),
      {"docker-program", "no container starts",
       [](FakeHost& host) {
         host.files[kDocker] =
             R"({"default-runtime": "cgpu", "runtimes": {"cgpu": {"path": "/gone"}}})";
       }},
      Changed("docker-program", "names no such runtime", kDocker, R"({"default-runtime": "cgpu"})"),
      Said("docker-loaded", "does not know it", "docker info --format {{json .Runtimes}}",
           R"({"runc":{"path":"runc"}})"),
      Changed("containerd-config", kContainerd, kContainerd, broken),
      without("containerd-program", kContainerd),
      Changed("containerd-cri", "disables", kContainerd, "disabled_plugins = [\"cri\"]\n"),
      Changed("crio-config", kCrio, kCrio, broken),
      without("crio-program", kCrio),
      Changed("podman-config", kPodman, kPodman, broken),
      without("podman-program", kPodman),
      Removed("oci-runtime", "\"runc\" is not installed", "/usr/sbin/runc"),
      Changed("oci-runtime-kind", "kata-runtime", "/etc/cgpu/config.yaml",
              "runtime: /usr/bin/kata-runtime\n"),
      Said("oci-runtime-killable", "runc version 1.5.0", "runc features",
           "No help topic for 'features'", 3),
      Said("nvidia-toolkit", "1.17.7, which has CVE-2025-23266", "nvidia-ctk --version",
           "NVIDIA Container Toolkit CLI version 1.17.7\n"),
      Said("nvidia-toolkit", "1.16.1, which has CVE-2024-0132", "nvidia-container-cli --version",
           "cli-version: 1.16.1\nlib-version: 1.16.1\n"),
      Changed("nvidia-hooks", "oci-nvidia-hook.json",
              "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
              R"({"version": "1.0.0", "hook": {"path": "/usr/bin/nvidia-container-runtime-hook",
                  "args": ["nvidia-container-runtime-hook", "prestart"]}, "stages": ["prestart"]})"),
      Changed("nvidia-mode", "\"auto\"", "/etc/nvidia-container-runtime/config.toml",
              "[nvidia-container-runtime]\nruntimes = [\"/usr/bin/cgpu-runtime\"]\n"),
      Changed("nvidia-default", kDocker, kDocker, R"({"default-runtime": "nvidia"})"),
      Changed("nvidia-default", kContainerd, kContainerd,
              "[x.containerd]\n  default_runtime_name = 'nvidia'\n"),
      Changed("cdi-read", "/etc/cdi/nvidia.yaml", "/etc/cdi/nvidia.yaml",
              "kind: nvidia.com/gpu\ncontainerEdits: 3\n"),
      Removed("cdi-there", "no specification", "/etc/cdi"),
      Changed("cdi-version", "driver 550.163.01", "/var/run/cdi/nvidia.yaml",
              "kind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n  - hostPath: "
              "/usr/lib/libcuda.so.550.163.01\n"),
  };
}

}  // namespace cgpu::doctor
