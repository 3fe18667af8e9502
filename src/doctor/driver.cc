// Sources: the files below /proc/driver/nvidia are written by kernel-open/nvidia/nv-procfs.c, the
// device numbers are in kernel-open/common/inc/nv-chardev-numbers.h
// (NVIDIA/open-gpu-kernel-modules, 580.142).
#include "doctor/driver.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>

#include "doctor/installation.h"
#include "doctor/reading.h"
#include "doctor/value.h"
#include "host/machine_node.h"
#include "host/node.h"
#include "os/mounts.h"
#include "rm/abi.h"

namespace cgpu::doctor {
namespace {

constexpr const char* kProc = "/proc/driver/nvidia";
constexpr const char* kNoDriver = "no NVIDIA driver is loaded";
constexpr const char* kNoGpus = "there is neither an NVIDIA driver nor a simulated node";
constexpr unsigned kMajor = 195;         // NV_MAJOR_DEVICE_NUMBER
constexpr unsigned kControlMinor = 255;  // NV_MINOR_DEVICE_NUMBER_CONTROL_DEVICE

// Returns the value of a line "KEY: VALUE".
std::string ValueOf(const std::string& text, const std::string& key) {
  for (const std::string& line : LinesOf(text)) {
    if (line.starts_with(key + ":")) {
      return Trimmed(line.substr(key.size() + 1));
    }
  }
  return {};
}

// Information of each GPU that the driver has found, by its bus address.
std::vector<std::pair<std::string, std::string>> Gpus(const Facts& facts) {
  std::vector<std::pair<std::string, std::string>> gpus;
  const std::string folder = std::string(kProc) + "/gpus";
  for (const std::string& address : NamesIn(facts, folder)) {
    gpus.emplace_back(address, TextOf(facts, In(In(folder, address), "information")));
  }
  return gpus;
}

// Returns the paths of the device files that programs open for a GPU.
std::vector<std::string> DevicePaths(const Facts& facts) {
  std::vector<std::string> paths{"/dev/nvidiactl", "/dev/nvidia-uvm"};
  for (const auto& [address, information] : Gpus(facts)) {
    if (const std::string minor = ValueOf(information, "Device Minor"); !minor.empty()) {
      paths.push_back("/dev/nvidia" + minor);
    }
  }
  return paths;
}

bool IsDevice(const Facts& facts, const std::string& path) {
  const auto file = facts.Look(path);
  return file.ok() && file->kind == FileFacts::Kind::kCharacterDevice;
}

std::vector<std::string> SimulatedNames(const Facts& facts) {
  return NamesIn(facts, kSimulatedNodes);
}

bool SimulatedRuns(const Facts& facts, const std::string& name) {
  return facts.Connect(std::string(kSimulatedNodes) + "/" + name + "/control.sock") == 0;
}

bool HasGpus(const Facts& facts) {
  return LoadedDriver(facts).has_value() || !SimulatedNames(facts).empty();
}

// Runs this cgpu for the node that containers run on.
Result<Output> RunCgpu(const Facts& facts, std::vector<std::string> words) {
  words.insert(words.begin(), facts.Program());
  if (const std::string node = SettingsOrDefaults(facts).node; !node.empty()) {
    words.insert(words.end(), {"--node", node});
  }
  return facts.Run(words);
}

bool ModuleLoaded(const Facts& facts, const std::string& module) {
  return std::ranges::any_of(LinesOf(TextOf(facts, "/proc/modules")), [&](const std::string& line) {
    return line.starts_with(module + " ");
  });
}

// Judges a process that should not run where there is a driver.
Finding NotBeside(const Facts& facts, const std::string& name) {
  const std::vector<std::string> numbers = Named(facts, name);
  return numbers.empty() ? Right(name + " does not run")
                         : Wrong(name + " runs, as process " + Joined(numbers));
}

}  // namespace

std::optional<std::string> LoadedDriver(const Facts& facts) {
  bool loaded = false;
  for (const std::string path : {"/proc/driver/nvidia/version", "/sys/module/nvidia/version"}) {
    const auto text = facts.Read(path);
    loaded |= text.ok() || text.error().code == Code::kUnavailable;
    if (std::string version = text.ok() ? VersionIn(*text) : ""; !version.empty()) {
      return version;
    }
  }
  return loaded ? std::optional<std::string>("") : std::nullopt;
}

std::vector<std::string> LibraryVersions(const std::string& text) {
  const std::string name = "libcuda.so.";
  std::vector<std::string> found;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    at += name.size();
    std::string version = text.substr(at, text.find_first_not_of(".0123456789", at) - at);
    if (version.find('.') != std::string::npos &&
        std::ranges::find(found, version) == found.end()) {
      found.push_back(std::move(version));
    }
  }
  return found;
}

