#include "kernel/maps.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>

#include "base/fd.h"
#include "kernel/open_files.h"

namespace cgpu::kernel {
namespace {

// Takes a number off the front of `line`, and the separator behind it.
std::optional<std::uint64_t> Take(std::string_view& line, int base, char separator) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  const auto used = static_cast<std::size_t>(end - line.data());
  if (error != std::errc{} || used >= line.size() || line[used] != separator) {
    return std::nullopt;
  }
  line.remove_prefix(used + 1);
  return value;
}

bool Skip(std::string_view& line, char separator) {
  const std::size_t at = line.find(separator);
  if (at == std::string_view::npos) {
    return false;
  }
  line.remove_prefix(at + 1);
  return true;
}

// "7f0000000000-7f0000200000 rw-s 7f0000000000 00:05 612    /dev/nvidia-uvm"
void ReadLine(std::string_view line, const InodeSet& inodes, std::vector<MappedRange>& ranges) {
  const auto start = Take(line, 16, '-');
  const auto end = start ? Take(line, 16, ' ') : std::nullopt;
  if (!end || !Skip(line, ' ') || !Skip(line, ' ')) {
    return;
  }
  const auto device_major = Take(line, 16, ':');
  const auto device_minor = device_major ? Take(line, 16, ' ') : std::nullopt;
  if (!device_minor) {
    return;
  }
  std::uint64_t inode = 0;
  (void)std::from_chars(line.data(), line.data() + line.size(), inode);
  const std::uint64_t device =
      makedev(static_cast<unsigned>(*device_major), static_cast<unsigned>(*device_minor));
  if (inodes.contains({device, inode})) {
    ranges.push_back({*start, *end});
  }
}

// Takes whole lines off `text`.
void ReadLines(std::string& text, const InodeSet& inodes, std::vector<MappedRange>& ranges) {
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    ReadLine(std::string_view(text).substr(from, end - from), inodes, ranges);
    from = end + 1;
  }
  text.erase(0, from);
}

// Of one thread. Nothing: it has no memory any more.
Result<std::optional<std::vector<MappedRange>>> MappingsOf(int proc, pid_t tid,
                                                           const InodeSet& inodes) {
  const std::string path = std::to_string(tid) + "/maps";
  const UniqueFd file(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot open the mappings of a process");
  }
  constexpr std::size_t kChunk = 16 * 1024;
  std::optional<std::vector<MappedRange>> ranges;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t n = read(file.get(), text.data() + before, kChunk);
    if (n < 0) {
      return ErrnoError(Code::kUnavailable, errno, "cannot read the mappings of a process");
    }
    text.resize(before + static_cast<std::size_t>(n));
    if (n == 0) {
      return ranges;
    }
    if (!ranges) {
      ranges.emplace();
    }
    ReadLines(text, inodes, *ranges);
  }
}

}  // namespace

std::vector<MappedRange> RangesOf(std::string_view text, const InodeSet& inodes) {
  std::vector<MappedRange> ranges;
  std::string rest(text);
  rest += '\n';
  ReadLines(rest, inodes, ranges);
  return ranges;
}

Result<std::vector<MappedRange>> ReadMappings(int proc, pid_t pid, const InodeSet& inodes) {
  // One thread's are all threads'. Of one that has ended there are none, or there is no such file.
  auto found = MappingsOf(proc, pid, inodes);
  if (found.ok() && *found) {
    return std::move(**found);
  }
  for (const pid_t thread : Threads(proc, pid)) {
    found = MappingsOf(proc, thread, inodes);
    if (found.ok() && *found) {
      return std::move(**found);
    }
  }
  return found.ok() ? ErrnoError(Code::kUnavailable, ESRCH, "a process has no mappings")
                    : found.error();
}

bool HasLeftCall(int proc, pid_t tid, int nr) {
  const std::string path = std::to_string(tid) + "/syscall";
  const UniqueFd file(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  errno = file.valid() ? 0 : errno;
  const ssize_t n = file.valid() ? read(file.get(), text, sizeof(text) - 1) : -1;
  if (n <= 0) {
    return errno == ENOENT || errno == ESRCH;
  }
  // "running", or the number of the call it sleeps in, or -1 for sleeping elsewhere.
  int shown = 0;
  const auto [end, error] = std::from_chars(text, text + n, shown);
  return error == std::errc{} && shown != nr;
}

}  // namespace cgpu::kernel
