// nvidia-uvm's requests. Each acts on the address space of the open file that it is made on.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/policy.h"
#include "boundary/quotas.h"
#include "boundary/reasons.h"
#include "boundary/spaces.h"
#include "rm/class_table.h"
#include "rm/nv_status.h"
#include "rm/nv_uvm.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// From kernel-open/nvidia-uvm/nvCpuUuid.c.
constexpr rm::NvProcessorUuid NV_PROCESSOR_UUID_CPU_DEFAULT = {{0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4,
                                                                0x7b, 0xa2, 0x50, 0x47, 0x41, 0x2c,
                                                                0x14, 0x2a, 0x77, 0x73}};

enum class UvmEffect {
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
  UvmEffect effect;
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
    {rm::UVM_CREATE_RANGE_GROUP, UvmEffect::kCreateGroup},
    {rm::UVM_DESTROY_RANGE_GROUP, UvmEffect::kDestroyGroup},
    {rm::UVM_REGISTER_GPU_VASPACE, UvmEffect::kRegisterVaSpace, 0},
    {rm::UVM_UNREGISTER_GPU_VASPACE, UvmEffect::kUnregisterVaSpace, 0},
    {rm::UVM_REGISTER_CHANNEL, UvmEffect::kRegisterChannel, 0},
    {rm::UVM_UNREGISTER_CHANNEL, UvmEffect::kUnregisterChannel},
    {rm::UVM_ENABLE_PEER_ACCESS, UvmEffect::kPass, 0, sizeof(rm::NvProcessorUuid)},
    {rm::UVM_DISABLE_PEER_ACCESS, UvmEffect::kPass, 0, sizeof(rm::NvProcessorUuid)},
    {31, UvmEffect::kPass},
    {rm::UVM_MAP_EXTERNAL_ALLOCATION, UvmEffect::kMapExternal},
    {rm::UVM_FREE, UvmEffect::kFree},
    {rm::UVM_REGISTER_GPU, UvmEffect::kRegisterGpu, 0},
    {rm::UVM_UNREGISTER_GPU, UvmEffect::kUnregisterGpu, 0},
    {rm::UVM_PAGEABLE_MEM_ACCESS, UvmEffect::kPass},
    {40, UvmEffect::kPass},
    {41, UvmEffect::kPass},
    {rm::UVM_SET_PREFERRED_LOCATION, UvmEffect::kPass, kAfterRange},
    {43, UvmEffect::kPass},
    {44, UvmEffect::kPass},
    {45, UvmEffect::kPass},
    {rm::UVM_SET_ACCESSED_BY, UvmEffect::kPass, kAfterRange},
    {rm::UVM_UNSET_ACCESSED_BY, UvmEffect::kPass, kAfterRange},
    {rm::UVM_MIGRATE, UvmEffect::kPass, kAfterRange},
    {rm::UVM_MIGRATE_RANGE_GROUP, UvmEffect::kPass,
     offsetof(rm::UVM_MIGRATE_RANGE_GROUP_PARAMS, destinationUuid)},
    {54, UvmEffect::kPass, 0},  // system-wide atomics
    {55, UvmEffect::kPass, 0},
    {rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION, UvmEffect::kMapTables, kAfterRange},
    {rm::UVM_UNMAP_EXTERNAL, UvmEffect::kUnmap, kAfterRange},
    {rm::UVM_ALLOC_SEMAPHORE_POOL, UvmEffect::kSemaphorePool},
    {rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES, UvmEffect::kPass},
    {rm::UVM_PAGEABLE_MEM_ACCESS_ON_GPU, UvmEffect::kPass, 0},
    {rm::UVM_VALIDATE_VA_RANGE, UvmEffect::kPass},
    {rm::UVM_CREATE_EXTERNAL_RANGE, UvmEffect::kCreateRange},
    {rm::UVM_MAP_EXTERNAL_SPARSE, UvmEffect::kMapTables, kAfterRange},
    {rm::UVM_MM_INITIALIZE, UvmEffect::kAlways},
    {80, UvmEffect::kPass},  // DISCARD
    {rm::UVM_INITIALIZE, UvmEffect::kInitialize},
    {rm::UVM_DEINITIALIZE, UvmEffect::kAlways},
});