Finding GpuSource(const Facts& facts) {
  if (const auto version = LoadedDriver(facts)) {
    return Right("NVIDIA's driver " + *version + " is loaded");
  }
  const std::vector<std::string> names = SimulatedNames(facts);
  return names.empty() ? Wrong(kNoGpus) : Right("simulated nodes: " + Joined(names));
}

Finding DriverVersionTold(const Facts& facts) {
  const auto version = LoadedDriver(facts);
  if (!version) {
    return Skipped(kNoDriver);
  }
  return version->empty() ? Wrong(
                                "a driver is loaded, but /proc/driver/nvidia/version does not "
                                "tell its version")
                          : Right("the driver says that it is " + *version);
}

Finding DriverBranch(const Facts& facts) {
  const std::string version = LoadedDriver(facts).value_or("");
  if (version.empty()) {
    return Skipped(kNoDriver);
  }
  const auto parsed = rm::ParseDriverVersion(version);
  const rm::Abi* const abi = parsed ? rm::FindAbi(*parsed) : nullptr;
  return abi == nullptr ? Wrong(rm::UnsupportedDriver(version).what)
                        : Right(version + " belongs to branch " + std::string(abi->name));
}

Finding DriverCompared(const Facts& facts) {
  const std::string version = LoadedDriver(facts).value_or("");
  if (version.empty()) {
    return Skipped(kNoDriver);
  }
  const std::string notice = rm::NotCompared(version);
  return notice.empty() ? Right("cgpu raises no doubt about " + version) : Wrong(notice);
}

Finding DriverFlavour(const Facts& facts) {
  const std::string text = TextOf(facts, "/proc/driver/nvidia/version");
  if (text.empty()) {
    return Skipped(kNoDriver);
  }
  return text.find("Open Kernel Module") != std::string::npos
             ? Right("the open kernel module is loaded")
             : Wrong("the proprietary kernel module is loaded");
}

Finding DriverPending(const Facts& facts) {
  const std::string loaded = LoadedDriver(facts).value_or("");
  const std::string installed =
      Trimmed(OutputOrNothing(facts, {"modinfo", "-F", "version", "nvidia"}));
  if (loaded.empty() || installed.empty()) {
    return Skipped(loaded.empty() ? kNoDriver : "modinfo does not know the module nvidia");
  }
  return loaded == installed
             ? Right("the loaded driver is the installed one")
             : Wrong("driver " + loaded + " is loaded, and " + installed + " is installed");
}

Finding DriverLibrary(const Facts& facts) {
  const std::string loaded = LoadedDriver(facts).value_or("");
  if (loaded.empty()) {
    return Skipped(kNoDriver);
  }
  std::string names;
  for (const char* const folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
    for (const std::string& name : NamesIn(facts, folder)) {
      names += name + "\n";
    }
  }
  const std::vector<std::string> versions = LibraryVersions(names);
  if (versions.empty()) {
    return Skipped("there is no libcuda.so on this host");
  }
  return std::ranges::find(versions, loaded) != versions.end()
             ? Right("libcuda.so has the driver's version")
             : Wrong("driver " + loaded + " is loaded, and libcuda.so has version " +
                     Joined(versions));
}

Finding DriverAnswers(const Facts& facts) {
  if (!HasGpus(facts)) {
    return Skipped(kNoGpus);
  }
  const auto output = RunCgpu(facts, {"smi", "-L"});
  if (!output.ok()) {
    return Wrong("the driver gives no answer: " + output.error().what);
  }
  return output->status == 0 ? Right("the driver lists its GPUs") : Wrong(Trimmed(output->text));
}

Finding DriverGpus(const Facts& facts) {
  const auto expected = static_cast<std::size_t>(std::ranges::count_if(
      Gpus(facts), [](const auto& gpu) { return ValueOf(gpu.second, "GPU Excluded") != "Yes"; }));
  if (expected == 0) {
    return Skipped("/proc/driver/nvidia/gpus lists no GPUs");
  }
  const auto output = RunCgpu(facts, {"smi", "-L"});
  if (!output.ok() || output->status != 0) {
    return Skipped("see driver-answers");
  }
  const auto answer = static_cast<std::size_t>(std::ranges::count_if(
      LinesOf(output->text), [](const std::string& line) { return line.starts_with("GPU "); }));
  const std::string text =
      std::to_string(answer) + " of " + std::to_string(expected) + " GPUs answer";
  return answer < expected ? Wrong(text) : Right(text);
}

Finding DriverExcluded(const Facts& facts) {
  std::vector<std::string> excluded;
  for (const auto& [address, information] : Gpus(facts)) {
    if (ValueOf(information, "GPU Excluded") == "Yes") {
      excluded.push_back(address);
    }
  }
  return excluded.empty() ? Right("no GPU is excluded")
                          : Wrong("the driver leaves out " + Joined(excluded));
}

