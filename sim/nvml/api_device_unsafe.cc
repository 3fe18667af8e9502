// The GPUs: how many, handles, identity, modes.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <optional>
#include <string>

#include "rmclient/readings.h"
#include "sim/nvml/state.h"

namespace cgpu::sim::nvml {
namespace {

namespace rmc = cgpu::rmclient;

nvmlDevice_t HandleOf(Device* device) {
  return reinterpret_cast<nvmlDevice_t>(device);
}

struct Place {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Reads "0000:01:00.0", with more or fewer digits, or without the domain.
std::optional<Place> ParsePlace(const char* text) {
  Place place;
  unsigned function = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", &place.domain, &place.bus, &place.device, &function) == 4) {
    return place;
  }
  place.domain = 0;
  return std::sscanf(text, "%x:%x.%x", &place.bus, &place.device, &function) == 3
             ? std::optional(place)
             : std::nullopt;
}

nvmlReturn_t Count(unsigned* count) {
  return With([&](State& state) -> nvmlReturn_t {
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = static_cast<unsigned>(state.devices.size());
    return NVML_SUCCESS;
  });
}

// Gives the handle of the first GPU that `is_it` accepts. A GPU that cannot be opened has none.
template <class IsIt>
nvmlReturn_t FindHandle(nvmlDevice_t* handle, nvmlReturn_t if_none, IsIt is_it) {
  return With([&](State& state) -> nvmlReturn_t {
    if (handle == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (const auto& device : state.devices) {
      if (!is_it(*device)) {
        continue;
      }
      *handle = HandleOf(device.get());
      return device->gpu.ok() ? NVML_SUCCESS : ReturnOf(device->gpu.error());
    }
    return if_none;
  });
}

nvmlReturn_t HandleByIndex(unsigned index, nvmlDevice_t* handle) {
  return FindHandle(handle, NVML_ERROR_INVALID_ARGUMENT,
                    [index](const Device& device) { return device.index == index; });
}

nvmlReturn_t HandleByPciBusId(const char* id, nvmlDevice_t* handle) {
  const auto place = id == nullptr ? std::nullopt : ParsePlace(id);
  if (!place) {
    return With([](State&) { return NVML_ERROR_INVALID_ARGUMENT; });
  }
  return FindHandle(handle, NVML_ERROR_NOT_FOUND, [&place](const Device& device) {
    return ParsePlace(device.listed.bdf.c_str()) == place;
  });
}

// Forms of bus addresses: NVML API reference, nvmlPciInfo_t; digits as nvidia-smi prints them.
void PutPci(const rmc::Gpu& gpu, const rmc::PciIds& ids, nvmlPciInfo_t* pci) {
  const Place place = ParsePlace(gpu.bdf.c_str()).value_or(Place{});
  *pci = {};
  pci->domain = place.domain;
  pci->bus = place.bus;
  pci->device = place.device;
  pci->pciDeviceId = ids.device;
  pci->pciSubSystemId = ids.subsystem;
  std::snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", place.domain, place.bus,
                place.device);
  std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
                place.domain & 0xFFFFU, place.bus, place.device);
}

// NVML_DEVICE_ARCH_*, by NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_* of ctrl2080mc.h.
unsigned ArchitectureOf(std::uint32_t number) {
  struct Row {
    std::uint32_t number;
    unsigned of_nvml;
  };
  constexpr auto kRows = std::to_array<Row>(
      {{0x140, 5}, {0x160, 6}, {0x170, 7}, {0x180, 9}, {0x190, 8}, {0x1A0, 10}, {0x1B0, 10}});
  constexpr unsigned kUnknown = 0xFFFFFFFF;
  const auto* row = std::ranges::find(kRows, number, &Row::number);
  return row == kRows.end() ? kUnknown : row->of_nvml;
}

nvmlReturn_t PutTextOf(nvmlDevice_t device, std::string rmc::Gpu::* text, char* buffer,
                       unsigned length) {
  return WithGpu(device, [&](rmc::Client&, const rmc::Gpu& gpu) {
    return PutText(gpu.*text, buffer, length);
  });
}

unsigned Feature(bool on) {
  return on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
}

}  // namespace
}  // namespace cgpu::sim::nvml

namespace nvml = cgpu::sim::nvml;
namespace rmc = cgpu::rmclient;

// NOLINTBEGIN(readability-identifier-naming): NVML's names
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  return nvml::Count(count);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned* count) {
  return nvml::Count(count);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return nvml::HandleByIndex(index, device);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvml::HandleByIndex(index, device);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return nvml::FindHandle(device, NVML_ERROR_NOT_FOUND, [uuid](const nvml::Device& one) {
    return uuid != nullptr && one.gpu.ok() && one.gpu->uuid == uuid;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  return nvml::HandleByPciBusId(id, device);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device) {
  return nvml::HandleByPciBusId(id, device);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return nvml::With([&](nvml::State& state) -> nvmlReturn_t {
    const nvml::Device* const found = state.Find(device);
    if (found == nullptr || index == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *index = found->index;
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) {
  return nvml::WithGpu(device, [&](rmc::Client&, const rmc::Gpu& gpu) -> nvmlReturn_t {
    if (minor == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *minor = gpu.minor;
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return nvml::PutTextOf(device, &rmc::Gpu::name, name, length);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  return nvml::PutTextOf(device, &rmc::Gpu::uuid, uuid, length);
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvml::WithGpu(device, [&](rmc::Client& client, const rmc::Gpu& gpu) -> nvmlReturn_t {
    if (pci == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto ids = rmc::ReadPciIds(client, gpu);
    if (!ids.ok()) {
      return nvml::ReturnOf(ids.error());
    }
    nvml::PutPci(gpu, *ids, pci);
    return NVML_SUCCESS;
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major,
                                                              int* minor) {
  const void* const out = major == nullptr ? nullptr : minor;
  return nvml::Answer(device, out, rmc::ReadComputeCapability, [&](const auto& found) {
    *major = static_cast<int>(found.major);
    *minor = static_cast<int>(found.minor);
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned* architecture) {
  return nvml::Answer(device, architecture, rmc::ReadArchitecture, [&](const auto& found) {
    *architecture = nvml::ArchitectureOf(found.architecture);
  });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned* cores) {
  return nvml::Answer(device, cores, rmc::ReadCores, [&](auto found) { *cores = found; });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned* bits) {
  return nvml::Answer(device, bits, rmc::ReadBusWidth, [&](auto found) { *bits = found; });
}

// NVML_COMPUTEMODE_* has the numbers of the driver's rules.
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned* mode) {
  return nvml::Answer(device, mode, rmc::ReadComputeMode, [&](auto found) { *mode = found; });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned* mode) {
  return nvml::Answer(device, mode, rmc::ReadPersistence,
                      [&](bool on) { *mode = nvml::Feature(on); });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current,
                                                unsigned* pending) {
  const void* const out = current == nullptr ? nullptr : pending;
  return nvml::Answer(device, out, rmc::ReadMig,
                      [&](bool on) { *current = *pending = nvml::Feature(on); });
}

CGPU_NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned* is_mig) {
  return nvml::WithGpu(device, [&](rmc::Client&, const rmc::Gpu&) -> nvmlReturn_t {
    if (is_mig == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *is_mig = 0;
    return NVML_SUCCESS;
  });
}

// A GPU that is not divided has none.
CGPU_NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned* count) {
  return nvml::WithGpu(device, [&](rmc::Client&, const rmc::Gpu&) -> nvmlReturn_t {
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = 0;
    return NVML_SUCCESS;
  });
}
// NOLINTEND(readability-identifier-naming)
