#include "rmclient/gpus.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "rm/control_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"

namespace cgpu::rmclient {
namespace {

constexpr std::size_t kMaxGpus = rm::NV0000_CTRL_GPU_MAX_ATTACHED_GPUS;
using CardInfos = std::array<rm::nv_ioctl_card_info_t, kMaxGpus>;

template <std::size_t N>
std::string BoundedText(const rm::NvU8 (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), strnlen(reinterpret_cast<const char*>(bytes), N)};
}

// Reads them in order of bus address, and after them the entries without a GPU.
Result<CardInfos> ReadCardInfos(const Client& client) {
  CardInfos infos = {};
  const int error = Escape(client.fd(), rm::NV_ESC_CARD_INFO, infos.data(), sizeof(infos));
  if (error != 0) {
    return ErrnoError(Code::kUnavailable, error, "asking the NVIDIA driver for its GPUs");
  }
  std::ranges::sort(infos, [](const auto& x, const auto& y) {
    return std::make_tuple(x.valid == 0, x.pci_info.domain, x.pci_info.bus, x.pci_info.slot) <
           std::make_tuple(y.valid == 0, y.pci_info.domain, y.pci_info.bus, y.pci_info.slot);
  });
  return infos;
}

// Opens the GPU's file; returns an invalid fd when this process may not have that GPU.
Result<UniqueFd> OpenGpuFile(const Client& client, unsigned minor) {
  Result<UniqueFd> file = OpenFile(client.paths().gpu(minor), O_RDWR);
  if (file.ok()) {
    const int error = RegisterFd(file->get(), client.fd());
    if (error != 0) {
      return ErrnoError(Code::kUnavailable, error, "registering " + client.paths().gpu(minor));
    }
    return file;
  }
  switch (file.error().sys_errno) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EIO:  // the driver cannot start it: kernel-open/nvidia/nv.c nv_start_device()
    case EACCES:
    case EPERM:
      return UniqueFd();
    default:
      return file.error();
  }
}

Result<> AskIdentity(Client& client, Gpu& gpu) {
  rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS id = {};
  id.gpuId = gpu.gpu_id;
  CGPU_TRY(Checked(
      client.Control(client.handle(), rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, &id, sizeof(id)),
      "asking for GPU " + gpu.bdf));
  gpu.device_instance = id.deviceInstance;
  gpu.subdevice_instance = id.subDeviceInstance;

  rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS uuid = {};
  uuid.gpuId = gpu.gpu_id;
  uuid.flags = rm::kUuidFormatAscii;
  CGPU_TRY(Checked(client.Control(client.handle(), rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID,
                                  &uuid, sizeof(uuid)),
                   "asking for the UUID of GPU " + gpu.bdf));
  gpu.uuid = BoundedText(uuid.gpuUuid);
  return {};
}

Result<> AllocDevice(Client& client, Gpu& gpu) {
  rm::NV0080_ALLOC_PARAMETERS device = {};
  device.deviceId = gpu.device_instance;
  device.hClientShare = client.handle();  // an address space of its own
  CGPU_TRY(Checked(
      client.Alloc(client.handle(), &gpu.device, rm::NV01_DEVICE_0, &device, sizeof(device)),
      "opening GPU " + gpu.bdf));
  rm::NV2080_ALLOC_PARAMETERS subdevice = {};
  subdevice.subDeviceId = gpu.subdevice_instance;
  CGPU_TRY(Checked(
      client.Alloc(gpu.device, &gpu.subdevice, rm::NV20_SUBDEVICE_0, &subdevice, sizeof(subdevice)),
      "opening GPU " + gpu.bdf));
  rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS name = {};
  name.gpuNameStringFlags = rm::NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII;
  CGPU_TRY(Checked(
      client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, &name,
                     rm::ControlSize(client.abi(), rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING)),
      "asking for the name of GPU " + gpu.bdf));
  gpu.name = BoundedText(name.gpuNameString.ascii);
  return {};
}

std::string BusAddress(const rm::nv_pci_info_t& pci) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.slot,
                pci.function & 0xFU);
  return text.data();
}

// Opens a GPU; without a file if this process may not have it.
Result<Gpu> OpenOne(Client& client, const rm::nv_ioctl_card_info_t& info) {
  Gpu gpu;
  CGPU_ASSIGN_OR_RETURN(gpu.file, OpenGpuFile(client, info.minor_number));
  if (!gpu.file.valid()) {
    return gpu;
  }
  gpu.gpu_id = info.gpu_id;
  gpu.minor = info.minor_number;
  gpu.bdf = BusAddress(info.pci_info);
  CGPU_TRY(AskIdentity(client, gpu));
  CGPU_TRY(AllocDevice(client, gpu));
  return gpu;
}

}  // namespace

