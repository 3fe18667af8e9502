// The files of a node's mount: which there are, what the constant ones hold, and how the inode
// numbers of device files tell kind, minor and open. Pure.
//
//   dev/ctl/nvidiactl  dev/uvm/nvidia-uvm  dev/gpu<minor>/nvidia<minor>
//   proc/driver/nvidia/version  proc/driver/nvidia/gpus/<bdf>/information
//   sys/bus/pci/devices/<bdf>/{vendor,device,class,...}
#ifndef CGPU_SIM_FUSE_TREE_H_
#define CGPU_SIM_FUSE_TREE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/gpu.h"
#include "sim/model/object.h"

namespace cgpu::sim {

// Inode numbers of device files: bits 63..56 kind, 55..40 minor, 39..0 a serial number. Every
// look-up gives a new serial, so every open has an inode, and pages, of its own.
using Ino = std::uint64_t;
inline constexpr Ino kDeviceInoMask = 0xFFFFFF0000000000ULL;
inline constexpr unsigned kCtlMinor = 255;

[[nodiscard]] constexpr Ino DeviceIno(FileKind kind, unsigned minor, std::uint64_t serial) {
  return static_cast<Ino>(kind) << 56 | static_cast<Ino>(minor & 0xFFFFU) << 40 |
         (serial & 0xFFFFFFFFFFULL);
}

struct DeviceName {
  FileKind kind = FileKind::kCtl;
  unsigned minor = 0;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};
// Returns nullopt for the inode of anything but a device file.
[[nodiscard]] std::optional<DeviceName> DecodeDeviceIno(Ino ino);

struct TreeNode {
  std::string name;
  Ino parent = 0;
  bool directory = true;
  std::string content;               // of a constant file
  std::optional<DeviceName> device;  // a device file: the folder's one entry
  std::vector<Ino> children;         // in the order of listing
};

class Tree {
 public:
  static constexpr Ino kRoot = 1;

  Tree(const std::vector<Gpu>& gpus, const std::string& driver_version);

  [[nodiscard]] const TreeNode* Find(Ino ino) const;
  // Returns the entry `name` of folder `parent`; 0 if there is none. For a device file this is the
  // number of its place in the tree, not of an inode.
  [[nodiscard]] Ino Lookup(Ino parent, const std::string& name) const;

  struct DeviceFileInfo {
    std::string name;
    DeviceName device;
    std::string folder;  // below the mount: "dev/ctl"
  };
  [[nodiscard]] const std::vector<DeviceFileInfo>& Devices() const { return devices_; }

 private:
  Ino AddFolder(Ino parent, const std::string& name);
  void AddFile(Ino parent, const std::string& name, const std::string& content);
  void AddDevice(Ino dev, const std::string& folder, const std::string& name, DeviceName device);
  void AddGpu(Ino folder, Ino pci, const Gpu& gpu);

  std::map<Ino, TreeNode> nodes_;
  std::vector<DeviceFileInfo> devices_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_TREE_H_
