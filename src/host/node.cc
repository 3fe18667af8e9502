#include "host/node.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "host/machine_node.h"
#include "json/json.h"
#include "protocol/text.h"
#include "rm/abi.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;

constexpr char kStartHint[] = "start one with `cgpu sim start --gpus v100-16g:2`";

std::uint64_t HexField(const Json& object, const char* key) {
  return std::stoull(object.at(key).get<std::string>(), nullptr, 16);
}

NodeFile::Kind KindOf(const std::string& text) {
  if (text == "ctl") {
    return NodeFile::Kind::kCtl;
  }
  if (text == "tools") {
    return NodeFile::Kind::kTools;
  }
  return text == "uvm" ? NodeFile::Kind::kUvm : NodeFile::Kind::kGpu;
}

NodeDevice DeviceFrom(const Json& json) {
  NodeDevice device;
  device.name = json.at("name").get<std::string>();
  device.folder = json.at("dir").get<std::string>();
  device.file.kind = KindOf(json.at("kind").get<std::string>());
  device.file.minor = json.at("minor").get<unsigned>();
  device.file.path = json.at("path").get<std::string>();
  device.file.simulated = true;
  device.file.ino_mask = HexField(json, "ino_mask");
  device.file.ino_value = HexField(json, "ino_value");
  return device;
}

Gpu GpuFrom(const Json& json) {
  Gpu gpu;
  gpu.index = json.at("index").get<unsigned>();
  gpu.uuid = json.at("uuid").get<std::string>();
  gpu.bdf = json.at("bdf").get<std::string>();
  gpu.minor = json.at("minor").get<unsigned>();
  gpu.model = json.at("model").get<std::string>();
  gpu.memory_bytes = json.at("memory_bytes").get<std::uint64_t>();
  gpu.gpu_id = json.value("gpu_id", std::uint32_t{0});
  return gpu;
}

// Reads a node. Throws what nlohmann::json and std::stoull throw.
Node NodeFrom(const Json& json) {
  Node node;
  node.name = json.at("name").get<std::string>();
  node.driver = json.at("driver").get<std::string>();
  const std::string mount = json.at("mount").get<std::string>();
  node.proc_source = mount + "/proc/driver/nvidia";
  node.pci_source = mount + "/sys/bus/pci";
  node.libraries = json.value("libraries", std::string());
  node.caps = json.value("caps", true);
  for (const Json& file : json.at("files")) {
    node.devices.push_back(DeviceFrom(file));
  }
  for (const Json& gpu : json.at("gpus")) {
    node.gpus.push_back(GpuFrom(gpu));
  }
  return node;
}

// Fills in the file system that all files of a simulated node lie in.
Result<> FillDeviceNumbers(Node& node) {
  for (NodeDevice& device : node.devices) {
    struct stat st{};
    if (stat(device.folder.c_str(), &st) != 0) {
      Error error = ErrnoError(Code::kUnavailable, errno,
                               "the simulated node \"" + node.name + "\" does not answer");
      error.hint = "stop it with `cgpu sim stop --name " + node.name + "` and start it again";
      return error;
    }
    device.file.dev_major = major(st.st_dev);
    device.file.dev_minor = minor(st.st_dev);
  }
  return {};
}

// Checks that the driver's release is known. Of an unknown one cgpu knows neither what its calls
// mean nor which are dangerous.
Result<> CheckDriver(const std::string& text) {
  const auto version = rm::ParseDriverVersion(text);
  if (!version || rm::FindAbi(*version) == nullptr) {
    return rm::UnsupportedDriver(text);
  }
  return {};
}

}  // namespace

Result<Node> FindSimulatedNode(const std::string& name) {
  if (!IsName(name)) {
    return Error{Code::kInvalid, 0, "\"" + name + "\" cannot be a node's name",
                 "use letters, digits, and - . _ after the first"};
  }
  const std::string path = std::string(kSimulatedNodes) + "/" + name + "/node.json";
  const auto text = ReadFile(path);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) {
      return Error{Code::kNotFound, 0, "no simulated node \"" + name + "\" is running",
                   name == kDefaultNode
                       ? kStartHint
                       : "start it with `cgpu sim start --name " + name + " --gpus v100-16g:2`"};
    }
    return text.error();
  }
  Node node;
  try {
    node = NodeFrom(ParseJson(*text));
  } catch (const std::exception& exception) {  // caught here alone: a library's exceptions, about
                                               // another program's file
    return Error{Code::kInvalid, 0, path + " is not understood: " + exception.what(),
                 "cgpu and cgpu-sim must be of the same release"};
  }
  CGPU_TRY(CheckDriver(node.driver));
  CGPU_TRY(FillDeviceNumbers(node));
  return node;
}

Result<Node> FindNode(const std::string& name) {
  return FindNode(name, Machine());
}

Result<Node> FindNode(const std::string& name, const Machine& machine) {
  if (!name.empty()) {
    return FindSimulatedNode(name);
  }
  CGPU_ASSIGN_OR_RETURN(auto own, FindMachineNode(machine));
  if (own.has_value()) {
    return std::move(*own);
  }
  auto node = FindSimulatedNode(kDefaultNode);
  if (!node.ok() && node.error().code == Code::kNotFound) {
    Error error = node.error();
    error.what = "no NVIDIA driver was found on this machine, and " + error.what;
    return error;
  }
  return node;
}

namespace {

bool IsGranted(const NodeFile& file, const Grant& grant) {
  return file.kind != NodeFile::Kind::kGpu ||
         std::ranges::any_of(
             grant.gpus, [&](const GpuGrant& granted) { return granted.gpu.minor == file.minor; });
}

}  // namespace

std::string CardsOf(const Node& node) {
  return node.name.empty() ? "/var/lib/cgpu/cards"
                           : std::string(kSimulatedNodes) + "/" + node.name + "/cards";
}

rmclient::DevicePaths PathsOf(const Node& node) {
  rmclient::DevicePaths paths;
  std::map<unsigned, std::string> gpus;
  for (const NodeDevice& device : node.devices) {
    if (device.file.kind == NodeFile::Kind::kCtl) {
      paths.ctl = device.file.path;
    } else if (device.file.kind == NodeFile::Kind::kGpu) {
      gpus[device.file.minor] = device.file.path;
    }
  }
  paths.gpu = [gpus](unsigned minor) {
    const auto gpu = gpus.find(minor);
    return gpu == gpus.end() ? std::string() : gpu->second;
  };
  return paths;
}

GpuTree TreeFor(const Node& node, const Grant& grant, std::vector<std::string> hide) {
  GpuTree tree;
  for (const NodeDevice& device : node.devices) {
    if (IsGranted(device.file, grant)) {
      const bool simulated = device.file.simulated;
      tree.devices.push_back(
          {device.name, simulated ? device.folder : device.file.path, simulated});
    }
  }
  tree.proc_source = node.proc_source;
  tree.pci_source = node.pci_source;
  for (const GpuGrant& granted : grant.gpus) {
    tree.bdfs.push_back(granted.gpu.bdf);
  }
  tree.hide = std::move(hide);
  return tree;
}

void Describe(const Node& node, const Grant& grant, ShimConfig& config) {
  config.driver = node.driver;
  for (const NodeDevice& device : node.devices) {
    NodeFile file = device.file;
    file.granted = IsGranted(file, grant);
    config.files.push_back(file);
    if (file.granted) {
      config.watches.push_back(file.simulated ? device.folder : file.path);
    }
  }
  config.gpus = grant.gpus;
}

}  // namespace cgpu
