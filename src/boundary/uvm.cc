// Decides nvidia-uvm's ioctls and accounts for them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "boundary/policy.h"
#include "boundary/quotas.h"
#include "boundary/reasons.h"
#include "rm/class_table.h"
#include "rm/nv_status.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// From kernel-open/nvidia-uvm/nvCpuUuid.c.
constexpr rm::NvProcessorUuid NV_PROCESSOR_UUID_CPU_DEFAULT = {{0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4,
                                                                0x7b, 0xa2, 0x50, 0x47, 0x41, 0x2c,
                                                                0x14, 0x2a, 0x77, 0x73}};

enum class Effect {
  kPass,
  kInitialize,
  kAlways,  // answered with our own status
  kRegisterGpu,
  kUnregisterGpu,
  kRegisterVaSpace,
  kUnregisterVaSpace,
  kRegisterChannel,
  kUnregisterChannel,
  kCreateRange,
  kMapExternal,
  kMapTables,  // takes only page tables
  kUnmap,
  kFree,
  kSemaphorePool,
  kCreateGroup,
  kDestroyGroup,
};

struct Rule {
  std::uint32_t request;
  Effect effect;
  // Offsets of uuids: each must be a granted GPU's or the processor's.
  std::size_t uuid = kNone;
  std::size_t second_uuid = kNone;
};

constexpr std::size_t kAfterRange = sizeof(rm::UVM_RANGE_HEAD);

// Rules for requests; others get the driver's "not supported". Not listed on purpose: 56-64, 67, 76
// and 77 (TOOLS: other processes' memory and events, every GPU's uuid), 71 (POPULATE_PAGEABLE works
// on the memory of the process that executes it), 78 (ALLOC_DEVICE_P2P: GPU memory handed to other
// devices), 79 (CLEAR_ALL_ACCESS_COUNTERS clears those of all that use the GPU:
// uvm_gpu_access_counters.c).
constexpr auto kRules = std::to_array<Rule>({
    {rm::UVM_CREATE_RANGE_GROUP, Effect::kCreateGroup},
    {rm::UVM_DESTROY_RANGE_GROUP, Effect::kDestroyGroup},
    {rm::UVM_REGISTER_GPU_VASPACE, Effect::kRegisterVaSpace, 0},
    {rm::UVM_UNREGISTER_GPU_VASPACE, Effect::kUnregisterVaSpace, 0},
    {rm::UVM_REGISTER_CHANNEL, Effect::kRegisterChannel, 0},
    {rm::UVM_UNREGISTER_CHANNEL, Effect::kUnregisterChannel},
    {rm::UVM_ENABLE_PEER_ACCESS, Effect::kPass, 0, sizeof(rm::NvProcessorUuid)},
    {rm::UVM_DISABLE_PEER_ACCESS, Effect::kPass, 0, sizeof(rm::NvProcessorUuid)},
    {31, Effect::kPass},
    {rm::UVM_MAP_EXTERNAL_ALLOCATION, Effect::kMapExternal},
    {rm::UVM_FREE, Effect::kFree},
    {rm::UVM_REGISTER_GPU, Effect::kRegisterGpu, 0},
    {rm::UVM_UNREGISTER_GPU, Effect::kUnregisterGpu, 0},
    {rm::UVM_PAGEABLE_MEM_ACCESS, Effect::kPass},
    {40, Effect::kPass},
    {41, Effect::kPass},
    {rm::UVM_SET_PREFERRED_LOCATION, Effect::kPass, kAfterRange},
    {43, Effect::kPass},
    {44, Effect::kPass},
    {45, Effect::kPass},
    {rm::UVM_SET_ACCESSED_BY, Effect::kPass, kAfterRange},
    {rm::UVM_UNSET_ACCESSED_BY, Effect::kPass, kAfterRange},
    {rm::UVM_MIGRATE, Effect::kPass, kAfterRange},
    {rm::UVM_MIGRATE_RANGE_GROUP, Effect::kPass,
     offsetof(rm::UVM_MIGRATE_RANGE_GROUP_PARAMS, destinationUuid)},
    {54, Effect::kPass, 0},  // system-wide atomics
    {55, Effect::kPass, 0},
    {rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION, Effect::kMapTables, kAfterRange},
    {rm::UVM_UNMAP_EXTERNAL, Effect::kUnmap, kAfterRange},
    {rm::UVM_ALLOC_SEMAPHORE_POOL, Effect::kSemaphorePool},
    {rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, Effect::kPass},
    {rm::UVM_PAGEABLE_MEM_ACCESS_ON_GPU, Effect::kPass, 0},
    {rm::UVM_VALIDATE_VA_RANGE, Effect::kPass},
    {rm::UVM_CREATE_EXTERNAL_RANGE, Effect::kCreateRange},
    {rm::UVM_MAP_EXTERNAL_SPARSE, Effect::kMapTables, kAfterRange},
    {rm::UVM_MM_INITIALIZE, Effect::kAlways},
    {80, Effect::kPass},  // DISCARD
    {rm::UVM_INITIALIZE, Effect::kInitialize},
    {rm::UVM_DEINITIALIZE, Effect::kAlways},
});

