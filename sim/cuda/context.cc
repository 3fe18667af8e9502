#include "sim/cuda/context.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "rm/nv_structs.h"

namespace cgpu::sim::cuda {
namespace {

constexpr unsigned kDepth = 4095;
constexpr rm::NvU32 kMmuFault = 31;  // nverror.h: ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT
constexpr std::chrono::microseconds kPause{20};

}  // namespace

Status Context::Make(std::size_t gpu, std::unique_ptr<Context>* context) {
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return StatusOf(client);
  }
  auto gpus = rmclient::OpenGpus(*client);
  if (!gpus.ok()) {
    return StatusOf(gpus);
  }
  if (gpu >= gpus->size()) {
    return kInvalidDevice;
  }
  std::unique_ptr<Context> made(new Context(std::move(*client), std::move(*gpus), gpu));
  auto memory = Memory::Make(made->client_, made->gpu_);
  if (!memory.ok()) {
    return StatusOf(memory);
  }
  made->memory_.emplace(std::move(*memory));
  auto queue = WorkQueue::Make(made->client_, made->gpu_, kDepth);
  if (!queue.ok()) {
    return StatusOf(queue);
  }
  made->queue_.emplace(std::move(*queue));
  *context = std::move(made);
  return kSuccess;
}

Status Context::Run(const Step& step) {
  if (const auto* kernel = std::get_if<Kernel>(&step)) {
    return Launch(*kernel);
  }
  if (const Status status = WaitForAll(); status != kSuccess) {
    return status;
  }
  if (const auto* fill = std::get_if<Fill>(&step)) {
    return memory_->Set(fill->address, fill->value, fill->bytes);
  }
  if (const auto* copy = std::get_if<Copy>(&step)) {
    return memory_->Copy(copy->to, copy->from, copy->bytes);
  }
  return memory_->Back(std::get<Back>(step).address);
}

Status Context::ProgramOf(const Kernel& kernel, unsigned* program) {
  const auto same = std::find_if(slots_.begin(), slots_.end(), [&kernel](const Slot& slot) {
    return slot.duration_ns == kernel.duration_ns && slot.flags == kernel.flags;
  });
  const auto bytes = std::as_bytes(std::span(&kernel, 1));
  const Slot slot{kernel.duration_ns, kernel.flags, 0};
  *program = static_cast<unsigned>(same - slots_.begin());
  if (same != slots_.end()) {
    return kSuccess;
  }
  if (slots_.size() < WorkQueue::kPrograms) {
    const auto added = queue_->AddProgram(bytes);
    if (!added.ok()) {
      return kUnknown;
    }
    slots_.push_back(slot);
    return kSuccess;
  }
  const auto oldest = std::min_element(
      slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.last < b.last; });
  if (const Status status = Wait(oldest->last); status != kSuccess) {
    return status;
  }
  *program = static_cast<unsigned>(oldest - slots_.begin());
  queue_->WriteProgram(*program, bytes);
  *oldest = slot;
  return kSuccess;
}

Status Context::Launch(const Kernel& kernel) {
  unsigned program = 0;
  if (const Status status = ProgramOf(kernel, &program); status != kSuccess) {
    return status;
  }
  std::optional<std::uint64_t> launch;
  while (!(launch = queue_->Launch(program))) {
    if (const Status status = Query(0); status != kSuccess) {
      return status;
    }
    std::this_thread::sleep_for(kPause);
  }
  launched_ = *launch;
  slots_[program].last = launched_;
  return kSuccess;
}

Status Context::Query(std::uint64_t launch) const {
  if (const rm::NvU32 fault = queue_->Fault(); fault != 0) {
    return fault == kMmuFault ? kIllegalAddress : kLaunchFailed;
  }
  return queue_->Ended() >= launch ? kSuccess : kNotReady;
}

Status Context::Wait(std::uint64_t launch) const {
  while (true) {
    if (const Status status = Query(launch); status != kNotReady) {
      return status;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace cgpu::sim::cuda
