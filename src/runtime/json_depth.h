// How deep a JSON text nests, found out before it is parsed: the parser recurses.
#ifndef CGPU_RUNTIME_JSON_DEPTH_H_
#define CGPU_RUNTIME_JSON_DEPTH_H_

#include <cstddef>
#include <string_view>

namespace cgpu {

// Whether objects and arrays lie deeper in each other than `most`, whatever else is wrong with the
// text.
[[nodiscard]] bool NestsDeeper(std::string_view text, std::size_t most);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_JSON_DEPTH_H_
