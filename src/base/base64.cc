#include "base/base64.h"

#include <cstddef>
#include <cstdint>

namespace cgpu {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kBitsOfLetter = 6;
constexpr unsigned kBitsOfByte = 8;
constexpr std::size_t kGroup = 4;  // letters; they stand for three bytes

}  // namespace

std::string Base64(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;  // the lowest `count` of them are not written yet
  unsigned count = 0;
  for (const char byte : bytes) {
    bits = bits << kBitsOfByte | static_cast<unsigned char>(byte);
    for (count += kBitsOfByte; count >= kBitsOfLetter; count -= kBitsOfLetter) {
      text += kLetters[bits >> (count - kBitsOfLetter) & 0x3f];
    }
  }
  if (count > 0) {
    text += kLetters[bits << (kBitsOfLetter - count) & 0x3f];
  }
  text.append((kGroup - text.size() % kGroup) % kGroup, '=');
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;  // the lowest `count` of them are not taken yet
  unsigned count = 0;
  for (const char letter : text.substr(0, text.find('='))) {
    const std::size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << kBitsOfLetter | static_cast<std::uint32_t>(value);
    count += kBitsOfLetter;
    if (count >= kBitsOfByte) {
      count -= kBitsOfByte;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  // Padding or last bits of another kind would come to the same bytes.
  if (Base64(bytes) != text) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace cgpu
