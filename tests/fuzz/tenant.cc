#include "tests/fuzz/tenant.h"

#include <algorithm>
#include <cstring>

#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/fb_info.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_status.h"

namespace cgpu::fuzz {
namespace {

constexpr std::size_t kMostPending = 3;

// The only pointer of FIFO_DISABLE_CHANNELS must be null, for nobody describes it.
bool HasNoEvent(const Call& call) {
  if (call.command != rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS) {
    return false;
  }
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  std::memcpy(&params, call.nested[0].bytes.data(),
              std::min(sizeof(params), call.nested[0].bytes.size()));
  return params.pRunlistPreemptEvent == 0;
}

}  // namespace

PlainDriver::Handle Tenant::Wrong() {
  constexpr std::array<Handle, 6> kSome = {0, 1, 0xffffffff, 0xc1d00001, 0xcaf00001, 0xcaf00002};
  const std::uint8_t which = U8();
  return which < 200 ? kSome[which % kSome.size()] : U32();
}

PlainDriver::Handle Tenant::PickClient() {
  std::vector<Handle> clients;
  for (const auto& [key, object] : driver_.objects()) {
    if (key.first == key.second) {
      clients.push_back(key.first);
    }
  }
  const std::uint8_t which = U8();
  if (which >= 240 || clients.empty()) {
    return Wrong();
  }
  return which < 120 ? clients[0] : clients[which % clients.size()];
}

PlainDriver::Handle Tenant::PickObject(Handle client) {
  std::vector<Handle> found;
  for (const auto& [key, object] : driver_.objects()) {
    if (key.first == client) {
      found.push_back(key.second);
    }
  }
  const std::uint8_t which = U8();
  return which >= 240 || found.empty() ? Wrong() : found[which % found.size()];
}

// One ioctl, by itself or wrapped.
void Tenant::Issue(std::uint32_t nr, const void* params, std::size_t size) {
  std::uint64_t address = lent_.Add(params, size);
  const auto number = static_cast<rm::NvU8>(nr);
  std::uint32_t request = rm::EscapeRequest(number, static_cast<rm::NvU32>(size));
  if (U8() % 8 == 0) {
    const rm::nv_ioctl_xfer_t xfer{nr, static_cast<rm::NvU32>(size), address};
    address = lent_.Add(xfer);
    request = rm::EscapeRequest(rm::NV_ESC_IOCTL_XFER_CMD, sizeof(xfer));
  }
  Call call;
  const std::uint8_t how = U8();
  const rm::EscapeRow* row = rm::FindEscape(number);
  call.file.kind = row != nullptr && row->files == rm::EscapeFiles::kGpu
                       ? boundary::FileKind::kGpu
                       : boundary::FileKind::kControl;
  if (how >= 240) {
    call.file.kind = static_cast<boundary::FileKind>(how % 3);
  }
  call.file.granted = true;
  call.process = 1 + how % 2;
  if (boundary::Decode(abi_, request, address, lent_, call) != 0) {
    return;
  }
  Require(boundary::BytesDue(call) <= boundary::kMaxRest, "a call leads to bounded memory");
  boundary::CopyInRest(lent_, call);
  if (call.fd && U8() % 8 != 0) {
    call.fd->file = boundary::File{boundary::FileKind::kControl, 255, true};
    call.fd->tag = kFirstFile + U8() % 3;
  }
  Decision decision;
  const boundary::Needs needs = boundary_.NeedsOf(call);
  // As the shim: what another call under way must have for itself is waited for.
  for (std::size_t i = 0; i < pending_.size();) {
    const auto& theirs = pending_[i]->needs.clients;
    const bool clash = std::any_of(needs.clients.begin(), needs.clients.end(), [&](Handle one) {
      return std::find(theirs.begin(), theirs.end(), one) != theirs.end();
    });
    if (clash) {
      Finish(i);
    } else {
      ++i;
    }
  }
  decision = boundary_.Decide(call);
  while (decision.action == Decision::Action::kAsk) {
    for (const ledger::Doubt& doubt : decision.doubts) {
      boundary_.Settle(doubt, U8() % 2 == 0);
    }
    decision = boundary_.Decide(call);
  }
  Start(call, std::move(decision));
}

void Tenant::Start(const Call& call, Decision decision) {
  if (decision.effects.lists_processes) {
    Call answer = call;
    boundary_.AnswerOfProcesses(answer, decision, pids_);
    CheckAnswer(answer);
  }
  if (decision.action != Decision::Action::kExecute) {
    return;
  }
  const rm::ControlRow* row =
      call.nr == rm::NV_ESC_RM_CONTROL ? rm::FindControl(call.command) : nullptr;
  Require(row == nullptr || !row->embedded_pointers || call.pointers.size() > 1 || HasNoEvent(call),
          "all pointers of an executed control are known");
  auto pending = std::make_unique<Pending>();
  pending->call = call;
  pending->decision = std::move(decision);
  pending->needs = boundary_.NeedsOf(call);
  pending->image = call.image;
  for (const boundary::Nested& nested : call.nested) {
    pending->nested.push_back(nested.bytes);
  }
  pending_.push_back(std::move(pending));
  const std::uint8_t when = U8();
  if (when % 4 == 1) {
    Execute(*pending_.back());  // and is accounted later
  } else if (when % 4 != 0 || pending_.size() > kMostPending) {
    Finish(pending_.size() - 1);
  }
  if (pending_.size() > kMostPending) {
    Finish(0);
  }
}

void Tenant::Execute(Pending& pending) {
  Call& call = pending.call;
  pending.executed = true;
  const std::uint8_t how = U8();
  if (how >= 250) {
    pending.error = how - 249;
  } else if (how >= 240) {
    boundary::SetStatus(call, U32() | 1U);  // whatever it is, nothing came of it
  } else {
    boundary::PointInside(call, 99);
    driver_.Execute(call.nr, call.image.data(), call.image.size(),
                    call.fd && call.fd->file ? call.fd->tag : 0);
    boundary::PointBack(call);
  }
}

void Tenant::Finish(std::size_t index) {
  const std::unique_ptr<Pending> pending = std::move(pending_[index]);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!pending->executed) {
    Execute(*pending);
  }
  Call& call = pending->call;
  if (const auto undo = boundary_.Account(call, pending->decision, pending->error)) {
    (void)driver_.Free(undo->client, undo->object);
    boundary_.Undone(call, pending->decision);
  }
  Require(
      call.image.size() == pending->image.size() && call.nested.size() == pending->nested.size(),
      "an answer is as long as its question");
  for (std::size_t i = 0; i < call.nested.size(); ++i) {
    Require(call.nested[i].bytes.size() == pending->nested[i].size(),
            "an answer is as long as its question");
  }
  for (const boundary::Pointer& pointer : call.pointers) {
    const auto holder = static_cast<std::size_t>(pointer.holder);
    const Bytes& before = pointer.holder < 0 ? pending->image : pending->nested[holder];
    const Bytes& after = pointer.holder < 0 ? call.image : call.nested[holder].bytes;
    Require(Load<std::uint64_t>(before, pointer.at) == Load<std::uint64_t>(after, pointer.at),
            "the tenant's pointers are back");
  }
  if (pending->error == 0 && boundary::StatusOf(call).value_or(rm::NV_OK) == rm::NV_OK) {
    CheckAnswer(call);
  }
}

