#include "apps/cgpu/smi/text.h"

#include <cstdarg>
#include <cstdio>

namespace cgpu::smi {

void Append(std::string& text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  if (length > 0) {
    std::string part(static_cast<std::size_t>(length) + 1, '\0');
    std::vsnprintf(part.data(), part.size(), format, again);
    text.append(part, 0, part.size() - 1);
  }
  va_end(again);
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string part(text.substr(0, comma));
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(std::move(part));
    if (comma == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string Shorten(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}

std::string Cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::optional<std::string> OnOff(const std::optional<bool>& on) {
  return on ? std::optional<std::string>(*on ? "On" : "Off") : std::nullopt;
}

std::optional<std::string> Enabled(const std::optional<bool>& on) {
  return on ? std::optional<std::string>(*on ? "Enabled" : "Disabled") : std::nullopt;
}

std::string HexText(std::uint32_t value, int digits) {
  std::string text;
  Append(text, "0x%0*X", digits, value);
  return text;
}

std::optional<std::string> HexText(const std::optional<std::uint32_t>& value, int digits) {
  return value ? std::optional(HexText(*value, digits)) : std::nullopt;
}

std::optional<BusNumbers> ParseBus(const std::string& text) {
  BusNumbers numbers;
  int end = 0;
  if (std::sscanf(text.c_str(), "%8x:%2x:%2x.%1x%n", &numbers.domain, &numbers.bus, &numbers.device,
                  &numbers.function, &end) == 4 &&
      static_cast<std::size_t>(end) == text.size()) {
    return numbers;
  }
  numbers = {};
  end = 0;
  if (std::sscanf(text.c_str(), "%2x:%2x.%1x%n", &numbers.bus, &numbers.device, &numbers.function,
                  &end) == 3 &&
      static_cast<std::size_t>(end) == text.size()) {
    return numbers;
  }
  return std::nullopt;
}

}  // namespace cgpu::smi
