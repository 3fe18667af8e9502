// A client that uses nvidia-uvm by raw requests, as the vendor's libraries do for managed memory
// and for everything else they map.
#ifndef CGPU_TESTS_ADVERSARY_UVM_CLIENT_H_
#define CGPU_TESTS_ADVERSARY_UVM_CLIENT_H_

#include <cstdint>

#include "common.h"
#include "rm/uvm_table.h"

namespace cgpu::adversary {

struct UvmClient {
  static constexpr std::uint32_t kVaSpace = 0xcaf00003;

  Client client;
  int uvm = -1;
  rm::NvProcessorUuid uuid{};

  // The in-band status of a request, kNoAnswer where ioctl itself failed.
  std::uint32_t Ask(std::uint32_t request, void* params) const;

  // With the sharing mode, as the shim makes every space.
  std::uint32_t Initialise() const;
  std::uint32_t RegisterGpu() const;
  std::uint32_t CreateRange(std::uint64_t base, std::uint64_t length) const;
  std::uint32_t Map(std::uint64_t base, std::uint64_t length, std::uint32_t memory) const;
  std::uint32_t Unmap(std::uint64_t base, std::uint64_t length) const;
  std::uint32_t FreeRange(std::uint64_t base, std::uint64_t length) const;
};

// Maps managed memory of the open file `uvm` where it lies.
bool MapManaged(int uvm, std::uint64_t at, std::uint64_t size);

// Opens nvidia-uvm anew for `client` and makes it ready to map on its GPU.
void StartUvm(UvmClient& client);
// With a client, device and subdevice of its own. Dies when the driver refuses.
UvmClient MakeUvmClient();

}  // namespace cgpu::adversary

#endif  // CGPU_TESTS_ADVERSARY_UVM_CLIENT_H_
