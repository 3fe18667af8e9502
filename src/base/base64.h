// Base64 (RFC 4648, section 4). Pure.
#ifndef CGPU_BASE_BASE64_H_
#define CGPU_BASE_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace cgpu {

[[nodiscard]] std::string Base64(std::string_view bytes);

// Takes only what Base64() writes. Nothing: it is something else.
[[nodiscard]] std::optional<std::string> FromBase64(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_BASE_BASE64_H_