const Rule* FindRule(std::uint32_t request) {
  const auto* found = std::find_if(kRules.begin(), kRules.end(),
                                   [&](const Rule& rule) { return rule.request == request; });
  return found == kRules.end() ? nullptr : found;
}

}  // namespace

std::string_view UvmEffectName(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule == nullptr ? "refuse" : rule->effect == Effect::kAlways ? "answer" : "check";
}

std::string_view WhyUvm(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  if (rule == nullptr) {
    switch (request) {
      case 71:
        return "works on the memory of whoever executes it";
      case rm::UVM_ALLOC_DEVICE_P2P:
        return "hands card memory to other devices";
      case 79:
        return "clears the access counters of all that use the card";
      default:
        return request >= 56 && request <= 77
                   ? "profilers' tools: other processes' memory and events, every card"
                   : kWhyNotNeeded;
    }
  }
  return rule->effect == Effect::kAlways
             ? "the space is in the mode for several processes: there is nothing to do"
             : "in the container's own address spaces, with granted cards";
}

namespace {

std::optional<AddressRange> RangeOf(const Call& call) {
  const auto head = Load<rm::UVM_RANGE_HEAD>(call.image);
  if (head.length == 0 || head.base + head.length < head.base) {
    return std::nullopt;  // the driver refuses it too
  }
  return AddressRange{head.base, head.base + head.length};
}

}  // namespace

bool UvmChangesState(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule != nullptr && rule->effect != Effect::kPass && rule->effect != Effect::kAlways;
}

bool UvmReleases(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule != nullptr &&
         (rule->effect == Effect::kUnregisterGpu || rule->effect == Effect::kUnregisterVaSpace ||
          rule->effect == Effect::kUnregisterChannel || rule->effect == Effect::kUnmap ||
          rule->effect == Effect::kFree || rule->effect == Effect::kDestroyGroup);
}

bool Boundary::GrantedUuid(const Call& call, std::size_t at) const {
  const auto uuid = Load<rm::NvProcessorUuid>(call.image, at);
  return uuid == NV_PROCESSOR_UUID_CPU_DEFAULT || CardOfUuid(uuid).has_value();
}

std::optional<ledger::Card> Boundary::CardOfUuid(const rm::NvProcessorUuid& uuid) const {
  const auto found = std::find_if(cards_.begin(), cards_.end(),
                                  [&](const CardIds& card) { return card.uuid == uuid; });
  return found == cards_.end() ? std::nullopt
                               : std::optional(static_cast<ledger::Card>(found - cards_.begin()));
}

void Boundary::AddSpace(ledger::FileKey space, ledger::ProcessKey owner) {
  spaces_.try_emplace(space, owner);
  managed_.ExpectSpaces();
}

const UvmSpace* Boundary::FindSpace(ledger::FileKey space) const {
  const auto found = spaces_.find(space);
  return found == spaces_.end() ? nullptr : &found->second;
}