const Rule* FindRule(std::uint32_t request) {
  const auto* found = std::ranges::find(kRules, request, &Rule::request);
  return found == kRules.end() ? nullptr : found;
}

std::optional<AddressRange> RangeOf(const Call& call) {
  const auto head = Load<rm::UVM_RANGE_HEAD>(call.image);
  if (head.length == 0 || head.base + head.length < head.base) {
    return std::nullopt;  // the driver refuses it too
  }
  return AddressRange{head.base, head.base + head.length};
}

// Offsets of an RM client's file and handle in the parameters.
struct Names {
  std::size_t fd = kNone;
  std::size_t client = kNone;
  std::size_t object = kNone;
};

Names NamesOf(rm::Branch branch, std::uint32_t request) {
  switch (request) {
    case rm::UVM_REGISTER_GPU_VASPACE:
      return {offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, hClient),
              offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, hVaSpace)};
    case rm::UVM_REGISTER_CHANNEL:
      return {offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, hClient),
              offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, hChannel)};
    case rm::UVM_UNREGISTER_CHANNEL:
      return branch >= rm::Branch::k590
                 ? Names{kNone, offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590, hClient),
                         offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590, hChannel)}
                 : Names{kNone, offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535, hClient),
                         offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535, hChannel)};
    case rm::UVM_REGISTER_GPU:
      return {offsetof(rm::UVM_REGISTER_GPU_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_GPU_PARAMS, hClient), kNone};
    case rm::UVM_MAP_EXTERNAL_ALLOCATION: {
      const std::size_t tail = rm::UvmMapExternalTail(branch);
      return {tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, rmCtrlFd),
              tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, hClient),
              tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, hMemory)};
    }
    default:
      return {};
  }
}

bool GrantedUuid(const Container& container, const Call& call, std::size_t at) {
  const auto uuid = Load<rm::NvProcessorUuid>(call.image, at);
  return uuid == NV_PROCESSOR_UUID_CPU_DEFAULT || container.GpuOfUuid(uuid).has_value();
}

// Checks a client that the parameters name, and the file it lies on.
bool OwnsNamedClient(const Container& container, const Call& call, Decision& decision) {
  const auto client = container.ledger.FindClient(call.client);
  if (!client || !call.fd || !call.fd->file || call.fd->file->kind != FileKind::kControl) {
    return false;
  }
  decision.client = client->ref;
  return true;
}

// Returns the GPUs of a perGpuAttributes array, each once; nothing if one is not granted.
std::optional<std::set<ledger::Gpu>> GpusOfAttributes(const Container& container, const Call& call,
                                                      std::size_t at, std::uint64_t count) {
  std::set<ledger::Gpu> gpus;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto attributes =
        Load<rm::UvmGpuMappingAttributes>(call.image, at + i * sizeof(rm::UvmGpuMappingAttributes));
    const auto gpu = container.GpuOfUuid(attributes.gpuUuid);
    if (!gpu) {
      return std::nullopt;
    }
    gpus.insert(*gpu);
  }
  return gpus;
}

Decision AnswerUvm(Container& container, Call& call, std::uint32_t status, Reason reason) {
  return container.Answer(call, status, reason, UvmName(call.uvm_request));
}

Decision DecideRegisterGpu(Container& container, Call& call, Decision decision) {
  // The client is that of an instance of a divided GPU; 0 otherwise.
  if (call.client != 0 && !OwnsNamedClient(container, call, decision)) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid);
  }
  decision.gpu = container.GpuOfUuid(Load<rm::NvProcessorUuid>(call.image));
  if (!decision.gpu) {
    return AnswerUvm(container, call, rm::NV_ERR_GPU_UUID_NOT_FOUND, Reason::kGpuNotGranted);
  }
  decision.effects.opens_gpu = true;
  return decision;
}

