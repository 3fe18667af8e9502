// Finds out how deep a JSON text nests before it is parsed, since what is done with it recurses.
// Pure.
#ifndef CGPU_BASE_JSON_DEPTH_H_
#define CGPU_BASE_JSON_DEPTH_H_

#include <cstddef>
#include <string_view>

namespace cgpu {

// Returns whether objects and arrays lie deeper in each other than `most`, whatever else is wrong
// with the text.
[[nodiscard]] bool NestsDeeper(std::string_view text, std::size_t most);

}  // namespace cgpu

#endif  // CGPU_BASE_JSON_DEPTH_H_