void Boundary::RemoveSpace(ledger::FileKey space) {
  const auto found = spaces_.find(space);
  if (found == spaces_.end()) {
    return;
  }
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    ledger_.ForceExtra({found->second.owner(), space}, card, 0);
  }
  ledger_.CloseFile(space);
  spaces_.erase(found);
  (void)managed_.SetCards(ManagedCards());
}

Decision Boundary::AnswerUvm(Call& call, std::uint32_t status) {
  return Answer(call, status, UvmName(call.uvm_request));
}

Decision Boundary::DecideUvm(Call& call) {
  const Rule* rule = FindRule(call.uvm_request);
  if (rule == nullptr) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED,
                  UvmName(call.uvm_request) + ": " + std::string(WhyUvm(call.uvm_request)));
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  if (rule->effect == Effect::kAlways) {
    // The sharing mode leaves no address space of a process to set up, and the last close closes.
    if (call.uvm_request == rm::UVM_MM_INITIALIZE) {
      SetStatus(call, rm::NV_WARN_NOTHING_TO_DO);
    }
    decision.action = Decision::Action::kAnswer;
    return decision;
  }
  if (rule->effect == Effect::kInitialize) {
    // The mode makes the space usable from the process that executes. It also excludes the tenant's
    // ordinary memory, which would move to the GPU uncounted.
    auto params = Load<rm::UVM_INITIALIZE_PARAMS>(call.image);
    decision.given_flags = params.flags;
    params.flags |= rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE;
    Store(call.image, params);
    managed_.ExpectSpaces();
    return decision;
  }
  const auto space = spaces_.find(call.uvm_space);
  if (space == spaces_.end()) {
    return AnswerUvm(call, rm::NV_ERR_ILLEGAL_ACTION);  // not initialised
  }
  for (const std::size_t at : {rule->uuid, rule->second_uuid}) {
    if (at != kNone && !GrantedUuid(call, at)) {
      return AnswerUvm(call, call.uvm_request == rm::UVM_REGISTER_GPU
                                 ? rm::NV_ERR_GPU_UUID_NOT_FOUND
                                 : rm::NV_ERR_INVALID_DEVICE);
    }
  }
  return DecideInSpace(call, std::move(decision), space->second);
}

// Checks a client that the parameters name, and the file it lies on.
bool Boundary::OwnsNamedClient(const Call& call, Decision& decision) const {
  const auto client = ledger_.FindClient(call.client);
  if (!client || !call.fd || !call.fd->file || call.fd->file->kind != FileKind::kControl) {
    return false;
  }
  decision.client = client->ref;
  return true;
}

