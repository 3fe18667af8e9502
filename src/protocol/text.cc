#include "protocol/text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "base/words.h"

namespace cgpu {
namespace {

Error Broken(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), {}};
}

Result<Words> SplitLine(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const std::size_t space = std::min(line.find(' '), line.size());
    if (space > 0) {
      auto word = UnescapeWord(line.substr(0, space));
      if (!word) {
        return Broken("a word of a message is not escaped as it should be");
      }
      words.push_back(*std::move(word));
    }
    line.remove_prefix(std::min(space + 1, line.size()));
  }
  return words;
}

bool IsAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string JoinLine(const Words& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) {
      line += ' ';
    }
    line += EscapeWord(word);
  }
  return line + "\n";
}

std::string JoinError(const Error& error) {
  return JoinLine({"error", std::to_string(static_cast<int>(error.code)), error.what, error.hint});
}

std::optional<Error> ErrorFrom(const Words& line) {
  std::uint64_t code = 0;
  if (line.size() < 3 || line.size() > 4 || line[0] != "error" ||
      !ToNumber(line[1], 10, static_cast<std::uint64_t>(Code::kInternal), code)) {
    return std::nullopt;
  }
  return Error{static_cast<Code>(code), 0, line[2], line.size() > 3 ? line[3] : std::string()};
}

Result<std::vector<Words>> SplitLines(std::string_view text) {
  if (text.size() > kMaxMessage) {
    return Broken("a message is too long");
  }
  std::vector<Words> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > kMaxLine) {
      return Broken("a line of a message is too long");
    }
    CGPU_ASSIGN_OR_RETURN(auto words, SplitLine(text.substr(0, end)));
    if (!words.empty()) {
      lines.push_back(std::move(words));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool ToNumber(std::string_view word, int base, std::uint64_t limit, std::uint64_t& value) {
  const char* const end = word.data() + word.size();
  const auto [tail, ec] = std::from_chars(word.data(), end, value, base);
  return ec == std::errc() && tail == end && value <= limit;
}

bool ToUnsigned(std::string_view word, unsigned& value) {
  std::uint64_t wide = 0;
  if (!ToNumber(word, 10, std::numeric_limits<unsigned>::max(), wide)) {
    return false;
  }
  value = static_cast<unsigned>(wide);
  return true;
}

bool IsName(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && IsAlnum(text.front()) &&
         std::ranges::all_of(text,
                             [](char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '-'; });
}

bool IsId(std::string_view text) {
  constexpr std::size_t kLength = 12;
  return text.size() == kLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace cgpu
