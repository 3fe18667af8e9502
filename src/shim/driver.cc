#include "shim/driver.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "rm/context_buffers.h"
#include "rm/control_table.h"
#include "rm/fb_info.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::shim {
namespace {

// Handles of our own client; any numbers will do.
constexpr std::uint32_t kDevice = 0xc0de0001;
constexpr std::uint32_t kSubdevice = 0xc0de0002;
constexpr std::uint32_t kCopy = 0xc0de0003;  // a copy of a tenant's group
// Handles of a device and a subdevice for each GPU.
constexpr std::uint32_t kGpuDevices = 0xc0de1000;

std::uint32_t DeviceOf(std::size_t gpu) {
  return kGpuDevices + 2 * static_cast<std::uint32_t>(gpu);
}
std::uint32_t SubdeviceOf(std::size_t gpu) {
  return DeviceOf(gpu) + 1;
}

Error Refused(const char* what, const rmclient::Outcome& outcome) {
  return Error{Code::kUnavailable,
               outcome.sys_errno,
               std::string("the driver refused ") + what + ": " + rmclient::Describe(outcome),
               {}};
}

Result<std::uint32_t> MakeClient(rmclient::GpuCalls& calls, int file) {
  std::uint32_t handle = 0;
  const auto made = rmclient::Alloc(file, 0, 0, &handle, rm::NV01_ROOT_CLIENT, nullptr, 0, calls);
  return made.ok() ? Result<std::uint32_t>(handle) : Refused("a client", made);
}

// Asks about `wanted` as `client`, which must lie on `file`.
rmclient::Outcome AskForClient(rmclient::GpuCalls& calls, int file, std::uint32_t client,
                               std::uint32_t wanted) {
  rm::NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS params{};
  params.hClient = wanted;
  params.hObject = wanted;
  return rmclient::Control(file, client, client, rm::NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS,
                           &params, sizeof(params), calls);
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::Open(rmclient::GpuCalls& calls, const rm::Abi& abi,
                                             const std::string& control_path,
                                             std::vector<std::string> gpu_paths) {
  std::unique_ptr<Driver> driver(new Driver(calls, abi));
  const MutexLock lock(driver->mutex_);
  CGPU_ASSIGN_OR_RETURN(driver->control_, OpenFile(control_path, O_RDWR));
  for (std::string& path : gpu_paths) {
    driver->gpus_.push_back(Gpu{std::move(path), {}, false, {}});
  }
  CGPU_ASSIGN_OR_RETURN(driver->client_, MakeClient(calls, driver->control_.get()));
  return driver;
}

std::unique_ptr<Driver> Driver::Resume(rmclient::GpuCalls& calls, const rm::Abi& abi,
                                       std::vector<std::string> gpu_paths,
                                       const DriverState& state) {
  std::unique_ptr<Driver> driver(new Driver(calls, abi));
  const MutexLock lock(driver->mutex_);
  driver->control_.reset(state.control);
  driver->client_ = state.client;
  driver->interleaver_ = Interleaver(UniqueFd(state.helper));
  for (std::size_t i = 0; i < gpu_paths.size(); ++i) {
    const DriverState::Gpu& gpu = state.gpus[i];
    driver->gpus_.push_back(Gpu{std::move(gpu_paths[i]), UniqueFd(gpu.file), gpu.asked, gpu.sizes,
                                gpu.device_instance, false});
  }
  return driver;
}

DriverState Driver::Save() const {
  DriverState state;
  state.control = control_.get();
  state.client = client_;
  const MutexLock lock(mutex_);
  state.helper = interleaver_.fd();
  for (const Gpu& gpu : gpus_) {
    state.gpus.push_back({0, gpu.file.get(), gpu.asked, gpu.sizes});
  }
  return state;
}

template <class Params>
Result<> Driver::Alloc(std::uint32_t parent, std::uint32_t handle, std::uint32_t cls,
                       Params params) const {
  const auto made = rmclient::Alloc(control_.get(), client_, parent, &handle, cls, &params,
                                    sizeof(params), calls_);
  return made.ok() ? Result<>() : Refused("an object", made);
}

rmclient::Outcome Driver::Control(std::uint32_t object, std::uint32_t command, void* params,
                                  std::size_t size) const {
  return rmclient::Control(control_.get(), client_, object, command, params,
                           static_cast<std::uint32_t>(size), calls_);
}

Result<std::uint32_t> Driver::DeviceInstance(std::uint32_t gpu_id) const {
  rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS info{};
  info.gpuId = gpu_id;
  const auto asked = Control(client_, rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, &info, sizeof(info));
  return asked.ok() ? Result<std::uint32_t>(info.deviceInstance) : Refused("a GPU's number", asked);
}

bool Driver::ClientExists(std::uint32_t client) const {
  const auto asked = AskForClient(calls_, control_.get(), client_, client);
  if (asked.sys_errno != 0) {
    return asked.sys_errno != ENOTCONN;  // a simulated driver that has ended holds nothing
  }
  return asked.status != rm::NV_ERR_INVALID_CLIENT &&
         asked.status != rm::NV_ERR_INVALID_OBJECT_HANDLE;
}

Result<std::uint32_t> Driver::TagFile(int file) const {
  return MakeClient(calls_, file);
}

bool Driver::HasTag(int file, std::uint32_t tag) const {
  return AskForClient(calls_, file, tag, tag).ok();
}

bool Driver::SetUpTable(int file, std::uint32_t client,
                        rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS& table) const {
  return rmclient::Control(file, client, client,
                           rm::NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, &table,
                           sizeof(table), calls_)
      .ok();
}

bool Driver::HasObject(int file, std::uint32_t client, std::uint32_t object, std::uint32_t parent,
                       std::uint32_t cls) const {
  const auto is = [&](std::uint32_t index, std::uint32_t expected) {
    rm::NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS info{};
    info.hObject = object;
    info.index = index;
    info.data.iResult = 0;
    const auto asked =
        rmclient::Control(file, client, client, rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, &info,
                          sizeof(info), calls_);
    return asked.ok() && info.data.iResult == expected;
  };
  return is(rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT, parent) &&
         is(rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID, cls);
}

void Driver::Free(int file, std::uint32_t client, std::uint32_t object) const {
  (void)rmclient::Free(file, client, client, object, calls_);
}

// Returns the bytes of one channel group, from the sizes of its buffers.
Result<std::uint64_t> Driver::QueryContextBytes() const {
  rm::ContextBufferSizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    rm::NV2080_CTRL_GR_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS params{};
    params.engineId = rm::kGroupContextBuffers[i];
    const auto asked = Control(kSubdevice, rm::NV2080_CTRL_CMD_GR_GET_ENGINE_CONTEXT_PROPERTIES,
                               &params, sizeof(params));
    if (asked.ok()) {
      sizes[i] = params.size;
    } else if (asked.sys_errno != 0 || asked.status != rm::NV_ERR_NOT_SUPPORTED) {
      return Refused("the size of a context", asked);
    }
  }
  std::uint32_t subcontexts = 0;  // stays 0 where the driver knows none
  const auto asked = QueryList(rm::NV2080_CTRL_CMD_GR_GET_INFO_V2,
                               rm::NV2080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT, &subcontexts);
  return asked.sys_errno == 0 ? Result<std::uint64_t>(rm::ContextGroupBytes(sizes, subcontexts))
                              : Refused("a question", asked);
}

// Asks for one value of a list {count, {index, data}[]}, whose capacity differs by version and
// whose offset does not.
rmclient::Outcome Driver::QueryList(std::uint32_t command, std::uint32_t index,
                                    std::uint32_t* value) const {
  std::vector<std::byte> info(rm::ControlSize(abi_, command));
  const std::uint32_t question[2] = {1, index};
  std::memcpy(info.data(), question, sizeof(question));
  const auto asked = Control(kSubdevice, command, info.data(), info.size());
  if (asked.ok()) {
    std::memcpy(value, info.data() + sizeof(question), sizeof(*value));
  }
  return asked;
}

Result<std::uint64_t> Driver::QuerySpaceBytes() const {
  rm::NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS arch{};
  const auto asked = Control(kSubdevice, rm::NV2080_CTRL_CMD_MC_GET_ARCH_INFO, &arch, sizeof(arch));
  return asked.ok() ? Result<std::uint64_t>(rm::AddressSpaceBytes(arch.architecture))
                    : Refused("a GPU's architecture", asked);
}

Result<std::uint64_t> Driver::QueryBar1Bytes() const {
  std::uint32_t kib = 0;
  const auto asked =
      QueryList(rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, rm::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE, &kib);
  return asked.ok() ? Result<std::uint64_t>(std::uint64_t{kib} * 1024)
                    : Refused("the size of BAR1", asked);
}

Result<boundary::GpuSizes> Driver::AskSizes(std::uint32_t device_instance) const {
  rm::NV0080_ALLOC_PARAMETERS device{};
  device.deviceId = device_instance;
  CGPU_TRY(Alloc(client_, kDevice, rm::NV01_DEVICE_0, device));
  const auto ask = [&]() -> Result<boundary::GpuSizes> {
    CGPU_TRY(Alloc(kDevice, kSubdevice, rm::NV20_SUBDEVICE_0, rm::NV2080_ALLOC_PARAMETERS{}));
    CGPU_ASSIGN_OR_RETURN(const auto context, QueryContextBytes());
    CGPU_ASSIGN_OR_RETURN(const auto space, QuerySpaceBytes());
    CGPU_ASSIGN_OR_RETURN(const auto bar1, QueryBar1Bytes());
    return boundary::GpuSizes{context, space, bar1};
  };
  auto sizes = ask();
  Free(control_.get(), client_, kDevice);
  return sizes;
}

Result<> Driver::OpenGpu(std::size_t gpu, std::uint32_t device_instance) {
  const MutexLock lock(mutex_);
  Gpu& entry = gpus_[gpu];
  ++opens_;
  if (entry.file.valid()) {
    return {};
  }
  CGPU_ASSIGN_OR_RETURN(auto file, OpenFile(entry.path, O_RDWR));
  if (!entry.asked) {
    CGPU_ASSIGN_OR_RETURN(entry.sizes, AskSizes(device_instance));  // needs the open file
    entry.asked = true;
  }
  entry.file = std::move(file);
  entry.instance = device_instance;
  return {};
}

Result<> Driver::MakeDevice(std::size_t gpu) {
  Gpu& entry = gpus_[gpu];
  if (entry.device) {
    return {};
  }
  if (!entry.file.valid()) {
    return Error{Code::kUnavailable, 0, "the GPU is not open", {}};
  }
  rm::NV0080_ALLOC_PARAMETERS device{};
  device.deviceId = entry.instance;
  CGPU_TRY(Alloc(client_, DeviceOf(gpu), rm::NV01_DEVICE_0, device));
  entry.device = true;
  auto made =
      Alloc(DeviceOf(gpu), SubdeviceOf(gpu), rm::NV20_SUBDEVICE_0, rm::NV2080_ALLOC_PARAMETERS{});
  if (!made.ok()) {
    FreeDevice(gpu);
  }
  return made;
}

void Driver::FreeDevice(std::size_t gpu) {
  if (std::exchange(gpus_[gpu].device, false)) {
    Free(control_.get(), client_, DeviceOf(gpu));
  }
}

void Driver::FreeDevices() {
  const MutexLock lock(mutex_);
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    FreeDevice(gpu);
  }
}

