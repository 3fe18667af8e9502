#include "fleet/fleet.h"

#include <nlohmann/json.hpp>

namespace cgpu::fleet {

void Fleet::Take(Node& node, NodeAnswer answer, double now) {
  node.json = std::move(answer.json);
  answer.json.clear();
  const bool old = !node.last || now - node.asked > kOld;
  if (!old && answer.time == node.last->time) {
    return;  // these figures are known
  }
  node.figures.clear();
  if (!old) {
    node.figures = FiguresBetween(*node.last, answer);
    node.seconds = answer.time - node.last->time;
  }
  node.last = std::move(answer);
  node.asked = now;
}

void Fleet::Refresh(double now) {
  const MutexLock lock(mutex_);
  if (now >= asked_ && now < asked_ + kFresh) {
    return;
  }
  const auto exporters = pods_.Exporters();
  auto answers = ask_(exporters);
  std::map<std::string, Node> nodes;
  for (std::size_t i = 0; i < exporters.size(); ++i) {
    const std::string& name = exporters[i].node;
    Node& node = nodes[name];
    if (const auto before = nodes_.find(name); before != nodes_.end()) {
      node = std::move(before->second);
    }
    auto answer = answers[i].ok() ? ReadAnswer(*answers[i], name) : answers[i].error();
    if (answer.ok()) {
      Take(node, std::move(*answer), now);
    } else {
      node.json = SilentNode(name, answer.error().what);
      node.figures.clear();
    }
  }
  nodes_ = std::move(nodes);
  asked_ = now;
}

std::string Fleet::Overview(double now) {
  Refresh(now);
  std::string text = R"({"kind":"cluster","time":)" + nlohmann::json(now).dump() + R"(,"nodes":[)";
  const MutexLock lock(mutex_);
  const char* separator = "";
  for (const auto& [name, node] : nodes_) {
    text += separator + node.json;
    separator = ",";
  }
  return text + "]}";
}

std::optional<Fleet::Figures> Fleet::Find(const std::string& node, const PodName& pod) const {
  const MutexLock lock(mutex_);
  const auto from = nodes_.find(node);
  if (from == nodes_.end()) {
    return std::nullopt;
  }
  const auto figures = from->second.figures.find(pod);
  if (figures == from->second.figures.end()) {
    return std::nullopt;
  }
  return Figures{figures->second, from->second.seconds, from->second.asked};
}

}  // namespace cgpu::fleet
