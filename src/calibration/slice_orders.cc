#include "calibration/slice_orders.h"

#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rmclient/channels.h"

namespace cgpu {

rmclient::Outcome SetSlice(rmclient::Client& client, rm::NvHandle group, std::uint64_t us) {
  rm::NVA06C_CTRL_TIMESLICE_PARAMS params{us};
  return client.Control(group, rm::NVA06C_CTRL_CMD_SET_TIMESLICE, &params, sizeof(params));
}

rmclient::Outcome Pull(rmclient::Client& client, governor::Trigger trigger, rm::NvHandle group,
                       rm::NvHandle channel) {
  switch (trigger) {
    case governor::Trigger::kNone:
      break;
    case governor::Trigger::kRestart: {
      rm::NVA06F_CTRL_RESTART_RUNLIST_PARAMS params{};
      params.bForceRestart = 1;
      return client.Control(channel, rm::NVA06F_CTRL_CMD_RESTART_RUNLIST, &params, sizeof(params));
    }
    case governor::Trigger::kSchedule:
      return rmclient::ScheduleGroup(client, group);
    case governor::Trigger::kPreempt: {
      rm::NVA06C_CTRL_PREEMPT_PARAMS params{};
      params.bWait = 1;
      return client.Control(group, rm::NVA06C_CTRL_CMD_PREEMPT, &params, sizeof(params));
    }
  }
  return {};
}

}  // namespace cgpu
