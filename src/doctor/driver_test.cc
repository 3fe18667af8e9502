#include "doctor/driver.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

const std::string kVersionFile = "/proc/driver/nvidia/version";
const std::string kGpu1 = "/proc/driver/nvidia/gpus/0000:01:00.0/information";

std::string VersionText(const std::string& version) {
  return "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version + "  Release\n";
}

void AddSimulatedNode(FakeHost& host, int answer) {
  host.files["/run/cgpu-sim/default/node.json"] = "{}";
  host.sockets["/run/cgpu-sim/default/control.sock"] = answer;
}

Fault Runs(const std::string& id, const std::string& name) {
  return {id, "process 77", [=](FakeHost& host) { host.AddProcess("77", name, "/usr/bin/x"); }};
}

TEST(Driver, AHostWithoutOneIsNotFaulty) {
  FakeHost host = HealthyHost();
  host.Remove("/proc/driver/nvidia");
  AddSimulatedNode(host, 0);
  EXPECT_FALSE(LoadedDriver(host).has_value());
  EXPECT_EQ(GpuSource(host).kind, Finding::Kind::kRight);
  EXPECT_EQ(DeviceModes(host).kind, Finding::Kind::kSkipped);
  EXPECT_EQ(SimulatedBeside(host).kind, Finding::Kind::kRight);
  EXPECT_EQ(SimulatedNodes(host).kind, Finding::Kind::kRight);
}

TEST(Driver, TheSettingsNodeIsAsked) {
  FakeHost host = HealthyHost();
  host.files["/etc/cgpu/config.yaml"] = "node: lab\n";
  EXPECT_EQ(DriverAnswers(host).kind, Finding::Kind::kWrong);
  host.Says("/usr/bin/cgpu smi -L --node lab", "GPU 0: X\n");
  EXPECT_EQ(DriverAnswers(host).kind, Finding::Kind::kRight);
}

TEST(Driver, AnExcludedGpuNeedNotAnswer) {
  FakeHost host = HealthyHost();
  host.files[kGpu1] = "Device Minor: \t 1\nGPU Excluded:\t Yes\n";
  host.Says("/usr/bin/cgpu smi -L", "GPU 0: X\n");
  EXPECT_EQ(DriverGpus(host).kind, Finding::Kind::kRight);
}

TEST(Driver, LibraryVersionsAreThoseOfLibcuda) {
  EXPECT_EQ(
      LibraryVersions("a/libcuda.so.580.142\nlibcuda.so.1\nb/libcuda.so.580.142 libcuda.so.550.1"),
      (std::vector<std::string>{"580.142", "550.1"}));
}

}  // namespace

std::vector<Fault> DriverFaults() {
  return {
      Removed("gpu-source", "neither", "/proc/driver/nvidia"),
      Changed("driver-version", "does not tell", kVersionFile, "NVRM version: ?\n"),
      Changed("driver-branch", "565.57.01", kVersionFile, VersionText("565.57.01")),
      Changed("driver-compared", "580.199.01 was not compared", kVersionFile,
              VersionText("580.199.01")),
      Changed("driver-flavour", "proprietary", kVersionFile,
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.142  Tue\n"),
      Said("driver-pending", "580.142 is loaded, and 580.159.04 is installed",
           "modinfo -F version nvidia", "580.159.04\n"),
      {"driver-library", "has version 550.163.01",
       [](FakeHost& host) {
         host.Remove("/usr/lib/x86_64-linux-gnu");
         host.files["/usr/lib64/libcuda.so.550.163.01"] = "";
       }},
      Said("driver-answers", "fallen off", "/usr/bin/cgpu smi -L", "error: fallen off the bus\n",
           125),
      {"driver-answers", "gives no answer",
       [](FakeHost& host) { host.outputs.erase("/usr/bin/cgpu smi -L"); }},
      Said("driver-gpus", "1 of 2", "/usr/bin/cgpu smi -L", "GPU 0: X\n"),
      Changed("driver-excluded", "0000:01:00.0", kGpu1, "Device Minor: 1\nGPU Excluded:\t Yes\n"),
      Changed("driver-nouveau", "loaded", "/proc/modules", "nouveau 1 0 - Live 0x0\n"),
      Removed("device-control", "there is no", "/dev/nvidiactl"),
      {"device-control", "not the device",
       [](FakeHost& host) { host.AddDevice("/dev/nvidiactl", 10, 255); }},
      Removed("device-gpus", "/dev/nvidia1", "/dev/nvidia1"),
      Removed("device-uvm", "there is no", "/dev/nvidia-uvm"),
      {"device-numbers", "511, and the driver has 507",
       [](FakeHost& host) { host.AddDevice("/dev/nvidia-uvm", 511, 0); }},
      Changed("device-numbers", "not loaded", "/proc/devices", "195 nvidia\n"),
      {"device-modes", "/dev/nvidia0",
       [](FakeHost& host) { host.AddDevice("/dev/nvidia0", 195, 0, 0660); }},
      Changed("device-filesystem", "overlay", "/proc/self/mountinfo",
              "25 1 0:30 / / rw - overlay overlay rw\n"),
      Changed("virtual-machine", "virtual machine", "/proc/cpuinfo", "flags\t: fpu hypervisor\n"),
      Runs("vgpu-guest", "nvidia-gridd"),
      Runs("vgpu-host", "nvidia-vgpu-mgr"),
      Changed("vgpu-host", "nvidia_vgpu_vfio", "/proc/modules", "nvidia_vgpu_vfio 1 0 - Live\n"),
      Changed("mig", "gpu0", "/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access", ""),
      Runs("mps", "nvidia-cuda-mps-control"),
      Removed("persistence", "does not run", "/proc/700"),
      Said("caps", "GPU 1, GPU 2", "/usr/bin/cgpu policy --json",
           R"([{"index": 0, "caps": true}, {"index": 1, "caps": false}, {"index": 2}])"),
      Said("firmware-family", "family Ada Lovelace, Volta", "/usr/bin/cgpu smi -q",
           "    Product Architecture                  : Ada Lovelace\n"
           "    Product Architecture                  : Hopper\n"
           "    Product Architecture                  : Volta\n"
           "    Product Architecture                  : Volta\n"),
      Said("other-processes", "python (77)", "/usr/bin/cgpu ps --unmanaged --json",
           "cgpu: a notice\n[{\"pid\": 77, \"command\": \"python\"}]\n"),
      {"sim-nodes", "default", [](FakeHost& host) { AddSimulatedNode(host, ECONNREFUSED); }},
      {"sim-beside", "default", [](FakeHost& host) { AddSimulatedNode(host, 0); }},
  };
}

}  // namespace cgpu::doctor