Decision Boundary::DecideInSpace(Call& call, Decision decision, UvmSpace& space) {
  switch (FindRule(call.uvm_request)->effect) {
    case Effect::kRegisterGpu: {
      // The client is that of an instance of a divided GPU; 0 otherwise.
      if (call.client != 0 && !OwnsNamedClient(call, decision)) {
        return AnswerUvm(call, rm::NV_ERR_INVALID_ARGUMENT);
      }
      decision.card = CardOfUuid(Load<rm::NvProcessorUuid>(call.image));
      if (!decision.card) {
        return AnswerUvm(call, rm::NV_ERR_GPU_UUID_NOT_FOUND);
      }
      std::set<ledger::Card> cards = ManagedCards();
      cards.insert(*decision.card);
      if (!managed_.SetCards(cards)) {
        return NoMemory(call, *decision.card);
      }
      registering_.insert(*decision.card);
      return decision;
    }
    case Effect::kRegisterVaSpace:
      if (!OwnsNamedClient(call, decision)) {
        return AnswerUvm(call, rm::NV_ERR_INVALID_CLIENT);
      }
      decision.card = CardOfUuid(Load<rm::NvProcessorUuid>(call.image));
      return decision.card ? ReserveTables(call, std::move(decision), space)
                           : AnswerUvm(call, rm::NV_ERR_INVALID_DEVICE);
    case Effect::kRegisterChannel:
      return DecideRegisterChannel(call, std::move(decision), space);
    case Effect::kCreateRange:
      if (space.ranges() >= kMaxRanges) {
        return AnswerUvm(call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
      }
      return decision;
    case Effect::kCreateGroup:
      if (RangeGroups() >= kMaxRangeGroups) {
        return AnswerUvm(call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
      }
      return decision;
    case Effect::kMapExternal:
      return DecideMapExternal(call, std::move(decision), space);
    case Effect::kMapTables: {
      const auto range = RangeOf(call);
      const auto card = CardOfUuid(Load<rm::NvProcessorUuid>(call.image, kAfterRange));
      if (!range || !card) {
        return AnswerUvm(call, rm::NV_ERR_INVALID_ADDRESS);
      }
      decision.uvm_planned = {*card};
      decision.uvm_range = *range;
      return ReserveTables(call, std::move(decision), space);
    }
    case Effect::kSemaphorePool:
      return DecideSemaphorePool(call, std::move(decision), space);
    default:
      return decision;
  }
}

std::uint64_t Boundary::RangeGroups() const {
  std::uint64_t groups = 0;
  for (const auto& [key, space] : spaces_) {
    groups += space.groups();
  }
  return groups;
}

// Returns the GPUs of all spaces, and those that a space is about to have: managed memory is
// charged on them from before the driver is asked.
std::set<ledger::Card> Boundary::ManagedCards() const {
  std::set<ledger::Card> cards(registering_.begin(), registering_.end());
  for (const auto& [key, space] : spaces_) {
    cards.insert(space.gpus().begin(), space.gpus().end());
  }
  return cards;
}

Decision Boundary::NoMemory(Call& call, ledger::Card card) {
  Decision refusal = Answer(call, rm::NV_ERR_NO_MEMORY, "memory over the limit");
  refusal.over_limit = true;
  refusal.card = card;
  return refusal;
}

// Charges what the plan of `decision` takes of each GPU, and the tables' root.
Decision Boundary::ReserveTables(Call& call, Decision decision, UvmSpace& space) {
  const AddressRange& range = decision.uvm_range;
  const ledger::ExtraKey key{space.owner(), call.uvm_space};
  for (const ledger::Card card : decision.uvm_planned) {
    space.PlanPiece(card, range.start, range.end);
  }
  const std::uint64_t root =
      decision.card && !space.va_spaces().contains(*decision.card) ? PageTables::kTableBytes : 0;
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    const bool own = decision.card == card;
    if (!ledger_.SetExtra(key, card, space.Bytes(card) + (own ? root : 0)).ok()) {
      DropPlan(call, decision, space);
      ledger_.Cancel(decision.reservation);
      return NoMemory(call, card);
    }
  }
  return decision;
}

void Boundary::DropPlan(const Call& call, const Decision& decision, UvmSpace& space) {
  for (const ledger::Card card : decision.uvm_planned) {
    space.DropPlan(card, decision.uvm_range.start, decision.uvm_range.end);
  }
  SettleSpace(call.uvm_space, space);
}

// Sets the ledger's charge to what the space's tracker says.
void Boundary::SettleSpace(ledger::FileKey key, UvmSpace& space) {
  for (const UvmSpace::Hold hold : space.TakeReleased()) {
    ledger_.Unexport(key, hold);
  }
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    ledger_.ForceExtra({space.owner(), key}, card, space.Bytes(card));
  }
}

