#include "kube/admission.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "json/json.h"
#include "kube/hami.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr char kDefaultScheduler[] = "default-scheduler";  // what the API server fills in
constexpr int kForbidden = 403;
// Anyone may call the webhook. A review of a pod nests 20 deep or so.
constexpr std::size_t kMostDepth = 100;
// Values of a review. A pod of 1,000 containers has 20,000 or so.
constexpr std::size_t kMostValues = 200'000;

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
  return {};
}

// Checks the pod. Returns it with what it lacks.
Result<Json> Judge(const Json& object, const AdmissionRules& rules) {
  Json changed = object;
  if (rules.hami_names) {
    CGPU_ASSIGN_OR_RETURN(const auto text, FromHamiNames(object.dump(), rules.largest));
    changed = ParseJson(text);
  }
  CGPU_ASSIGN_OR_RETURN(const auto pod, ReadPod(changed.dump()));
  if (!pod.decision.empty()) {
    return Error{Code::kPermission, 0,
                 std::string("the annotation ") + kDecision + " is cgpu-scheduler's to write",
                 "leave it out"};
  }
  CGPU_TRY(Check(pod, rules.pods));
  if (!pod.asks()) {
    return changed;
  }
  CGPU_TRY(CheckSize(pod, rules));
  Json& spec = changed["spec"];
  const std::string runtime_class = TextAt(spec, "runtimeClassName");
  if (!runtime_class.empty() && runtime_class != rules.runtime_class) {
    return Error{Code::kInvalid, 0,
                 "the pod asks for a part of a GPU and has the runtime class " + runtime_class,
                 "leave runtimeClassName out, or set it to " + rules.runtime_class};
  }
  spec["runtimeClassName"] = rules.runtime_class;
  const std::string scheduler = TextAt(spec, "schedulerName");
  if (scheduler.empty() || scheduler == kDefaultScheduler) {
    spec["schedulerName"] = rules.scheduler;
  }
  return changed;
}

// Does the same for any object: members of a pod may be of other types than a pod's.
Result<Json> JudgeAny(const Json& object, const AdmissionRules& rules) {
  try {
    return Judge(object, rules);
  } catch (const Json::exception& exception) {
    return Error{Code::kInvalid, 0, std::string("this is no pod: ") + exception.what(), {}};
  }
}

}  // namespace

std::string Review(std::string_view body, const AdmissionRules& rules) {
  const bool odd = NestsDeeper(body, kMostDepth) || HasMoreValues(body, kMostValues);
  const Json review = odd ? Json() : ParseJson(body);
  const Json& request = At(review, "request");
  const Json& object = At(request, "object");
  const auto judged = JudgeAny(object, rules);
  Json response{{"uid", TextAt(request, "uid")}, {"allowed", judged.ok()}};
  if (!judged.ok()) {
    const Error& error = judged.error();
    response["status"] = {
        {"code", kForbidden},
        {"message", "cgpu: " + error.what + (error.hint.empty() ? "" : "; " + error.hint)}};
  } else if (*judged != object) {
    response["patchType"] = "JSONPatch";
    response["patch"] = Base64(Json::diff(object, *judged).dump());
  }
  return Json{{"apiVersion", "admission.k8s.io/v1"},
              {"kind", "AdmissionReview"},
              {"response", std::move(response)}}
      .dump();
}

}  // namespace cgpu::kube
