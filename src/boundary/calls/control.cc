// RM_CONTROL: a command on an object. What the policy says of the command chooses the steps.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "boundary/calls/control_handler.h"
#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/policy.h"
#include "rm/class_table.h"
#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_ctrl_board.h"
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

// Returns true for parameters that a control of the firmware could have if root allowed it: beside
// the numbers and sizes of the table, and with no address that anybody would follow.
bool MayBeAllowed(std::uint32_t command, std::uint32_t size) {
  return rm::IsFirmwareControl(command) && size != 0 && size <= rm::kMaxFirmwareBytes;
}

// Returns true if root has allowed the control in this size, which the policy does not list. A rule
// that does more than pass a control on counts all the same.
bool IsAllowed(const Container& container, const Call& call, const ControlRule* rule) {
  const auto size = Load<rm::NVOS54_PARAMETERS>(call.image).paramsSize;
  const bool listed = rule != nullptr && rm::ControlTakes(container.abi, call.command, size);
  return !listed && container.firmware.contains({call.command, size}) &&
         MayBeAllowed(call.command, size) &&
         (rule == nullptr || rule->effect == ControlEffect::kOwn);
}

// Decides such a control, in the driver's order: object, parameters.
Decision DecideAllowed(Container& container, Call& call, Decision decision) {
  const auto object = container.ledger.Find(decision.client, call.object);
  if (!object) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            ControlName(call.command) + " on an unknown object");
  }
  if (!TakesControl(object->cls, call.command)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            ControlName(call.command) + " on another object");
  }
  if (call.nested.empty() || call.copy_in != rm::NV_OK) {
    return container.Answer(call, call.nested.empty() ? rm::NV_ERR_INVALID_ARGUMENT : call.copy_in,
                            Reason::kInvalid, ControlName(call.command) + " (copy in)");
  }
  decision.gpu = object->gpu;
  call.nested[0].copy_out = true;
  return decision;
}

// Notes pointers inside control parameters, as the table describes them. Where a row says that
// there are some but does not describe them, the policy refuses the control.
void NoteEmbedded(const rm::Abi& abi, Call& call) {
  for (const rm::EmbeddedPointer& pointer : rm::EmbeddedPointers(call.command)) {
    if (abi.branch < pointer.since) {
      continue;
    }
    const Bytes& params = call.nested[0].bytes;
    const auto size = pointer.Bytes(Load<std::uint32_t>(params, pointer.count_offset));
    if (!size) {
      call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
    }
    NoteNested(call, size.value_or(0), 0, pointer.pointer_offset,
               pointer.direction != rm::PointerDirection::kIn,
               pointer.direction != rm::PointerDirection::kOut);
  }
}

Decision DecideSwallow(Container& /*container*/, Call& call, Decision /*decision*/,
                       const ControlRule& /*rule*/) {
  return Succeed(call);
}

Decision DecideEmpty(Container& /*container*/, Call& call, Decision /*decision*/,
                     const ControlRule& /*rule*/) {
  Bytes& params = call.nested[0].bytes;
  std::ranges::fill(params, std::byte{0});
  return Succeed(call);
}

Decision DecideEntry(Container& container, Call& call, Decision decision,
                     const ControlRule& /*rule*/) {
  if (!container.AddEntry(decision.client)) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            ControlName(call.command) + " over the quota");
  }
  return decision;
}

Decision DecideRefused(Container& container, Call& call, Decision /*decision*/,
                       const ControlRule& /*rule*/) {
  return RefuseControl(container, call, rm::NV_ERR_NOT_SUPPORTED);
}

// Refuses the indices that the driver resets when it reports them: by their names, and as a side
// effect (kernel_bif.c kbifControlGetPCIEInfo_IMPL()).
Decision DecideBusInfo(Container& container, Call& call, Decision decision,
                       const ControlRule& /*rule*/) {
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
      return container.Answer(
          call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Reason::kNotAllowed,
          ControlName(call.command) + ": an index that resets the card's error counters");
    }
  }
  return decision;
}

