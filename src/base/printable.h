// Text of others for a line of ours.
#ifndef CGPU_BASE_PRINTABLE_H_
#define CGPU_BASE_PRINTABLE_H_

#include <string>

namespace cgpu {

// Returns the text with '?' in place of each byte that is not printable ASCII: nothing in it is a
// command to a terminal, or another line.
[[nodiscard]] std::string Printable(std::string text);

}  // namespace cgpu

#endif  // CGPU_BASE_PRINTABLE_H_
