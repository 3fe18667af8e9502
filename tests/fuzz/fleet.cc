// Two answers of a node's exporter, as an attacker with the node may write them, and a label
// selector, as a user may: three lines. For every input: what is taken of an answer is one object
// with the name that the node has in Kubernetes; a pod's figures are parts; a selector is none, or
// its opposite selects other labels.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "fleet/answer.h"
#include "fleet/selector.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;
using Json = nlohmann::json;

namespace {

bool IsPart(double value) {
  return value >= 0 && value <= 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes), size));
  std::string first;
  std::string second;
  std::string selector;
  std::getline(std::getline(std::getline(lines, first), second), selector);
  const auto before = cgpu::fleet::ReadAnswer(first, "node");
  const auto now = cgpu::fleet::ReadAnswer(second, "node");
  for (const auto* answer : {&before, &now}) {
    Require(!answer->ok() || Json::parse((*answer)->json).at("name") == "node", "it has its name");
  }
  if (before.ok() && now.ok()) {
    for (const auto& [pod, figures] : FiguresBetween(*before, *now)) {
      Require(!pod.second.empty() && IsPart(figures.waiting) && IsPart(figures.memory_used),
              "figures are parts");
      Require(figures.busy >= 0 && figures.share_used >= 0, "nothing is negative");
    }
  }
  const cgpu::fleet::Labels labels{{"app", "x"}, {"tier", ""}};
  const auto one = cgpu::fleet::Selector::Parse(selector);
  const auto opposite = cgpu::fleet::Selector::Parse("!" + selector);
  if (one.ok() && opposite.ok() && selector.find(',') == std::string::npos && selector[0] != ' ' &&
      selector[0] != '!') {
    Require(one->Selects(labels) != opposite->Selects(labels), "its opposite selects others");
  }
  return 0;
}
