// Base64 (RFC 4648, section 4).
#ifndef CGPU_KUBE_BASE64_H_
#define CGPU_KUBE_BASE64_H_

#include <string>
#include <string_view>

namespace cgpu::kube {

[[nodiscard]] std::string Base64(std::string_view bytes);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_BASE64_H_
