#include "sim/fuse/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/file.h"

namespace cgpu::sim {

Result<std::shared_ptr<FilePages>> FilePages::Create(rm::NvU64 length) {
  UniqueFd fd(memfd_create("cgpu-sim-memory", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(length)) != 0) {
    return ErrnoError(Code::kExhausted, errno, "making the pages of a memory object");
  }
  return std::shared_ptr<FilePages>(new FilePages(std::move(fd), 0, length));
}

Result<std::shared_ptr<FilePages>> FilePages::OfProcess(pid_t tid, rm::NvU64 address,
                                                        rm::NvU64 length) {
  Result<UniqueFd> memory = cgpu::OpenFile("/proc/" + std::to_string(tid) + "/mem", O_RDWR);
  if (!memory.ok()) {
    return memory.error();
  }
  return std::shared_ptr<FilePages>(new FilePages(std::move(memory).value(), address, length));
}

std::size_t FilePages::Within(rm::NvU64 offset, std::size_t size) const {
  return offset >= length_ ? 0
                           : static_cast<std::size_t>(std::min<rm::NvU64>(size, length_ - offset));
}

std::size_t FilePages::Read(rm::NvU64 offset, std::span<std::byte> out) const {
  const std::size_t size = Within(offset, out.size());
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n =
        pread(fd_.get(), out.data() + done, size - done, static_cast<off_t>(base_ + offset + done));
    if (n <= 0) {
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::size_t FilePages::Write(rm::NvU64 offset, std::span<const std::byte> bytes) {
  const std::size_t size = Within(offset, bytes.size());
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = pwrite(fd_.get(), bytes.data() + done, size - done,
                             static_cast<off_t>(base_ + offset + done));
    if (n <= 0) {
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace cgpu::sim
