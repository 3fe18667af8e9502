// Requests that change no memory here: policies of managed ranges, range groups, tools.
// kernel-open/nvidia-uvm/uvm_policy.c, uvm_range_group.c, uvm_migrate.c, uvm_tools.c.
#include <algorithm>

#include "rm/uvm_table.h"
#include "rm/vidmem.h"
#include "sim/driver/bytes.h"
#include "sim/driver/uvm_calls.h"

namespace cgpu::sim {
namespace {

// NV_PROCESSOR_UUID_CPU_DEFAULT in kernel-open/nvidia-uvm/nvCpuUuid.c
constexpr rm::NvProcessorUuid kCpu = {{0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2, 0x50, 0x47,
                                       0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73}};

bool InvalidPages(const rm::UVM_RANGE_HEAD& range) {
  return range.base % rm::kPage4K != 0 || range.length % rm::kPage4K != 0 || range.base == 0 ||
         range.length == 0 || range.base + range.length < range.base;
}

// uvm_api_range_type_check(): all managed; or the process's own memory, where a GPU may reach it.
NvStatus CheckRange(UvmCall& call) {
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params);
  if (InvalidPages(range)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const bool own = !call.space->Sharing() &&
                   (call.space->flags & rm::UVM_INIT_FLAGS_DISABLE_HMM) == 0 &&
                   call.space->mm == UvmMm::kAlive;
  return own || UvmModel::IsManaged(*call.space, range.base, range.length)
             ? rm::NV_OK
             : rm::NV_ERR_INVALID_ADDRESS;
}

NvStatus CheckProcessor(const UvmCall& call, const rm::NvProcessorUuid& uuid) {
  return uuid == kCpu || call.model.Registered(*call.space, uuid) >= 0 ? rm::NV_OK
                                                                       : rm::NV_ERR_INVALID_DEVICE;
}

template <class F>
void ForManaged(UvmCall& call, const F& change) {
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params);
  for (auto& [base, managed] : call.space->managed) {
    if (base < range.base + range.length && base + managed.length > range.base) {
      change(managed);
    }
  }
}

NvStatus SetPreferredLocation(UvmCall& call) {
  const auto params = Load<rm::UVM_UNMAP_EXTERNAL_PARAMS>(call.params);
  NvStatus status = CheckRange(call);
  if (status == rm::NV_OK) {
    status = CheckProcessor(call, params.gpuUuid);
  }
  if (status == rm::NV_OK) {
    ForManaged(call, [&params](UvmManaged& range) { range.preferred = params.gpuUuid; });
  }
  return status;
}

NvStatus UnsetPreferredLocation(UvmCall& call) {
  ForManaged(call, [](UvmManaged& range) { range.preferred.reset(); });
  return CheckRange(call);
}

NvStatus SetReadDuplication(UvmCall& call) {
  ForManaged(call, [](UvmManaged& range) { range.read_duplication = true; });
  return CheckRange(call);
}

NvStatus UnsetReadDuplication(UvmCall& call) {
  ForManaged(call, [](UvmManaged& range) { range.read_duplication = false; });
  return CheckRange(call);
}

// SET_ACCESSED_BY, UNSET_ACCESSED_BY and MIGRATE: a range, then a processor.
NvStatus RangeAndProcessor(UvmCall& call) {
  const NvStatus status = CheckRange(call);
  return status == rm::NV_OK
             ? CheckProcessor(call, Load<rm::UVM_UNMAP_EXTERNAL_PARAMS>(call.params).gpuUuid)
             : status;
}

NvStatus PagesOnly(UvmCall& call) {
  return InvalidPages(Load<rm::UVM_RANGE_HEAD>(call.params)) ? rm::NV_ERR_INVALID_ADDRESS
                                                             : rm::NV_OK;
}

NvStatus RegisteredOnly(UvmCall& call) {
  const int gpu = call.model.Registered(*call.space, Load<rm::NvProcessorUuid>(call.params));
  return gpu >= 0 ? rm::NV_OK : rm::NV_ERR_INVALID_DEVICE;
}

NvStatus Nothing(UvmCall& /*call*/) {
  return rm::NV_OK;
}

NvStatus CreateGroup(UvmCall& call) {
  const rm::NvU64 group = call.space->next_group++;
  call.space->groups.insert(group);
  Store(call.params, group);
  return rm::NV_OK;
}

NvStatus DestroyGroup(UvmCall& call) {
  return call.space->groups.erase(Load<rm::NvU64>(call.params)) != 0 ? rm::NV_OK
                                                                     : rm::NV_ERR_OBJECT_NOT_FOUND;
}

NvStatus SetGroup(UvmCall& call) {
  const auto group = Load<rm::NvU64>(call.params);
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params.subspan(sizeof(group)));
  if (InvalidPages(range)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  if (group != 0 && !call.space->groups.contains(group)) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  return UvmModel::IsManaged(*call.space, range.base, range.length) ? rm::NV_OK
                                                                    : rm::NV_ERR_INVALID_ADDRESS;
}

NvStatus MigrateGroup(UvmCall& call) {
  const auto params = Load<rm::UVM_MIGRATE_RANGE_GROUP_PARAMS>(call.params);
  const NvStatus status = CheckProcessor(call, params.destinationUuid);
  if (status != rm::NV_OK) {
    return status;
  }
  return call.space->groups.contains(params.rangeGroupId) ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
}

// PREVENT_ and ALLOW_MIGRATION_RANGE_GROUPS.
NvStatus MigrationOfGroups(UvmCall& call) {
  constexpr std::size_t kMost = 32;  // UVM_MAX_RANGE_GROUPS_PER_IOCTL_CALL
  const auto count = Load<rm::NvU64>(call.params.subspan(kMost * sizeof(rm::NvU64)));
  if (count > kMost) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!call.space->groups.contains(Load<rm::NvU64>(call.params.subspan(i * sizeof(rm::NvU64))))) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
  }
  return rm::NV_OK;
}

