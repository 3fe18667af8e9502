// Times as text in RFC 3339, in UTC. Pure.
#ifndef CGPU_BASE_RFC3339_H_
#define CGPU_BASE_RFC3339_H_

#include <cstdint>
#include <string>

namespace cgpu {

// Takes seconds of Unix time: "2026-01-02T03:04:05Z".
[[nodiscard]] std::string Rfc3339(std::uint64_t seconds);

// Takes milliseconds of Unix time: "2026-01-02T03:04:05.678Z".
[[nodiscard]] std::string Rfc3339Ms(std::uint64_t milliseconds);

}  // namespace cgpu

#endif  // CGPU_BASE_RFC3339_H_
