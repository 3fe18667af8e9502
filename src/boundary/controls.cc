// Decides RM_CONTROL.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "boundary/policy.h"
#include "boundary/quotas.h"
#include "rm/class_table.h"
#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Returns true if a command, by the class in its upper half, is one for objects of this class.
bool TakesControl(std::uint32_t cls, std::uint32_t command) {
  constexpr std::uint32_t kAnyChannel = 0xa06f;  // KEPLER_CHANNEL_GPFIFO_A, stands for all that
                                                 // followed
  switch (command >> 16U) {
    case rm::NV01_ROOT:
      return IsClientClass(cls);
    case rm::KEPLER_CHANNEL_GROUP_A:
      return cls == rm::KEPLER_CHANNEL_GROUP_A;
    case kAnyChannel:
      return rm::IsChannelClass(cls);
    default:
      return cls == command >> 16U;
  }
}

}  // namespace

// Decides a list of GPU ids that ends at the first invalid one. A list that means the whole host
// becomes the granted GPUs.
Decision Boundary::DecideGpuIdList(Call& call, Decision decision, const ControlRule& rule) {
  Bytes& params = call.nested[0].bytes;
  const auto id = [&](std::size_t i) {
    return Load<std::uint32_t>(params, rule.argument + i * sizeof(std::uint32_t));
  };
  constexpr std::size_t kSlots = rm::NV0000_CTRL_GPU_MAX_ATTACHED_GPUS;
  if (id(0) == rm::NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::uint32_t value =
          i < cards_.size() ? cards_[i].gpu_id : rm::NV0000_CTRL_GPU_INVALID_ID;
      Store(params, value, rule.argument + i * sizeof(std::uint32_t));
    }
    return decision;
  }
  for (std::size_t i = 0; i < kSlots && id(i) != rm::NV0000_CTRL_GPU_INVALID_ID; ++i) {
    if (!CardOfGpuId(id(i))) {
      return Answer(call, rm::NV_ERR_INVALID_ARGUMENT,
                    ControlName(call.command) + " of another card");
    }
  }
  return decision;
}

// Returns true if both GPUs whose relation is asked about are granted (ctrl0000system.h).
bool Boundary::OwnPeers(std::uint32_t command, const Bytes& params) const {
  const auto own = [&](std::size_t ids, std::size_t count_at, std::uint32_t room) {
    const std::uint32_t count = std::min(Load<std::uint32_t>(params, count_at), room);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!CardOfGpuId(Load<std::uint32_t>(params, ids + i * sizeof(std::uint32_t)))) {
        return false;
      }
    }
    return true;
  };
  if (command == rm::NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX) {
    // {grpACount, grpBCount, gpuIdGrpA[8], gpuIdGrpB[8], ...}
    constexpr std::uint32_t kRoom = 8;  // NV0000_CTRL_SYSTEM_MAX_P2P_GROUP_GPUS
    return own(8, 0, kRoom) && own(40, 4, kRoom);
  }
  // {gpuIds[32], gpuCount, ...}
  constexpr std::uint32_t kRoom = 32;  // NV0000_CTRL_SYSTEM_MAX_ATTACHED_GPUS
  return own(0, kRoom * sizeof(std::uint32_t), kRoom);
}

// Refuses by the command's name and a sentence, so that a reader of the log knows what to do. For a
// command that is in no table, the log has its size beside its number, for a report.
Decision Boundary::RefuseControl(Call& call, std::uint32_t status) {
  std::string what = ControlName(call.command);
  if (FindControlRule(call.command) == nullptr) {
    const auto size = Load<rm::NVOS54_PARAMETERS>(call.image).paramsSize;
    what += " (" + std::to_string(size) + " bytes)";
  }
  return Answer(call, status, what + ": " + std::string(WhyControl(call.command)));
}

