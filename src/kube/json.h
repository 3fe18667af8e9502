// Reads members of JSON objects that may be anything. Json: nlohmann's, which headers do not
// include.
#ifndef CGPU_KUBE_JSON_H_
#define CGPU_KUBE_JSON_H_

#include <string>

namespace cgpu::kube {

// Returns the member of an object; null if `object` has none of that name or is no object.
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

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_JSON_H_
