// Writes the unified format of diff(1), as `patch` takes it.
#ifndef CGPU_INSTALL_DIFF_H_
#define CGPU_INSTALL_DIFF_H_

#include <optional>
#include <string>

namespace cgpu::install {

// Returns the diff that turns `before` into `after`, with three lines around each change; "" if
// they are the same. Nothing in place of a text: there is no file, and the name is /dev/null. Pure.
[[nodiscard]] std::string UnifiedDiff(const std::string& file,
                                      const std::optional<std::string>& before,
                                      const std::optional<std::string>& after);

}  // namespace cgpu::install

#endif  // CGPU_INSTALL_DIFF_H_