Decision Boundary::DecideControl(Call& call, Decision decision) {
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  if ((head.flags & rm::NVOS54_FLAGS_FINN_SERIALIZED) != 0) {
    return Answer(call, rm::NV_ERR_LIB_RM_VERSION_MISMATCH,
                  ControlName(call.command) + " in another encoding");
  }
  const auto object = ledger_.Find(decision.client, call.object);
  const rm::ControlRoute route = rm::RouteOf(call.command, object ? object->cls : 0);
  if (route == rm::ControlRoute::kFirmwarePrivileged && object && object->card) {
    return RefuseControl(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  }
  const ControlRule* rule = FindControlRule(call.command);
  if (rule == nullptr || rule->effect == ControlEffect::kRefuse ||
      !rm::ControlKnown(abi_, call.command)) {
    return RefuseControl(call, rm::NV_ERR_NOT_SUPPORTED);
  }
  const bool half_given = (head.params == 0) != (head.paramsSize == 0);
  // The kernel driver has no sizes for the firmware's commands, so it looks for the object first.
  const bool object_first = route != rm::ControlRoute::kTable && !half_given;
  if (object || !object_first) {
    if (half_given || !rm::ControlTakes(abi_, call.command, head.paramsSize)) {
      return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, ControlName(call.command) + " (size)");
    }
    if (call.copy_in != rm::NV_OK) {
      return Answer(call, call.copy_in, ControlName(call.command) + " (copy in)");
    }
  }
  if (!object) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND,
                  ControlName(call.command) + " on an unknown object");
  }
  decision.card = object->card;
  if (head.paramsSize == 0) {
    call.nested.emplace_back();  // so that there always is one; no pointer leads to it
  }
  // The driver looks commands up by the object's class; those that it hands on to the firmware it
  // does not look up at all. A command is answered here only where the driver would have looked it
  // up.
  const bool looked_up =
      route == rm::ControlRoute::kTable &&
      (rule->effect == ControlEffect::kPass || rule->effect == ControlEffect::kView ||
       rule->effect == ControlEffect::kOwnMemory || rule->effect == ControlEffect::kEntry);
  if (!looked_up && !TakesControl(object->cls, call.command)) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, ControlName(call.command) + " on another object");
  }
  return DecideEffect(call, std::move(decision), *rule);
}

// Checks that the object, client or GPU that the parameters name is the container's.
Decision Boundary::DecideNamed(Call& call, Decision decision, const ControlRule& rule) {
  const Bytes& params = call.nested[0].bytes;
  const auto argument = Load<std::uint32_t>(params, rule.argument);
  switch (rule.effect) {
    case ControlEffect::kGpuId:
      if (!CardOfGpuId(argument)) {
        return Answer(call, rule.no_such, ControlName(call.command) + " of another card");
      }
      return decision;
    case ControlEffect::kGpuIdList:
      return DecideGpuIdList(call, std::move(decision), rule);
    case ControlEffect::kClient:
      if (!ledger_.Owns(argument)) {
        return Answer(call, rm::NV_ERR_INVALID_CLIENT,
                      ControlName(call.command) + " of a foreign client");
      }
      return decision;
    case ControlEffect::kPeerCaps:
      if (!OwnPeers(call.command, params)) {
        return Answer(call, rm::NV_ERR_INVALID_ARGUMENT,
                      ControlName(call.command) + " of another card");
      }
      return decision;
    case ControlEffect::kSharePolicy:
      return CheckSharePolicy(call, std::move(decision), Load<rm::RS_SHARE_POLICY>(params));
    case ControlEffect::kOwnMemory:
      if (argument != 0 && !IsOwnHostMemory(decision.client, argument)) {
        return Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE,
                      ControlName(call.command) + " with other memory than the host's");
      }
      return decision;
    default:
      return RefuseControl(call, rm::NV_ERR_NOT_SUPPORTED);
  }
}

// Answers success without the driver; the parameters stay as they are in the call.
Decision Boundary::Succeed(Call& call) {
  SetStatus(call, rm::NV_OK);
  Decision decision;
  decision.action = Decision::Action::kAnswer;
  return decision;
}