// Checks the whole list, whatever length the caller gives: the firmware's own check is not public.
Decision DecideReadings(Container& container, Call& call, Decision decision,
                        const ControlRule& /*rule*/) {
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
    if (std::ranges::find(kReading, one.opcode) == kReading.end()) {
      return container.Answer(
          call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
          ControlName(call.command) + " with an instruction that is not listed");
    }
  }
  return decision;
}

// Answers as a virtual GPU's driver does, which has no way to the cache (kern_mem_sys_gm200.c
// kmemsysCacheOp_GM200(), IS_VIRTUAL). No program can see that nothing was evicted, but for the
// time of what it reads next. A write-back of host memory is one that a program may count on:
// refused.
Decision DecideCacheFlush(Container& container, Call& call, Decision /*decision*/,
                          const ControlRule& /*rule*/) {
  const auto flags = Load<rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS>(call.nested[0].bytes).flags;
  const bool invalidates = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_INVALIDATE.Get(flags) != 0;
  const bool flushes = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FB_FLUSH.Get(flags) != 0;
  const bool evicts = invalidates &&
                      rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE.Get(flags) ==
                          rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_VIDEO_MEMORY &&
                      rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE.Get(flags) ==
                          rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE_FULL_CACHE;
  const bool nothing = !invalidates && !flushes &&
                       rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_WRITE_BACK.Get(flags) == 0;
  if (nothing || (evicts && !flushes)) {
    return Succeed(call);
  }
  return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                          ControlName(call.command) + " other than an eviction of video memory");
}

using Effect = ControlEffect;

constexpr auto kControlHandlers = std::to_array<ControlHandler>({
    {.effect = Effect::kPass, .decide = DecidePassed},
    {.effect = Effect::kView, .decide = DecideView, .account = AccountView},
    {.effect = Effect::kSwallow, .decide = DecideSwallow},
    {.effect = Effect::kEmpty, .decide = DecideEmpty},
    {.effect = Effect::kGpuId, .decide = DecideGpuId},
    {.effect = Effect::kGpuIdList, .decide = DecideGpuIdList},
    {.effect = Effect::kPeerCaps, .decide = DecidePeerCaps},
    {.effect = Effect::kClient, .decide = DecideNamedClient},
    {.effect = Effect::kSharePolicy, .decide = DecideSharePolicy},
    {.effect = Effect::kExport,
     .decide = DecideTransfer,
     .changes_state = true,
     .account = AccountExport},
    {.effect = Effect::kImport,
     .decide = DecideTransfer,
     .changes_state = true,
     .account = AccountImport},
    {.effect = Effect::kExportMany,
     .decide = DecideTransfer,
     .changes_state = true,
     .account = AccountExportMany},
    {.effect = Effect::kImportMany,
     .decide = DecideTransfer,
     .changes_state = true,
     .settle = SettleImportMany,
     .account = AccountImportMany},
    {.effect = Effect::kExportInfo, .decide = DecideTransfer},
    {.effect = Effect::kOwn},
    {.effect = Effect::kLedger, .decide = DecideProcesses},
    {.effect = Effect::kSmErrors, .decide = DecideSmErrors},
    {.effect = Effect::kMemory, .decide = DecideMemory},
    {.effect = Effect::kOwnMemory, .decide = DecideOwnMemory},
    {.effect = Effect::kBusInfo, .decide = DecideBusInfo},
    {.effect = Effect::kTakeEncoder,
     .decide = DecideTakeEncoder,
     .changes_state = true,
     .settle = SettleTakeEncoder},
    {.effect = Effect::kGiveEncoder,
     .decide = DecideGiveEncoder,
     .changes_state = true,
     .account = AccountGiveEncoder},
    {.effect = Effect::kDisableChannels, .decide = DecideDisableChannels},
    {.effect = Effect::kPreemption, .decide = DecidePreemption, .settle = SettlePreemption},
    {.effect = Effect::kReadings, .decide = DecideReadings},
    {.effect = Effect::kEntry, .decide = DecideEntry},
    {.effect = Effect::kCacheFlush, .decide = DecideCacheFlush},
    {.effect = Effect::kRefuse, .decide = DecideRefused},
});

