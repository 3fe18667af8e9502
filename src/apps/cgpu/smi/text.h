// Pieces of text that several output formats of `cgpu smi` share. Pure.
#ifndef CGPU_APPS_CGPU_SMI_TEXT_H_
#define CGPU_APPS_CGPU_SMI_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cgpu::smi {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr const char* kNone = "N/A";

// Appends formatted text of any length.
[[gnu::format(printf, 2, 3)]] void Append(std::string& text, const char* format, ...);

// Splits at commas; blanks around a part do not count.
[[nodiscard]] std::vector<std::string> Split(std::string_view text);

// Cuts a text to so many characters: Shorten() keeps the end of it, Cut() the beginning, with dots
// for the rest.
[[nodiscard]] std::string Shorten(const std::string& text, std::size_t width);
[[nodiscard]] std::string Cut(const std::string& text, std::size_t width);

// Returns a mode's word.
[[nodiscard]] std::optional<std::string> OnOff(const std::optional<bool>& on);    // "On"
[[nodiscard]] std::optional<std::string> Enabled(const std::optional<bool>& on);  // "Enabled"

// Returns "0x0A": at least so many digits.
[[nodiscard]] std::string HexText(std::uint32_t value, int digits);
[[nodiscard]] std::optional<std::string> HexText(const std::optional<std::uint32_t>& value,
                                                 int digits);

// Numbers of a PCI address "00000000:0A:00.0".
struct BusNumbers {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  friend bool operator==(const BusNumbers&, const BusNumbers&) = default;
};
// Parses an address in any case, with a domain of any length or without one. Nothing: it is none.
[[nodiscard]] std::optional<BusNumbers> ParseBus(const std::string& text);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_TEXT_H_