Decision DecideRegisterChannel(Container& container, Call& call, Decision decision,
                               UvmSpace& space) {
  const auto params = Load<rm::UVM_REGISTER_CHANNEL_PARAMS>(call.image);
  const auto gpu = container.GpuOfUuid(params.gpuUuid);
  if (!OwnsNamedClient(container, call, decision) || !gpu) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_CLIENT, Reason::kInvalid);
  }
  const auto channel = container.ledger.Find(decision.client, call.object);
  if (!channel || !rm::IsChannelClass(channel->cls)) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_CHANNEL, Reason::kInvalid);
  }
  // UVM keeps the memory of the channel's context: its own, or its group's.
  const auto parent = container.ledger.Find(decision.client, channel->parent);
  const ledger::ObjectRef held =
      channel->bytes == 0 && parent && parent->kind == ledger::Kind::kChannelGroup ? parent->ref
                                                                                   : channel->ref;
  auto reservation = container.ledger.ReserveExport(decision.client, held);
  if (!reservation.ok()) {
    return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
  }
  decision.reservation = std::move(*reservation);
  decision.uvm_range = {params.base, params.base};
  if (params.length != 0 && params.base + params.length > params.base) {
    if (space.HasMostWindows(*gpu)) {
      container.ledger.Cancel(decision.reservation);
      return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
    }
    decision.uvm_range.end = params.base + params.length;
    decision.uvm_planned = {*gpu};
  }
  decision = ReserveTables(container, call, std::move(decision), space);
  if (decision.action == Decision::Action::kExecute && !decision.uvm_planned.empty()) {
    space.AddWindow(*gpu, decision.uvm_range.start, decision.uvm_range.end);
  }
  return decision;
}

Decision DecideMapExternal(Container& container, Call& call, Decision decision, UvmSpace& space) {
  const auto range = RangeOf(call);
  const auto tail = Load<rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(
      call.image, rm::UvmMapExternalTail(container.abi.branch));
  if (!range) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_ADDRESS, Reason::kInvalid);
  }
  if (tail.gpuAttributesCount == 0 ||
      tail.gpuAttributesCount > rm::kUvmMaxGpus.At(container.abi.branch)) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid);
  }
  if (!OwnsNamedClient(container, call, decision)) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_CLIENT, Reason::kInvalid);
  }
  const auto memory = container.ledger.Find(decision.client, call.object);
  if (!memory || IsSharedMemory(memory->cls)) {
    return AnswerUvm(container, call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid);
  }
  const auto gpus = GpusOfAttributes(container, call, sizeof(rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD),
                                     tail.gpuAttributesCount);
  if (!gpus) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_DEVICE, Reason::kGpuNotGranted);
  }
  auto reservation = container.ledger.ReserveExport(decision.client, memory->ref);
  if (!reservation.ok()) {
    return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
  }
  decision.reservation = std::move(*reservation);
  decision.uvm_planned = *gpus;
  decision.uvm_range = *range;
  return ReserveTables(container, call, std::move(decision), space);
}

