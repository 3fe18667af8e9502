#include "json/json.h"

#include <nlohmann/json.hpp>

namespace cgpu {

nlohmann::json ParseJson(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

nlohmann::ordered_json ParseOrderedJson(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

bool NestsDeeper(std::string_view text, std::size_t most) {
  std::size_t depth = 0;
  bool inside_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside_string) {
      i += c == '\\' ? 1 : 0;
      inside_string = c != '"';
    } else if (c == '"') {
      inside_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > most) {
        return true;
      }
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

bool HasMoreValues(std::string_view text, std::size_t most) {
  std::size_t values = 0;
  bool inside_string = false;
  for (std::size_t i = 0; i < text.size() && values <= most; ++i) {
    const char c = text[i];
    if (inside_string) {
      i += c == '\\' ? 1 : 0;
      inside_string = c != '"';
    } else {
      inside_string = c == '"';
      values += c == '{' || c == '[' || c == ',' ? 1 : 0;
    }
  }
  return values > most;
}

}  // namespace cgpu
