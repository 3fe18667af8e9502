// The bytes of a memory block: an anonymous file that takes room only where it was written.
#ifndef CGPU_SIM_FUSE_PAGES_H_
#define CGPU_SIM_FUSE_PAGES_H_

#include <cstddef>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "sim/model/memory.h"

namespace cgpu::sim {

// Thread-safe.
class MemfdPages final : public Pages {
 public:
  [[nodiscard]] static Result<std::shared_ptr<MemfdPages>> Create(rm::NvU64 length);

  // Bytes that were never written are 0. Both stop at the end of the block; they return how many
  // bytes were within it.
  std::size_t Read(rm::NvU64 offset, std::span<std::byte> out) const;
  std::size_t Write(rm::NvU64 offset, std::span<const std::byte> bytes);

 private:
  MemfdPages(UniqueFd fd, rm::NvU64 length) : fd_(std::move(fd)), length_(length) {}
  [[nodiscard]] std::size_t Within(rm::NvU64 offset, std::size_t size) const;

  const UniqueFd fd_;
  const rm::NvU64 length_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_PAGES_H_
