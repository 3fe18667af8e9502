// Answers that a traced program is told in place of the driver's.
//
//   alloc:0x2081=0x22         the status of every allocation of this class
//   control:0x20808159=0x56   the status of every control of this number
//   control:0x208001a3=zeros  NV_OK, and all of its parameters zero
//
// Pure; thread-safe.
#ifndef CGPU_TESTS_GPU_TRACE_ANSWERS_H_
#define CGPU_TESTS_GPU_TRACE_ANSWERS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu::trace {

struct Answer {
  enum class Kind : std::uint8_t { kAlloc, kControl };
  Kind kind = Kind::kControl;
  std::uint32_t number = 0;
  std::uint32_t status = 0;
  bool zeros = false;
};

[[nodiscard]] Result<Answer> ParseAnswer(std::string_view text);

// The first that is of this kind and number, or nullptr.
[[nodiscard]] const Answer* FindAnswer(const std::vector<Answer>& answers, Answer::Kind kind,
                                       std::uint32_t number);

}  // namespace cgpu::trace

#endif  // CGPU_TESTS_GPU_TRACE_ANSWERS_H_
