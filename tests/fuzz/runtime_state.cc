// The process in what a container runtime says with a listener. For every input: the pieces that it
// comes in make no difference; and in what a JSON parser accepts it is what the parser finds.
#include "shim/runtime_state.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/fuzz/input.h"

using cgpu::fuzz::Input;
using cgpu::fuzz::Require;
using Json = nlohmann::json;

namespace {

std::optional<std::uint32_t> ByParser(const Json& json) {
  const auto pid = json.is_object() ? json.find("pid") : json.end();
  if (!json.is_object() || pid == json.end() || !pid->is_number_unsigned()) {
    return std::nullopt;
  }
  const auto number = pid->get<std::uint64_t>();
  if (number == 0 || number > cgpu::shim::kMaxProcess) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(number);
}

void AddSpace(Input& input, std::string& text) {
  const auto which = input.Take<std::uint8_t>();
  text += which > 250 ? std::string("\n\t \r").substr(which - 251U) : std::string();
}

void AddString(Input& input, std::string& text) {
  constexpr const char* kStrings[] = {
      "pid",           "p\\u0069d", "\\u0070id",         "pi",     "pids",      "state",         "",
      "\\\"pid\\\":1", "\\\\",      "},\\\"pid\\\":2,{", "\\npid", "p\\u0169d", "\\ud834\\udd1e"};
  text += '"' + std::string(kStrings[input.Take<std::uint8_t>() % std::size(kStrings)]) + '"';
}

void AddValue(Input& input, std::string& text, int depth);

// The members of an object or the elements of an array.
void AddMany(Input& input, std::string& text, bool object, int depth) {
  text += object ? '{' : '[';
  const int count = input.Take<std::uint8_t>() % 4;
  for (int i = 0; i < count; ++i) {
    text += i > 0 ? "," : "";
    AddSpace(input, text);
    if (object) {
      AddString(input, text);
      AddSpace(input, text);
      text += ':';
      AddSpace(input, text);
    }
    AddValue(input, text, depth + 1);
    AddSpace(input, text);
  }
  text += object ? '}' : ']';
}

void AddValue(Input& input, std::string& text, int depth) {
  constexpr int kMostDeep = 6;
  constexpr const char* kWords[] = {"null", "true", "-1", "1.0", "1e3", "-0", "4194304", "4194305"};
  switch (const auto which = input.Take<std::uint8_t>() % 8U) {
    case 0:
    case 1:
    case 2:
      if (depth < kMostDeep) {
        AddMany(input, text, which != 2, depth);
        return;
      }
      [[fallthrough]];
    case 3:
      AddString(input, text);
      return;
    case 4:
      text += kWords[input.Take<std::uint8_t>() % std::size(kWords)];
      return;
    default:
      text += std::to_string(input.Take<std::uint32_t>() >> input.Take<std::uint8_t>() % 32U);
  }
}

std::optional<std::uint32_t> InPieces(Input& input, const std::string& text) {
  cgpu::shim::RuntimeState state;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = 1U + input.Take<std::uint8_t>() % 8U;
    state.Read(std::string_view(text).substr(at, size));
    at += size;
  }
  return state.process();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::string text;
  const bool build = input.Take<char>() == 'b';
  if (build) {
    AddMany(input, text, true, 0);
  } else {
    text = input.TakeRest();
  }
  const auto process = cgpu::shim::ProcessOf(text);
  Require(InPieces(input, text) == process, "pieces make no difference");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Require(!build || !json.is_discarded(), "what is built is well-formed");
  if (!json.is_discarded() && !text.starts_with("\xef\xbb\xbf")) {
    Require(process == ByParser(json), "it is what a parser finds");
  }
  return 0;
}
