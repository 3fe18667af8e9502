// Lines of words, the form of everything that a shim is told and asked: "key word word...\n". Words
// are escaped (base/words.h). Pure, bounded, and trusts no input.
#ifndef CGPU_PROTOCOL_TEXT_H_
#define CGPU_PROTOCOL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Longest message and longest line taken, in bytes.
inline constexpr std::size_t kMaxMessage = 64 * 1024;
inline constexpr std::size_t kMaxLine = 2048;

using Words = std::vector<std::string>;

// Returns one line of these words, escaped, with a newline.
[[nodiscard]] std::string JoinLine(const Words& words);

// Returns the line "error CODE WHAT HINT": an error as it was, for the other end.
[[nodiscard]] std::string JoinError(const Error& error);

// Returns the error that the words of one line stand for; nothing when the line is no error.
[[nodiscard]] std::optional<Error> ErrorFrom(const Words& line);

// Splits `text` into lines and each line into its unescaped words. Leaves out empty lines.
// kInvalid: a message or line is too long, or a byte is not escaped as it should be.
[[nodiscard]] Result<std::vector<Words>> SplitLines(std::string_view text);

// Parses the whole word as a number. False: it is none, or is greater than `limit`.
[[nodiscard]] bool ToNumber(std::string_view word, int base, std::uint64_t limit,
                            std::uint64_t& value);

// Parses a decimal number, likewise.
[[nodiscard]] bool ToUnsigned(std::string_view word, unsigned& value);

// Returns whether `text` is the name of a container or a node: 1 to 64 of A-Z a-z 0-9 _ . - and the
// first a letter or digit.
[[nodiscard]] bool IsName(std::string_view text);

// Returns whether `text` is 12 lower-case hex digits.
[[nodiscard]] bool IsId(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_TEXT_H_