// Duplicates the group as kCopy for the moment; the caller frees it. A copy that we keep for longer
// would keep the group when its owner frees it.
Result<> Driver::CopyGroup(std::size_t gpu, ledger::Handle client, ledger::Handle group) {
  CGPU_TRY(MakeDevice(gpu));
  std::uint32_t copy = kCopy;
  const auto made = rmclient::Dup(control_.get(), client_, DeviceOf(gpu), &copy, client, group,
                                  rm::NV04_DUP_HANDLE_FLAGS_NONE, calls_);
  return made.ok() ? Result<>() : Refused("a channel group", made);
}

Result<std::uint64_t> Driver::SetSlice(std::size_t gpu, ledger::Handle client, ledger::Handle group,
                                       std::uint64_t us) {
  const MutexLock lock(mutex_);
  CGPU_TRY(CopyGroup(gpu, client, group));
  rm::NVA06C_CTRL_TIMESLICE_PARAMS before{};
  rm::NVA06C_CTRL_TIMESLICE_PARAMS slice{us};
  (void)Control(kCopy, rm::NVA06C_CTRL_CMD_GET_TIMESLICE, &before, sizeof(before));
  const auto set = Control(kCopy, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &slice, sizeof(slice));
  Free(control_.get(), client_, kCopy);
  return set.ok() ? Result<std::uint64_t>(before.timesliceUs) : Refused("a time slice", set);
}

