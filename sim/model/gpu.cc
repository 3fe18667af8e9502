#include "sim/model/gpu.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080fb.h, NV2080_CTRL_FB_INFO_RAM_TYPE_*:
constexpr rm::NvU32 kHbm2 = 0xF;
constexpr rm::NvU32 kGddr6 = 0x11;
constexpr rm::NvU32 kHbm3 = 0x14;

constexpr rm::NvU32 kMiB32 = 1U << 20;

// Memory: the totals of Alibaba Cloud's cGPU documentation (V100) and of nvidia-smi as published
// for the others. PCI ids and the drivers that know a GPU: NVIDIA/open-gpu-kernel-modules
// src/nvidia/generated/g_nv_name_released.h of the releases (H200: not in 535.288.01 and 550.78,
// but in 550.90.07; V100: in 580.95.05 and not in 590.44.01; B200: not in 550.163.01 and 565.77,
// but in 570.86.15). Units: NVIDIA's data sheets.
// The driver of a B200 reports 148 SMs, 126.5 MiB of L2 and, before it said 7680, a bus of 8192
// bits (pytorch/ao pull request 4002). Made up, as nothing is on record: its GPCs and BAR1, and the
// L4's BAR1.
constexpr GpuModel kModels[] = {
    {"v100-16g",
     "Tesla V100-SXM2-16GB",
     16160,
     0x1DB1,
     0x121210DE,
     &kGv100,
     16384,
     6,
     80,
     6 * kMiB32,
     4096,
     kHbm2,
     {},
     590},
    {"t4",
     "Tesla T4",
     15360,
     0x1EB8,
     0x12A210DE,
     &kTu104,
     256,
     5,
     40,
     4 * kMiB32,
     256,
     kGddr6,
     {},
     0},
    {"a10",
     "NVIDIA A10",
     23028,
     0x2236,
     0x148210DE,
     &kGa102,
     32768,
     6,
     72,
     6 * kMiB32,
     384,
     kGddr6,
     {},
     0},
    {"a100-80g",
     "NVIDIA A100-SXM4-80GB",
     81920,
     0x20B2,
     0x146310DE,
     &kGa100,
     131072,
     7,
     108,
     40 * kMiB32,
     5120,
     kHbm2,
     {},
     0},
    {"h100",
     "NVIDIA H100 80GB HBM3",
     81559,
     0x2330,
     0x16C110DE,
     &kGh100,
     131072,
     8,
     132,
     50 * kMiB32,
     5120,
     kHbm3,
     {},
     0},
    {"h200",
     "NVIDIA H200",
     143771,
     0x2335,
     0x18BE10DE,
     &kGh100,
     262144,
     8,
     132,
     50 * kMiB32,
     6144,
     kHbm3,
     {550, 90, 7},
     0},
    {"l4",
     "NVIDIA L4",
     23034,
     0x27B8,
     0x16CA10DE,
     &kAd104,
     32768,
     5,
     58,
     48 * kMiB32,
     192,
     kGddr6,
     {},
     0},
    {"b200",
     "NVIDIA B200",
     183359,
     0x2901,
     0x199910DE,
     &kGb100,
     262144,
     8,
     148,
     253 * kMiB32 / 2,
     8192,
     kHbm3,
     {570, 86, 15},
     0},
};

std::string KnownModels() {
  std::string text = "known models:";
  for (const GpuModel& model : kModels) {
    text += " " + std::string(model.key);
  }
  return text + "; MODEL@NMiB changes the memory, MODEL:COUNT the number of GPUs";
}

Error BadSpec(std::string_view part, const std::string& why) {
  return Error{Code::kInvalid, 0, "--gpus: '" + std::string(part) + "': " + why, KnownModels()};
}

