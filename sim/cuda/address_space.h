// The addresses of a context: an open file of nvidia-uvm, in which its GPU and a GPU VA space of
// its client are registered. Memory of the GPU lies in external ranges, managed memory in mappings
// of the file, as with any program that uses nvidia-uvm (kernel-open/nvidia-uvm/uvm_ioctl.h of
// NVIDIA/open-gpu-kernel-modules). An address is the same for the processor and for the GPU.
//
// Sizes and addresses are multiples of kGranularity. kExhausted: the driver, or the kernel, has no
// more. Not thread-safe.
#ifndef CGPU_SIM_CUDA_ADDRESS_SPACE_H_
#define CGPU_SIM_CUDA_ADDRESS_SPACE_H_

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "rmclient/gpus.h"

namespace cgpu::sim::cuda {

class AddressSpace {
 public:
  static constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;

  // `client` and `gpu`, which is the client's, outlive the space.
  [[nodiscard]] static Result<AddressSpace> Open(rmclient::Client& client,
                                                 const rmclient::Gpu& gpu);

  // Addresses at which nothing is: an external range.
  [[nodiscard]] Result<std::uint64_t> Reserve(std::uint64_t bytes);
  // Frees the whole range, with what is mapped there.
  [[nodiscard]] Result<> Free(std::uint64_t address, std::uint64_t bytes);
  // The first bytes of a memory object of the client's. The GPU keeps the memory until it is
  // unmapped.
  [[nodiscard]] Result<> Map(std::uint64_t address, std::uint64_t bytes, rm::NvHandle memory);
  [[nodiscard]] Result<> Unmap(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] Result<std::uint64_t> MapManaged(std::uint64_t bytes);
  static void UnmapManaged(std::uint64_t address, std::uint64_t bytes);
  // For the processor.
  [[nodiscard]] static volatile unsigned char* Managed(std::uint64_t address);

 private:
  AddressSpace(rmclient::Client& client, const rmclient::Gpu& gpu) : client_(&client), gpu_(&gpu) {}
  [[nodiscard]] Result<> Register();
  // One request. `params` are as large as the driver's version has them.
  [[nodiscard]] Result<> Ask(const UniqueFd& file, rm::NvU32 request, void* params) const;

  rmclient::Client* client_;
  const rmclient::Gpu* gpu_;
  UniqueFd file_;
  UniqueFd of_memory_;  // of UVM_MM_INITIALIZE: the process's memory, for as long as it is open
};

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_ADDRESS_SPACE_H_
