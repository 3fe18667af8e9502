#include "protocol/text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace cgpu {
namespace {

constexpr char kHex[] = "0123456789abcdef";

bool IsPlain(char c) {
  return c > ' ' && c < 0x7f && c != '%';
}

Error Broken(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), {}};
}

int HexValue(char c) {
  const char* const at = std::find(kHex, kHex + 16, c);
  return at == kHex + 16 ? -1 : static_cast<int>(at - kHex);
}

// Takes only what JoinLine() writes. If raw bytes were taken as well, a line that was read within
// its limit could be too long to be read again once written.
bool Unescape(std::string_view word, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (IsPlain(word[i])) {
      out += word[i];
      continue;
    }
    if (word[i] != '%') {
      return false;
    }
    const int high = i + 2 < word.size() ? HexValue(word[i + 1]) : -1;
    const int low = i + 2 < word.size() ? HexValue(word[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return false;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

Result<Words> SplitLine(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const std::size_t space = std::min(line.find(' '), line.size());
    if (space > 0) {
      std::string word;
      if (!Unescape(line.substr(0, space), word)) {
        return Broken("a word of a message is not escaped as it should be");
      }
      words.push_back(std::move(word));
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
    for (const char c : word) {
      if (IsPlain(c)) {
        line += c;
      } else {
        const auto byte = static_cast<unsigned char>(c);
        line += {'%', kHex[byte >> 4], kHex[byte & 15]};
      }
    }
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
    auto words = SplitLine(text.substr(0, end));
    if (!words.ok()) {
      return words.error();
    }
    if (!(*words).empty()) {
      lines.push_back(*std::move(words));
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
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '-'; });
}

bool IsId(std::string_view text) {
  constexpr std::size_t kLength = 12;
  return text.size() == kLength &&
         std::all_of(text.begin(), text.end(), [](char c) { return HexValue(c) >= 0; });
}

}  // namespace cgpu
