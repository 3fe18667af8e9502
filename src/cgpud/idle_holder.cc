#include "cgpud/idle_holder.h"

#include <utility>

#include "calibration/slice_orders.h"
#include "rmclient/channels.h"

namespace cgpu {

Result<IdleHolder> IdleHolder::Make(const Node& node, const Gpu& gpu, governor::Trigger trigger,
                                    std::uint32_t slice_us) {
  CGPU_ASSIGN_OR_RETURN(auto session, rmclient::OpenSession(PathsOf(node), gpu.minor));
  auto owned = std::make_unique<rmclient::Session>(std::move(session));
  CGPU_ASSIGN_OR_RETURN(auto group, rmclient::IdleGroup::Make(owned->client, owned->gpu));
  IdleHolder holder(std::move(owned), std::move(group), trigger);
  CGPU_TRY(
      rmclient::Checked(rmclient::ScheduleGroup(holder.session_->client, holder.group_.group()),
                        "scheduling an idle channel group on GPU " + holder.session_->gpu.bdf));
  CGPU_TRY(holder.Set(slice_us));
  return holder;
}

IdleHolder::~IdleHolder() {
  if (session_ != nullptr) {  // not moved from
    group_.Release();
  }
}

Result<> IdleHolder::Set(std::uint32_t slice_us) {
  const std::string on = " on GPU " + session_->gpu.bdf;
  if (const auto fault = group_.Fault(); fault != 0) {
    return Error{Code::kUnavailable,
                 0,
                 "the idle channel group" + on + " ended with error " + std::to_string(fault),
                 {}};
  }
  if (slice_us == 0) {
    group_.Release();
    return {};
  }
  if (slice_us != slice_us_) {
    rmclient::Client& client = session_->client;
    CGPU_TRY(rmclient::Checked(SetSlice(client, group_.group(), slice_us),
                               "setting the time slice of the idle channel group" + on));
    slice_us_ = slice_us;
    CGPU_TRY(rmclient::Checked(Pull(client, trigger_, group_.group(), group_.channel()),
                               "letting a time slice take effect" + on));
  }
  group_.Hold();
  return {};
}

}  // namespace cgpu
