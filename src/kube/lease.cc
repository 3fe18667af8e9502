#include "kube/lease.h"

#include <nlohmann/json.hpp>

#include "json/json.h"

namespace cgpu::kube {
namespace {

constexpr unsigned kMostSeconds = 3600;

}  // namespace

void LeaseView::Set(std::string_view json, Clock::time_point now) {
  const auto lease = ParseJson(json);
  const auto& spec = At(lease, "spec");
  const auto& seconds = At(spec, "leaseDurationSeconds");
  const std::string renewed = TextAt(spec, "renewTime");
  const MutexLock lock(mutex_);
  if (!TextAt(spec, "holderIdentity").starts_with(identity_) || !seconds.is_number_unsigned() ||
      seconds.get<unsigned>() > kMostSeconds) {
    renewed_.clear();
    until_ = {};
  } else if (renewed != renewed_) {
    renewed_ = renewed;
    until_ = now + std::chrono::seconds(seconds.get<unsigned>()) * 2 / 3;
  }
}

bool LeaseView::Held(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return now < until_;
}

}  // namespace cgpu::kube
