// A review of a pod, as anyone may send it to cgpu-scheduler's webhook, and a decision, as anyone
// may write it on a pod. For every input: there is an answer; a refusal says why; a pod that is
// changed needs no second change, passes the scheduler's own check and asks for something that can
// be.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kube/admission.h"
#include "kube/decision.h"
#include "kube/pod.h"
#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;
using Json = nlohmann::json;

namespace {

cgpu::kube::AdmissionRules Rules(bool hami_names) {
  cgpu::kube::AdmissionRules rules;
  rules.largest = 15;
  rules.pods.high_priority_classes = {"online"};
  rules.hami_names = hami_names;
  return rules;
}

std::string Decode(const std::string& base64) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const char c : base64.substr(0, base64.find('='))) {
    bits = bits << 6 | static_cast<unsigned>(kDigits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      text += static_cast<char>(bits >> count & 0xff);
    }
  }
  return text;
}

void CheckReview(const std::string& body, const cgpu::kube::AdmissionRules& rules) {
  const Json response = Json::parse(cgpu::kube::Review(body, rules)).at("response");
  if (!response.at("allowed").get<bool>()) {
    Require(response.at("status").at("message").get<std::string>().size() > 8, "it says why");
    return;
  }
  Json review = Json::parse(body);
  Json& object = review.at("request").at("object");
  if (response.contains("patch")) {
    object = object.patch(Json::parse(Decode(response.at("patch").get<std::string>())));
    const Json again = Json::parse(cgpu::kube::Review(review.dump(), rules)).at("response");
    Require(again.at("allowed").get<bool>() && !again.contains("patch"), "one change is enough");
  }
  const auto pod = cgpu::kube::ReadPod(object.dump());
  Require(pod.ok() && Check(*pod, rules.pods).ok(), "the scheduler takes what was admitted");
  const auto request = RequestOf(*pod);
  Require(!pod->asks() || request.whole || request.memory - 1 < rules.largest, "it fits on a GPU");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  CheckReview(text, Rules(false));
  CheckReview(text, Rules(true));
  if (const auto decision = cgpu::kube::PeekDecision(text); decision.ok()) {
    Require(!decision->gpus.empty() && !decision->containers.empty(), "a decision gives something");
  }
  return 0;
}
