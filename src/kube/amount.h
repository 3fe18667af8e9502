// Reads amounts of Kubernetes' extended resources. Pure.
#ifndef CGPU_KUBE_AMOUNT_H_
#define CGPU_KUBE_AMOUNT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/json.h"

namespace cgpu::kube {

// Reads a quantity that is a whole number, from its JSON: 8, "8" or "8k" ("Quantity" in
// apimachinery/pkg/api/resource/quantity.go has more forms; the API server turns those into these).
// kInvalid, with `what` and the amount: it is none, or it is more than a million.
[[nodiscard]] Result<std::uint32_t> ReadAmount(std::string_view json, const std::string& what);

// Returns the amount of a resource in the limits of a container, or its requests; 0: none.
template <class Json>
Result<std::uint32_t> AmountOf(const Json& container, const char* resource) {
  const Json& resources = At(container, "resources");
  for (const char* kind : {"limits", "requests"}) {
    if (const Json& value = At(At(resources, kind), resource); !value.is_null()) {
      return ReadAmount(value.dump(),
                        std::string(resource) + " of container " + TextAt(container, "name"));
    }
  }
  return 0U;
}

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_AMOUNT_H_
