// What becomes of RM_CONTROL.
#include <algorithm>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "boundary/policy.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Is a command, by the class in its upper half, one for objects of this class?
bool TakesControl(std::uint32_t cls, std::uint32_t command) {
  constexpr std::uint32_t kAnyChannel = 0xa06f;  // KEPLER_CHANNEL_GPFIFO_A, for all that followed
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

// A list of card ids that ends at the first invalid one; the whole node is turned into the granted
// cards.
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

// What two cards can do for each other: both must be granted (ctrl0000system.h).
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

Decision Boundary::DecideControl(Call& call, Decision decision) {
  const ControlRule* rule = FindControlRule(call.command);
  if (rule == nullptr) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, ControlName(call.command));
  }
  if (rule->effect == ControlEffect::kRefuse || !rm::ControlKnown(abi_, call.command)) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, ControlName(call.command));
  }
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  const std::size_t size = rm::ControlSize(abi_, call.command);
  if (head.paramsSize != size || (head.params == 0) != (size == 0)) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, ControlName(call.command) + " (size)");
  }
  if (call.copy_in != rm::NV_OK) {
    return Answer(call, call.copy_in, ControlName(call.command) + " (copy in)");
  }
  const auto object = ledger_.Find(decision.client, call.object);
  decision.card = object ? object->card : std::nullopt;
  if (size == 0) {
    call.nested.emplace_back();  // so that there always is one; nothing leads to it
  }
  Bytes& params = call.nested[0].bytes;
  const auto own_gpu = [&](std::size_t at) {
    return CardOfGpuId(Load<std::uint32_t>(params, at)).has_value();
  };
  if (rule->effect == ControlEffect::kPass || rule->effect == ControlEffect::kView) {
    return decision;
  }
  // What may be answered here is answered only where the driver would have come to it.
  if (!object || !TakesControl(object->cls, call.command)) {
    return Answer(call, object ? rm::NV_ERR_NOT_SUPPORTED : rm::NV_ERR_OBJECT_NOT_FOUND,
                  ControlName(call.command) + " on another object");
  }
  switch (rule->effect) {
    case ControlEffect::kEmpty:
      std::fill(params.begin(), params.end(), std::byte{0});
      [[fallthrough]];
    case ControlEffect::kSwallow: {
      SetStatus(call, rm::NV_OK);
      Decision answered;
      answered.action = Decision::Action::kAnswer;
      return answered;
    }
    case ControlEffect::kGpuId:
      if (!own_gpu(rule->argument)) {
        return Answer(call, rule->no_such, ControlName(call.command) + " of another card");
      }
      return decision;
    case ControlEffect::kGpuIdList:
      return DecideGpuIdList(call, std::move(decision), *rule);
    case ControlEffect::kClient:
      if (!ledger_.Owns(Load<std::uint32_t>(params, rule->argument))) {
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
    case ControlEffect::kExport:
    case ControlEffect::kImport:
    case ControlEffect::kExportMany:
    case ControlEffect::kImportMany:
    case ControlEffect::kExportInfo:
      return DecideTransfer(call, std::move(decision), *rule);
    case ControlEffect::kPass:
    case ControlEffect::kView:
    case ControlEffect::kRefuse:
      break;
  }
  return Answer(call, rm::NV_ERR_NOT_SUPPORTED, ControlName(call.command));
}

}  // namespace cgpu::boundary
