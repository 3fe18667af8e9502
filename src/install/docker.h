// Implements engines.h for Docker.
#ifndef CGPU_INSTALL_DOCKER_H_
#define CGPU_INSTALL_DOCKER_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "install/engines.h"

namespace cgpu::install {

[[nodiscard]] Result<Entry> FindInDocker(const std::string& text);
[[nodiscard]] Result<Edit> AddToDocker(const std::optional<std::string>& text,
                                       const std::string& path, bool set_default);
[[nodiscard]] Result<std::optional<std::string>> RemoveFromDocker(
    const std::string& text, const std::optional<std::string>& original);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_DOCKER_H_
