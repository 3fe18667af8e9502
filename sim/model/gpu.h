// The GPUs of a simulated node: models with published figures, and the text that chooses them.
#ifndef CGPU_SIM_MODEL_GPU_H_
#define CGPU_SIM_MODEL_GPU_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rm/abi.h"
#include "rm/nv_types.h"
#include "sim/model/chip.h"

namespace cgpu::sim {

inline constexpr rm::NvU32 kKiB = 1024;
inline constexpr rm::NvU64 kMiB = rm::NvU64{1} << 20;
// NV_MAX_DEVICES in NVIDIA/open-gpu-kernel-modules src/nvidia/kernel/inc/nvlimits.h.
inline constexpr unsigned kMaxGpus = 32;

struct GpuModel {
  std::string_view key;   // what --gpus calls it
  std::string_view name;  // what the driver answers to NAME_STRING
  rm::NvU64 memory_mib;   // total as nvidia-smi prints it for this GPU
  rm::NvU16 pci_device;
  rm::NvU32 pci_subsystem;
  const Chip* chip;
  rm::NvU64 bar1_mib;
  rm::NvU32 gpcs;  // switched on, as all of these
  rm::NvU32 sms;   // two in a TPC
  rm::NvU32 l2_bytes;
  rm::NvU32 bus_width;
  rm::NvU32 ram_type;              // NV2080_CTRL_FB_INFO_RAM_TYPE_*
  rm::DriverVersion first_driver;  // the first release of its branch that lists the GPU, or 0
  unsigned first_branch_without;   // 0: none yet
  // As a GeForce has on record. For other GPUs nothing is on record; none has fewer here.
  rm::NvU32 encoder_sessions = 8;
};

[[nodiscard]] std::span<const GpuModel> GpuModels();

struct Gpu {
  unsigned index = 0;  // enumeration order and deviceId of NV01_DEVICE_0
  unsigned minor = 0;
  rm::NvU32 gpu_id = 0;
  unsigned pci_bus = 0;  // domain 0, slot 0, function 0
  std::array<rm::NvU8, 16> uuid{};
  const GpuModel* model = nullptr;
  rm::NvU64 memory_bytes = 0;

  [[nodiscard]] std::string Bdf() const;       // "0000:01:00.0"
  [[nodiscard]] std::string UuidText() const;  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
};

// Builds the GPUs of `spec`, MODEL[@NMiB][:COUNT][,...]. UUIDs depend on the node's name and the
// GPU's index alone, so a node started again has the same ones. kInvalid says what is wrong and
// lists the known models.
[[nodiscard]] Result<std::vector<Gpu>> ParseGpus(std::string_view spec, std::string_view node);

// Checks that the release drives all of them. kInvalid names the first that it never drove.
[[nodiscard]] Result<> CheckDriver(const std::vector<Gpu>& gpus, rm::DriverVersion driver);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_GPU_H_