// Decides a semaphore pool. Pools lie in the host's memory; their tables are on the GPUs.
Decision DecideSemaphorePool(Container& container, Call& call, Decision decision, UvmSpace& space) {
  const auto range = RangeOf(call);
  const auto tail = Load<rm::UVM_ALLOC_SEMAPHORE_POOL_TAIL>(
      call.image, rm::UvmSemaphorePoolTail(container.abi.branch));
  if (!range || tail.gpuAttributesCount > rm::kUvmMaxGpus.At(container.abi.branch)) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_ADDRESS, Reason::kInvalid);
  }
  const auto listed = GpusOfAttributes(container, call, sizeof(rm::UVM_ALLOC_SEMAPHORE_POOL_HEAD),
                                       tail.gpuAttributesCount);
  if (!listed) {
    return AnswerUvm(container, call, rm::NV_ERR_INVALID_DEVICE, Reason::kGpuNotGranted);
  }
  const std::uint64_t bytes = range->end - range->start;
  if (space.ranges() >= kMaxRanges || bytes > kMaxPoolBytes - PoolBytes(container)) {
    return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
  }
  // The driver maps it on all GPUs of the space, listed or not (uvm_map_external.c,
  // uvm_api_alloc_semaphore_pool), and on those that come later.
  for (ledger::Gpu gpu = 0; gpu < container.gpus.size(); ++gpu) {
    decision.uvm_planned.insert(gpu);
  }
  decision.uvm_range = *range;
  return ReserveTables(container, call, std::move(decision), space);
}

Decision DecideInSpace(Container& container, Call& call, Decision decision, UvmSpace& space) {
  switch (FindRule(call.uvm_request)->effect) {
    case UvmEffect::kRegisterGpu:
      return DecideRegisterGpu(container, call, std::move(decision));
    case UvmEffect::kRegisterVaSpace:
      if (!OwnsNamedClient(container, call, decision)) {
        return AnswerUvm(container, call, rm::NV_ERR_INVALID_CLIENT, Reason::kInvalid);
      }
      decision.gpu = container.GpuOfUuid(Load<rm::NvProcessorUuid>(call.image));
      return decision.gpu
                 ? ReserveTables(container, call, std::move(decision), space)
                 : AnswerUvm(container, call, rm::NV_ERR_INVALID_DEVICE, Reason::kGpuNotGranted);
    case UvmEffect::kRegisterChannel:
      return DecideRegisterChannel(container, call, std::move(decision), space);
    case UvmEffect::kCreateRange:
      if (space.ranges() >= kMaxRanges) {
        return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
      }
      return decision;
    case UvmEffect::kCreateGroup:
      if (RangeGroups(container) >= kMaxRangeGroups) {
        return AnswerUvm(container, call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota);
      }
      return decision;
    case UvmEffect::kMapExternal:
      return DecideMapExternal(container, call, std::move(decision), space);
    case UvmEffect::kMapTables: {
      const auto range = RangeOf(call);
      const auto gpu = container.GpuOfUuid(Load<rm::NvProcessorUuid>(call.image, kAfterRange));
      if (!range || !gpu) {
        return AnswerUvm(container, call, rm::NV_ERR_INVALID_ADDRESS, Reason::kInvalid);
      }
      decision.uvm_planned = {*gpu};
      decision.uvm_range = *range;
      return ReserveTables(container, call, std::move(decision), space);
    }
    case UvmEffect::kSemaphorePool:
      return DecideSemaphorePool(container, call, std::move(decision), space);
    default:
      return decision;
  }
}

// Returns true for requests that make or free a range.
bool ChangesRanges(UvmEffect effect, std::uint32_t request) {
  switch (effect) {
    case UvmEffect::kRegisterChannel:
    case UvmEffect::kCreateRange:
    case UvmEffect::kSemaphorePool:
    case UvmEffect::kFree:
      return true;
    case UvmEffect::kMapTables:
      return request == rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION;
    default:
      return false;
  }
}

void AddPieces(const Decision& decision, UvmSpace::Hold hold, UvmSpace& space) {
  for (const ledger::Gpu gpu : decision.uvm_planned) {
    space.AddPiece(gpu, decision.uvm_range.start, decision.uvm_range.end, hold);
  }
}

UvmSpace::Hold ExportHold(Container& container, const Call& call, Decision& decision,
                          UvmSpace& space) {
  const UvmSpace::Hold hold = space.NewHold();
  // Fails only if the source is gone, and then UVM keeps nothing of it.
  if (container.ledger.Export(decision.reservation, call.uvm_space, hold).ok()) {
    return hold;
  }
  container.ledger.Cancel(decision.reservation);
  return 0;
}