Result<> Driver::SetInterleave(std::size_t gpu, ledger::Handle client, ledger::Handle group,
                               bool high) {
  const MutexLock lock(mutex_);
  CGPU_TRY(CopyGroup(gpu, client, group));
  const auto set = interleaver_.Set(
      control_.get(), client_, kCopy,
      high ? rm::NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH : rm::NVA06C_CTRL_INTERLEAVE_LEVEL_LOW);
  Free(control_.get(), client_, kCopy);
  if (!set.ok()) {
    return set.error();
  }
  if (*set == rm::NV_ERR_NOT_SUPPORTED) {
    return Error{Code::kUnsupported, 0, "the GPU knows no interleave levels", {}};
  }
  return *set == rm::NV_OK ? Result<>() : Refused("an interleave level", {0, *set});
}

Result<> Driver::Pull(std::size_t gpu, const ledger::ChannelInfo& channel,
                      governor::Trigger trigger) {
  if (trigger == governor::Trigger::kRestart) {
    return Restart(channel);
  }
  const MutexLock lock(mutex_);
  CGPU_TRY(CopyGroup(gpu, channel.group_client, channel.group_handle));
  rmclient::Outcome done;
  if (trigger == governor::Trigger::kPreempt) {
    rm::NVA06C_CTRL_PREEMPT_PARAMS preempt{};
    preempt.bWait = 1;
    done = Control(kCopy, rm::NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt));
  } else {
    rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580 schedule{};
    schedule.bEnable = 1;
    done = Control(kCopy, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &schedule,
                   rm::ControlSize(abi_, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE));
  }
  Free(control_.get(), client_, kCopy);
  return done.ok() ? Result<>() : Refused("that a time slice takes effect", done);
}