// TOOLS_READ_ and WRITE_PROCESS_MEMORY of managed memory, which has no content here.
NvStatus ProcessMemory(UvmCall& call) {
  struct Params {
    rm::NvU64 buffer;
    rm::NvU64 size;
    rm::NvU64 target;
    rm::NvU64 done;
  };
  auto params = Load<Params>(call.params);
  params.done = 0;
  const rm::NvU64 first = params.target / rm::kPage4K * rm::kPage4K;
  const bool managed = params.target + params.size >= params.target &&
                       UvmModel::IsManaged(*call.space, first, params.target + params.size - first);
  params.done = managed ? params.size : 0;
  Store(call.params, params);
  return managed || params.size == 0 ? rm::NV_OK : rm::NV_ERR_INVALID_ADDRESS;
}

// TOOLS_GET_PROCESSOR_UUID_TABLE: the registered GPUs, from entry 1 on; to 550 with their count.
NvStatus UuidTable(UvmCall& call) {
  constexpr std::size_t kEntries = 33;  // UVM_MAX_PROCESSORS_V1
  constexpr std::size_t kCountOffset = 8;
  std::vector<rm::NvProcessorUuid> table(kEntries);
  table[0] = kCpu;
  rm::NvU32 count = 1;
  for (const int gpu : call.space->order) {
    const auto entry = static_cast<rm::NvU32>(gpu) + 1;
    table[entry] = call.model.UuidOf(gpu);
    count = std::max(count, entry + 1);
  }
  call.more_address = Load<rm::NvU64>(call.params);
  std::size_t wanted = kEntries;
  if (call.branch == rm::Branch::k550) {
    const std::span<std::byte> field = call.params.subspan(kCountOffset);
    const auto asked = Load<rm::NvU32>(field);
    wanted = asked == 0 ? kEntries : std::min<std::size_t>(asked, kEntries);
  }
  if (call.branch <= rm::Branch::k550) {
    Store(call.params.subspan(kCountOffset), count);
  }
  if (call.more_address != 0 || call.branch != rm::Branch::k550) {
    const auto bytes = std::as_bytes(std::span(table).first(wanted));
    call.more.assign(bytes.begin(), bytes.end());
  }
  return rm::NV_OK;
}

constexpr UvmHandler kUvmPolicyHandlers[] = {
    {&CreateGroup, rm::UVM_CREATE_RANGE_GROUP},  // the names of the others are in rm/uvm_table.cc
    {&DestroyGroup, rm::UVM_DESTROY_RANGE_GROUP},
    {&SetGroup, 31},
    {&MigrationOfGroups, 40},
    {&MigrationOfGroups, 41},
    {&SetPreferredLocation, rm::UVM_SET_PREFERRED_LOCATION},
    {&UnsetPreferredLocation, 43},
    {&SetReadDuplication, 44},
    {&UnsetReadDuplication, 45},
    {&RangeAndProcessor, rm::UVM_SET_ACCESSED_BY},
    {&RangeAndProcessor, rm::UVM_UNSET_ACCESSED_BY},
    {&RangeAndProcessor, rm::UVM_MIGRATE},
    {&MigrateGroup, rm::UVM_MIGRATE_RANGE_GROUP},
    {&RegisteredOnly, 54},
    {&RegisteredOnly, 55},
    {&ProcessMemory, 62},
    {&ProcessMemory, 63},
    {&UuidTable, 64},
    {&Nothing, 67},
    {&PagesOnly, 71},
    {&UuidTable, 77},
    {&Nothing, 79},
    {&CheckRange, 80},
};

}  // namespace

std::span<const UvmHandler> UvmPolicyHandlers() {
  return kUvmPolicyHandlers;
}

}  // namespace cgpu::sim
