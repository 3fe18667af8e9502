// JSON by nlohmann's library. Its parser is compiled here, once for all: a file with a parser of
// its own takes a second longer to compile. Pure.
#ifndef CGPU_JSON_JSON_H_
#define CGPU_JSON_JSON_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cgpu {

// Returns the value of `text`; a discarded value where that is not JSON. The members of an ordered
// value keep the order of the text, those of the other are sorted.
[[nodiscard]] nlohmann::json ParseJson(std::string_view text);
[[nodiscard]] nlohmann::ordered_json ParseOrderedJson(std::string_view text);

// Returns whether objects and arrays lie deeper in each other than `most`, whatever else is wrong
// with the text. Ask it before you parse a text of others: what is done with its value recurses.
[[nodiscard]] bool NestsDeeper(std::string_view text, std::size_t most);
// Returns whether the text has more values than `most`, or so: a value takes many times the memory
// of its text. Ask it before you parse a large text of others.
[[nodiscard]] bool HasMoreValues(std::string_view text, std::size_t most);

// Returns the member of an object; null if `object` has none of that name or is no object. Json:
// one of the two kinds of value, whose header the caller includes.
template <class Json>
const Json& At(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? none : *found;
}

// Returns the text that is the member; "" if there is none.
template <class Json>
std::string TextAt(const Json& object, const char* name) {
  const Json& value = At(object, name);
  return value.is_string() ? value.template get<std::string>() : "";
}

}  // namespace cgpu

#endif  // CGPU_JSON_JSON_H_
