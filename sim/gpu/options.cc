#include "sim/gpu/options.h"

#include <span>
#include <string>
#include <utility>

namespace cgpu::sim {
namespace {

template <class Effect>
using Named = std::pair<std::string_view, Effect>;

template <class Effect>
Result<Effect> Find(std::string_view text, std::span<const Named<Effect>> all) {
  std::string names;
  for (const auto& [name, effect] : all) {
    if (name == text) {
      return effect;
    }
    names.append(names.empty() ? "" : ", ").append(name);
  }
  return Error{Code::kInvalid, 0,
               "orders take effect " + names + ", not \"" + std::string(text) + "\"", ""};
}

}  // namespace

Result<engine::SliceEffect> ParseSliceEffect(std::string_view text) {
  using enum engine::SliceEffect;
  constexpr Named<engine::SliceEffect> kAll[] = {
      {"at-once", kAtOnce},           {"preempt", kPreempt}, {"own-schedule", kOwnSchedule},
      {"any-schedule", kAnySchedule}, {"restart", kRestart}, {"never", kNotAtAll}};
  return Find<engine::SliceEffect>(text, kAll);
}

Result<engine::DisableEffect> ParseDisableEffect(std::string_view text) {
  using enum engine::DisableEffect;
  constexpr Named<engine::DisableEffect> kAll[] = {
      {"at-once", kAtOnce}, {"restart", kRestart}, {"for-good", kForGood}};
  return Find<engine::DisableEffect>(text, kAll);
}

}  // namespace cgpu::sim
