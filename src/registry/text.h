// Lines of words, the form of everything that a shim is told and asked: "key word word...\n".
// Words never hold a space; bytes that could be mistaken (and '%') are written as %XX, and taken in
// no other form. Pure, bounded, and never trusts its input.
#ifndef CGPU_REGISTRY_TEXT_H_
#define CGPU_REGISTRY_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Longest message and longest line taken.
inline constexpr std::size_t kMaxMessage = 64 * 1024;
inline constexpr std::size_t kMaxLine = 2048;

using Words = std::vector<std::string>;

// One line's words with a newline, escaped.
[[nodiscard]] std::string JoinLine(const Words& words);

// "error CODE WHAT HINT": an error as it was, for whoever waits at the other end.
[[nodiscard]] std::string JoinError(const Error& error);

// The error that the words of one line stand for; nothing when the line is none.
[[nodiscard]] std::optional<Error> ErrorFrom(const Words& line);

// The lines of `text`, each split into its unescaped words; empty lines are left out. kInvalid when
// a bound is passed or a byte is not escaped as it should be.
[[nodiscard]] Result<std::vector<Words>> SplitLines(std::string_view text);

// The whole word as a number; false if it is none or does not fit below `limit` (inclusive).
[[nodiscard]] bool ToNumber(std::string_view word, int base, std::uint64_t limit,
                            std::uint64_t& value);

// The same for one in decimal.
[[nodiscard]] bool ToUnsigned(std::string_view word, unsigned& value);

// 1 to 64 of A-Z a-z 0-9 _ . - and the first a letter or digit: container and node names.
[[nodiscard]] bool IsName(std::string_view text);

// 12 lower-case hex digits.
[[nodiscard]] bool IsId(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_TEXT_H_
