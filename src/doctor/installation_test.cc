#include "doctor/installation.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

const std::string kConfig = "/etc/cgpu/config.yaml";
const std::string kGrant = "/run/cgpu/0123456789ab.grant";

TEST(Installation, WithoutSettingsTheDefaultsHold) {
  FakeHost host = HealthyHost();
  host.Remove(kConfig);
  EXPECT_EQ(SettingsRead(host).kind, Finding::Kind::kRight);
  EXPECT_EQ(SettingsOrDefaults(host).runtime, "runc");
}

TEST(Installation, ABusyDaemonRuns) {
  FakeHost host = HealthyHost();
  host.sockets["/run/cgpu/cgpud.sock"] = EAGAIN;
  EXPECT_EQ(DaemonRuns(host).kind, Finding::Kind::kRight);
  host.sockets["/run/cgpu/cgpud.sock"] = EACCES;
  EXPECT_EQ(DaemonRuns(host).kind, Finding::Kind::kSkipped);
}

TEST(Installation, AListOfAnotherShapeIsNotCalledRight) {
  FakeHost host = HealthyHost();
  host.Says("/usr/bin/cgpu ps --json", R"({"containers": []})");
  EXPECT_EQ(ShimsAnswer(host).kind, Finding::Kind::kSkipped);
}

TEST(Installation, ATokenOfAPodIsNotLookedForOnTheHost) {
  FakeHost host = HealthyHost();
  host.files[kConfig] = "kubernetes: true\nexporter_token_file: /etc/cgpu-metrics/token\n";
  EXPECT_EQ(ExporterToken(host).kind, Finding::Kind::kSkipped);
}

Fault Set(const std::string& id, const std::string& found, const std::string& line) {
  return Changed(id, found, kConfig, line + "\n");
}

Fault Token(const std::string& found, const std::string& text, unsigned mode) {
  return {"exporter-token", found, [=](FakeHost& host) {
            host.files[kConfig] = "exporter_token_file: /etc/cgpu/token\n";
            host.files["/etc/cgpu/token"] = text;
            host.looks["/etc/cgpu/token"] = {FileFacts::Kind::kRegular, mode, 0, 0, 0};
          }};
}

Fault Mode(const std::string& path, unsigned mode) {
  return {"cgpu-modes", path, [=](FakeHost& host) { host.looks[path].mode = mode; }};
}

}  // namespace

std::vector<Fault> InstallationFaults() {
  const std::string scopes = "systemctl list-units --all --plain --no-legend cgpu-shim-*.scope";
  return {
      Set("cgpu-settings", kConfig, "max_inst: many"),
      Changed("cgpu-saved", "/var/lib/cgpu/policy", "/var/lib/cgpu/policy", "GPU-0 policy fix"),
      Set("cgpu-node", "\"lab\"", "node: lab"),
      Removed("cgpu-programs", "/usr/bin/cgpu-shim", "/usr/bin/cgpu-shim"),
      Mode("/usr/bin/cgpud", 0757),
      Said("cgpu-versions", "cgpu is 1.2.3, and cgpud is 1.1.0", "/usr/bin/cgpud --version",
           "1.1.0\n"),
      {"cgpud-running", "nobody listens",
       [](FakeHost& host) { host.sockets["/run/cgpu/cgpud.sock"] = ECONNREFUSED; }},
      {"cgpud-current", "process 800",
       [](FakeHost& host) { host.links["/proc/800/exe"] = "/usr/bin/cgpud (deleted)"; }},
      Said("cgpud-unit", "disabled", "systemctl is-enabled cgpud.service", "disabled\n", 1),
      Said("cgpu-units", "cgpu-exporter.service", "systemctl is-failed cgpu-exporter.service",
           "failed\n"),
      Set("cgpu-group", "no group gpus", "group: gpus"),
      {"shims-current", "process 801",
       [](FakeHost& host) { host.links["/proc/801/exe"] = "/usr/bin/cgpu-shim (deleted)"; }},
      Said("shims-answer", "3f2a00bc11de", "/usr/bin/cgpu ps --json",
           R"([{"id": "3f2a00bc11de", "state": "unresponsive"}])"),
      Said(
          "firmware-refused", "0x2080a0ff/24, 0x2080a026/1064", "/usr/bin/cgpu ps -v",
          "Refused driver calls:\n"
          "       3  control-0x2080a0ff (24 bytes): a control of the GPU's firmware that is not x\n"
          "       1  control-0x2080a026 (1064 bytes): a control of the GPU's firmware in a size x\n"
          "       1  control-0x2080a0ff (24 bytes): a control of the GPU's firmware that is not x\n"
          "       9  NV_ESC_NUMA_INFO: a control of the GPU's firmware bytes)\n"),
      Said("firmware-refused", "0x2080a0ff/24",
           "journalctl --quiet --no-pager --output=cat --unit=cgpud.service --since=-24h",
           "warning: x (y)\naudit container=3f2a00bc11de engine=- refused=\"control-0x2080a0ff (24 "
           "bytes): a control of the GPU's firmware that is not listed\" count=1\n"),
      Set("firmware-allowed", "2 controls", "firmware: 0x2080a0ff/24 0x20810109/4"),
      Changed("shim-users", "belong to mia", "/etc/passwd", "mia:x:2000000007:100::/:/bin/sh\n"),
      Changed("shim-users", "anna (/etc/subuid)", "/etc/subuid", "anna:1999999000:65536\n"),
      {"registry-mode", "others than root",
       [](FakeHost& host) { host.looks["/run/cgpu"].mode = 0777; }},
      {"registry-mode", "others than root",
       [](FakeHost& host) { host.looks["/run/cgpu"].user = 1000; }},
      Changed("registry-dead", "0123456789ab", kGrant, ""),
      {"registry-strays", "0123456789ab.sock",
       [](FakeHost& host) { host.sockets["/run/cgpu/0123456789ab.sock"] = ECONNREFUSED; }},
      Set("exporter-address", "0.0.0.0:9400", "exporter_listen: 0.0.0.0:9400"),
      Set("exporter-token", "cannot be read", "exporter_token_file: /etc/cgpu/token"),
      Token("everyone may read", "0123456789abcdef\n", 0644),
      Token("less than 16", "short\n", 0600),
      Set("exporter-tls", "no file /etc/cgpu/tls.crt",
          "exporter_tls_cert: /etc/cgpu/tls.crt\nexporter_tls_key: /etc/cgpu/tls.key"),
      {"leftover-backup", "has no runtime cgpu",
       [](FakeHost& host) {
         host.files["/etc/docker/daemon.json.before-cgpu"] = "{}";
         host.files["/etc/docker/daemon.json"] = "{}";
       }},
      Said("leftover-scopes", "cgpu-shim-0123456789ab.scope", scopes,
           "cgpu-shim-0123456789ab.scope loaded failed failed x\n"),
      Changed("leftover-mounts", "/run/cgpu-sim/lab/mnt", "/proc/self/mountinfo",
              "40 25 0:50 / /run/cgpu-sim/lab/mnt rw - fuse.cgpu-sim cgpu-sim rw\n"),
  };
}

}  // namespace cgpu::doctor
