#include "sim/fuse/tree.h"

#include <cstdio>
#include <utility>

namespace cgpu::sim {
namespace {

std::string Hex(unsigned value, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x\n", digits, value);
  return text;
}

// As /proc/driver/nvidia/gpus/<bdf>/information has it (kernel-open/nvidia/nv-procfs.c).
std::string Information(const Gpu& gpu) {
  return "Model: \t\t " + std::string(gpu.model->name) +
         "\n"
         "IRQ:   \t\t " +
         std::to_string(16 + gpu.index) +
         "\n"
         "GPU UUID: \t " +
         gpu.UuidText() +
         "\n"
         "Video BIOS: \t ??.??.??.??.??\n"
         "Bus Type: \t PCIe\n"
         "DMA Size: \t 47 bits\n"
         "DMA Mask: \t 0x7fffffffffff\n"
         "Bus Location: \t " +
         gpu.Bdf() +
         "\n"
         "Device Minor: \t " +
         std::to_string(gpu.minor) +
         "\n"
         "GPU Firmware: \t N/A\n"
         "GPU Excluded:\t No\n";
}

}  // namespace

std::optional<DeviceName> DecodeDeviceIno(Ino ino) {
  const auto kind = static_cast<unsigned>(ino >> 56);
  if (kind < static_cast<unsigned>(FileKind::kCtl) ||
      kind > static_cast<unsigned>(FileKind::kGpu)) {
    return std::nullopt;
  }
  return DeviceName{static_cast<FileKind>(kind), static_cast<unsigned>(ino >> 40 & 0xFFFFU)};
}

Tree::Tree(const std::vector<Gpu>& gpus, const std::string& driver_version) {
  nodes_[kRoot] = TreeNode{};
  const Ino dev = AddFolder(kRoot, "dev");
  AddDevice(dev, "ctl", "nvidiactl", {FileKind::kCtl, kCtlMinor});
  AddDevice(dev, "uvm", "nvidia-uvm", {FileKind::kUvm, 0});
  for (const Gpu& gpu : gpus) {
    const std::string minor = std::to_string(gpu.minor);
    AddDevice(dev, "gpu" + minor, "nvidia" + minor, {FileKind::kGpu, gpu.minor});
  }
  const Ino nvidia = AddFolder(AddFolder(AddFolder(kRoot, "proc"), "driver"), "nvidia");
  AddFile(nvidia, "version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + driver_version +
              "  Simulated by cgpu-sim\n"
              "GCC version:  \n");
  AddFile(nvidia, "params", "");
  const Ino folder = AddFolder(nvidia, "gpus");
  const Ino pci = AddFolder(AddFolder(AddFolder(AddFolder(kRoot, "sys"), "bus"), "pci"), "devices");
  for (const Gpu& gpu : gpus) {
    AddGpu(folder, pci, gpu);
  }
}

void Tree::AddGpu(Ino folder, Ino pci, const Gpu& gpu) {
  AddFile(AddFolder(folder, gpu.Bdf()), "information", Information(gpu));
  const Ino device = AddFolder(pci, gpu.Bdf());
  AddFile(device, "vendor", Hex(0x10DE, 4));
  AddFile(device, "device", Hex(gpu.model->pci_device, 4));
  AddFile(device, "subsystem_vendor", Hex(gpu.model->pci_subsystem & 0xFFFFU, 4));
  AddFile(device, "subsystem_device", Hex(gpu.model->pci_subsystem >> 16, 4));
  AddFile(device, "class", Hex(0x030200, 6));
  AddFile(device, "revision", Hex(0xA1, 2));
  AddFile(device, "numa_node", "-1\n");
  AddFile(device, "irq", std::to_string(16 + gpu.index) + "\n");
}

const TreeNode* Tree::Find(Ino ino) const {
  const auto found = nodes_.find(ino);
  return found == nodes_.end() ? nullptr : &found->second;
}

Ino Tree::Lookup(Ino parent, const std::string& name) const {
  const TreeNode* folder = Find(parent);
  if (folder != nullptr) {
    for (const Ino child : folder->children) {
      if (nodes_.at(child).name == name) {
        return child;
      }
    }
  }
  return 0;
}

Ino Tree::AddFolder(Ino parent, const std::string& name) {
  const Ino ino = nodes_.size() + 1;
  TreeNode node;
  node.name = name;
  node.parent = parent;
  nodes_[ino] = std::move(node);
  nodes_[parent].children.push_back(ino);
  return ino;
}

void Tree::AddFile(Ino parent, const std::string& name, const std::string& content) {
  TreeNode& node = nodes_[AddFolder(parent, name)];
  node.directory = false;
  node.content = content;
}

void Tree::AddDevice(Ino dev, const std::string& folder, const std::string& name,
                     DeviceName device) {
  TreeNode& node = nodes_[AddFolder(AddFolder(dev, folder), name)];
  node.directory = false;
  node.device = device;
  devices_.push_back({name, device, "dev/" + folder});
}

}  // namespace cgpu::sim