Decision Boundary::DecideRegisterChannel(Call& call, Decision decision, UvmSpace& space) {
  const auto params = Load<rm::UVM_REGISTER_CHANNEL_PARAMS>(call.image);
  const auto card = CardOfUuid(params.gpuUuid);
  if (!OwnsNamedClient(call, decision) || !card) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_CLIENT);
  }
  const auto channel = ledger_.Find(decision.client, call.object);
  if (!channel || !rm::IsChannelClass(channel->cls)) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_CHANNEL);
  }
  // UVM keeps the memory of the channel's context: its own, or its group's.
  const auto parent = ledger_.Find(decision.client, channel->parent);
  const ledger::ObjectRef held =
      channel->bytes == 0 && parent && parent->kind == ledger::Kind::kChannelGroup ? parent->ref
                                                                                   : channel->ref;
  auto reservation = ledger_.ReserveExport(decision.client, held);
  if (!reservation.ok()) {
    return AnswerUvm(call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
  }
  decision.reservation = std::move(*reservation);
  decision.uvm_range = {params.base, params.base};
  if (params.length != 0 && params.base + params.length > params.base) {
    decision.uvm_range.end = params.base + params.length;
    decision.uvm_planned = {*card};
  }
  return ReserveTables(call, std::move(decision), space);
}

Decision Boundary::DecideMapExternal(Call& call, Decision decision, UvmSpace& space) {
  const auto range = RangeOf(call);
  const auto tail =
      Load<rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(call.image, rm::UvmMapExternalTail(abi_.branch));
  if (!range) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_ADDRESS);
  }
  if (tail.gpuAttributesCount == 0 || tail.gpuAttributesCount > rm::kUvmMaxGpus.At(abi_.branch)) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_ARGUMENT);
  }
  if (!OwnsNamedClient(call, decision)) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_CLIENT);
  }
  const auto memory = ledger_.Find(decision.client, call.object);
  if (!memory || memory->cls == rm::NV01_MEMORY_LOCAL_PRIVILEGED) {
    return AnswerUvm(call, rm::NV_ERR_OBJECT_NOT_FOUND);
  }
  const auto cards = CardsOfAttributes(call, sizeof(rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD),
                                       tail.gpuAttributesCount);
  if (!cards) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_DEVICE);
  }
  auto reservation = ledger_.ReserveExport(decision.client, memory->ref);
  if (!reservation.ok()) {
    return AnswerUvm(call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
  }
  decision.reservation = std::move(*reservation);
  decision.uvm_planned = *cards;
  decision.uvm_range = *range;
  return ReserveTables(call, std::move(decision), space);
}

// Returns the GPUs of a perGpuAttributes array, each once; nothing if one is not granted.
std::optional<std::set<ledger::Card>> Boundary::CardsOfAttributes(const Call& call, std::size_t at,
                                                                  std::uint64_t count) const {
  std::set<ledger::Card> cards;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto attributes =
        Load<rm::UvmGpuMappingAttributes>(call.image, at + i * sizeof(rm::UvmGpuMappingAttributes));
    const auto card = CardOfUuid(attributes.gpuUuid);
    if (!card) {
      return std::nullopt;
    }
    cards.insert(*card);
  }
  return cards;
}

// Decides a semaphore pool. Pools lie in the host's memory; their tables are on the GPUs.
Decision Boundary::DecideSemaphorePool(Call& call, Decision decision, UvmSpace& space) {
  const auto range = RangeOf(call);
  const auto tail =
      Load<rm::UVM_ALLOC_SEMAPHORE_POOL_TAIL>(call.image, rm::UvmSemaphorePoolTail(abi_.branch));
  if (!range || tail.gpuAttributesCount > rm::kUvmMaxGpus.At(abi_.branch)) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_ADDRESS);
  }
  const auto listed =
      CardsOfAttributes(call, sizeof(rm::UVM_ALLOC_SEMAPHORE_POOL_HEAD), tail.gpuAttributesCount);
  if (!listed) {
    return AnswerUvm(call, rm::NV_ERR_INVALID_DEVICE);
  }
  if (space.ranges() >= kMaxRanges) {
    return AnswerUvm(call, rm::NV_ERR_INSUFFICIENT_RESOURCES);
  }
  // The driver maps it on all GPUs of the space, listed or not (uvm_map_external.c,
  // uvm_api_alloc_semaphore_pool).
  decision.uvm_planned = space.va_spaces();
  decision.uvm_planned.insert(listed->begin(), listed->end());
  decision.uvm_range = *range;
  return ReserveTables(call, std::move(decision), space);
}

