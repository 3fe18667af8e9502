#include "kube/amount.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "json/json.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMost = 1'000'000;  // more is a slip of the pen

}  // namespace

Result<std::uint32_t> ReadAmount(std::string_view json, const std::string& what) {
  const Json value = ParseJson(json);
  const Error wrong{Code::kInvalid, 0,
                    what + " is " + std::string(json) + ", which is no whole number",
                    "write a whole number, for example \"8\""};
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number <= kMost ? Result<std::uint32_t>(static_cast<std::uint32_t>(number)) : wrong;
  }
  if (!value.is_string()) {
    return wrong;
  }
  std::string text = value.get<std::string>();
  std::uint32_t times = 1;
  if (!text.empty() && text.back() == 'k') {
    times = 1000;
    text.pop_back();
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kMost / times) {
    return wrong;
  }
  return number * times;
}

}  // namespace cgpu::kube
