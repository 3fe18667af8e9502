#include "host/machine_node.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file.h"
#include "protocol/text.h"
#include "rm/abi.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"
#include "rmclient/readings.h"

namespace cgpu {
namespace {

constexpr char kElse[] = ", or name a simulated node with --node";

// Greatest device minor of a GPU: NVIDIA/open-gpu-kernel-modules 550.163.01
// kernel-open/common/inc/nv-chardev-numbers.h NV_MINOR_DEVICE_NUMBER_REGULAR_MAX.
constexpr unsigned kMaxGpuMinor = 247;
constexpr unsigned kCtlMinor = 255;  // NV_MINOR_DEVICE_NUMBER_CONTROL_DEVICE

// Returns the version text of the loaded driver; nullopt: none is loaded.
Result<std::optional<std::string>> ReadVersionFile(const Machine& machine) {
  for (const char* path : {"/proc/driver/nvidia/version", "/sys/module/nvidia/version"}) {
    auto text = ReadFile(machine.root + path);
    if (text.ok()) {
      return std::optional(std::move(*text));
    }
    if (text.error().code != Code::kNotFound) {
      Error error = text.error();
      error.hint = std::string("an NVIDIA driver is loaded; make its version readable") + kElse;
      return error;
    }
  }
  return std::optional<std::string>();
}

// Returns a character device as a shim knows it. Returns nullopt for anything else, with errno 0
// for what exists and is no device.
std::optional<NodeDevice> DeviceAt(const Machine& machine, const std::string& name,
                                   NodeFile::Kind kind) {
  NodeDevice device;
  device.name = name;
  device.file.kind = kind;
  device.file.path = machine.root + "/dev/" + name;
  struct stat st{};
  if (stat(device.file.path.c_str(), &st) != 0) {
    return std::nullopt;
  }
  if (!S_ISCHR(st.st_mode)) {
    errno = 0;
    return std::nullopt;
  }
  device.file.dev_major = major(st.st_rdev);
  device.file.dev_minor = minor(st.st_rdev);
  device.file.minor = device.file.dev_minor;
  return device;
}

// Returns N of "nvidia<N>".
std::optional<unsigned> GpuMinorOf(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  unsigned number = 0;
  return ToUnsigned(name, number) && number <= kMaxGpuMinor && name == std::to_string(number)
             ? std::optional(number)
             : std::nullopt;
}

// Returns all nvidia<N> that are what their names say, in order of minor. The driver's own
// libraries would not use another file under such a name, and a shim refuses a file that it was not
// told of.
std::vector<NodeDevice> GpuDevices(const Machine& machine, const NodeFile& ctl) {
  std::vector<NodeDevice> devices;
  for (const std::string& name : NamesIn(machine.root + "/dev").value_or({})) {
    const auto number = GpuMinorOf(name);
    auto device = number ? DeviceAt(machine, name, NodeFile::Kind::kGpu) : std::nullopt;
    if (device && device->file.minor == *number && device->file.dev_major == ctl.dev_major) {
      devices.push_back(std::move(*device));
    }
  }
  std::ranges::sort(devices, [](const NodeDevice& x, const NodeDevice& y) {
    return x.file.minor < y.file.minor;
  });
  return devices;
}

Result<std::vector<NodeDevice>> FindDevices(const Machine& machine, const std::string& version) {
  const std::string path = machine.root + "/dev/nvidiactl";
  auto ctl = DeviceAt(machine, "nvidiactl", NodeFile::Kind::kCtl);
  if (!ctl) {
    const int error = errno;
    const std::string loaded = "NVIDIA driver " + version + " is loaded, but " + path;
    if (error == 0) {
      return Error{Code::kUnavailable, 0, loaded + " is not a device file",
                   std::string("run this outside of containers and simulated nodes") + kElse};
    }
    Error missing = ErrnoError(Code::kUnavailable, error, loaded + " is not there");
    missing.hint = std::string(
                       "run nvidia-smi once as root, which makes the device files; in a "
                       "container, pass them in") +
                   kElse;
    return missing;
  }
  if (ctl->file.dev_minor != kCtlMinor) {
    return Error{Code::kUnavailable, 0,
                 path + " has the device number of another file: its minor is " +
                     std::to_string(ctl->file.dev_minor) + ", not 255",
                 "remove it, and run nvidia-smi once as root, which makes it anew"};
  }
  std::vector<NodeDevice> devices = GpuDevices(machine, ctl->file);
  devices.insert(devices.begin(), std::move(*ctl));
  if (auto uvm = DeviceAt(machine, "nvidia-uvm", NodeFile::Kind::kUvm)) {
    devices.push_back(std::move(*uvm));
  }
  if (auto tools = DeviceAt(machine, "nvidia-uvm-tools", NodeFile::Kind::kTools)) {
    devices.push_back(std::move(*tools));
  }
  return devices;
}

Error Explain(Error error, const std::string& version) {
  const std::string loaded = "NVIDIA driver " + version + " is loaded, but ";
  switch (error.code) {
    case Code::kPermission:
      error.what = loaded + "this user may not use it: " + error.what;
      error.hint = "`ls -l /dev/nvidia*` shows who may; ask the machine's administrator";
      break;
    case Code::kNotFound:
      error.code = Code::kUnavailable;
      error.what = loaded + "does not answer: " + error.what;
      error.hint = std::string("see `dmesg` for what it says of its GPUs") + kElse;
      break;
    default:
      break;
  }
  return error;
}

bool HasFileFor(const std::vector<NodeDevice>& devices, const Gpu& gpu) {
  return std::ranges::any_of(devices, [&](const NodeDevice& device) {
    return device.file.kind == NodeFile::Kind::kGpu && device.file.minor == gpu.minor;
  });
}

// Returns the error for a host without usable GPUs. It may have GPUs that this user may not have:
// the driver gives no answer about those.
Error NoCards(const std::vector<NodeDevice>& devices, const std::string& version) {
  std::string files;
  for (const NodeDevice& device : devices) {
    if (device.file.kind == NodeFile::Kind::kGpu) {
      files += (files.empty() ? "" : ", ") + device.file.path;
    }
  }
  if (files.empty()) {
    return Error{Code::kNotFound, 0, "NVIDIA driver " + version + " is loaded, but has no GPUs",
                 std::string("see `dmesg` for what it says of them; nvidia-smi, run once as root, "
                             "makes missing device files") +
                     kElse};
  }
  return Error{Code::kPermission, 0,
               "NVIDIA driver " + version + " is loaded, but this user may open none of its GPUs",
               "`ls -l " + files + "` shows who may; ask the machine's administrator"};
}

}  // namespace

Result<DriverAnswer> AskThroughFiles(const rmclient::DevicePaths& paths) {
  CGPU_ASSIGN_OR_RETURN(auto client, rmclient::Client::Open(paths));
  CGPU_ASSIGN_OR_RETURN(const auto gpus, rmclient::OpenGpus(client));
  DriverAnswer answer;
  answer.version = client.driver_version();
  for (const rmclient::Gpu& open : gpus) {
    const auto memory = rmclient::ReadFbInfo(client, open);
    if (!memory.ok() && memory.error().code == Code::kUnavailable) {
      continue;
    }
    CGPU_TRY(memory);
    Gpu gpu;
    gpu.index = open.index;
    gpu.uuid = open.uuid;
    gpu.bdf = open.bdf;
    gpu.minor = open.minor;
    gpu.gpu_id = open.gpu_id;
    gpu.model = open.name;
    gpu.memory_bytes = memory->total;
    answer.gpus.push_back(std::move(gpu));
  }
  return answer;
}

std::string VersionIn(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(0, end);
    if (rm::ParseDriverVersion(word)) {
      return std::string(word);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

Result<std::optional<Node>> FindMachineNode(const Machine& machine) {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadVersionFile(machine));
  if (!text.has_value()) {
    return std::optional<Node>();
  }
  const std::string version = VersionIn(*text);
  const auto parsed = rm::ParseDriverVersion(version);
  if (!parsed || rm::FindAbi(*parsed) == nullptr) {
    return rm::UnsupportedDriver(version.empty() ? "of no known version" : version);
  }
  CGPU_ASSIGN_OR_RETURN(auto devices, FindDevices(machine, version));
  auto answer = machine.ask(rmclient::DevicePaths::InFolder(machine.root + "/dev"));
  if (!answer.ok()) {
    return Explain(answer.error(), version);
  }
  std::erase_if(answer->gpus, [&](const Gpu& gpu) { return !HasFileFor(devices, gpu); });
  if (answer->gpus.empty()) {
    return NoCards(devices, version);
  }
  Node node;
  node.driver = answer->version;  // the driver's own word, by which its calls are read
  node.devices = std::move(devices);
  node.gpus = std::move(answer->gpus);
  node.proc_source = machine.root + "/proc/driver/nvidia";
  node.pci_source = machine.root + "/sys/bus/pci";
  for (unsigned index = 0; Gpu & gpu : node.gpus) {
    gpu.index = index++;
  }
  return std::optional(std::move(node));
}

Result<> CheckOpenToShims(const Node& node, const Grant& grant) {
  constexpr mode_t kReadWrite = S_IROTH | S_IWOTH;
  ShimConfig told;
  Describe(node, grant, told);
  for (const NodeFile& file : told.files) {
    struct stat st{};
    if (file.simulated || !file.granted || file.kind == NodeFile::Kind::kUvm ||
        file.kind == NodeFile::Kind::kTools || stat(file.path.c_str(), &st) != 0 ||
        (st.st_mode & kReadWrite) == kReadWrite) {
      continue;  // the shim itself names what is gone
    }
    return Error{Code::kPermission, 0,
                 "a container's shim runs under a user of its own, which may not open " + file.path,
                 "make it readable and writable for everyone, as the driver does by itself (module "
                 "parameter NVreg_DeviceFileMode), or run this as a user who may open it"};
  }
  return {};
}

}  // namespace cgpu
