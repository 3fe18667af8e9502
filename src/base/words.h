// Words without spaces: bytes that are not printable ASCII, and '%', are written as %XX. Pure.
#ifndef CGPU_BASE_WORDS_H_
#define CGPU_BASE_WORDS_H_

#include <optional>
#include <string>
#include <string_view>

namespace cgpu {

[[nodiscard]] std::string EscapeWord(std::string_view plain);

// Takes only what EscapeWord() writes, so that a word which is written again is no longer than
// before. Nothing: it is something else.
[[nodiscard]] std::optional<std::string> UnescapeWord(std::string_view word);

}  // namespace cgpu

#endif  // CGPU_BASE_WORDS_H_