void Boundary::AccountUvm(Call& call, Decision& decision, bool done) {
  const Rule* rule = FindRule(call.uvm_request);
  if (rule->effect == Effect::kInitialize) {
    auto params = Load<rm::UVM_INITIALIZE_PARAMS>(call.image);
    params.flags = decision.given_flags;
    Store(call.image, params);
    return;
  }
  if (rule->effect == Effect::kRegisterGpu && decision.card) {
    registering_.erase(registering_.find(*decision.card));
  }
  const auto found = spaces_.find(call.uvm_space);
  if (found == spaces_.end()) {
    (void)managed_.SetCards(ManagedCards());
    return;
  }
  UvmSpace& space = found->second;
  if (done) {
    std::optional<ledger::Card> card;
    if (rule->uuid != kNone) {
      card = CardOfUuid(Load<rm::NvProcessorUuid>(call.image, rule->uuid));
    }
    AccountInSpace(call, decision, card, space);
    SettleSpace(call.uvm_space, space);
  } else {
    ledger_.Cancel(decision.reservation);
    DropPlan(call, decision, space);
  }
  (void)managed_.SetCards(ManagedCards());
}

void Boundary::AccountInSpace(const Call& call, Decision& decision,
                              std::optional<ledger::Card> card, UvmSpace& space) {
  rm::UVM_RANGE_HEAD head{};
  if (call.image.size() >= sizeof(head)) {
    head = Load<rm::UVM_RANGE_HEAD>(call.image);
  }
  switch (FindRule(call.uvm_request)->effect) {
    case Effect::kRegisterGpu:
      space.AddGpu(*card);
      break;
    case Effect::kUnregisterGpu:
      if (card) {
        space.RemoveGpu(*card);
      }
      break;
    case Effect::kRegisterVaSpace:
      space.AddVaSpace(*card);
      break;
    case Effect::kUnregisterVaSpace:
      if (card) {
        space.RemoveVaSpace(*card);
      }
      break;
    case Effect::kRegisterChannel:
      space.AddChannel({call.client, call.object}, *card, decision.uvm_range.start,
                       decision.uvm_range.end, ExportHold(call, decision, space));
      break;
    case Effect::kMapExternal:
      AddPieces(decision, ExportHold(call, decision, space), space);
      break;
    case Effect::kUnregisterChannel:
      space.RemoveChannel({call.client, call.object});
      break;
    case Effect::kCreateRange:
      space.AddRange(head.base, head.length);
      break;
    case Effect::kMapTables:
      if (call.uvm_request == rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION) {
        space.AddRange(head.base, head.length);
      }
      AddPieces(decision, 0, space);
      break;
    case Effect::kSemaphorePool:
      space.AddRange(head.base, head.length);
      AddPieces(decision, 0, space);
      break;
    case Effect::kUnmap:
      if (card) {
        space.UnmapPieces(*card, head.base, head.base + head.length);
      }
      break;
    case Effect::kFree:
      space.RemoveRange(head.base);
      break;
    case Effect::kCreateGroup:
      space.AddGroup();
      break;
    case Effect::kDestroyGroup:
      space.RemoveGroup();
      break;
    default:
      break;
  }
}

void Boundary::AddPieces(const Decision& decision, UvmSpace::Hold hold, UvmSpace& space) {
  for (const ledger::Card card : decision.uvm_planned) {
    space.AddPiece(card, decision.uvm_range.start, decision.uvm_range.end, hold);
  }
}

UvmSpace::Hold Boundary::ExportHold(const Call& call, Decision& decision, UvmSpace& space) {
  const UvmSpace::Hold hold = space.NewHold();
  // Fails only if the source is gone, and then UVM keeps nothing of it.
  if (ledger_.Export(decision.reservation, call.uvm_space, hold).ok()) {
    return hold;
  }
  ledger_.Cancel(decision.reservation);
  return 0;
}

}  // namespace cgpu::boundary
