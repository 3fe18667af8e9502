#include "sim/node/uvm_json.h"

#include <nlohmann/json.hpp>

namespace cgpu::sim {
namespace {

using nlohmann::json;

const char* KindName(UvmRangeKind kind) {
  switch (kind) {
    case UvmRangeKind::kExternal:
      return "external";
    case UvmRangeKind::kChannel:
      return "channel";
    case UvmRangeKind::kDynamicParallelism:
      return "dynamic_parallelism";
    case UvmRangeKind::kSemaphorePool:
      return "semaphore_pool";
    case UvmRangeKind::kDeviceP2p:
      return "device_p2p";
  }
  return "";
}

json RangeJson(const UvmRangeAccounting& range) {
  json pieces = json::array();
  for (const UvmPieceAccounting& piece : range.pieces) {
    json entry = {{"base", piece.base},
                  {"length", piece.length},
                  {"gpu", piece.card},
                  {"page_size", piece.page_size},
                  {"sparse", piece.sparse}};
    if (!piece.sparse) {
      entry["memory_gpu"] = piece.memory_card;
      entry["memory_bytes"] = piece.memory_bytes;
    }
    pieces.push_back(std::move(entry));
  }
  return {{"kind", KindName(range.kind)},
          {"base", range.base},
          {"length", range.length},
          {"pieces", std::move(pieces)}};
}

void AddCard(const UvmCardAccounting& card, json& object) {
  object["managed_bytes"] = card.managed_bytes;
  object["managed_overcommit"] = card.managed_overcommit;
  object["page_table_bytes"] = card.table_bytes;
  object["system_page_table_bytes"] = card.system_table_bytes;
}

}  // namespace

std::string UvmFilesJson(const UvmAccounting& accounting) {
  json files = json::array();
  for (const UvmFileAccounting& file : accounting.files) {
    json cards = json::array();
    for (const auto& [index, card] : file.cards) {
      json entry = {{"index", index}};
      AddCard(card, entry);
      cards.push_back(std::move(entry));
    }
    json ranges = json::array();
    for (const UvmRangeAccounting& range : file.ranges) {
      ranges.push_back(RangeJson(range));
    }
    json managed = json::array();
    for (const UvmManagedAccounting& range : file.managed) {
      managed.push_back({{"base", range.base},
                         {"length", range.length},
                         {"pid", range.pid},
                         {"zombie", range.zombie}});
    }
    files.push_back({{"file", file.file},
                     {"pid", file.pid},
                     {"flags", file.flags},
                     {"registered_gpus", file.gpus},
                     {"vaspaces", file.vaspaces},
                     {"channels", file.channels},
                     {"range_groups", file.range_groups},
                     {"gpus", std::move(cards)},
                     {"managed", std::move(managed)},
                     {"ranges", std::move(ranges)}});
  }
  return files.dump();
}

std::string UvmRefusedJson(const UvmAccounting& accounting) {
  json refused = json::array();
  for (const UvmRefusedAccounting& entry : accounting.refused) {
    refused.push_back({{"file", entry.mapping.file},
                       {"pid", entry.mapping.owner.tgid},
                       {"base", entry.mapping.start},
                       {"length", entry.mapping.end - entry.mapping.start},
                       {"offset", entry.mapping.offset},
                       {"why", entry.why}});
  }
  return refused.dump();
}

std::string UvmCardJson(const UvmAccounting& accounting, int card) {
  json object;
  const auto found = accounting.cards.find(card);
  AddCard(found == accounting.cards.end() ? UvmCardAccounting{} : found->second, object);
  return object.dump();
}

}  // namespace cgpu::sim