Result<> Driver::Restart(const ledger::ChannelInfo& channel) {
  const UniqueFd file = file_of_ ? file_of_(channel.client) : UniqueFd();
  if (!file.valid()) {
    return Error{Code::kUnavailable, 0, "the client's file is not known", {}};
  }
  const MutexLock lock(mutex_);
  const auto done = interleaver_.Restart(file.get(), channel.client, channel.channel);
  if (!done.ok()) {
    return done.error();
  }
  return *done == rm::NV_OK ? Result<>() : Refused("a restart of the runlist", {0, *done});
}

void Driver::UseHelper(UniqueFd socket) {
  const MutexLock lock(mutex_);
  interleaver_ = Interleaver(std::move(socket));
}

bool Driver::SwitchSome(std::size_t gpu, std::span<const ledger::ChannelInfo> some, bool on) const {
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  params.bDisable = on ? 0 : 1;
  params.numChannels = static_cast<std::uint32_t>(some.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    params.hClientList[i] = some[i].client;
    params.hChannelList[i] = some[i].channel;
  }
  return Control(SubdeviceOf(gpu), rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, &params,
                 sizeof(params))
      .ok();
}

void Driver::Switch(std::size_t gpu, const std::vector<ledger::ChannelInfo>& channels, bool on) {
  constexpr std::size_t kMost =
      std::size(rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS{}.hClientList);
  const MutexLock lock(mutex_);
  if (!channels.empty() && !MakeDevice(gpu).ok()) {
    return;
  }
  for (std::size_t i = 0; i < channels.size(); i += kMost) {
    const auto some = std::span(channels).subspan(i, std::min(kMost, channels.size() - i));
    if (SwitchSome(gpu, some, on)) {
      continue;
    }
    for (std::size_t j = 0; j < some.size(); ++j) {  // one channel is gone, and the whole call
                                                     // failed
      (void)SwitchSome(gpu, some.subspan(j, 1), on);
    }
  }
}

boundary::GpuSizes Driver::SizesOf(std::size_t gpu) const {
  const MutexLock lock(mutex_);
  return gpus_[gpu].sizes;
}

std::uint64_t Driver::opens() const {
  const MutexLock lock(mutex_);
  return opens_;
}

std::vector<UniqueFd> Driver::TakeGpuFiles(std::uint64_t opens) {
  const MutexLock lock(mutex_);
  std::vector<UniqueFd> files;
  if (opens != opens_) {
    return files;
  }
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    FreeDevice(i);
    if (gpus_[i].file.valid()) {
      files.push_back(std::move(gpus_[i].file));
    }
  }
  return files;
}

}  // namespace cgpu::shim
