// Names for the record of calls and the count of refusals, and the driver's answer for other
// containers' clients.
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

// Returns the driver's answer for a client that does not exist; to a container, no other
// container's client exists (src/nvidia/src/libraries/resserv/src/rs_server.c and
// src/kernel/rmapi/control.c).
[[nodiscard]] std::uint32_t NoSuchClient(std::uint32_t nr);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_NAMES_H_
