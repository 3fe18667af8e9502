#include "gpu/orders/orders.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "rm/control_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::orders {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstUs = 20'000;

}  // namespace

Result<std::unique_ptr<Bench>> Bench::Make(const burn::Shape& shape) {
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return client.error();
  }
  auto gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok()) {
    return gpus.error();
  }
  if (shape.gpu >= gpus->size()) {
    return burn::NoSuchGpu(shape.gpu, gpus->size());
  }
  std::unique_ptr<Bench> bench(new Bench(std::move(*client), std::move(*gpus), shape.gpu));
  BeginToSee();
  auto load = burn::MakeCudaLoad(shape);
  if (load.ok()) {
    bench->load_ = std::move(*load);
    (void)bench->Run(kFirstUs);  // a library may make channels only when there is work
  }
  bench->seen_ = EndToSee();
  if (!load.ok()) {
    return load.error();
  }
  for (const SeenObject& object : bench->seen_) {
    if (object.cls == rm::KEPLER_CHANNEL_GROUP_A &&
        object.engine == rm::NV2080_ENGINE_TYPE_GRAPHICS) {
      bench->groups_.push_back(object);
    }
  }
  for (const SeenObject& object : bench->seen_) {
    if (std::any_of(bench->groups_.begin(), bench->groups_.end(), [&object](const auto& group) {
          return group.client == object.client && group.handle == object.parent;
        })) {
      bench->channels_.push_back(object);
    }
  }
  if (bench->groups_.empty() || bench->channels_.empty()) {
    return Error{Code::kUnsupported, 0,
                 "the library's channels were not seen: " + bench->Channels(),
                 "it may not call ioctl by its name"};
  }
  return bench;
}

std::string Bench::Channels() const {
  std::string text = "[";
  for (const SeenObject& object : seen_) {
    text += (text.size() > 1 ? "," : "") + std::string("{\"class\":") + std::to_string(object.cls) +
            ",\"engine\":" + std::to_string(object.engine) + "}";
  }
  return text + "]";
}

void Bench::Feed() {
  while (load_->Launch()) {
  }
}

std::uint64_t Bench::Run(std::uint64_t us) {
  constexpr timespec kPause{0, 50'000};
  const auto until = Clock::now() + std::chrono::microseconds(us);
  const std::uint64_t before = load_->Ended();
  while (Clock::now() < until && !load_->Broken()) {
    Feed();
    (void)nanosleep(&kPause, nullptr);
  }
  return load_->Ended() - before;
}

rmclient::Outcome Bench::DupGroups() {
  for (const SeenObject& group : groups_) {
    rm::NvHandle copy = 0;
    if (const auto outcome = client_.Dup(gpu_.device, &copy, group.client, group.handle);
        !outcome.ok()) {
      return outcome;
    }
    copies_.push_back(copy);
  }
  return {};
}

rmclient::Outcome Bench::DupChannel() {
  rm::NvHandle copy = 0;
  const auto outcome = client_.Dup(gpu_.device, &copy, channels_[0].client, channels_[0].handle);
  if (outcome.ok()) {
    (void)client_.Free(gpu_.device, copy);
  }
  return outcome;
}

template <class Params>
rmclient::Outcome Bench::OnGroups(rm::NvU32 command, Params params, std::size_t size) {
  rmclient::Outcome first{0, copies_.empty() ? rm::NV_ERR_INVALID_OBJECT_HANDLE : rm::NV_OK};
  for (const rm::NvHandle copy : copies_) {
    const auto outcome = client_.Control(copy, command, &params, size);
    first = first.ok() ? outcome : first;
  }
  return first;
}

rmclient::Outcome Bench::SetTimeslice(std::uint64_t us) {
  const rm::NVA06C_CTRL_TIMESLICE_PARAMS params{us};
  return OnGroups(rm::NVA06C_CTRL_CMD_SET_TIMESLICE, params, sizeof(params));
}

rmclient::Outcome Bench::SetTimesliceForeign(std::uint64_t us) {
  rm::NVA06C_CTRL_TIMESLICE_PARAMS params{us};
  return rmclient::Control(client_.fd(), groups_[0].client, groups_[0].handle,
                           rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &params, sizeof(params));
}

rmclient::Outcome Bench::Preempt() {
  rm::NVA06C_CTRL_PREEMPT_PARAMS params{};
  params.bWait = 1;
  return OnGroups(rm::NVA06C_CTRL_CMD_PREEMPT, params, sizeof(params));
}

rmclient::Outcome Bench::Schedule(bool on) {
  rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580 params{};
  params.bEnable = on ? 1 : 0;
  return OnGroups(rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params,
                  rm::ControlSize(client_.abi(), rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE));
}

rmclient::Outcome Bench::SetInterleaveLevel(rm::NvU32 level) {
  const rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS params{level};
  return OnGroups(rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, params, sizeof(params));
}

rmclient::Outcome Bench::Disable(bool off) {
  return Switch(channels_, off);
}

rmclient::Outcome Bench::Switch(const std::vector<SeenObject>& channels, bool off) {
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  const std::size_t most = std::size(params.hClientList);
  rmclient::Outcome first;
  for (std::size_t begin = 0; begin < channels.size(); begin += most) {
    const std::size_t count = std::min(most, channels.size() - begin);
    params = {};
    params.bDisable = off ? 1 : 0;
    params.numChannels = static_cast<rm::NvU32>(count);
    for (std::size_t i = 0; i < count; ++i) {
      params.hClientList[i] = channels[begin + i].client;
      params.hChannelList[i] = channels[begin + i].handle;
    }
    const auto outcome = client_.Control(gpu_.subdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
                                         &params, sizeof(params));
    first = first.ok() ? outcome : first;
  }
  return first;
}

}  // namespace cgpu::orders
