#include "cgpud/idle_holder.h"

#include <utility>

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/channels.h"

namespace cgpu {

Result<IdleHolder> IdleHolder::Make(const Node& node, const Gpu& gpu, governor::Effect effect,
                                    std::uint32_t slice_us) {
  CGPU_ASSIGN_OR_RETURN(auto session, rmclient::OpenSession(PathsOf(node), gpu.minor));
  auto owned = std::make_unique<rmclient::Session>(std::move(session));
  CGPU_ASSIGN_OR_RETURN(auto group, rmclient::IdleGroup::Make(owned->client, owned->gpu));
  IdleHolder holder(std::move(owned), std::move(group), effect);
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

// Makes the time slice take effect that was set.
Result<> IdleHolder::Pull(const std::string& on) {
  rmclient::Client& client = session_->client;
  rmclient::Outcome done;
  switch (governor::TriggerOf(effect_)) {
    case governor::Trigger::kNone:
      return {};
    case governor::Trigger::kRestart: {
      rm::NVA06F_CTRL_RESTART_RUNLIST_PARAMS restart{};
      restart.bForceRestart = 1;
      done = client.Control(group_.channel(), rm::NVA06F_CTRL_CMD_RESTART_RUNLIST, &restart,
                            sizeof(restart));
      break;
    }
    case governor::Trigger::kSchedule:
      done = rmclient::ScheduleGroup(client, group_.group());
      break;
    case governor::Trigger::kPreempt: {
      rm::NVA06C_CTRL_PREEMPT_PARAMS preempt{};
      preempt.bWait = 1;
      done = client.Control(group_.group(), rm::NVA06C_CTRL_CMD_PREEMPT, &preempt, sizeof(preempt));
      break;
    }
  }
  return rmclient::Checked(done, "letting a time slice take effect" + on);
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
    rm::NVA06C_CTRL_TIMESLICE_PARAMS slice{slice_us};
    CGPU_TRY(rmclient::Checked(
        session_->client.Control(group_.group(), rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &slice,
                                 sizeof(slice)),
        "setting the time slice of the idle channel group" + on));
    slice_us_ = slice_us;
    CGPU_TRY(Pull(on));
  }
  group_.Hold();
  return {};
}

}  // namespace cgpu
