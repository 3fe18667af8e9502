#include "exporter/label.h"

#include <array>
#include <cstdint>

namespace cgpu::exporter {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Forms of UTF-8, by the number of bytes (RFC 3629): how the first byte begins, and the least
// character of the form.
struct Form {
  std::uint8_t mask;
  std::uint8_t begins;
  std::uint32_t least;
};
constexpr std::array<Form, 4> kForms = {
    {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}}};

bool IsShown(std::uint32_t character) {
  const bool control = character < 0x20 || (character >= 0x7F && character < 0xA0);
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  return !control && !surrogate && character <= 0x10FFFF;
}

// Returns the bytes of the character that `text` begins with; 0: it begins with none to be shown.
std::size_t LengthOfFirst(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  for (std::size_t length = 1; length <= kForms.size(); ++length) {
    const Form& form = kForms[length - 1];
    if ((byte(0) & form.mask) != form.begins) {
      continue;
    }
    std::uint32_t character = byte(0) & ~form.mask & 0xFFU;
    for (std::size_t at = 1; at < length; ++at) {
      if (at >= text.size() || (byte(at) & 0xC0U) != 0x80U) {
        return 0;
      }
      character = character << 6U | (byte(at) & 0x3FU);
    }
    return character >= form.least && IsShown(character) ? length : 0;
  }
  return 0;
}

}  // namespace

std::string SafeLabel(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t length = LengthOfFirst(text);
    const std::string_view next = length == 0 ? kReplacement : text.substr(0, length);
    if (safe.size() + next.size() > kMostLabelBytes) {
      break;
    }
    safe += next;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return safe;
}

}  // namespace cgpu::exporter
