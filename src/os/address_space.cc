#include "os/address_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace cgpu::os {
namespace {

Result<AddressSpace> Open(int proc, pid_t pid) {
  const std::string folder = std::to_string(pid);
  AddressSpace space;
  space.mem = UniqueFd(openat(proc, (folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  space.maps = UniqueFd(openat(proc, (folder + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.mem.valid() || !space.maps.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot open the memory of a process");
  }
  if (!IsUsed(space)) {
    return Error{Code::kUnavailable, ESRCH, "a process has no memory any more", {}};
  }
  return space;
}

}  // namespace

Result<AddressSpace> OpenAddressSpace(int proc, pid_t tgid, pid_t tid) {
  auto space = Open(proc, tgid);
  return space.ok() || tid == tgid ? std::move(space) : Open(proc, tid);
}

bool IsUsed(const AddressSpace& space) {
  char byte = 0;
  constexpr off_t kAnywhere = 4096;  // nothing is mapped there: reading fails, and the errno tells
                                     // the state
  return pread(space.mem.get(), &byte, 1, kAnywhere) != 0;
}

std::optional<std::vector<MappedRange>> ReadMappings(const AddressSpace& space) {
  if (lseek(space.maps.get(), 0, SEEK_SET) != 0) {
    return std::nullopt;
  }
  std::vector<MappedRange> ranges;
  constexpr std::size_t kChunk = 16 * 1024;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t n = read(space.maps.get(), text.data() + before, kChunk);
    if (n < 0) {
      return std::nullopt;
    }
    text.resize(before + static_cast<std::size_t>(n));
    if (n == 0) {
      break;
    }
    TakeRanges(text, ranges);
  }
  // If the address space ended meanwhile, it has shown some of its mappings, or none.
  return IsUsed(space) ? std::optional(std::move(ranges)) : std::nullopt;
}

}  // namespace cgpu::os
