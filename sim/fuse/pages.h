// The bytes of a memory block: a part of a file, which is anonymous and takes room only where it
// was written, or the memory of a process that lent its own pages.
#ifndef CGPU_SIM_FUSE_PAGES_H_
#define CGPU_SIM_FUSE_PAGES_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "sim/model/memory.h"

namespace cgpu::sim {

// Thread-safe.
class FilePages final : public Pages {
 public:
  // Makes the pages. Bytes that were never written are 0.
  [[nodiscard]] static Result<std::shared_ptr<FilePages>> Create(rm::NvU64 length);
  // Opens the memory of the process of thread `tid`, as /proc/TID/mem, which leads nowhere once the
  // process has ended or executed another program.
  [[nodiscard]] static Result<std::shared_ptr<FilePages>> OfProcess(pid_t tid, rm::NvU64 address,
                                                                    rm::NvU64 length);

  std::size_t Read(rm::NvU64 offset, std::span<std::byte> out) const override;
  std::size_t Write(rm::NvU64 offset, std::span<const std::byte> bytes) override;
  [[nodiscard]] int File() const override { return fd_.get(); }
  [[nodiscard]] rm::NvU64 Base() const override { return base_; }

 private:
  FilePages(UniqueFd fd, rm::NvU64 base, rm::NvU64 length)
      : fd_(std::move(fd)), base_(base), length_(length) {}
  [[nodiscard]] std::size_t Within(rm::NvU64 offset, std::size_t size) const;

  const UniqueFd fd_;
  const rm::NvU64 base_;
  const rm::NvU64 length_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_PAGES_H_