Decision Boundary::DecideEffect(Call& call, Decision decision, const ControlRule& rule) {
  Bytes& params = call.nested[0].bytes;
  switch (rule.effect) {
    case ControlEffect::kEmpty:
      std::fill(params.begin(), params.end(), std::byte{0});
      [[fallthrough]];
    case ControlEffect::kSwallow:
      return Succeed(call);
    case ControlEffect::kGpuId:
    case ControlEffect::kGpuIdList:
    case ControlEffect::kClient:
    case ControlEffect::kPeerCaps:
    case ControlEffect::kSharePolicy:
    case ControlEffect::kOwnMemory:
      return DecideNamed(call, std::move(decision), rule);
    case ControlEffect::kExport:
    case ControlEffect::kImport:
    case ControlEffect::kExportMany:
    case ControlEffect::kImportMany:
    case ControlEffect::kExportInfo:
      return DecideTransfer(call, std::move(decision), rule);
    case ControlEffect::kLedger:
      return DecideProcesses(call, std::move(decision));
    case ControlEffect::kSmErrors:
      return DecideSmErrors(call, decision, rule);
    case ControlEffect::kBusInfo:
      return DecideBusInfo(call, std::move(decision));
    case ControlEffect::kTakeEncoder:
      return DecideTakeEncoder(call, std::move(decision));
    case ControlEffect::kGiveEncoder:
      return DecideGiveEncoder(call, std::move(decision));
    case ControlEffect::kDisableChannels:
      return DecideDisableChannels(call, std::move(decision));
    case ControlEffect::kReadings:
      return DecideReadings(call, std::move(decision));
    case ControlEffect::kPreemption:
      return DecidePreemption(call, std::move(decision));
    case ControlEffect::kEntry:
      if (!AddEntry(decision.client)) {
        return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES,
                      ControlName(call.command) + " over the bound");
      }
      return decision;
    case ControlEffect::kOwn:
    case ControlEffect::kPass:
    case ControlEffect::kView:
      return decision;
    case ControlEffect::kRefuse:
      break;
  }
  return RefuseControl(call, rm::NV_ERR_NOT_SUPPORTED);
}

bool Boundary::IsOwnHostMemory(ledger::ClientRef client, std::uint32_t handle) const {
  const auto memory = ledger_.Find(client, handle);
  return memory && memory->holders == 0;
}

// The driver would refuse the same parameters (subdevice_ctrl_gpu_kernel.c).
Decision Boundary::DecideProcesses(Call& call, Decision decision) {
  const auto first = Load<std::uint32_t>(call.nested[0].bytes);
  const bool valid = call.command == rm::NV2080_CTRL_CMD_GPU_GET_PIDS
                         ? first <= rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_VGPU_GUEST
                         : first - 1 < rm::NV2080_CTRL_GPU_PID_INFO_MAX_COUNT;
  if (!valid) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, ControlName(call.command) + " (parameters)");
  }
  SetStatus(call, rm::NV_OK);
  decision.action = Decision::Action::kAnswer;
  decision.of_processes = true;
  return decision;
}

// Answers no error. The firmware reads or clears the error registers of whatever context is on the
// GPU (ctrl83dedebug.h), so nothing of them is reported. The caller's values lie in the first two
// words and the last.
Decision Boundary::DecideSmErrors(Call& call, const Decision& decision, const ControlRule& rule) {
  Bytes& params = call.nested[0].bytes;
  const auto channel = Load<std::uint32_t>(params, rule.argument);
  if (channel != 0 && !ledger_.Find(decision.client, channel)) {
    return Answer(call, rule.no_such, ControlName(call.command) + " of an unknown channel");
  }
  constexpr std::ptrdiff_t kWord = sizeof(std::uint32_t);
  if (std::ssize(params) > 3 * kWord) {
    std::fill(params.begin() + 2 * kWord, params.end() - kWord, std::byte{0});
  }
  return Succeed(call);
}

// Refuses the indices that the driver resets when it reports them: by their names, and as a side
// effect (kernel_bif.c kbifControlGetPCIEInfo_IMPL()).
Decision Boundary::DecideBusInfo(Call& call, Decision decision) {
  const auto resets = [](std::uint32_t index) {
    return index == rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_ERRORS ||
           index == rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_ERRORS ||
           index == rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_AER ||
           (index >= rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_LINECODE_ERRORS_CLEAR &&
            index <= rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_FAILED_L0S_EXITS_CLEAR) ||
           (index >= rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS_CLEAR &&
            index <= rm::NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_UNSUPPORTED_REQUESTS_CLEAR);
  };
  // {count, list}, or {count, pointer to the list}. Entries behind the count are checked, too.
  const bool in_place = call.command == rm::NV2080_CTRL_CMD_BUS_GET_INFO_V2;
  const Bytes& list = call.nested[in_place || call.nested.size() < 2 ? 0 : 1].bytes;
  constexpr std::size_t kPair = 2 * sizeof(std::uint32_t);
  const std::size_t count =
      in_place ? Load<std::uint32_t>(list) : (call.nested.size() < 2 ? 0 : list.size() / kPair);
  for (std::size_t i = 0, at = in_place ? sizeof(std::uint32_t) : 0; i < count && at < list.size();
       ++i, at += kPair) {
    if (resets(Load<std::uint32_t>(list, at))) {
      return Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
                    ControlName(call.command) + ": an index that resets the card's error counters");
    }
  }
  return decision;
}

