#include "host/gpu_settings.h"

#include "protocol/lines.h"

namespace cgpu {
namespace {

void VisitPolicy(LineCodec& io, const char* key, std::optional<governor::Policy>& policy) {
  io.Line(key, policy.has_value(), [&] {
    std::string name(NameOf(policy.value_or(governor::Policy::kPreempt)));
    io.Word(name);
    const auto named = governor::ParsePolicy(name);
    io.Check(named.ok());
    policy = named.ok() ? std::optional(*named) : std::nullopt;
  });
}

void Fields(LineCodec& io, GpuSettings& settings) {
  io.Maybe("max_inst", settings.max_inst, 1, kMostMaxInst);
  VisitPolicy(io, "policy", settings.policy);
  VisitPolicy(io, "chosen", settings.chosen);
  io.Maybe("prio_ratio", settings.prio_ratio, governor::kLeastPrioRatio, governor::kMostPrioRatio);
}

constexpr LineFormat<GpuSettings> kSettingsFormat{
    .what = "the file of a GPU's settings", .fields = Fields, .unknown = UnknownLines::kSkipped};

}  // namespace

std::string EncodeGpuSettings(const GpuSettings& settings) {
  return kSettingsFormat.Encode(settings);
}

Result<GpuSettings> DecodeGpuSettings(std::string_view text) {
  return kSettingsFormat.Decode(text);
}

}  // namespace cgpu
