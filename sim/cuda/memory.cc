#include "sim/cuda/memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rmclient/readings.h"

namespace cgpu::sim::cuda {
namespace {

constexpr std::uint64_t kGranularity = AddressSpace::kGranularity;
constexpr std::uint64_t kMost = std::uint64_t{1} << 46;

bool IsSize(std::uint64_t bytes) {
  return bytes != 0 && bytes <= kMost;
}

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

Result<Memory> Memory::Make(rmclient::Client& client, const rmclient::Gpu& gpu) {
  Result<AddressSpace> space = AddressSpace::Open(client, gpu);
  if (!space.ok()) {
    return space.error();
  }
  return Memory(client, gpu, std::move(*space));
}

// The rest ends with the client and the file.
Memory::~Memory() {
  for (const auto& [address, range] : ranges_) {
    if (range.kind == Kind::kManaged) {
      AddressSpace::UnmapManaged(address, range.bytes);
    }
  }
}

Status Memory::Info(std::uint64_t* free, std::uint64_t* total) {
  const auto info = rmclient::ReadFbInfo(*client_, *gpu_);
  if (info.ok()) {
    *free = info->free;
    *total = info->total;
  }
  return StatusOf(info);
}

Memory::Range* Memory::Find(std::uint64_t address, Kind kind) {
  const auto found = ranges_.find(address);
  return found == ranges_.end() || found->second.kind != kind ? nullptr : &found->second;
}

std::uint64_t Memory::Add(rm::NvHandle memory, std::uint64_t bytes) {
  objects_[next_] = Object{memory, bytes, 1};
  return next_++;
}

Status Memory::Place(Kind kind, std::uint64_t object, std::uint64_t* address) {
  const std::uint64_t bytes = objects_.at(object).bytes;
  Status status = Reserve(bytes, address);
  if (status == kSuccess) {
    (void)Map(*address, bytes, object);
    status = SetAccess(*address, bytes);
    if (status == kSuccess) {
      ranges_.at(*address).kind = kind;
    } else {
      (void)Drop(ranges_.find(*address));
    }
  }
  (void)Release(object);
  return status;
}

Status Memory::Drop(Ranges::iterator range) {
  const auto [address, is] = *range;
  ranges_.erase(range);
  if (is.kind == Kind::kManaged) {
    AddressSpace::UnmapManaged(address, is.bytes);
    return kSuccess;
  }
  const Status status = StatusOf(space_.Free(address, is.bytes));
  return is.object == 0 ? status : std::max(status, Release(is.object));
}

Status Memory::Allocate(std::uint64_t bytes, std::uint64_t* address) {
  std::uint64_t object = 0;
  const Status status = Create(bytes, &object);
  return status == kSuccess ? Place(Kind::kAllocated, object, address) : status;
}

Status Memory::AllocateManaged(std::uint64_t bytes, std::uint64_t* address) {
  if (!IsSize(bytes)) {
    return kInvalidValue;
  }
  const auto mapped = space_.MapManaged(RoundUp(bytes));
  if (mapped.ok()) {
    *address = *mapped;
    ranges_[*address] = Range{Kind::kManaged, RoundUp(bytes)};
  }
  return StatusOf(mapped);
}

Status Memory::Free(std::uint64_t address) {
  const auto found = ranges_.find(address);
  return found != ranges_.end() &&
                 (found->second.kind == Kind::kAllocated || found->second.kind == Kind::kManaged)
             ? Drop(found)
             : kInvalidValue;
}

Status Memory::Take(std::uint64_t bytes, std::uint64_t* address) {
  if (!IsSize(bytes)) {
    return kInvalidValue;
  }
  for (auto& [at, range] : ranges_) {
    if (range.free && range.bytes == RoundUp(bytes)) {
      range.free = false;
      *address = at;
      return kSuccess;
    }
  }
  std::uint64_t object = 0;
  Status status = Create(bytes, &object);
  if (status == kOutOfMemory && Trim(0) == kSuccess) {
    status = Create(bytes, &object);
  }
  return status == kSuccess ? Place(Kind::kOfPool, object, address) : status;
}

Status Memory::Give(std::uint64_t address) {
  Range* const range = Find(address, Kind::kOfPool);
  if (range == nullptr || range->free) {
    return kInvalidValue;
  }
  range->free = true;
  return kSuccess;
}

Status Memory::Trim(std::uint64_t keep) {
  std::uint64_t has = 0;
  for (const auto& [address, range] : ranges_) {
    has += range.kind == Kind::kOfPool ? range.bytes : 0;
  }
  Status status = kSuccess;
  for (auto range = ranges_.begin(); range != ranges_.end() && has > keep;) {
    const auto next = std::next(range);
    if (range->second.free) {
      has -= range->second.bytes;
      status = std::max(status, Drop(range));
    }
    range = next;
  }
  return status;
}

Status Memory::Create(std::uint64_t bytes, std::uint64_t* handle) {
  if (!IsSize(bytes)) {
    return kInvalidValue;
  }
  rm::VidmemRequest request;
  request.size = RoundUp(bytes);
  request.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_HUGE);
  rm::NvHandle memory = 0;
  const rmclient::Outcome outcome = rmclient::AllocVidmem(*client_, *gpu_, &request, &memory);
  if (!outcome.ok()) {
    return StatusOf(rmclient::CallError(outcome, "allocating"));
  }
  *handle = Add(memory, RoundUp(bytes));
  return kSuccess;
}

Status Memory::Release(std::uint64_t handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) {
    return kInvalidValue;
  }
  if (--found->second.users > 0) {
    return kSuccess;
  }
  const rmclient::Outcome outcome = client_->Free(gpu_->device, found->second.memory);
  objects_.erase(found);
  return outcome.ok() ? kSuccess : kUnknown;
}