std::optional<rm::NvU64> ParseNumber(std::string_view text) {
  rm::NvU64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// FNV-1a, 64 bits.
rm::NvU64 Hash(std::string_view text, rm::NvU64 basis) {
  rm::NvU64 hash = 0xCBF29CE484222325ULL ^ basis;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

std::array<rm::NvU8, 16> MakeUuid(std::string_view node, const GpuModel& model, unsigned index) {
  const std::string seed =
      std::string(node) + "/" + std::string(model.key) + "/" + std::to_string(index);
  const rm::NvU64 words[2] = {Hash(seed, 0), Hash(seed, 0x9E3779B97F4A7C15ULL)};
  std::array<rm::NvU8, 16> uuid{};
  for (unsigned i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<rm::NvU8>(words[i / 8] >> (8 * (i % 8)));
  }
  return uuid;
}

Gpu MakeGpu(std::string_view node, const GpuModel& model, rm::NvU64 mib, unsigned index) {
  Gpu gpu;
  gpu.index = index;
  gpu.minor = index;
  gpu.pci_bus = index + 1;
  // gpuGenerate32BitId() of the driver: domain, bus and slot in one number.
  gpu.gpu_id = gpu.pci_bus << 8;
  gpu.uuid = MakeUuid(node, model, index);
  gpu.model = &model;
  gpu.memory_bytes = mib * kMiB;
  return gpu;
}

struct Part {
  const GpuModel* model = nullptr;
  rm::NvU64 mib = 0;
  rm::NvU64 count = 1;
};

Result<Part> ParsePart(std::string_view text) {
  Part part;
  std::string_view rest = text;
  if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const auto count = ParseNumber(rest.substr(colon + 1));
    if (!count || *count == 0 || *count > kMaxGpus) {
      return BadSpec(text, "the number after ':' must be from 1 to " + std::to_string(kMaxGpus));
    }
    part.count = *count;
    rest = rest.substr(0, colon);
  }
  std::optional<rm::NvU64> mib;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    std::string_view size = rest.substr(at + 1);
    if (!size.ends_with("MiB")) {
      return BadSpec(text, "memory is written as a whole number of MiB, as in v100-16g@16130MiB");
    }
    size.remove_suffix(3);
    mib = ParseNumber(size);
    // FB_GET_INFO answers KiB in 32 bits.
    if (!mib || *mib == 0 || *mib >= (1U << 22)) {
      return BadSpec(text, "memory must be from 1MiB to 4194303MiB");
    }
    rest = rest.substr(0, at);
  }
  const auto* model = std::find_if(std::begin(kModels), std::end(kModels),
                                   [rest](const GpuModel& m) { return m.key == rest; });
  if (model == std::end(kModels)) {
    return BadSpec(text, rest.empty() ? "no model is named" : "there is no such model");
  }
  part.model = model;
  part.mib = mib.value_or(model->memory_mib);
  return part;
}

}  // namespace

std::span<const GpuModel> GpuModels() {
  return kModels;
}

std::string Gpu::Bdf() const {
  char text[16];
  std::snprintf(text, sizeof(text), "0000:%02x:00.0", pci_bus);
  return text;
}

std::string Gpu::UuidText() const {
  std::string text = "GPU-";
  for (unsigned i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", uuid[i]);
    text += hex;
  }
  return text;
}

Result<std::vector<Gpu>> ParseGpus(std::string_view spec, std::string_view node) {
  std::vector<Gpu> gpus;
  std::string_view rest = spec;
  while (true) {
    const std::size_t comma = rest.find(',');
    Result<Part> part = ParsePart(rest.substr(0, comma));
    if (!part.ok()) {
      return part.error();
    }
    for (rm::NvU64 i = 0; i < part->count; ++i) {
      if (gpus.size() == kMaxGpus) {
        return BadSpec(spec, "a node has at most " + std::to_string(kMaxGpus) + " GPUs");
      }
      gpus.push_back(MakeGpu(node, *part->model, part->mib, static_cast<unsigned>(gpus.size())));
    }
    if (comma == std::string_view::npos) {
      return gpus;
    }
    rest = rest.substr(comma + 1);
  }
}

Result<> CheckDriver(const std::vector<Gpu>& gpus, rm::DriverVersion driver) {
  for (const Gpu& gpu : gpus) {
    const GpuModel& model = *gpu.model;
    if (driver < model.first_driver) {
      return Error{Code::kInvalid, 0,
                   "driver " + rm::ToString(driver) + " never drove the " + std::string(model.name),
                   "choose a driver from " + rm::ToString(model.first_driver) + " on"};
    }
    if (model.first_branch_without != 0 && driver.major >= model.first_branch_without) {
      return Error{Code::kInvalid, 0,
                   "driver " + rm::ToString(driver) + " never drove the " + std::string(model.name),
                   "choose a driver before " + std::to_string(model.first_branch_without)};
    }
  }
  return {};
}

}  // namespace cgpu::sim
