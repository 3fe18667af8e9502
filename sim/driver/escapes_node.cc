// Escapes about the node as a whole: versions, GPUs, attachment. nv.c and osapi.c of the driver.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "sim/driver/bytes.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU16 kNvidiaVendor = 0x10DE;

const Gpu* GpuById(const std::vector<Gpu>& gpus, rm::NvU32 gpu_id) {
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [gpu_id](const Gpu& gpu) { return gpu.gpu_id == gpu_id; });
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace

// nv.c nvidia_read_card_info().
int Escapes::CardInfo() {
  const std::vector<Gpu>& gpus = model_.Gpus();
  const std::size_t entries = call_.bytes.size() / sizeof(rm::nv_ioctl_card_info_t);
  std::fill_n(call_.bytes.begin(), entries * sizeof(rm::nv_ioctl_card_info_t), std::byte{0});
  if (entries < gpus.size()) {
    return EINVAL;
  }
  for (const Gpu& gpu : gpus) {
    rm::nv_ioctl_card_info_t info{};
    info.valid = 1;
    info.pci_info.bus = static_cast<rm::NvU8>(gpu.pci_bus);
    info.pci_info.vendor_id = kNvidiaVendor;
    info.pci_info.device_id = gpu.model->pci_device;
    info.gpu_id = gpu.gpu_id;
    info.interrupt_line = static_cast<rm::NvU16>(16 + gpu.index);
    info.reg_address = (rm::NvU64{0x20} + gpu.index) << 32;
    info.reg_size = 16 * kMiB;
    info.fb_address = (rm::NvU64{0x38} + gpu.index) << 40;
    info.fb_size = gpu.model->bar1_mib * kMiB;
    info.minor_number = gpu.minor;
    Store(std::span(call_.bytes).subspan(gpu.index * sizeof(info)), info);
  }
  return 0;
}

// nv.c, NV_ESC_ATTACH_GPUS_TO_FD: zeros are skipped, an unknown id undoes everything.
int Escapes::AttachGpus() {
  OpenFile& file = *model_.FindFile(call_.file);
  const std::size_t count = call_.bytes.size() / sizeof(rm::NvU32);
  if (count == 0 || !file.attached_gpus.empty()) {
    return EINVAL;
  }
  std::vector<rm::NvU32> ids(count);
  std::memcpy(ids.data(), call_.bytes.data(), call_.bytes.size());
  const bool known = std::all_of(ids.begin(), ids.end(), [this](rm::NvU32 id) {
    return id == 0 || GpuById(model_.Gpus(), id) != nullptr;
  });
  if (!known) {
    return EINVAL;
  }
  file.attached_gpus = std::move(ids);
  return 0;
}

// osapi.c RmPerformVersionCheck().
int Escapes::CheckVersion() {
  auto api = Load<rm::nv_ioctl_rm_api_version_t>(call_.bytes);
  const std::string mine = rm::ToString(version_);
  api.reply = rm::NV_RM_API_VERSION_REPLY_RECOGNIZED;
  bool same = api.cmd == rm::NV_RM_API_VERSION_CMD_QUERY;
  if (!same) {
    const std::size_t length = strnlen(api.versionString, sizeof(api.versionString));
    const std::string_view theirs(api.versionString, length);
    const std::string_view up_to_dot = theirs.substr(0, theirs.find('.'));
    same = length < sizeof(api.versionString) && theirs == mine;
    if (api.cmd == rm::NV_RM_API_VERSION_CMD_RELAXED && up_to_dot.size() < theirs.size()) {
      same = same || up_to_dot == std::string_view(mine).substr(0, mine.find('.'));
    }
  }
  if (!same || api.cmd == rm::NV_RM_API_VERSION_CMD_QUERY) {
    // os_string_copy(): the string and its end, what was behind stays.
    std::memcpy(api.versionString, mine.c_str(), mine.size() + 1);
  }
  Store(std::span(call_.bytes), api);
  return same ? 0 : EINVAL;
}

// nv.c, NV_ESC_SYS_PARAMS: settable once.
int Escapes::SysParams() {
  const auto api = Load<rm::nv_ioctl_sys_params_t>(call_.bytes);
  if (memblock_size_ == 0) {
    memblock_size_ = api.memblock_size;
    return 0;
  }
  return memblock_size_ == api.memblock_size ? 0 : EBUSY;
}

// nv.c, NV_ESC_NUMA_INFO: of a GPU whose memory is no node of the machine's.
int Escapes::NumaInfo() {
  struct {  // nv-ioctl-numa.h: how nv_ioctl_numa_info_t begins
    rm::NvS32 nid = -1;
    rm::NvS32 status = 0;  // NV_IOCTL_NUMA_STATUS_DISABLED
    rm::NvU64 memblock_size = 0;
  } info;
  std::fill(call_.bytes.begin(), call_.bytes.end(), std::byte{0});
  info.memblock_size = memblock_size_;
  Store(std::span(call_.bytes), info);
  return 0;
}

// escape.c, NV_ESC_STATUS_CODE.
int Escapes::StatusCode() {
  auto api = Load<rm::nv_ioctl_status_code_t>(call_.bytes);
  const std::vector<Gpu>& gpus = model_.Gpus();
  const bool known = api.domain == 0 && api.slot == 0 &&
                     std::any_of(gpus.begin(), gpus.end(),
                                 [&api](const Gpu& gpu) { return gpu.pci_bus == api.bus; });
  if (!known) {
    return EINVAL;
  }
  api.status = rm::NV_OK;
  Store(std::span(call_.bytes), api);
  return 0;
}

int Escapes::WaitOpenComplete() {
  Store(std::span(call_.bytes), rm::nv_ioctl_wait_open_complete_t{});
  return 0;
}

}  // namespace cgpu::sim