// Accounts for a request about a range, or a part of one.
void AccountRange(const Call& call, const Decision& decision, std::optional<ledger::Gpu> gpu,
                  UvmSpace& space) {
  rm::UVM_RANGE_HEAD head{};
  if (call.image.size() >= sizeof(head)) {
    head = Load<rm::UVM_RANGE_HEAD>(call.image);
  }
  switch (FindRule(call.uvm_request)->effect) {
    case UvmEffect::kCreateRange:
      space.AddRange(head.base, head.length);
      break;
    case UvmEffect::kMapTables:
      if (call.uvm_request == rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION) {
        space.AddRange(head.base, head.length);
      }
      AddPieces(decision, 0, space);
      break;
    case UvmEffect::kSemaphorePool:
      space.AddRange(head.base, head.length);
      space.AddPool(head.base);
      break;
    case UvmEffect::kUnmap:
      if (gpu) {
        space.UnmapPieces(*gpu, head.base, head.base + head.length);
      }
      break;
    case UvmEffect::kFree:
      space.RemoveRange(head.base);
      break;
    default:
      break;
  }
}

void AccountInSpace(Container& container, const Call& call, Decision& decision,
                    std::optional<ledger::Gpu> gpu, UvmSpace& space) {
  switch (FindRule(call.uvm_request)->effect) {
    case UvmEffect::kRegisterGpu:
      space.AddGpu(*gpu);
      break;
    case UvmEffect::kUnregisterGpu:
      if (gpu) {
        space.RemoveGpu(*gpu);
      }
      break;
    case UvmEffect::kRegisterVaSpace:
      space.AddVaSpace(*gpu);
      break;
    case UvmEffect::kUnregisterVaSpace:
      if (gpu) {
        space.RemoveVaSpace(*gpu);
      }
      break;
    case UvmEffect::kRegisterChannel:
      space.AddChannel({call.client, call.object}, *gpu, decision.uvm_range.start,
                       decision.uvm_range.end, ExportHold(container, call, decision, space));
      break;
    case UvmEffect::kMapExternal:
      AddPieces(decision, ExportHold(container, call, decision, space), space);
      break;
    case UvmEffect::kUnregisterChannel:
      space.RemoveChannel({call.client, call.object});
      break;
    case UvmEffect::kCreateGroup:
      space.AddGroup();
      break;
    case UvmEffect::kDestroyGroup:
      space.RemoveGroup();
      break;
    default:
      AccountRange(call, decision, gpu, space);
      break;
  }
}

}  // namespace

std::string_view UvmEffectName(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule == nullptr ? "refuse" : rule->effect == UvmEffect::kAlways ? "answer" : "check";
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
  return rule->effect == UvmEffect::kAlways
             ? "the space is in the mode for several processes: there is nothing to do"
             : "in the container's own address spaces, with granted cards";
}

int DecodeUvm(const rm::Abi& abi, std::uint32_t request, std::uint64_t address,
              TenantMemory& memory, Call& call) {
  const rm::UvmRow* row = rm::FindUvm(request);
  const std::uint32_t size = rm::UvmParamSize(abi.branch, request);
  if (row == nullptr || (size == 0 && request != rm::UVM_DEINITIALIZE)) {
    return EINVAL;
  }
  call.uvm_request = request;
  if (size != 0) {
    call.uvm_status = row->status.At(abi.branch);
  }
  call.address = address;
  call.image.resize(size);
  if (size != 0 && !memory.Read(address, call.image.data(), size)) {
    return EFAULT;
  }
  const Names names = NamesOf(abi.branch, request);
  if (names.fd != kNone) {
    TakeFdArgument(call, names.fd);
  }
  call.client = names.client == kNone ? 0 : Load<std::uint32_t>(call.image, names.client);
  call.object = names.object == kNone ? 0 : Load<std::uint32_t>(call.image, names.object);
  return 0;
}

