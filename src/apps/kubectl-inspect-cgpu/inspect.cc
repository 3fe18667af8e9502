#include "apps/kubectl-inspect-cgpu/inspect.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/text_table.h"
#include "json/json.h"
#include "kube/decision.h"
#include "kube/gpus.h"
#include "kube/pod.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

struct PodUse {
  std::string name;
  std::string name_space;
  std::vector<std::uint32_t> gpus;  // GiB of each GPU of the node
  std::uint32_t pending = 0;        // GiB that the pod holds of no GPU that is known
};

struct NodeUse {
  NodeInfo info;
  std::string address;
  std::vector<PodUse> pods;

  [[nodiscard]] std::uint32_t Used(std::size_t gpu) const {
    std::uint32_t used = 0;
    for (const PodUse& pod : pods) {
      used += pod.gpus[gpu];
    }
    return used;
  }
  [[nodiscard]] std::uint32_t Pending() const {
    std::uint32_t pending = 0;
    for (const PodUse& pod : pods) {
      pending += pod.pending;
    }
    return pending;
  }
  // Returns the indexes of the GPUs that are given as wholes alone: "0,3".
  [[nodiscard]] std::string Exclusive() const {
    std::string indexes;
    for (std::size_t i = 0; i < info.gpus.size(); ++i) {
      if (info.gpus[i].exclusive) {
        indexes += (indexes.empty() ? "" : ",") + std::to_string(i);
      }
    }
    return indexes;
  }
};

struct Amount {
  std::uint32_t used = 0;
  std::uint32_t all = 0;
};

Amount SumOf(const NodeUse& node) {
  Amount sum{node.Pending(), 0};
  for (std::size_t i = 0; i < node.info.gpus.size(); ++i) {
    sum.used += node.Used(i);
    sum.all += node.info.gpus[i].units();
  }
  return sum;
}

std::string Percent(const Amount& amount) {
  return "(" + std::to_string(amount.all == 0 ? 0 : 100 * amount.used / amount.all) + "%)";
}

std::string OfAll(std::uint32_t used, std::uint32_t all) {
  return std::to_string(used) + "/" + std::to_string(all);
}

// Returns the address by which the nodes know each other.
std::string AddressOf(const Json& node) {
  for (const Json& one : At(At(node, "status"), "addresses")) {
    if (TextAt(one, "type") == "InternalIP") {
      return TextAt(one, "address");
    }
  }
  return "";
}

PodUse UseOf(const PodAsk& pod, const NodeInfo& node) {
  PodUse use{pod.name, pod.name_space, std::vector<std::uint32_t>(node.gpus.size(), 0), 0};
  const placement::Request request = RequestOf(pod);
  std::uint32_t left = request.memory * request.gpus;
  const auto decision = PeekDecision(pod.decision);
  for (const std::string& uuid : decision.ok() ? decision->gpus : std::vector<std::string>()) {
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      if (node.gpus[i].uuid == uuid) {
        use.gpus[i] += request.whole ? node.gpus[i].units() : request.memory;
        left -= std::min(left, request.memory);
      }
    }
  }
  use.pending = left;
  return use;
}