constexpr bool kEffectsInOrder = [] {
  for (std::size_t i = 0; i < kControlHandlers.size(); ++i) {
    if (kControlHandlers[i].effect != static_cast<Effect>(i)) {
      return false;
    }
  }
  return kControlHandlers.size() == static_cast<std::size_t>(Effect::kRefuse) + 1;
}();
static_assert(kEffectsInOrder);

const ControlHandler& HandlerOf(ControlEffect effect) {
  return kControlHandlers[static_cast<std::size_t>(effect)];
}

// Returns the handler of a call that was executed; null for one that root alone has allowed.
const ControlHandler* HandlerOf(const Call& call) {
  const ControlRule* rule = FindControlRule(call.command);
  return rule == nullptr ? nullptr : &HandlerOf(rule->effect);
}

// Returns the command with its size, for a report. One of the firmware is named by its number, as
// `firmware` of the settings takes it.
std::string NameAndSize(const Call& call) {
  const auto size = Load<rm::NVOS54_PARAMETERS>(call.image).paramsSize;
  return (rm::IsFirmwareControl(call.command) ? Hex("control", call.command)
                                              : ControlName(call.command)) +
         " (" + std::to_string(size) + " bytes)";
}

}  // namespace

Decision Succeed(Call& call) {
  SetStatus(call, rm::NV_OK);
  Decision decision;
  decision.action = Decision::Action::kAnswer;
  return decision;
}

// Names the size beside the number of a command that is in no table, for a report.
Decision RefuseControl(Container& container, Call& call, std::uint32_t status) {
  std::string what = ControlName(call.command);
  if (FindControlRule(call.command) == nullptr) {
    what = NameAndSize(call);
  }
  return container.Answer(call, status, ReasonOf(WhyControl(call.command)),
                          what + ": " + std::string(WhyControl(call.command)));
}

void DecodeControl(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  call.client = head.hClient;
  call.object = head.hObject;
  call.command = head.cmd;
  // Decide() refuses other commands, and other sizes, without looking at the parameters. But
  // parameters that root may have allowed are read; DecideAllowed() has them written back.
  const ControlRule* rule = FindControlRule(head.cmd);
  const bool listed = rule != nullptr && rule->effect != ControlEffect::kRefuse &&
                      rm::ControlTakes(abi, head.cmd, head.paramsSize);
  const bool taken = listed || MayBeAllowed(head.cmd, head.paramsSize);
  ReadNested(memory, call, taken ? head.paramsSize : 0, offsetof(rm::NVOS54_PARAMETERS, params),
             listed);
  if (!call.nested.empty() && call.copy_in == rm::NV_OK) {
    DecodeTransfer(call);
    NoteEmbedded(abi, call);
  }
}

bool ControlChangesState(const Call& call) {
  const ControlRule* rule = FindControlRule(call.command);
  return rule != nullptr && HandlerOf(rule->effect).changes_state;
}

// Answers index 0 of every class: the command that does nothing (control.c).
std::optional<Decision> DecideControlEarly(Container& /*container*/, Call& call) {
  return (call.command & 0xffffU) == 0 ? std::optional(Succeed(call)) : std::nullopt;
}