void Tenant::CheckFbInfo(const Bytes& bytes, std::size_t at, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry =
        Load<rm::NV2080_CTRL_FB_INFO>(bytes, at + i * sizeof(rm::NV2080_CTRL_FB_INFO));
    switch (entry.index) {
      case rm::NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
      case rm::NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
      case rm::NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
        Require(entry.data <= kMostMib * 1024, "memory is told as the slice has it");
        break;
      default:
        break;
    }
  }
}

void Tenant::CheckAnswer(const Call& call) const {
  const auto has = [](const Bytes& bytes, std::size_t first, std::uint32_t value) {
    for (std::size_t at = first; at + 4 <= bytes.size(); at += 4) {
      if (Load<std::uint32_t>(bytes, at) == value) {
        return true;
      }
    }
    return false;
  };
  if (call.nr == rm::NV_ESC_CARD_INFO) {
    Require(!has(call.image, 0, kForeignGpuId), "other GPUs are not told of");
  }
  if (call.nr != rm::NV_ESC_RM_CONTROL || call.nested.empty()) {
    return;
  }
  const Bytes& params = call.nested[0].bytes;
  switch (call.command) {
    case rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS:
    case rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS:
    case rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS:
      Require(!has(params, 0, kForeignGpuId), "other GPUs are not told of");
      break;
    case rm::NV2080_CTRL_CMD_GPU_GET_PIDS:
      Require(!has(params, 12, kForeignPid), "other processes are not told of");
      break;
    case rm::NV2080_CTRL_CMD_FB_GET_INFO:
      if (call.nested.size() > 1) {
        CheckFbInfo(call.nested[1].bytes, 0, call.nested[1].bytes.size() / 8);
      }
      break;
    case rm::NV2080_CTRL_CMD_FB_GET_INFO_V2:
      CheckFbInfo(params, 4,
                  std::min<std::size_t>(Load<std::uint32_t>(params), (params.size() - 4) / 8));
      break;
    default:
      break;
  }
}

void Tenant::Check() {
  std::uint32_t clients = 0;
  for (const auto& [key, object] : driver_.objects()) {
    Require(!object.gpu || *object.gpu < kLimits.size(), "only granted GPUs are used");
    clients += key.first == key.second ? 1 : 0;
  }
  for (ledger::Gpu gpu = 0; gpu < ledger_.Gpus(); ++gpu) {
    const std::uint64_t held = ledger_.Used(gpu) + ledger_.Reserved(gpu);
    ceiling_[gpu] = std::max(ledger_.Limit(gpu), std::min(ceiling_[gpu], held));
    Require(held <= ceiling_[gpu], "never more is charged than the limit");
    Require(driver_.Used(gpu) <= held, "the driver hands out no more than is charged");
    if (pending_.empty()) {
      Require(driver_.Used(gpu) == ledger_.Used(gpu), "the ledger says what the driver says");
    }
  }
  if (pending_.empty()) {
    Require(ledger_.Count().clients == clients, "the ledger has the driver's clients");
    for (const ledger::ClientInfo& client : ledger_.Clients()) {
      for (const ledger::ObjectInfo& object : ledger_.Objects(client.ref)) {
        const auto found = driver_.objects().find({client.ref.handle, object.ref.handle});
        Require(found != driver_.objects().end(), "the ledger has no object that is gone");
        Require(object.gpu == found->second.gpu, "it lies on the same GPU");
      }
    }
  }
}

}  // namespace cgpu::fuzz
