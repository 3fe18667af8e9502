#include "kube/gpus.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "json/json.h"
#include "kube/admitted.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

}  // namespace

std::string EncodeGpus(const std::vector<NodeGpu>& gpus) {
  Json list = Json::array();
  for (const NodeGpu& gpu : gpus) {
    list.push_back({{"uuid", gpu.uuid},
                    {"mib", gpu.mib},
                    {"healthy", gpu.healthy},
                    {"exclusive", gpu.exclusive}});
  }
  return list.dump();
}

Result<std::vector<NodeGpu>> DecodeGpus(std::string_view text) {
  const Error wrong{
      Code::kInvalid, 0, std::string("the annotation ") + kGpus + " is no list of GPUs", {}};
  const Json list = ParseJson(text);
  if (!list.is_array()) {
    return wrong;
  }
  std::vector<NodeGpu> gpus;
  for (const Json& one : list) {
    const Json& mib = At(one, "mib");
    const Json& healthy = At(one, "healthy");
    NodeGpu gpu;
    gpu.uuid = TextAt(one, "uuid");
    if (gpu.uuid.empty() || !mib.is_number_unsigned() || !healthy.is_boolean()) {
      return wrong;
    }
    gpu.mib = mib.get<std::uint64_t>();
    gpu.healthy = healthy.get<bool>();
    gpu.exclusive = At(one, "exclusive") == true;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<std::string> MarkExclusive(std::string_view text, std::vector<NodeGpu>& gpus) {
  for (NodeGpu& gpu : gpus) {
    gpu.exclusive = false;
  }
  std::vector<std::string> unknown;
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) {
    std::size_t i = 0;
    while (i < gpus.size() && word != gpus[i].uuid && word != std::to_string(i)) {
      ++i;
    }
    if (i < gpus.size()) {
      gpus[i].exclusive = true;
    } else {
      unknown.push_back(word);
    }
  }
  return unknown;
}

Mode ModeOf(std::string_view label) {
  if (label == "cgpu") {
    return Mode::kCgpu;
  }
  if (label == "core_mem") {
    return Mode::kCoreMem;
  }
  return label == "share" ? Mode::kShare : Mode::kNone;
}

Placement PlacementOf(std::string_view label) {
  if (label == "spread") {
    return Placement::kSpread;
  }
  return label == "fragmentation" ? Placement::kFragmentation : Placement::kBinpack;
}

Result<NodeInfo> ReadNode(std::string_view json) {
  const Json node = ParseJson(json);
  const Json& metadata = At(node, "metadata");
  NodeInfo info;
  info.name = TextAt(metadata, "name");
  if (info.name.empty()) {
    return Error{Code::kInvalid, 0, "this is no node", {}};
  }
  const Json& labels = At(metadata, "labels");
  info.model = TextAt(labels, kGpuName);
  info.mode = ModeOf(TextAt(labels, kMode));
  info.placement = PlacementOf(TextAt(labels, kPlacement));
  const Json& annotations = At(metadata, "annotations");
  if (const std::string gpus = TextAt(annotations, kGpus); !gpus.empty()) {
    CGPU_ASSIGN_OR_RETURN(info.gpus, DecodeGpus(gpus));
  }
  info.admitted = AdmittedTexts(TextAt(annotations, kAdmitted));
  return info;
}

}  // namespace cgpu::kube
