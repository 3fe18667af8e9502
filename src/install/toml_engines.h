// Implements engines.h for the container engines whose configuration is TOML.
#ifndef CGPU_INSTALL_TOML_ENGINES_H_
#define CGPU_INSTALL_TOML_ENGINES_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "install/engines.h"

namespace cgpu::install {

[[nodiscard]] Result<Entry> FindInToml(Engine engine, const std::string& text);
[[nodiscard]] Result<Edit> AddToToml(Engine engine, const std::optional<std::string>& text,
                                     const std::string& path, bool set_default,
                                     const std::optional<std::string>& like);
[[nodiscard]] Result<std::optional<std::string>> RemoveFromToml(Engine engine,
                                                                const std::string& text);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_TOML_ENGINES_H_