Status Memory::Reserve(std::uint64_t bytes, std::uint64_t* address) {
  if (!IsSize(bytes)) {
    return kInvalidValue;
  }
  const auto reserved = space_.Reserve(RoundUp(bytes));
  if (reserved.ok()) {
    *address = *reserved;
    ranges_[*address] = Range{Kind::kReserved, RoundUp(bytes)};
  }
  return StatusOf(reserved);
}

Status Memory::FreeAddresses(std::uint64_t address, std::uint64_t bytes) {
  const Range* const range = Find(address, Kind::kReserved);
  return range == nullptr || range->bytes != RoundUp(bytes) || range->object != 0
             ? kInvalidValue
             : Drop(ranges_.find(address));
}

Status Memory::Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
  Range* const range = Find(address, Kind::kReserved);
  const auto object = objects_.find(handle);
  if (range == nullptr || range->object != 0 || object == objects_.end() || !IsSize(bytes)) {
    return kInvalidValue;
  }
  if (range->bytes != RoundUp(bytes) || object->second.bytes != range->bytes) {
    return kNotSupported;
  }
  ++object->second.users;
  range->object = handle;
  return kSuccess;
}

Status Memory::SetAccess(std::uint64_t address, std::uint64_t bytes) {
  const Range* const range = Find(address, Kind::kReserved);
  if (range == nullptr || range->bytes != RoundUp(bytes) || range->object == 0) {
    return kInvalidValue;
  }
  return StatusOf(space_.Map(address, range->bytes, objects_.at(range->object).memory));
}

Status Memory::Unmap(std::uint64_t address, std::uint64_t bytes) {
  Range* const range = Find(address, Kind::kReserved);
  if (range == nullptr || range->bytes != RoundUp(bytes) || range->object == 0) {
    return kInvalidValue;
  }
  const Status status = StatusOf(space_.Unmap(address, range->bytes));
  return std::max(status, Release(std::exchange(range->object, 0)));
}

Status Memory::Back(std::uint64_t address) {
  const Range* const range = Find(address, Kind::kReserved);
  if (range == nullptr) {
    return kInvalidValue;
  }
  std::uint64_t object = 0;
  Status status = range->object != 0 ? kSuccess : Create(range->bytes, &object);
  if (status != kSuccess || object == 0) {
    return status;
  }
  (void)Map(address, range->bytes, object);
  (void)Release(object);
  status = SetAccess(address, range->bytes);
  if (status != kSuccess) {
    (void)Unmap(address, range->bytes);
  }
  return status;
}

template <class Use>
Status Memory::At(std::uint64_t address, std::size_t bytes, Use use) {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) {
    return kInvalidValue;
  }
  const auto& [begin, range] = *std::prev(next);
  const std::uint64_t offset = address - begin;
  if (offset > range.bytes || bytes > range.bytes - offset) {
    return kInvalidValue;
  }
  if (range.kind == Kind::kManaged) {
    use(AddressSpace::Managed(address));
    return kSuccess;
  }
  const auto object = objects_.find(range.object);
  if (object == objects_.end()) {
    return kInvalidValue;
  }
  const auto mapping =
      rmclient::Mapping::Make(*client_, *gpu_, object->second.memory, object->second.bytes);
  if (mapping.ok()) {
    use(mapping->data() + offset);
  }
  return StatusOf(mapping);
}

Status Memory::Write(std::uint64_t address, const unsigned char* from, std::size_t bytes) {
  return At(address, bytes, [from, bytes](volatile unsigned char* memory) {
    std::copy(from, from + bytes, memory);
  });
}

Status Memory::Read(unsigned char* to, std::uint64_t address, std::size_t bytes) {
  return At(address, bytes,
            [to, bytes](volatile unsigned char* memory) { std::copy(memory, memory + bytes, to); });
}

Status Memory::Set(std::uint64_t address, unsigned char value, std::size_t bytes) {
  return At(address, bytes, [value, bytes](volatile unsigned char* memory) {
    std::fill(memory, memory + bytes, value);
  });
}

Status Memory::Copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  Status status = kSuccess;
  const Status reached = At(to, bytes, [&](volatile unsigned char* target) {
    status = At(from, bytes, [target, bytes](volatile unsigned char* source) {
      std::copy(source, source + bytes, target);
    });
  });
  return std::max(status, reached);
}

}  // namespace cgpu::sim::cuda
