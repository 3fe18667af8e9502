// Controls that the kernel driver hands to the GPU's firmware (rm/control_route.h): what real GPUs
// are on record to answer. docs/reference/simulated-driver.md says for each how well that is known.
#include <algorithm>
#include <array>
#include <cstddef>

#include "rm/control_route.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "sim/driver/control.h"
#include "sim/driver/more_controls.h"

namespace cgpu::sim {
namespace {

// Clock domains and the clocks recorded for them, in kHz.
constexpr rm::NvU32 kGraphicsClock = 0x1;
constexpr rm::NvU32 kMemoryClock = 0x10;
constexpr rm::NvU32 kVideoClock = 0x100000;

rm::NvU32 ClockOf(rm::NvU32 domain) {
  switch (domain) {
    case kGraphicsClock:
      return 1695000;
    case kMemoryClock:
      return 9751000;
    case kVideoClock:
      return 1005000;
    default:
      return 0;
  }
}

rm::NvU32 Word(const ControlCall& call, std::size_t at) {
  return at < call.params.size() ? Load<rm::NvU32>(call.params.subspan(at)) : 0;
}

void PutWord(const ControlCall& call, std::size_t at, rm::NvU32 value) {
  if (at < call.params.size()) {
    Store(call.params.subspan(at), value);
  }
}

template <std::size_t kCount>
void PutWords(const ControlCall& call, const std::array<rm::NvU32, kCount>& words) {
  for (std::size_t i = 0; i < kCount; ++i) {
    PutWord(call, i * sizeof(rm::NvU32), words[i]);
  }
}

NvStatus Refuse(ControlCall& /*call*/) {
  return rm::NV_ERR_NOT_SUPPORTED;
}

NvStatus Yes(ControlCall& call) {
  call.Put(rm::NvU8{1});
  return rm::NV_OK;
}

NvStatus ClockDomains(ControlCall& call) {
  PutWords(call, std::array<rm::NvU32, 2>{0x03FC007F, 0});
  return rm::NV_OK;
}

NvStatus Answer9009(ControlCall& call) {
  PutWords(call, std::array<rm::NvU32, 2>{0, 0xD});
  return rm::NV_OK;
}

// Recorded for two requests: that of a video program, which names the domains itself, and that of
// CUDA's runtime.
NvStatus Answer9064(ControlCall& call) {
  if (Word(call, 4) == 1 && Word(call, 8) == 8) {
    PutWord(call, 12, kVideoClock);
    PutWord(call, 16, 1);
    PutWord(call, 20, 100);
    return rm::NV_OK;
  }
  std::fill(call.params.begin(), call.params.end(), std::byte{0});
  PutWords(call,
           std::array<rm::NvU32, 10>{0, 2, 1, kGraphicsClock, 1, 100, 4, kMemoryClock, 1, 100});
  return rm::NV_OK;
}

NvStatus AnswerA001(ControlCall& call) {
  PutWords(call, std::array<rm::NvU32, 4>{1, 5, 2, 0x11});
  return rm::NV_OK;
}

// Two domains of a list: nothing else of the parameters is written.
NvStatus MostClocks(ControlCall& call) {
  if (call.params.size() > 4) {
    call.params[4] = std::byte{2};
  }
  PutWord(call, 0x08, 4);
  PutWord(call, 0x0C, 1);
  PutWord(call, 0x1C, ClockOf(kGraphicsClock));
  PutWord(call, 0x2C, ClockOf(kMemoryClock));
  return rm::NV_OK;
}

// {1, out, count, 32 entries {domain, 0, out, 0}, the first domain again, out[3]}. What the bounds
// at the end are is not on record.
NvStatus ClocksOf(ControlCall& call) {
  constexpr rm::NvU32 kEntries = 32;
  constexpr std::size_t kFirst = 0x0C;
  constexpr std::size_t kEntry = 16;
  constexpr std::size_t kAgain = kFirst + kEntries * kEntry;
  const rm::NvU32 count = Word(call, 8);
  if (count == 0 || count > kEntries || Word(call, kAgain) != Word(call, kFirst)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  PutWord(call, 4, 4);
  for (rm::NvU32 i = 0; i < count; ++i) {
    const std::size_t at = kFirst + i * kEntry;
    PutWord(call, at + 8, ClockOf(Word(call, at)));
  }
  const rm::NvU32 clock = ClockOf(Word(call, kFirst));
  PutWord(call, kAgain + 4, 2);
  PutWord(call, kAgain + 8, clock);
  PutWord(call, kAgain + 12, clock);
  return rm::NV_OK;
}

// Only these indices are there on the GPU that was recorded.
NvStatus Answer8546(ControlCall& call) {
  constexpr std::array<rm::NvU32, 6> kThere = {0x0A, 0x0C, 0x0D, 0x12, 0x13, 0x16};
  return std::find(kThere.begin(), kThere.end(), Word(call, 0)) != kThere.end()
             ? rm::NV_OK
             : rm::NV_ERR_NOT_SUPPORTED;
}

// The layout of a whole GPU's load is not on record. That it is told is, so here stands what all
// its users together hold: bytes, then channels, then processes.
NvStatus LoadOfTheGpu(ControlCall& call) {
  const int gpu = call.object.gpu;
  const Accounting accounting = call.model.GetAccounting();
  std::fill(call.params.begin(), call.params.end(), std::byte{0});
  call.Put(FirmwareTelemetry{
      call.model.Memory(gpu).Used(),
      static_cast<rm::NvU32>(accounting.gpus[static_cast<std::size_t>(gpu)].channels.size()),
      static_cast<rm::NvU32>(call.model.ProcessesOn(gpu, rm::NV20_SUBDEVICE_0).size())});
  return rm::NV_OK;
}

NvStatus TakeEncoder(ControlCall& call) {
  return call.model.Encoders(call.object.gpu).Take(call.client.handle)
             ? rm::NV_OK
             : rm::NV_ERR_MAX_SESSION_LIMIT_REACHED;
}

NvStatus GiveEncoder(ControlCall& call) {
  return call.model.Encoders(call.object.gpu).Give(call.client.handle) ? rm::NV_OK
                                                                       : rm::NV_ERR_INVALID_STATE;
}

// Refused by the GA10x chips that were recorded, taken by a GH100 (H200, 580.159.04): its 4 bytes
// were not recorded.
NvStatus Answer9038(ControlCall& call) {
  const Gpu& gpu = call.model.Gpus()[static_cast<std::size_t>(call.object.gpu)];
  return gpu.model->chip == &kGh100 ? rm::NV_OK : rm::NV_ERR_NOT_SUPPORTED;
}

struct FirmwareEntry {
  rm::NvU32 cmd;
  ControlHandler handler;
};

// Ascending. Commands of rm/controls/ctrl_firmware.inc without a line here are taken and change
// nothing.
constexpr FirmwareEntry kFirmwareEntries[] = {
    {rm::GSS_LEGACY_8162, Yes},
    {rm::GSS_LEGACY_8163_TAKE_ENCODER, TakeEncoder},
    {rm::GSS_LEGACY_8164_GIVE_ENCODER, GiveEncoder},
    {rm::GSS_LEGACY_8539, LoadOfTheGpu},
    {rm::GSS_LEGACY_8546, Answer8546},
    {rm::GSS_LEGACY_9001, ClockDomains},
    {rm::GSS_LEGACY_9009, Answer9009},
    {rm::GSS_LEGACY_9037, LoadOfTheGpu},
    {rm::GSS_LEGACY_9038, Answer9038},
    {rm::GSS_LEGACY_9064, Answer9064},
    {rm::GSS_LEGACY_A001, AnswerA001},
    {rm::GSS_LEGACY_A026, MostClocks},
    {rm::GSS_LEGACY_A028, ClocksOf},
    {rm::GSS_LEGACY_A0A8, LoadOfTheGpu},
    {rm::GSS_LEGACY_A0D1, LoadOfTheGpu},
    {rm::GSS_LEGACY_A0F2, Refuse},
    {rm::GSS_LEGACY_A63C, Refuse},
};

// The object itself, or the nearest one above it, that the command is for.
Object* TargetOf(Client& client, Object& object, ObjectKind kind) {
  Object* at = &object;
  while (at != nullptr && at->kind != kind) {
    at = at->kind == ObjectKind::kClient ? nullptr : DriverModel::FindObject(client, at->parent);
  }
  return at;
}

}  // namespace

NvStatus RunByFirmware(ControlCall& call) {
  const rm::ControlRow* row = rm::FindControl(call.cmd);
  if (call.params.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;  // portMemExCopyFromUser()
  }
  if (row == nullptr || row->most_bytes == 0) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if (!row->Takes(call.model.DriverAbi().branch, static_cast<rm::NvU32>(call.params.size()))) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (const FirmwareEntry& entry : kFirmwareEntries) {
    if (entry.cmd == call.cmd) {
      return entry.handler(call);
    }
  }
  return Accept(call);
}

NvStatus RunByFirmwareOfObject(ControlCall& call) {
  const rm::ControlRow* row = rm::FindControl(call.cmd);
  if (row != nullptr && row->most_bytes != 0) {
    return RunByFirmware(call);
  }
  const ControlEntry* entry = row != nullptr && !row->Known(call.model.DriverAbi().branch)
                                  ? nullptr
                                  : FindControlEntry(call.cmd);
  if (entry == nullptr) {
    return IsRootControl(call.cmd) || IsKernelControl(call.cmd) ? rm::NV_OK
                                                                : rm::NV_ERR_NOT_SUPPORTED;
  }
  Object* target = TargetOf(call.client, call.object, entry->target);
  if (target == nullptr) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  ControlCall inner{call.model,    call.version,         call.file, call.client,
                    *target,       call.caller,          call.cmd,  call.params,
                    call.embedded, call.embedded_target, call.wait};
  return entry->handler(inner);
}

}  // namespace cgpu::sim
