#include "kube/extender.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "json/json.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr int kMaxExtenderScore = 10;  // MaxExtenderPriority in types.go
constexpr char kNotYet[] = "cgpu-scheduler does not know the cluster yet";

struct Question {
  PodAsk pod;
  std::vector<std::string> nodes;
};

Result<Question> ReadQuestion(std::string_view body) {
  const Json json = ParseJson(body);
  const Json& pod = At(json, "Pod");
  const Json& names = At(json, "NodeNames");
  if (pod.is_null() || !names.is_array()) {
    return Error{Code::kInvalid, 0, "this is no question of a scheduler with names of nodes",
                 "set nodeCacheCapable for this extender"};
  }
  Question question;
  CGPU_ASSIGN_OR_RETURN(question.pod, ReadPod(pod.dump()));
  for (const Json& name : names) {
    if (name.is_string()) {
      question.nodes.push_back(name.get<std::string>());
    }
  }
  return question;
}

std::string ErrorBody(const std::string& what) {
  return Json{{"Error", what}}.dump();
}

}  // namespace

std::string Extender::Filter(std::string_view body) {
  auto question = ReadQuestion(body);
  if (!question.ok()) {
    return ErrorBody(question.error().what);
  }
  if (const auto checked = Check(question->pod, rules_); !checked.ok()) {
    return ErrorBody(checked.error().what);
  }
  Json names = Json::array();
  Json failed = Json::object();
  const MutexLock lock(mutex_);
  if (!complete_) {
    return ErrorBody(kNotYet);
  }
  for (const std::string& node : question->nodes) {
    const std::string why = state_.WhyNot(question->pod, node);
    if (why.empty()) {
      names.push_back(node);
    } else {
      failed[node] = "cgpu: " + why;
    }
  }
  const bool refused = names.empty();
  const std::string uid = question->pod.uid;
  pending_[uid] = {std::move(question->pod), refused};
  return Json{{"NodeNames", std::move(names)}, {"FailedNodes", std::move(failed)}}.dump();
}

std::string Extender::Prioritize(std::string_view body) {
  const auto question = ReadQuestion(body);
  Json scores = Json::array();
  if (!question.ok()) {
    return scores.dump();
  }
  int best = 1;
  std::vector<int> of_nodes;
  {
    const MutexLock lock(mutex_);
    for (const std::string& node : question->nodes) {
      of_nodes.push_back(state_.Score(question->pod, node));
      best = std::max(best, of_nodes.back());
    }
  }
  // The best stand out however little they are better: there are few steps.
  for (std::size_t i = 0; i < of_nodes.size(); ++i) {
    const int score = of_nodes[i];
    scores.push_back(
        {{"Host", question->nodes[i]},
         {"Score", score == best ? kMaxExtenderScore : score * (kMaxExtenderScore - 1) / best}});
  }
  return scores.dump();
}

Result<Decision> Extender::Assume(const std::string& uid, const std::string& node,
                                  Clock::time_point now) {
  const MutexLock lock(mutex_);
  const auto pod = pending_.find(uid);
  if (pod == pending_.end()) {
    return Error{Code::kNotFound, 0, "cgpu-scheduler has not been asked about this pod",
                 "the scheduler tries again"};
  }
  return state_.Assume(pod->second.pod, node, now);
}

std::string Extender::BindPod(std::string_view body, Clock::time_point now) {
  const Json json = ParseJson(body);
  const std::string uid = TextAt(json, "PodUID");
  const std::string node = TextAt(json, "Node");
  const auto decision = Assume(uid, node, now);
  if (!decision.ok()) {
    return ErrorBody(decision.error().what);
  }
  // The annotations of a Binding become the pod's in the same write (assignPod() in Kubernetes'
  // pkg/registry/core/pod/storage): no one sees the pod bound without its decision.
  const Json binding{{"apiVersion", "v1"},
                     {"kind", "Binding"},
                     {"metadata",
                      {{"name", TextAt(json, "PodName")},
                       {"namespace", TextAt(json, "PodNamespace")},
                       {"uid", uid},
                       {"annotations", {{kDecision, EncodeDecision(*decision, key_)}}}}},
                     {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  const auto bound = bind_(TextAt(json, "PodNamespace"), TextAt(json, "PodName"), binding.dump());
  const MutexLock lock(mutex_);
  if (!bound.ok()) {
    // Where no answer came it may be bound: then the assumption stays until the watch tells.
    if (bound.error().code != Code::kUnavailable) {
      state_.Forget(uid);
      changed_.NotifyAll();
    }
    return ErrorBody(bound.error().what);
  }
  pending_.erase(uid);
  return Json{{"Error", ""}}.dump();
}

void Extender::SetNode(std::string_view json) {
  if (const auto node = ReadNode(json); node.ok()) {
    const MutexLock lock(mutex_);
    state_.SetNode(*node, key_);
    changed_.NotifyAll();
  }
}

void Extender::RemoveNode(const std::string& name) {
  const MutexLock lock(mutex_);
  state_.RemoveNode(name);
}

void Extender::SetPod(std::string_view json) {
  if (const auto pod = ReadPod(json); pod.ok()) {
    const MutexLock lock(mutex_);
    state_.SetPod(*pod, key_);
    changed_.NotifyAll();
  }
}

void Extender::RemovePod(const std::string& uid) {
  const MutexLock lock(mutex_);
  state_.RemovePod(uid);
  pending_.erase(uid);
  changed_.NotifyAll();
}

void Extender::SetComplete() {
  const MutexLock lock(mutex_);
  complete_ = true;
}

void Extender::Reset() {
  const MutexLock lock(mutex_);
  state_ = {};
  complete_ = false;
}

std::uint32_t Extender::LargestGpu() {
  const MutexLock lock(mutex_);
  return state_.LargestGpu();
}

void Extender::Expire(Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (!state_.Expire(now).empty()) {
    changed_.NotifyAll();
  }
}

std::vector<PodName> Extender::WaitForRoom() {
  const MutexLock lock(mutex_);
  std::vector<PodName> names;
  while (!ends_ && names.empty()) {
    std::vector<const PodAsk*> waiting;
    for (const auto& [uid, pending] : pending_) {
      if (pending.refused) {
        waiting.push_back(&pending.pod);
      }
    }
    for (const PodAsk* pod : state_.TakeThoseWithRoom(waiting)) {
      names.push_back({pod->name_space, pod->name});
      pending_[pod->uid].refused = false;
    }
    if (names.empty()) {
      changed_.Wait(mutex_);
    }
  }
  return names;
}

void Extender::End() {
  const MutexLock lock(mutex_);
  ends_ = true;
  changed_.NotifyAll();
}

}  // namespace cgpu::kube