bool UvmChangesState(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule != nullptr && rule->effect != UvmEffect::kPass && rule->effect != UvmEffect::kAlways;
}

bool UvmReleases(std::uint32_t request) {
  const Rule* rule = FindRule(request);
  return rule != nullptr &&
         (rule->effect == UvmEffect::kUnregisterGpu ||
          rule->effect == UvmEffect::kUnregisterVaSpace ||
          rule->effect == UvmEffect::kUnregisterChannel || rule->effect == UvmEffect::kUnmap ||
          rule->effect == UvmEffect::kFree || rule->effect == UvmEffect::kDestroyGroup);
}

Decision DecideUvm(Container& container, Call& call) {
  const Rule* rule = FindRule(call.uvm_request);
  if (rule == nullptr) {
    return container.Answer(
        call, rm::NV_ERR_NOT_SUPPORTED, ReasonOf(WhyUvm(call.uvm_request)),
        UvmName(call.uvm_request) + ": " + std::string(WhyUvm(call.uvm_request)));
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  if (rule->effect == UvmEffect::kAlways) {
    // The sharing mode leaves no address space of a process to set up, and the last close closes.
    if (call.uvm_request == rm::UVM_MM_INITIALIZE) {
      SetStatus(call, rm::NV_WARN_NOTHING_TO_DO);
    }
    decision.action = Decision::Action::kAnswer;
    return decision;
  }
  if (rule->effect == UvmEffect::kInitialize) {
    // The mode makes the space usable from the process that executes. It also excludes the tenant's
    // ordinary memory, which would move to the GPU uncounted.
    auto params = Load<rm::UVM_INITIALIZE_PARAMS>(call.image);
    decision.given_flags = params.flags;
    params.flags |= rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE;
    Store(call.image, params);
    decision.effects.makes_space = true;
    return decision;
  }
  const auto space = container.spaces.find(call.uvm_space);
  if (space == container.spaces.end()) {
    return AnswerUvm(container, call, rm::NV_ERR_ILLEGAL_ACTION,
                     Reason::kInvalid);  // not initialised
  }
  for (const std::size_t at : {rule->uuid, rule->second_uuid}) {
    if (at != kNone && !GrantedUuid(container, call, at)) {
      return AnswerUvm(container, call,
                       call.uvm_request == rm::UVM_REGISTER_GPU ? rm::NV_ERR_GPU_UUID_NOT_FOUND
                                                                : rm::NV_ERR_INVALID_DEVICE,
                       Reason::kGpuNotGranted);
    }
  }
  decision.effects.changes_ranges = ChangesRanges(rule->effect, call.uvm_request);
  return DecideInSpace(container, call, std::move(decision), space->second);
}

void AccountUvm(Container& container, Call& call, Decision& decision, bool done) {
  const Rule* rule = FindRule(call.uvm_request);
  if (rule->effect == UvmEffect::kInitialize) {
    auto params = Load<rm::UVM_INITIALIZE_PARAMS>(call.image);
    params.flags = decision.given_flags;
    Store(call.image, params);
    return;
  }
  const auto found = container.spaces.find(call.uvm_space);
  if (found == container.spaces.end()) {
    return;
  }
  UvmSpace& space = found->second;
  if (done) {
    std::optional<ledger::Gpu> gpu;
    if (rule->uuid != kNone) {
      gpu = container.GpuOfUuid(Load<rm::NvProcessorUuid>(call.image, rule->uuid));
    }
    AccountInSpace(container, call, decision, gpu, space);
    SettleSpace(container, call.uvm_space, space);
  } else {
    container.ledger.Cancel(decision.reservation);
    DropPlan(container, call, decision, space);
  }
}

}  // namespace cgpu::boundary
