// The driver in a few lines, for fuzzing what stands in front of it: it follows the pointers it is
// given, writes as many bytes as the real one, and keeps accounting of its own. It refuses next to
// nothing, so that what it is asked to do is the boundary's doing.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01, where a rule comes from the driver:
// src/nvidia/src/libraries/resserv/src/rs_server.c (the tree), kernel_channel.c and others
// (dependants), mem_mgr/mem.c (shared memory). Fuzzing, one thread.
#ifndef CGPU_TESTS_FUZZ_PLAIN_DRIVER_H_
#define CGPU_TESTS_FUZZ_PLAIN_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rm/abi.h"
#include "rm/nv_structs.h"

namespace cgpu::fuzz {

// In every list of GPUs that the driver gives; no container has it.
inline constexpr std::uint32_t kForeignGpuId = 0x5eed0200;
inline constexpr std::uint32_t kForeignInstance = 1;
inline constexpr std::uint32_t kForeignPid = 0x00feed01;
inline constexpr std::uint32_t kWholeGpuKib = 0x7eed0000;

class PlainDriver {
 public:
  using Handle = std::uint32_t;
  struct Gpu {
    std::uint32_t instance = 0;
    std::uint32_t gpu_id = 0;
    std::uint64_t context_bytes = 0;
    std::uint64_t space_bytes = 0;
  };
  struct Object {
    Handle parent = 0;
    std::uint32_t cls = 0;
    std::optional<std::size_t> gpu;
    std::optional<std::size_t> block;
    std::vector<Handle> depends_on;
  };
  using Objects = std::map<std::pair<Handle, Handle>, Object>;  // by client and handle

  PlainDriver(const rm::Abi& abi, std::vector<Gpu> gpus) : abi_(abi), gpus_(std::move(gpus)) {}

  // `image` as ioctl gets it, with pointers into this process. `file`: a name for the open file
  // that the call names by descriptor, 0 for none.
  void Execute(std::uint32_t nr, std::byte* image, std::size_t size, std::uint64_t file);
  // NV_ESC_RM_FREE without the call around it.
  bool Free(Handle client, Handle object);
  // The last close of a file that something was exported to.
  void CloseExport(std::uint64_t file) { exports_.erase(file); }

  [[nodiscard]] const Objects& objects() const { return objects_; }
  // Counted anew from the objects and exports that exist.
  [[nodiscard]] std::uint64_t Used(std::size_t gpu) const;

 private:
  struct Block {
    std::size_t gpu = 0;
    std::uint64_t bytes = 0;
  };

  std::uint32_t Alloc(std::byte* image, std::size_t size);
  std::uint32_t AllocClient(rm::NVOS21_PARAMETERS& call);
  std::uint32_t AllocIn(const rm::NVOS21_PARAMETERS& call, std::byte* params, Object object);
  std::uint32_t Control(std::byte* image, std::uint64_t file);
  void Answer(std::uint32_t command, std::byte* params, std::size_t size);
  std::uint32_t VidHeap(std::byte* image);
  std::uint32_t Dup(std::byte* image);
  std::uint32_t Export(const std::byte* params, Handle client, std::uint64_t file);
  std::uint32_t Import(std::byte* params, Handle client, std::uint64_t file);
  std::uint32_t Copy(Handle client, Handle parent, Handle& handle, Object source);
  std::uint32_t Take(std::size_t gpu, std::uint64_t bytes, Object& object);
  void GpuList(std::byte* image, std::size_t size) const;

  [[nodiscard]] const Object* Find(Handle client, Handle object) const;
  Handle Choose(Handle client, Handle wanted);

  const rm::Abi& abi_;
  std::vector<Gpu> gpus_;
  Objects objects_;            // a client is an object under its own handle
  std::vector<Block> blocks_;  // never shrinks
  std::map<std::uint64_t, Object> exports_;
  Handle next_client_ = 0xc1d00001;
  Handle next_object_ = 0xbeef0001;
};

}  // namespace cgpu::fuzz

#endif  // CGPU_TESTS_FUZZ_PLAIN_DRIVER_H_
