#include "os/start_time.h"

#include <fcntl.h>

#include <charconv>
#include <string>

#include "base/fd.h"
#include "base/file.h"

namespace cgpu::os {

std::optional<std::uint64_t> StartTime(int proc_fd, pid_t pid) {
  const std::string path = std::to_string(pid) + "/stat";
  const UniqueFd file(openat(proc_fd, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return std::nullopt;
  }
  const Result<std::string> text = ReadAll(file.get(), path);
  return text.ok() ? StartTimeIn(*text) : std::nullopt;
}

std::optional<std::uint64_t> StartTimeIn(std::string_view stat) {
  // The second field is a name in parentheses, which may hold anything.
  std::size_t at = stat.rfind(')');
  constexpr int kNameField = 2;
  constexpr int kStartField = 22;
  for (int field = kNameField; field < kStartField && at != std::string_view::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t ticks = 0;
  const char* end = stat.data() + stat.size();
  const auto [rest, error] = std::from_chars(stat.data() + at + 1, end, ticks);
  return error == std::errc() && rest != end && *rest == ' ' ? std::optional(ticks) : std::nullopt;
}

}  // namespace cgpu::os
