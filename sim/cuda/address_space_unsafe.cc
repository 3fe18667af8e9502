#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/uvm_table.h"
#include "rmclient/raw.h"
#include "sim/cuda/address_space.h"

namespace cgpu::sim::cuda {
namespace {

constexpr const char* kFile = "/dev/nvidia-uvm";
constexpr rm::NvU32 kExternallyOwned = 1U << 3;  // nvos.h NV_VASPACE_ALLOCATION_FLAGS_*

// "GPU-" and the bytes as hexadecimal digits, with dashes between them.
rm::NvProcessorUuid UuidOf(const rmclient::Gpu& gpu) {
  rm::NvProcessorUuid uuid{};
  std::string digits;
  for (const char letter : gpu.uuid.substr(std::strlen("GPU-"))) {
    if (letter != '-') {
      digits += letter;
    }
  }
  for (std::size_t i = 0; i < sizeof(uuid.uuid) && 2 * i + 1 < digits.size(); ++i) {
    (void)std::from_chars(&digits[2 * i], &digits[2 * i] + 2, uuid.uuid[i], 16);
  }
  return uuid;
}

void* Pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

// Addresses of this process that nothing else gets, aligned; MAP_FAILED's for none.
std::uint64_t TakeAddresses(std::uint64_t bytes) {
  constexpr std::uint64_t kMore = AddressSpace::kGranularity;
  void* const taken =
      mmap(nullptr, bytes + kMore, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const auto begin = reinterpret_cast<std::uint64_t>(taken);
  if (taken == MAP_FAILED) {
    return begin;
  }
  const std::uint64_t aligned = (begin + kMore - 1) / kMore * kMore;
  if (aligned != begin) {
    munmap(taken, aligned - begin);
  }
  if (begin + kMore != aligned) {
    munmap(Pointer(aligned + bytes), begin + kMore - aligned);
  }
  return aligned;
}

}  // namespace

Result<> AddressSpace::Ask(const UniqueFd& file, rm::NvU32 request, void* params) const {
  const rm::UvmRow* row = rm::FindUvm(request);
  rmclient::Outcome outcome;
  outcome.sys_errno = rmclient::KernelGpuCalls().Call(file.get(), request, params);
  std::memcpy(&outcome.status,
              static_cast<const std::byte*>(params) + row->status.At(client_->abi().branch),
              sizeof(outcome.status));
  // MM_INITIALIZE says so where the space is of several processes.
  if (outcome.ok() || outcome == rmclient::Outcome{0, rm::NV_WARN_NOTHING_TO_DO}) {
    return {};
  }
  return rmclient::CallError(outcome, std::string(row->name));
}

Result<AddressSpace> AddressSpace::Open(rmclient::Client& client, const rmclient::Gpu& gpu) {
  AddressSpace space(client, gpu);
  for (UniqueFd* file : {&space.file_, &space.of_memory_}) {
    Result<UniqueFd> opened = OpenFile(kFile, O_RDWR);
    if (!opened.ok()) {
      return opened.error();
    }
    *file = std::move(*opened);
  }
  rm::UVM_INITIALIZE_PARAMS initialize{};
  CGPU_TRY(space.Ask(space.file_, rm::UVM_INITIALIZE, &initialize));
  rm::UVM_MM_INITIALIZE_PARAMS memory{space.file_.get(), 0};
  CGPU_TRY(space.Ask(space.of_memory_, rm::UVM_MM_INITIALIZE, &memory));
  CGPU_TRY(space.Register());
  return space;
}

Result<> AddressSpace::Register() {
  rm::UVM_REGISTER_GPU_PARAMS gpu{};
  gpu.gpu_uuid = UuidOf(*gpu_);
  gpu.rmCtrlFd = -1;
  CGPU_TRY(Ask(file_, rm::UVM_REGISTER_GPU, &gpu));
  rm::NvHandle handle = 0;
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V580 params{};
  params.v535.flags = kExternallyOwned;
  const std::size_t size =
      client_->abi().branch < rm::Branch::k580 ? sizeof(params.v535) : sizeof(params);
  const rmclient::Outcome outcome =
      client_->Alloc(gpu_->device, &handle, rm::FERMI_VASPACE_A, &params, size);
  if (!outcome.ok()) {
    return rmclient::CallError(outcome, "making an address space");
  }
  rm::UVM_REGISTER_GPU_VASPACE_PARAMS space{UuidOf(*gpu_), client_->fd(), client_->handle(), handle,
                                            0};
  return Ask(file_, rm::UVM_REGISTER_GPU_VASPACE, &space);
}

Result<std::uint64_t> AddressSpace::Reserve(std::uint64_t bytes) {
  const std::uint64_t address = TakeAddresses(bytes);
  if (Pointer(address) == MAP_FAILED) {
    return ErrnoError(Code::kExhausted, errno, "reserving addresses");
  }
  struct {
    rm::UVM_RANGE_HEAD range;
    std::uint64_t status;
  } params{{address, bytes}, 0};
  if (const Result<> made = Ask(file_, rm::UVM_CREATE_EXTERNAL_RANGE, &params); !made.ok()) {
    munmap(Pointer(address), bytes);
    return made.error();
  }
  return address;
}

Result<> AddressSpace::Free(std::uint64_t address, std::uint64_t bytes) {
  struct {
    rm::UVM_RANGE_HEAD range;
    std::uint64_t status;
  } params{{address, bytes}, 0};
  CGPU_TRY(Ask(file_, rm::UVM_FREE, &params));
  munmap(Pointer(address), bytes);
  return {};
}

Result<> AddressSpace::Map(std::uint64_t address, std::uint64_t bytes, rm::NvHandle memory) {
  const rm::Branch branch = client_->abi().branch;
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD head{address, bytes, 0};
  rm::UvmGpuMappingAttributes attributes{};
  attributes.gpuUuid = UuidOf(*gpu_);
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL tail{1, client_->fd(), client_->handle(), memory, 0};
  std::vector<std::byte> params(rm::UvmParamSize(branch, rm::UVM_MAP_EXTERNAL_ALLOCATION));
  std::memcpy(params.data(), &head, sizeof(head));
  std::memcpy(params.data() + sizeof(head), &attributes, sizeof(attributes));
  std::memcpy(params.data() + rm::UvmMapExternalTail(branch), &tail, sizeof(tail));
  return Ask(file_, rm::UVM_MAP_EXTERNAL_ALLOCATION, params.data());
}

Result<> AddressSpace::Unmap(std::uint64_t address, std::uint64_t bytes) {
  rm::UVM_UNMAP_EXTERNAL_PARAMS params{address, bytes, UuidOf(*gpu_), 0, 0};
  return Ask(file_, rm::UVM_UNMAP_EXTERNAL, &params);
}

// The driver takes a mapping only where its offset is its address.
Result<std::uint64_t> AddressSpace::MapManaged(std::uint64_t bytes) {
  const std::uint64_t address = TakeAddresses(bytes);
  if (Pointer(address) == MAP_FAILED ||
      mmap(Pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
           static_cast<off_t>(address)) == MAP_FAILED) {
    const Error error = ErrnoError(errno == ENOMEM ? Code::kExhausted : Code::kInternal, errno,
                                   "mapping managed memory");
    UnmapManaged(address, bytes);
    return error;
  }
  return address;
}

void AddressSpace::UnmapManaged(std::uint64_t address, std::uint64_t bytes) {
  if (Pointer(address) != MAP_FAILED) {
    munmap(Pointer(address), bytes);
  }
}

volatile unsigned char* AddressSpace::Managed(std::uint64_t address) {
  return static_cast<unsigned char*>(Pointer(address));
}

}  // namespace cgpu::sim::cuda