Finding Nouveau(const Facts& facts) {
  return ModuleLoaded(facts, "nouveau") ? Wrong("the kernel module nouveau is loaded")
                                        : Right("nouveau is not loaded");
}

Finding DeviceControl(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped(kNoDriver);
  }
  const auto file = facts.Look("/dev/nvidiactl");
  if (!file.ok()) {
    return Wrong("there is no /dev/nvidiactl");
  }
  return file->kind == FileFacts::Kind::kCharacterDevice && file->major == kMajor &&
                 file->minor == kControlMinor
             ? Right("/dev/nvidiactl is the driver's")
             : Wrong("/dev/nvidiactl is not the device 195:255");
}

Finding DeviceGpus(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped(kNoDriver);
  }
  std::vector<std::string> missing;
  for (const std::string& path : DevicePaths(facts)) {
    if (path != "/dev/nvidiactl" && path != "/dev/nvidia-uvm" && !IsDevice(facts, path)) {
      missing.push_back(path);
    }
  }
  return missing.empty() ? Right("each GPU has its device file")
                         : Wrong("there is no device file " + Joined(missing));
}

Finding DeviceUvm(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped(kNoDriver);
  }
  return IsDevice(facts, "/dev/nvidia-uvm") ? Right("/dev/nvidia-uvm is here")
                                            : Wrong("there is no device file /dev/nvidia-uvm");
}

Finding DeviceNumbers(const Facts& facts) {
  const auto uvm = facts.Look("/dev/nvidia-uvm");
  if (!uvm.ok() || uvm->kind != FileFacts::Kind::kCharacterDevice) {
    return Skipped("there is no device file /dev/nvidia-uvm");
  }
  for (const std::string& line : LinesOf(TextOf(facts, "/proc/devices"))) {
    std::istringstream words(line);
    unsigned number = 0;
    std::string name;
    if (words >> number >> name && name == "nvidia-uvm") {
      return number == uvm->major
                 ? Right("/dev/nvidia-uvm has the number of nvidia-uvm")
                 : Wrong("/dev/nvidia-uvm has the major number " + std::to_string(uvm->major) +
                         ", and the driver has " + std::to_string(number));
    }
  }
  return Wrong("/dev/nvidia-uvm is here, and the kernel module nvidia-uvm is not loaded");
}

Finding DeviceModes(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped(kNoDriver);
  }
  std::vector<std::string> closed;
  for (const std::string& path : DevicePaths(facts)) {
    const auto file = facts.Look(path);
    if (file.ok() && (file->mode & 06U) != 06U) {
      closed.push_back(path);
    }
  }
  return closed.empty() ? Right("everyone may open the device files")
                        : Wrong("not everyone may open " + Joined(closed));
}

// SECURITY.md, "GPU memory": /proc/PID/maps shows another device number than stat(2) for a file of
// these two.
Finding DeviceFileSystem(const Facts& facts) {
  std::string type;
  for (const MountEntry& mount : ParseMounts(TextOf(facts, "/proc/self/mountinfo") + "\n")) {
    if (mount.point == "/dev" || (mount.point == "/" && type.empty())) {
      type = mount.type;
    }
  }
  return type == "btrfs" || type == "overlay" ? Wrong("/dev is on a file system of type " + type)
                                              : Right("/dev is on a file system of type " + type);
}

// The flag "hypervisor" is bit 31 of CPUID 1 ECX, which hypervisors set (Linux,
// arch/x86/include/asm/cpufeatures.h).
Finding VirtualMachine(const Facts& facts) {
  for (const std::string& line : LinesOf(TextOf(facts, "/proc/cpuinfo"))) {
    if (line.starts_with("flags")) {
      return (line + " ").find(" hypervisor ") == std::string::npos
                 ? Right("this host is no virtual machine")
                 : Wrong("this host is a virtual machine");
    }
  }
  return Skipped("/proc/cpuinfo has no flags");
}

// NVIDIA's "Virtual GPU Software User Guide": guests of vGPU run the licensing service
// nvidia-gridd.
Finding VgpuGuest(const Facts& facts) {
  return NotBeside(facts, "nvidia-gridd");
}

// The same guide, "Verifying the Installation of the NVIDIA vGPU Software for Linux with KVM".
Finding VgpuHost(const Facts& facts) {
  return ModuleLoaded(facts, "nvidia_vgpu_vfio")
             ? Wrong("the kernel module nvidia_vgpu_vfio is loaded: this host gives out vGPUs")
             : NotBeside(facts, "nvidia-vgpu-mgr");
}