// Reads the lists. Throws what the library throws where they are no lists.
std::vector<NodeUse> Read(std::string_view nodes, std::string_view pods) {
  std::map<std::string, std::vector<PodAsk>> by_node;
  const Json pod_list = ParseOrderedJson(pods);
  for (const Json& item : pod_list.at("items")) {
    auto pod = ReadPod(item.dump());
    if (pod.ok() && pod->asks() && !pod->ended && !pod->node.empty()) {
      by_node[pod->node].push_back(*std::move(pod));
    }
  }
  std::vector<NodeUse> uses;
  const Json node_list = ParseOrderedJson(nodes);
  for (const Json& item : node_list.at("items")) {
    auto info = ReadNode(item.dump());
    if (!info.ok() || info->gpus.empty()) {
      continue;
    }
    NodeUse use{*std::move(info), AddressOf(item), {}};
    for (const PodAsk& pod : by_node[use.info.name]) {
      use.pods.push_back(UseOf(pod, use.info));
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

std::string Align(std::vector<Row> rows) {
  return cli::TextTable{std::move(rows), 0, {}}.Text(0);
}

constexpr char kLine[] =
    "------------------------------------------------------------------------------\n";

Amount SumOf(const std::vector<NodeUse>& nodes) {
  Amount sum;
  for (const NodeUse& node : nodes) {
    const Amount one = SumOf(node);
    sum.used += one.used;
    sum.all += one.all;
  }
  return sum;
}

std::string NodesTable(const std::vector<NodeUse>& nodes) {
  std::size_t most = 0;
  bool pending = false;
  bool exclusive = false;
  for (const NodeUse& node : nodes) {
    most = std::max(most, node.info.gpus.size());
    pending = pending || node.Pending() != 0;
    exclusive = exclusive || !node.Exclusive().empty();
  }
  Row head{"NAME", "IPADDRESS"};
  for (std::size_t i = 0; i < most; ++i) {
    head.push_back("GPU" + std::to_string(i) + "(Allocated/Total)");
  }
  if (pending) {
    head.emplace_back("PENDING(Allocated)");
  }
  if (exclusive) {
    head.emplace_back("EXCLUSIVE");
  }
  head.emplace_back("GPU Memory(GiB)");
  std::vector<Row> rows{head};
  for (const NodeUse& node : nodes) {
    Row row{node.info.name, node.address};
    for (std::size_t i = 0; i < most; ++i) {
      row.push_back(i < node.info.gpus.size() ? OfAll(node.Used(i), node.info.gpus[i].units())
                                              : "0/0");
    }
    if (pending) {
      row.push_back(std::to_string(node.Pending()));
    }
    if (exclusive) {
      row.push_back(node.Exclusive().empty() ? "-" : node.Exclusive());
    }
    const Amount sum = SumOf(node);
    row.push_back(OfAll(sum.used, sum.all));
    rows.push_back(row);
  }
  const Amount sum = SumOf(nodes);
  return Align(rows) + kLine + "Allocated/Total GPU Memory In Cluster:\n" +
         OfAll(sum.used, sum.all) + " " + Percent(sum) + "\n";
}

std::string Details(const std::vector<NodeUse>& nodes) {
  std::string text;
  for (const NodeUse& node : nodes) {
    std::vector<Row> about{{"NAME:", node.info.name}, {"IPADDRESS:", node.address}};
    if (!node.Exclusive().empty()) {
      about.push_back({"EXCLUSIVE:", node.Exclusive()});
    }
    text += "\n" + Align(about) + "\n";
    Row head{"NAME", "NAMESPACE"};
    for (std::size_t i = 0; i < node.info.gpus.size(); ++i) {
      head.push_back("GPU" + std::to_string(i) + "(Allocated)");
    }
    if (node.Pending() != 0) {
      head.emplace_back("PENDING(Allocated)");
    }
    std::vector<Row> rows{head};
    for (const PodUse& pod : node.pods) {
      Row row{pod.name, pod.name_space};
      for (const std::uint32_t units : pod.gpus) {
        row.push_back(std::to_string(units));
      }
      if (node.Pending() != 0) {
        row.push_back(std::to_string(pod.pending));
      }
      rows.push_back(row);
    }
    const Amount sum = SumOf(node);
    text += Align(rows) +
            Align({{"Allocated :", std::to_string(sum.used) + " " + Percent(sum)},
                   {"Total :", std::to_string(sum.all)}}) +
            kLine;
  }
  const Amount sum = SumOf(nodes);
  return text + "\nAllocated/Total GPU Memory In Cluster:  " + OfAll(sum.used, sum.all) + " " +
         Percent(sum) + "\n";
}

std::string JsonText(const std::vector<NodeUse>& nodes) {
  Json list = Json::array();
  for (const NodeUse& node : nodes) {
    Json gpus = Json::array();
    for (std::size_t i = 0; i < node.info.gpus.size(); ++i) {
      const NodeGpu& gpu = node.info.gpus[i];
      gpus.push_back({{"uuid", gpu.uuid},
                      {"healthy", gpu.healthy},
                      {"exclusive", gpu.exclusive},
                      {"totalGiB", gpu.units()},
                      {"allocatedGiB", node.Used(i)}});
    }
    Json pods = Json::array();
    for (const PodUse& pod : node.pods) {
      pods.push_back({{"name", pod.name},
                      {"namespace", pod.name_space},
                      {"allocatedGiB", pod.gpus},
                      {"pendingGiB", pod.pending}});
    }
    list.push_back({{"name", node.info.name},
                    {"address", node.address},
                    {"model", node.info.model},
                    {"gpus", std::move(gpus)},
                    {"pods", std::move(pods)}});
  }
  return Json{{"nodes", std::move(list)}}.dump(2) + "\n";
}

}  // namespace

Result<std::string> Inspect(std::string_view nodes, std::string_view pods, InspectForm form) {
  std::vector<NodeUse> uses;
  try {
    uses = Read(nodes, pods);
  } catch (const Json::exception& exception) {
    return Error{
        Code::kInvalid, 0, std::string("kubectl's answer is no list: ") + exception.what(), {}};
  }
  switch (form) {
    case InspectForm::kNodes:
      return NodesTable(uses);
    case InspectForm::kDetails:
      return Details(uses);
    case InspectForm::kJson:
      return JsonText(uses);
  }
  return Error{};
}

}  // namespace cgpu::kube
