#include "os/maps.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/fd.h"

namespace cgpu::os {
namespace {

// Takes a number, and the separator behind it, off the front of `line`.
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

// Reads "7f0000000000-7f0000200000 rw-s 7f0000000000 00:05 612    /dev/nvidia-uvm".
void ReadLine(std::string_view line, std::vector<MappedRange>& ranges) {
  const auto start = Take(line, 16, '-');
  const auto end = start ? Take(line, 16, ' ') : std::nullopt;
  const bool shared = line.size() > 3 && line[3] == 's';
  if (!end || !shared || !Skip(line, ' ')) {
    return;
  }
  const auto offset = Take(line, 16, ' ');
  if (!offset || *offset != *start) {
    return;
  }
  ranges.push_back({*start, *end});
}

}  // namespace

void TakeRanges(std::string& text, std::vector<MappedRange>& ranges) {
  std::size_t from = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    ReadLine(std::string_view(text).substr(from, end - from), ranges);
    from = end + 1;
  }
  text.erase(0, from);
}

bool ShowItsDevice(int file) {
  struct statfs system{};
  return fstatfs(file, &system) == 0 && system.f_type != BTRFS_SUPER_MAGIC &&
         system.f_type != OVERLAYFS_SUPER_MAGIC;
}

bool HasLeftCalls(int proc, pid_t tid, std::initializer_list<int> calls) {
  const std::string path = std::to_string(tid) + "/syscall";
  const UniqueFd file(openat(proc, path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  errno = file.valid() ? 0 : errno;
  const ssize_t n = file.valid() ? read(file.get(), text, sizeof(text) - 1) : -1;
  if (n <= 0) {
    return errno == ENOENT || errno == ESRCH;
  }
  // Shown is "running", the number of the call that it sleeps in, or -1 for sleeping elsewhere.
  int shown = 0;
  const auto [end, error] = std::from_chars(text, text + n, shown);
  return error == std::errc{} && std::ranges::find(calls, shown) == calls.end();
}

}  // namespace cgpu::os
