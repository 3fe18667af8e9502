// Names for the record of calls and the count of refusals.
#ifndef CGPU_BOUNDARY_NAMES_H_
#define CGPU_BOUNDARY_NAMES_H_

#include <cstdint>
#include <string>

namespace cgpu::boundary {

// Return the vendor's name, or the number.
[[nodiscard]] std::string EscapeName(std::uint32_t nr);
[[nodiscard]] std::string ControlName(std::uint32_t command);
[[nodiscard]] std::string ClassName(std::uint32_t cls);
[[nodiscard]] std::string UvmName(std::uint32_t request);
// Returns "WHAT-0xVALUE".
[[nodiscard]] std::string Hex(const char* what, std::uint32_t value);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_NAMES_H_
