#include "bench/placement_trace.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace cgpu::bench {
namespace {

constexpr std::uint32_t kThousand = 1000;

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    parts.push_back(part);
  }
  return parts;
}

Result<std::vector<std::vector<std::string>>> ReadRows(const char* variable, std::size_t columns) {
  const char* path = std::getenv(variable);
  if (path == nullptr) {
    return Error{
        Code::kInvalid, 0, std::string(variable) + " names no file",
        "the trace is cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata: set NODES "
        "and PODS to its openb_node_list_gpu_node.csv and openb_pod_list_default.csv"};
  }
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    rows.push_back(Split(line, ','));
    if (rows.back().size() < columns) {
      return Error{Code::kInvalid, 0, std::string(path) + ": not a row: " + line, ""};
    }
  }
  if (rows.empty()) {
    return Error{Code::kNotFound, 0, std::string(path) + " has no rows", ""};
  }
  return rows;
}

std::uint32_t Number(const std::string& text) {
  return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
}

}  // namespace

Result<Trace> ReadTrace() {
  CGPU_ASSIGN_OR_RETURN(const auto nodes, ReadRows("NODES", 5));
  CGPU_ASSIGN_OR_RETURN(const auto pods, ReadRows("PODS", 6));
  Trace trace;
  for (const auto& row : nodes) {
    placement::Gpu gpu;
    gpu.memory = kThousand;
    trace.nodes.push_back({row[0], row[4], Number(row[1]), Number(row[2]),
                           std::vector<placement::Gpu>(Number(row[3]), gpu)});
  }
  for (const auto& row : pods) {
    placement::Request request;
    request.cpu = Number(row[1]);
    request.host_memory = Number(row[2]);
    request.gpus = Number(row[3]);
    request.memory = Number(row[4]);
    request.whole = request.memory == kThousand;
    request.models = Split(row[5], '|');
    trace.pods.push_back(request);
  }
  return trace;
}

std::uint64_t Demand(const placement::Request& request) {
  return std::uint64_t{request.gpus} * request.memory;
}

std::uint64_t Capacity(const std::vector<placement::Node>& nodes) {
  std::uint64_t gpus = 0;
  for (const placement::Node& node : nodes) {
    gpus += node.gpus.size();
  }
  return gpus * kThousand;
}

std::vector<placement::Request> Inflate(const Trace& trace, unsigned percent,
                                        std::mt19937_64& random) {
  std::vector<placement::Request> pods = trace.pods;
  std::uint64_t demand = 0;
  for (const placement::Request& pod : pods) {
    demand += Demand(pod);
  }
  const std::uint64_t wanted = Capacity(trace.nodes) * percent / 100;
  std::uniform_int_distribution<std::size_t> any(0, trace.pods.size() - 1);
  while (demand < wanted) {
    pods.push_back(trace.pods[any(random)]);
    demand += Demand(pods.back());
  }
  std::shuffle(pods.begin(), pods.end(), random);
  return pods;
}

}  // namespace cgpu::bench
