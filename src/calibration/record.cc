#include "calibration/record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "json/json.h"

namespace cgpu {
namespace {

using governor::Effect;

struct EffectText {
  Effect effect;
  std::string_view name;
  std::string_view text;
};
constexpr std::array<EffectText, 6> kEffects{
    {{Effect::kUnknown, "unknown", "nobody has asked"},
     {Effect::kAtOnce, "at-once", "at once"},
     {Effect::kSchedule, "schedule", "when the group is scheduled again"},
     {Effect::kPreempt, "preempt", "when the group is preempted"},
     {Effect::kRestart, "restart", "when the runlist is restarted"},
     {Effect::kNone, "none", "not at all"}}};

const EffectText& TextOf(Effect effect) {
  return *std::ranges::find(kEffects, effect, &EffectText::effect);
}

Effect EffectOf(const nlohmann::ordered_json& card, const char* name) {
  const auto found = std::ranges::find(kEffects, TextAt(card, name), &EffectText::name);
  return found == kEffects.end() ? Effect::kUnknown : found->effect;
}

bool BoolAt(const nlohmann::ordered_json& object, const char* name) {
  const auto& value = At(object, name);
  return value.is_boolean() && value.get<bool>();
}

std::string PathOf(const std::string& folder, const std::string& uuid) {
  return folder + "/" + uuid + ".json";
}

}  // namespace

std::string_view NameOf(Effect effect) {
  return TextOf(effect).name;
}

std::string_view Describe(Effect effect) {
  return TextOf(effect).text;
}

std::string EncodeCard(const CardRecord& record) {
  const governor::Card& card = record.calibration.card;
  auto figures = nlohmann::ordered_json::object();
  for (const auto& [name, value] : record.calibration.figures) {
    figures[name] = value;
  }
  const nlohmann::ordered_json json{{"uuid", record.uuid},
                                    {"model", record.model},
                                    {"driver", record.driver},
                                    {"when", record.when},
                                    {"slices", NameOf(card.slices)},
                                    {"slices_at_start", card.slices_at_start},
                                    {"off", NameOf(card.off)},
                                    {"levels", card.levels},
                                    {"switches", card.switches},
                                    {"holds", card.holds},
                                    {"copy_switch_us", card.copy_switch_us},
                                    {"figures", figures}};
  return json.dump(2) + "\n";
}

Result<CardRecord> DecodeCard(std::string_view text) {
  const auto json = ParseOrderedJson(text);
  CardRecord record{TextAt(json, "uuid"),
                    TextAt(json, "model"),
                    TextAt(json, "driver"),
                    TextAt(json, "when"),
                    {}};
  if (record.uuid.empty() || record.driver.empty()) {
    return Error{Code::kInvalid, 0, "this is no record of a GPU", {}};
  }
  governor::Card& card = record.calibration.card;
  card.slices = EffectOf(json, "slices");
  card.slices_at_start = BoolAt(json, "slices_at_start");
  card.off = EffectOf(json, "off");
  card.levels = BoolAt(json, "levels");
  card.switches = BoolAt(json, "switches");
  if (!At(json, "holds").is_boolean()) {
    return Error{Code::kInvalid, 0, "this is a record of an earlier cgpu", {}};
  }
  card.holds = BoolAt(json, "holds");
  if (const auto& us = At(json, "copy_switch_us"); us.is_number_unsigned()) {
    card.copy_switch_us = us.get<std::uint32_t>();
  }
  const auto& figures = At(json, "figures");
  if (figures.is_object()) {
    for (const auto& [name, value] : figures.items()) {
      if (value.is_number()) {
        record.calibration.figures.emplace_back(name, value.get<double>());
      }
    }
  }
  return record;
}

Result<std::optional<CardRecord>> ReadCard(const std::string& folder, const std::string& uuid,
                                           const std::string& driver) {
  const auto text = ReadFile(PathOf(folder, uuid));
  if (!text.ok() && text.error().code == Code::kNotFound) {
    return std::optional<CardRecord>();
  }
  if (!text.ok()) {
    return text.error();
  }
  auto record = DecodeCard(*text);
  const bool holds = record.ok() && record->uuid == uuid && record->driver == driver;
  return holds ? std::optional(std::move(*record)) : std::nullopt;
}

Result<> WriteCard(const std::string& folder, const CardRecord& record) {
  CGPU_TRY(MakeDirectories(folder));
  return ReplaceFile(PathOf(folder, record.uuid), EncodeCard(record), 0644, true);
}

}  // namespace cgpu
