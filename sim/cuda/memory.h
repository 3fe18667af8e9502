// The memory of a context, of each kind that CUDA knows.
//
// All of it is addresses (address_space.h) with memory objects of RM behind them. cuMemAlloc makes
// both at once; the pool keeps such for the next one who asks; virtual memory management makes
// them apart, and maps all of an allocation to all of a reservation; what another process shares
// comes as an object, duplicated or imported. Managed memory has no object.
//
// Sizes are rounded up to AddressSpace::kGranularity. Nobody waits for a kernel here. Not
// thread-safe.
#ifndef CGPU_SIM_CUDA_MEMORY_H_
#define CGPU_SIM_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "sim/cuda/address_space.h"
#include "sim/cuda/status.h"

namespace cgpu::sim::cuda {

struct IpcHandle {
  unsigned char bytes[64];  // CUipcMemHandle
};

class Memory {
 public:
  // `client` and `gpu`, which is the client's, outlive the memory.
  [[nodiscard]] static Result<Memory> Make(rmclient::Client& client, const rmclient::Gpu& gpu);
  Memory(Memory&&) = default;
  Memory& operator=(Memory&&) = delete;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  Status Info(std::uint64_t* free, std::uint64_t* total);

  Status Allocate(std::uint64_t bytes, std::uint64_t* address);
  Status AllocateManaged(std::uint64_t bytes, std::uint64_t* address);
  Status Free(std::uint64_t address);  // of either

  // The pool holds on to as many bytes as it is told, 0 at first, when it is settled.
  Status Take(std::uint64_t bytes, std::uint64_t* address);
  Status Give(std::uint64_t address);
  void Keep(std::uint64_t bytes) { kept_ = bytes; }
  Status Settle() { return Trim(kept_); }
  Status Trim(std::uint64_t keep);

  // Memory, and addresses at which nothing is yet.
  Status Create(std::uint64_t bytes, std::uint64_t* handle);
  Status Release(std::uint64_t handle);
  Status Reserve(std::uint64_t bytes, std::uint64_t* address);
  Status FreeAddresses(std::uint64_t address, std::uint64_t bytes);
  Status Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle);
  // Only now the GPU has it.
  Status SetAccess(std::uint64_t address, std::uint64_t bytes);
  Status Unmap(std::uint64_t address, std::uint64_t bytes);
  // Memory of its own for reserved addresses, if they have none.
  Status Back(std::uint64_t address);

  // For other processes: a descriptor that the caller owns then, and a handle of bytes, which is
  // good for processes of the same user, for as long as this one has the memory.
  Status Export(std::uint64_t handle, int* file);
  Status Import(int file, std::uint64_t* handle);
  Status Share(std::uint64_t address, IpcHandle* handle);
  Status OpenShared(const IpcHandle& handle, std::uint64_t* address);
  Status CloseShared(std::uint64_t address);

  // Content, by the processor.
  Status Write(std::uint64_t address, const unsigned char* from, std::size_t bytes);
  Status Read(unsigned char* to, std::uint64_t address, std::size_t bytes);
  Status Set(std::uint64_t address, unsigned char value, std::size_t bytes);
  Status Copy(std::uint64_t to, std::uint64_t from, std::size_t bytes);

 private:
  enum class Kind : std::uint8_t { kAllocated, kManaged, kOfPool, kReserved, kShared };
  struct Object {
    rm::NvHandle memory = 0;
    std::uint64_t bytes = 0;
    unsigned users = 0;  // the handle, until it is released, and mappings
  };
  struct Range {
    Kind kind = Kind::kReserved;
    std::uint64_t bytes = 0;
    std::uint64_t object = 0;  // 0: none
    bool free = false;         // in the pool
  };
  using Ranges = std::map<std::uint64_t, Range>;  // by address

  Memory(rmclient::Client& client, const rmclient::Gpu& gpu, AddressSpace space)
      : client_(&client), gpu_(&gpu), space_(std::move(space)) {}

  [[nodiscard]] Range* Find(std::uint64_t address, Kind kind);
  std::uint64_t Add(rm::NvHandle memory, std::uint64_t bytes);
  // Addresses for an object; its handle is released in any case.
  Status Place(Kind kind, std::uint64_t object, std::uint64_t* address);
  // The range, its addresses and its use of the object.
  Status Drop(Ranges::iterator range);
  template <class Use>
  Status At(std::uint64_t address, std::size_t bytes, Use use);

  rmclient::Client* client_;
  const rmclient::Gpu* gpu_;
  AddressSpace space_;
  std::map<std::uint64_t, Object> objects_;  // by handle
  Ranges ranges_;
  std::uint64_t next_ = 1;  // handle
  std::uint64_t kept_ = 0;
};

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_MEMORY_H_