// NVIDIA's "Multi-Instance GPU User Guide", "Device Nodes and Capabilities": each GPU instance has
// a folder capabilities/gpuN/mig/giM.
Finding Mig(const Facts& facts) {
  std::vector<std::string> divided;
  const std::string folder = std::string(kProc) + "/capabilities";
  for (const std::string& gpu : NamesIn(facts, folder)) {
    const auto names = NamesIn(facts, In(In(folder, gpu), "mig"));
    if (std::ranges::any_of(names,
                            [](const std::string& name) { return name.starts_with("gi"); })) {
      divided.push_back(gpu);
    }
  }
  return divided.empty() ? Right("no GPU is divided by MIG")
                         : Wrong("MIG has divided " + Joined(divided));
}

// NVIDIA's "Multi-Process Service" guide names the daemon and the server.
Finding Mps(const Facts& facts) {
  return NotBeside(facts, "nvidia-cuda-mps-control");
}

Finding Persistence(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped(kNoDriver);
  }
  return Named(facts, "nvidia-persistenced").empty() ? Wrong("nvidia-persistenced does not run")
                                                     : Right("nvidia-persistenced runs");
}

Finding Caps(const Facts& facts) {
  if (!HasGpus(facts)) {
    return Skipped(kNoGpus);
  }
  const auto list = ListIn(RunCgpu(facts, {"policy", "--json"}), "cgpu policy");
  if (!list.ok()) {
    return Skipped(list.error().what);
  }
  std::vector<std::string> without;
  for (const Value& gpu : list->Items()) {
    if (!gpu["caps"].Flag()) {
      without.push_back("GPU " + std::to_string(gpu["index"].Number()));
    }
  }
  return without.empty() ? Right("the policies fixed and fair, and maxima, are caps")
                         : Wrong("a percentage is a share, and no cap, on " + Joined(without));
}

// The recordings: src/boundary/testdata/asked.tsv (TITAN RTX, RTX 3060 and 3090, H200, and numbers
// of Blackwell).
Finding FirmwareFamily(const Facts& facts) {
  constexpr std::array<std::string_view, 4> kRecorded = {"Turing", "Ampere", "Hopper", "Blackwell"};
  if (!HasGpus(facts)) {
    return Skipped(kNoGpus);
  }
  const auto output = RunCgpu(facts, {"smi", "-q"});
  if (!output.ok() || output->status != 0) {
    return Skipped("see driver-answers");
  }
  std::vector<std::string> families;
  std::vector<std::string> unknown;
  for (const std::string& line : LinesOf(output->text)) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || Trimmed(line.substr(0, colon)) != "Product Architecture") {
      continue;
    }
    const std::string family = Trimmed(line.substr(colon + 1));
    families.push_back(family);
    if (std::ranges::find(kRecorded, family) == kRecorded.end() && !Has(unknown, family)) {
      unknown.push_back(family);
    }
  }
  if (families.empty()) {
    return Skipped("`cgpu smi -q` names no architecture");
  }
  return unknown.empty() ? Right("there are recordings of GPUs of the family of each GPU")
                         : Wrong("there is no recording of a GPU of the family " + Joined(unknown));
}

Finding OtherProcesses(const Facts& facts) {
  if (!HasGpus(facts)) {
    return Skipped(kNoGpus);
  }
  const auto list = ListIn(RunCgpu(facts, {"ps", "--unmanaged", "--json"}), "cgpu ps --unmanaged");
  if (!list.ok()) {
    return Skipped(list.error().what);
  }
  std::vector<std::string> others;
  for (const Value& process : list->Items()) {
    others.push_back(process["command"].Text() + " (" + std::to_string(process["pid"].Number()) +
                     ")");
  }
  return others.empty() ? Right("all that use GPUs are in a slice")
                        : Wrong("in no slice, with a GPU's file open: " + Joined(others));
}

Finding SimulatedNodes(const Facts& facts) {
  std::vector<std::string> dead;
  const std::vector<std::string> names = SimulatedNames(facts);
  for (const std::string& name : names) {
    if (!SimulatedRuns(facts, name)) {
      dead.push_back(name);
    }
  }
  return dead.empty() ? Right(names.empty() ? "there are no simulated nodes"
                                            : "the simulated nodes run: " + Joined(names))
                      : Wrong("files are left of simulated nodes that do not run: " + Joined(dead));
}

Finding SimulatedBeside(const Facts& facts) {
  const std::vector<std::string> names = SimulatedNames(facts);
  return LoadedDriver(facts) && !names.empty()
             ? Wrong("beside NVIDIA's driver there are simulated nodes: " + Joined(names))
             : Right("there is one kind of GPUs");
}

}  // namespace cgpu::doctor
