// Makes text that tenants choose fit for the value of a label. Pure.
#ifndef CGPU_EXPORTER_LABEL_H_
#define CGPU_EXPORTER_LABEL_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace cgpu::exporter {

// Most bytes of a label's value. Kubernetes' longest name, of a pod, has 253.
inline constexpr std::size_t kMostLabelBytes = 256;

// Returns `text` cut to kMostLabelBytes, at the beginning of a character. U+FFFD stands for each
// byte that is not valid UTF-8, and for each control character. The text format's own characters
// stay: its serializer escapes them.
[[nodiscard]] std::string SafeLabel(std::string_view text);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_LABEL_H_