Result<std::vector<ListedGpu>> ListGpus(const Client& client) {
  CGPU_ASSIGN_OR_RETURN(const auto infos, ReadCardInfos(client));
  std::vector<ListedGpu> gpus;
  for (const rm::nv_ioctl_card_info_t& info : infos) {
    if (info.valid != 0) {
      gpus.push_back({info.minor_number, BusAddress(info.pci_info)});
    }
  }
  return gpus;
}

Result<Gpu> OpenGpu(Client& client, unsigned minor) {
  CGPU_ASSIGN_OR_RETURN(const auto infos, ReadCardInfos(client));
  const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& one) {
    return one.valid != 0 && one.minor_number == minor;
  });
  const std::string name = client.paths().gpu(minor);
  if (info == infos.end()) {
    return Error{Code::kNotFound, 0, "the driver has no GPU for " + name, {}};
  }
  CGPU_ASSIGN_OR_RETURN(auto gpu, OpenOne(client, *info));
  return gpu.file.valid() ? Result<Gpu>(std::move(gpu))
                          : Error{Code::kNotFound, 0, "cannot open " + name, {}};
}

Result<> AskForTime(Client& client, const Gpu& gpu) {
  std::uint64_t nanoseconds = 0;
  return Checked(client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_TIMER_GET_TIME, &nanoseconds,
                                sizeof(nanoseconds)),
                 "asking GPU " + gpu.bdf + " for its time");
}

Result<Session> OpenSession(const DevicePaths& paths, unsigned minor) {
  CGPU_ASSIGN_OR_RETURN(auto client, Client::Open(paths));
  CGPU_ASSIGN_OR_RETURN(auto gpu, OpenGpu(client, minor));
  return Session{std::move(client), std::move(gpu)};
}

Result<std::vector<Gpu>> OpenGpus(Client& client) {
  CGPU_ASSIGN_OR_RETURN(const auto infos, ReadCardInfos(client));
  std::vector<Gpu> gpus;
  for (const rm::nv_ioctl_card_info_t& info : infos) {
    if (info.valid == 0) {
      break;
    }
    auto gpu = OpenOne(client, info);
    if (!gpu.ok() && gpu.error().code != Code::kUnavailable) {
      return gpu.error();
    }
    if (gpu.ok() && gpu->file.valid()) {
      gpu->index = static_cast<unsigned>(gpus.size());
      gpus.push_back(*std::move(gpu));
    }
  }
  return gpus;
}

Outcome AllocVidmem(Client& client, const Gpu& gpu, rm::VidmemRequest* request,
                    rm::NvHandle* handle) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params = {};
  params.owner = client.handle();
  params.type = rm::NVOS32_TYPE_IMAGE;
  params.size = request->size;
  params.attr = request->attr;
  params.attr2 = request->attr2;
  params.flags = request->flags;
  params.alignment = request->alignment;
  const Outcome outcome =
      client.Alloc(gpu.device, handle, rm::NV01_MEMORY_LOCAL_USER, &params, sizeof(params));
  if (outcome.ok()) {
    request->size = params.size;
  }
  return outcome;
}

Outcome AllocHostToRead(Client& client, const Gpu& gpu, std::size_t bytes, rm::NvHandle* handle) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params = {};
  params.owner = client.handle();
  params.size = bytes;
  params.attr = rm::NVOS32_ATTR_LOCATION.Set(params.attr, rm::NVOS32_ATTR_LOCATION_PCI);
  params.attr =
      rm::NVOS32_ATTR_PHYSICALITY.Set(params.attr, rm::NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS);
  params.attr = rm::NVOS32_ATTR_COHERENCY.Set(params.attr, rm::NVOS32_ATTR_COHERENCY_WRITE_BACK);
  params.attr2 = rm::NVOS32_ATTR2_PROTECTION_USER.Set(params.attr2,
                                                      rm::NVOS32_ATTR2_PROTECTION_USER_READ_ONLY);
  return client.Alloc(gpu.device, handle, rm::NV01_MEMORY_SYSTEM, &params, sizeof(params));
}

Outcome AllocChannelGroup(Client& client, const Gpu& gpu, rm::NvHandle* handle) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params = {};
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  return client.Alloc(gpu.device, handle, rm::KEPLER_CHANNEL_GROUP_A, &params, sizeof(params));
}

}  // namespace cgpu::rmclient