// Refuses parameters that the driver refuses before it looks at them, in its order. The driver's
// table of sizes does not have the firmware's commands (control.c _rmapiRmControl()), so it looks
// for their object first, and then by the object's class (rs_resource.c resControlLookup()).
std::optional<Decision> RefuseMalformed(Container& container, Call& call, rm::ControlRoute route,
                                        bool object_found) {
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  const bool half_given = (head.params == 0) != (head.paramsSize == 0);
  const rm::ControlRow* row = rm::FindControl(call.command);
  const bool of_firmware = row != nullptr && row->most_bytes != 0;
  const bool by_class = route == rm::ControlRoute::kTable;
  if (!half_given && (of_firmware || !by_class)) {
    if (!object_found) {
      return std::nullopt;
    }
    if (by_class) {
      return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                              ControlName(call.command) + " on another object");
    }
  }
  if (half_given || !rm::ControlTakes(container.abi, call.command, head.paramsSize)) {
    const std::string what =
        of_firmware && !half_given && MayBeAllowed(call.command, head.paramsSize)
            ? NameAndSize(call) + ": " + std::string(kWhyFirmwareSize)
            : ControlName(call.command) + " (size)";
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid, what);
  }
  if (call.copy_in != rm::NV_OK) {
    return container.Answer(call, call.copy_in, Reason::kInvalid,
                            ControlName(call.command) + " (copy in)");
  }
  return std::nullopt;
}

Decision DecideControl(Container& container, Call& call, Decision decision) {
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  if ((head.flags & rm::NVOS54_FLAGS_FINN_SERIALIZED) != 0) {
    return container.Answer(call, rm::NV_ERR_LIB_RM_VERSION_MISMATCH, Reason::kInvalid,
                            ControlName(call.command) + " in another encoding");
  }
  const auto object = container.ledger.Find(decision.client, call.object);
  const rm::ControlRoute route = rm::RouteOf(call.command, object ? object->cls : 0);
  if (route == rm::ControlRoute::kFirmwarePrivileged && object && object->gpu) {
    return RefuseControl(container, call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS);
  }
  const ControlRule* rule = FindControlRule(call.command);
  if (IsAllowed(container, call, rule)) {
    return DecideAllowed(container, call, std::move(decision));
  }
  if (rule == nullptr || rule->effect == ControlEffect::kRefuse ||
      !rm::ControlKnown(container.abi, call.command)) {
    return RefuseControl(container, call, rm::NV_ERR_NOT_SUPPORTED);
  }
  if (auto refused = RefuseMalformed(container, call, route, object.has_value())) {
    return *std::move(refused);
  }
  if (!object) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            ControlName(call.command) + " on an unknown object");
  }
  // A page that all tenants read takes no command.
  if (IsSharedMemory(object->cls)) {
    return RefuseControl(container, call, rm::NV_ERR_NOT_SUPPORTED);
  }
  decision.gpu = object->gpu;
  if (head.paramsSize == 0) {
    call.nested.emplace_back();  // so that there always is one; no pointer leads to it
  }
  // The driver looks commands up by the object's class; those that it hands on to the firmware it
  // does not look up at all. A command is answered here only where the driver would have looked it
  // up.
  const bool looked_up =
      route == rm::ControlRoute::kTable &&
      (rule->effect == ControlEffect::kPass || rule->effect == ControlEffect::kView ||
       rule->effect == ControlEffect::kMemory || rule->effect == ControlEffect::kOwnMemory ||
       rule->effect == ControlEffect::kEntry);
  if (!looked_up && !TakesControl(object->cls, call.command)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            ControlName(call.command) + " on another object");
  }
  return HandlerOf(rule->effect).decide == nullptr
             ? std::move(decision)
             : HandlerOf(rule->effect).decide(container, call, std::move(decision), *rule);
}

void SettleControl(Container& container, Call& call, const Decision& decision,
                   const Outcome& outcome) {
  const ControlHandler* handler = HandlerOf(call);
  if (handler != nullptr && handler->settle != nullptr) {
    handler->settle(container, call, decision, outcome);
  }
}

std::optional<Undo> AccountControl(Container& container, Call& call, Decision& decision) {
  const ControlHandler* handler = HandlerOf(call);
  return handler != nullptr && handler->account != nullptr
             ? handler->account(container, call, decision)
             : std::nullopt;
}

}  // namespace cgpu::boundary