// Checks the owners, because the driver takes any pair of a client and a channel
// (kernel_fifo_ctrl.c subdeviceCtrlCmdFifoDisableChannels_IMPL()).
Decision Boundary::DecideDisableChannels(Call& call, Decision decision) {
  const auto params = Load<rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS>(call.nested[0].bytes);
  if (params.pRunlistPreemptEvent != 0) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
                  ControlName(call.command) + " with an event of the kernel's");
  }
  if (params.numChannels > std::size(params.hChannelList)) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, ControlName(call.command) + " (count)");
  }
  for (std::uint32_t i = 0; i < params.numChannels; ++i) {
    const auto client = ledger_.FindClient(params.hClientList[i]);
    if (!client || !ledger_.Find(client->ref, params.hChannelList[i])) {
      return Answer(call, rm::NV_ERR_INVALID_CLIENT,
                    ControlName(call.command) + " of a foreign channel");
    }
  }
  return decision;
}

// Passes on a mode that lets the context be taken off the GPU at a finer grain. A mode that waits
// longer, and the modes of graphics, are answered as hardware does: the parameters stay as they
// are.
Decision Boundary::DecidePreemption(Call& call, Decision decision) {
  auto params = Load<rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS>(call.nested[0].bytes);
  const bool finer =
      (params.flags & rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP) != 0 &&
      (params.cilpPreemptMode == rm::NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CTA ||
       params.cilpPreemptMode == rm::NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CILP);
  if (!finer) {
    return Succeed(call);
  }
  decision.given_flags = params.flags;
  params.flags = rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP;
  Store(call.nested[0].bytes, params);
  return decision;
}

// Checks the whole list, whatever length the caller gives: the firmware's own check is not public.
Decision Boundary::DecideReadings(Call& call, Decision decision) {
  constexpr auto kReading = std::to_array<std::uint32_t>(
      {0,  // not used
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_TARGETS_AVAILABLE_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_TARGET_TYPE_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_PROVIDER_TYPE_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSORS_AVAILABLE_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_PROVIDER_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_TARGET_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_READING_RANGE_OPCODE,
       rm::NV2080_CTRL_THERMAL_SYSTEM_GET_STATUS_SENSOR_READING_OPCODE});
  const auto params = Load<rm::NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS>(call.nested[0].bytes);
  for (const auto& one : params.instructionList) {
    if (std::find(kReading.begin(), kReading.end(), one.opcode) == kReading.end()) {
      return Answer(call, rm::NV_ERR_NOT_SUPPORTED,
                    ControlName(call.command) + " with an instruction that is not listed");
    }
  }
  return decision;
}

// Takes an encoder session, which belongs to its client and ends with it. (It is not on record that
// the firmware gives back a client's sessions when the client ends; sessions of killed programs do
// not pile up.)
Decision Boundary::DecideTakeEncoder(Call& call, Decision decision) {
  std::erase_if(encoders_, [this](const Encoders& one) {
    const auto client = ledger_.FindClient(one.client.handle);
    return one.taken == 0 || !client || client->ref != one.client;
  });
  const ledger::Card card = decision.card.value_or(0);
  std::uint32_t taken = 0;
  Encoders* mine = nullptr;
  for (Encoders& one : encoders_) {
    taken += one.card == card ? one.taken : 0;
    mine = one.card == card && one.client == decision.client ? &one : mine;
  }
  if (taken >= EncodersOf(ledger_.Limit(card), cards_[card].total_bytes)) {
    return Answer(call, rm::NV_ERR_MAX_SESSION_LIMIT_REACHED, "encoder sessions over the bound");
  }
  if (mine == nullptr) {
    mine = &encoders_.emplace_back(Encoders{decision.client, card, 0});
  }
  ++mine->taken;
  return decision;
}

Decision Boundary::DecideGiveEncoder(Call& call, Decision decision) {
  const bool took = std::any_of(encoders_.begin(), encoders_.end(), [&](const Encoders& one) {
    return one.card == decision.card && one.client == decision.client && one.taken != 0;
  });
  return took ? std::move(decision)
              : Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "an encoder session that was not taken");
}

// Settles a call that took a session and was refused, or one that gave a session back.
void Boundary::GiveBackEncoder(const Decision& decision) {
  for (Encoders& one : encoders_) {
    if (one.card == decision.card && one.client == decision.client && one.taken != 0) {
      --one.taken;
    }
  }
}

}  // namespace cgpu::boundary
