// Controls about the processes that use a GPU. The ledger's processes are the answer.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "boundary/boundary.h"
#include "boundary/calls/control_handler.h"
#include "boundary/names.h"
#include "rm/class_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

constexpr std::uint32_t kNoInstance = 0xffffffff;  // PARTITIONID_INVALID: of a divided GPU

// Returns the processes that use the class; NV20_SUBDEVICE_0: those that use the GPU.
std::vector<std::uint32_t> PidsOnGpu(const Container& container, ledger::Gpu gpu, std::uint32_t cls,
                                     const std::map<ledger::ProcessKey, std::uint32_t>& pids) {
  std::set<std::uint32_t> found;
  for (const ledger::ClientInfo& client : container.ledger.Clients()) {
    const auto pid = pids.find(client.owner);
    if (pid == pids.end()) {
      continue;
    }
    for (const ledger::ObjectInfo& object : container.ledger.Objects(client.ref)) {
      const auto parent = container.ledger.Find(client.ref, object.parent);
      // subdevice_ctrl_gpu_kernel.c: reports users of subdevices, and of objects below channels.
      if (object.gpu == gpu && object.cls == cls &&
          (cls == rm::NV20_SUBDEVICE_0 || (parent && rm::IsChannelClass(parent->cls)))) {
        found.insert(pid->second);
        break;
      }
    }
  }
  return {found.begin(), found.end()};
}

void ListPids(const Container& container, Bytes& bytes, ledger::Gpu gpu,
              const std::map<ledger::ProcessKey, std::uint32_t>& pids) {
  auto params = Load<rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS>(bytes);
  const auto list = params.idType == rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS
                        ? PidsOnGpu(container, gpu, params.id, pids)
                        : std::vector<std::uint32_t>();
  params.pidTblCount = static_cast<std::uint32_t>(std::min(list.size(), std::size(params.pidTbl)));
  std::ranges::fill(params.pidTbl, 0U);
  std::copy_n(list.begin(), params.pidTblCount, std::begin(params.pidTbl));
  Store(bytes, params);
}

void TellPidInfo(const Container& container, Bytes& bytes, ledger::Gpu gpu,
                 const std::map<ledger::ProcessKey, std::uint32_t>& pids) {
  auto params = Load<rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS>(bytes);
  const auto usage = container.ledger.UsageByProcess(gpu);
  const std::size_t count =
      std::min<std::size_t>(params.pidInfoListCount, std::size(params.pidInfoList));
  for (std::size_t i = 0; i < count; ++i) {
    auto& entry = params.pidInfoList[i];
    entry.smcSubscription = {kNoInstance, kNoInstance};
    if (entry.index != rm::NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE) {
      entry.result = rm::NV_ERR_INVALID_ARGUMENT;
      continue;
    }
    entry.result = entry.pid == 0 ? rm::NV_ERR_INVALID_ARGUMENT : rm::NV_OK;
    auto& memory = entry.data.vidMemUsage;
    memory = {};
    for (const auto& [process, pid] : pids) {
      if (const auto used = usage.find(process); pid == entry.pid && used != usage.end()) {
        memory.memPrivate +=
            used->second.private_bytes + used->second.context_bytes + used->second.extra_bytes;
        memory.memSharedOwned += used->second.shared_owned_bytes;
        memory.memSharedDuped += used->second.shared_duped_bytes;
      }
    }
  }
  Store(bytes, params);
}

}  // namespace

// Leaves the answer to AnswerOfProcesses(). The driver would refuse the same parameters
// (subdevice_ctrl_gpu_kernel.c).
Decision DecideProcesses(Container& container, Call& call, Decision decision,
                         const ControlRule& /*rule*/) {
  const auto first = Load<std::uint32_t>(call.nested[0].bytes);
  const bool valid = call.command == rm::NV2080_CTRL_CMD_GPU_GET_PIDS
                         ? first <= rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_VGPU_GUEST
                         : first - 1 < rm::NV2080_CTRL_GPU_PID_INFO_MAX_COUNT;
  if (!valid) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            ControlName(call.command) + " (parameters)");
  }
  SetStatus(call, rm::NV_OK);
  decision.action = Decision::Action::kAnswer;
  decision.effects.lists_processes = true;
  decision.effects.shows_memory = call.command == rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO;
  return decision;
}

void Boundary::AnswerOfProcesses(Call& call, const Decision& decision,
                                 const std::map<ledger::ProcessKey, std::uint32_t>& pids) const {
  Bytes& params = call.nested[0].bytes;
  const ledger::Gpu gpu = decision.gpu.value_or(0);
  if (call.command == rm::NV2080_CTRL_CMD_GPU_GET_PIDS) {
    ListPids(container_, params, gpu, pids);
  } else {
    TellPidInfo(container_, params, gpu, pids);
  }
}

}  // namespace cgpu::boundary
