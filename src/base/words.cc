#include "base/words.h"

#include <algorithm>
#include <cstddef>

namespace cgpu {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

bool IsPlain(char c) {
  return c > ' ' && c < 0x7f && c != '%';
}

}  // namespace

std::string EscapeWord(std::string_view plain) {
  std::string word;
  for (const char c : plain) {
    if (IsPlain(c)) {
      word += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      word += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return word;
}

std::optional<std::string> UnescapeWord(std::string_view word) {
  std::string plain;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (IsPlain(word[i])) {
      plain += word[i];
      continue;
    }
    if (word[i] != '%' || word.size() - i < 3) {
      return std::nullopt;
    }
    const std::size_t high = kHex.find(word[i + 1]);
    const std::size_t low = kHex.find(word[i + 2]);
    if (std::max(high, low) >= kHex.size()) {
      return std::nullopt;
    }
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

}  // namespace cgpu
