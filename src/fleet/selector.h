// Reads label selectors of Kubernetes as text (Parse() in apimachinery/pkg/labels/selector.go):
// a=b,c!=d,e in (f,g),h notin (i),j,!k. Pure.
#ifndef CGPU_FLEET_SELECTOR_H_
#define CGPU_FLEET_SELECTOR_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu::fleet {

using Labels = std::map<std::string, std::string>;

class Selector {
 public:
  // An empty text selects all. kInvalid: it is no selector, or it compares numbers (> and <).
  [[nodiscard]] static Result<Selector> Parse(std::string_view text);

  [[nodiscard]] bool Selects(const Labels& labels) const;

 private:
  enum class Kind { kIn, kNotIn, kThere, kMissing };
  struct Requirement {
    std::string key;
    Kind kind = Kind::kThere;
    std::set<std::string> values;
  };
  [[nodiscard]] static Result<Requirement> ParseOne(std::string_view text);

  std::vector<Requirement> requirements_;
};

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_SELECTOR_H_
