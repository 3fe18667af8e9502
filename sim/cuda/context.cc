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
constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;
constexpr rm::NvU32 kMmuFault = 31;  // nverror.h: ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT
constexpr std::chrono::microseconds kPause{20};

struct Row {
  Status status;
  const char* name;
  const char* words;
};
constexpr Row kRows[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "there is no card"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no such card"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "this is no text of PTX"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "there is no such context"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "there is no such thing"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "there is nothing of this name"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "it has not ended"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel accessed an illegal address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "the simulated node's CUDA cannot do this"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"}};

const Row* Find(Status status) {
  const auto* const row =
      std::find_if(std::begin(kRows), std::end(kRows),
                   [status](const Row& candidate) { return candidate.status == status; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

const char* NameOf(Status status) {
  const Row* const row = Find(status);
  return row == nullptr ? nullptr : row->name;
}

const char* WordsOf(Status status) {
  const Row* const row = Find(status);
  return row == nullptr ? nullptr : row->words;
}

Status StatusOf(const Error& error) {
  return error.code == Code::kExhausted                                     ? kOutOfMemory
         : error.code == Code::kNotFound || error.code == Code::kPermission ? kNoDevice
                                                                            : kUnknown;
}

Status Context::Make(std::size_t card, std::unique_ptr<Context>* context) {
  auto client = rmclient::Client::Open();
  if (!client.ok()) {
    return StatusOf(client.error());
  }
  auto cards = rmclient::OpenCards(*client);
  if (!cards.ok()) {
    return StatusOf(cards.error());
  }
  if (card >= cards->size()) {
    return kInvalidDevice;
  }
  context->reset(new Context(std::move(*client), std::move(*cards), card));
  auto queue = rmclient::WorkQueue::Make((*context)->client_, (*context)->card_, kDepth);
  if (!queue.ok()) {
    context->reset();
    return StatusOf(queue.error());
  }
  (*context)->queue_.emplace(std::move(*queue));
  return kSuccess;
}

Status Context::MemoryInfo(std::uint64_t* free, std::uint64_t* total) {
  const auto info = rmclient::ReadFbInfo(client_, card_);
  if (!info.ok()) {
    return StatusOf(info.error());
  }
  *free = info->free;
  *total = info->total;
  return kSuccess;
}

Status Context::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  if (bytes == 0 || bytes > ~std::uint64_t{0} - kGranularity) {
    return kInvalidValue;
  }
  rm::VidmemRequest request;
  request.size = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  request.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_HUGE);
  Block block{0, request.size};
  const rmclient::Outcome outcome = rmclient::AllocVidmem(client_, card_, &request, &block.memory);
  if (!outcome.ok()) {
    return StatusOf(rmclient::CallError(outcome, "allocating"));
  }
  const auto where = rmclient::MapForCard(client_, card_, block.memory, request.size);
  if (!where.ok()) {
    static_cast<void>(client_.Free(card_.device, block.memory));
    return StatusOf(where.error());
  }
  blocks_[*where] = block;
  *address = *where;
  return kSuccess;
}

Status Context::Free(std::uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    return kInvalidValue;
  }
  if (const Status status = Wait(launched_); status != kSuccess) {
    return status;
  }
  const rmclient::Outcome outcome = client_.Free(card_.device, found->second.memory);
  blocks_.erase(found);
  return outcome.ok() ? kSuccess : kUnknown;
}

template <class Copy>
Status Context::CopyAt(std::uint64_t address, std::size_t bytes, Copy copy) {
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) {
    return kInvalidValue;
  }
  const auto& [begin, block] = *std::prev(next);
  if (address - begin > block.bytes || bytes > block.bytes - (address - begin)) {
    return kInvalidValue;
  }
  if (const Status status = Wait(launched_); status != kSuccess) {
    return status;
  }
  const auto mapping = rmclient::Mapping::Make(client_, card_, block.memory, block.bytes);
  if (!mapping.ok()) {
    return StatusOf(mapping.error());
  }
  copy(mapping->data() + (address - begin));
  return kSuccess;
}

Status Context::CopyIn(std::uint64_t address, const unsigned char* from, std::size_t bytes) {
  return CopyAt(address, bytes, [from, bytes](volatile unsigned char* memory) {
    std::copy(from, from + bytes, memory);
  });
}

Status Context::CopyOut(unsigned char* to, std::uint64_t address, std::size_t bytes) {
  return CopyAt(address, bytes, [to, bytes](volatile unsigned char* memory) {
    std::copy(memory, memory + bytes, to);
  });
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
  if (slots_.size() < rmclient::WorkQueue::kPrograms) {
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
