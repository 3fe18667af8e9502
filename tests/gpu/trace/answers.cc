#include "gpu/trace/answers.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace cgpu::trace {
namespace {

std::optional<std::uint32_t> Number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) {
    text.remove_prefix(2);
  }
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, hex ? 16 : 10);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<Answer> ParseAnswer(std::string_view text) {
  const Error wrong{Code::kInvalid, 0, "\"" + std::string(text) + "\" is no answer",
                    "alloc:CLASS=STATUS, control:COMMAND=STATUS or control:COMMAND=zeros"};
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.find('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon) {
    return wrong;
  }
  const std::string_view kind = text.substr(0, colon);
  const std::string_view value = text.substr(equals + 1);
  const auto number = Number(text.substr(colon + 1, equals - colon - 1));
  const auto status = Number(value);
  Answer answer;
  answer.kind = kind == "alloc" ? Answer::Kind::kAlloc : Answer::Kind::kControl;
  answer.zeros = kind == "control" && value == "zeros";
  if ((kind != "alloc" && kind != "control") || !number || (!status && !answer.zeros)) {
    return wrong;
  }
  answer.number = *number;
  answer.status = status.value_or(0);
  return answer;
}

const Answer* FindAnswer(const std::vector<Answer>& answers, Answer::Kind kind,
                         std::uint32_t number) {
  const auto found = std::find_if(answers.begin(), answers.end(), [&](const Answer& answer) {
    return answer.kind == kind && answer.number == number;
  });
  return found == answers.end() ? nullptr : &*found;
}

}  // namespace cgpu::trace
