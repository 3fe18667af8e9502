#include "kube/admission.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kube/base64.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr char kDefaultScheduler[] = "default-scheduler";  // what the API server fills in
constexpr int kForbidden = 403;

Result<> CheckSize(const PodAsk& pod, const AdmissionRules& rules) {
  const placement::Request request = RequestOf(pod);
  if (rules.largest != 0 && request.memory > rules.largest) {
    return Error{Code::kInvalid, 0,
                 "the pod asks for " + std::to_string(request.memory) +
                     " GiB of each GPU; the largest GPU of the cluster has " +
                     std::to_string(rules.largest),
                 "ask for at most " + std::to_string(rules.largest * pod.gpus) +
                     ", or set the label " + kCount + " to share it over more GPUs"};
  }
  if (request.compute > placement::kWholeCompute) {
    return Error{Code::kInvalid, 0,
                 "the pod's containers ask for " + std::to_string(request.compute) +
                     " % of each GPU together",
                 "ask for at most " + std::to_string(placement::kWholeCompute * pod.gpus)};
  }
  return {};
}

// Checks the pod, and adds to `patch` what it lacks.
Result<> Judge(const Json& object, const AdmissionRules& rules, Json& patch) {
  CGPU_ASSIGN_OR_RETURN(const auto pod, ReadPod(object.dump()));
  if (!pod.decision.empty()) {
    return Error{Code::kPermission, 0,
                 std::string("the annotation ") + kDecision + " is cgpu-scheduler's to write",
                 "leave it out"};
  }
  if (!pod.asks()) {
    return {};
  }
  CGPU_TRY(Check(pod));
  CGPU_TRY(CheckSize(pod, rules));
  const Json& spec = At(object, "spec");
  const std::string runtime_class = TextAt(spec, "runtimeClassName");
  if (runtime_class.empty()) {
    patch.push_back(
        {{"op", "add"}, {"path", "/spec/runtimeClassName"}, {"value", rules.runtime_class}});
  } else if (runtime_class != rules.runtime_class) {
    return Error{Code::kInvalid, 0,
                 "the pod asks for a part of a GPU and has the runtime class " + runtime_class,
                 "leave runtimeClassName out, or set it to " + rules.runtime_class};
  }
  const std::string scheduler = TextAt(spec, "schedulerName");
  if (scheduler.empty() || scheduler == kDefaultScheduler) {
    patch.push_back({{"op", "add"}, {"path", "/spec/schedulerName"}, {"value", rules.scheduler}});
  }
  return {};
}

}  // namespace

std::string Review(std::string_view body, const AdmissionRules& rules) {
  const Json review = Json::parse(body, nullptr, false);
  const Json& request = At(review, "request");
  Json patch = Json::array();
  const auto judged = Judge(At(request, "object"), rules, patch);
  Json response{{"uid", TextAt(request, "uid")}, {"allowed", judged.ok()}};
  if (!judged.ok()) {
    const Error& error = judged.error();
    response["status"] = {
        {"code", kForbidden},
        {"message", "cgpu: " + error.what + (error.hint.empty() ? "" : "; " + error.hint)}};
  } else if (!patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = Base64(patch.dump());
  }
  return Json{{"apiVersion", "admission.k8s.io/v1"},
              {"kind", "AdmissionReview"},
              {"response", std::move(response)}}
      .dump();
}

}  // namespace cgpu::kube
