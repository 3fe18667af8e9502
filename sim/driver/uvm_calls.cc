#include "sim/driver/uvm_calls.h"

#include <vector>

#include "rm/uvm_table.h"
#include "sim/driver/bytes.h"

namespace cgpu::sim {
namespace {

NvStatus Initialize(UvmCall& call) {
  const auto params = Load<rm::UVM_INITIALIZE_PARAMS>(call.params);
  return call.model.Initialize(call.file, call.caller.Tgid(), params.flags);
}

NvStatus MmInitialize(UvmCall& call) {
  const auto params = Load<rm::UVM_MM_INITIALIZE_PARAMS>(call.params);
  return call.model.InitializeMm(call.file, call.caller.ResolveFd(params.uvmFd));
}

NvStatus RegisterGpu(UvmCall& call) {
  auto params = Load<rm::UVM_REGISTER_GPU_PARAMS>(call.params);
  const NvStatus status =
      call.model.RegisterGpu(*call.space, params.gpu_uuid, call.caller.OpenMinors());
  if (status == rm::NV_OK) {
    params.numaEnabled = 0;
    params.numaNodeId = -1;
    Store(call.params, params);
  }
  return status;
}

NvStatus UnregisterGpu(UvmCall& call) {
  return call.model.UnregisterGpu(*call.space, Load<rm::NvProcessorUuid>(call.params));
}

NvStatus RegisterVaSpace(UvmCall& call) {
  const auto params = Load<rm::UVM_REGISTER_GPU_VASPACE_PARAMS>(call.params);
  return call.model.RegisterVaSpace(*call.space, params.gpuUuid, call.caller.Tgid(), params.hClient,
                                    params.hVaSpace);
}

NvStatus UnregisterVaSpace(UvmCall& call) {
  return call.model.UnregisterVaSpace(*call.space, Load<rm::NvProcessorUuid>(call.params));
}

NvStatus EnablePeers(UvmCall& call) {
  const auto params = Load<rm::UVM_ENABLE_PEER_ACCESS_PARAMS>(call.params);
  return call.model.EnablePeers(*call.space, params.gpuUuidA, params.gpuUuidB);
}

NvStatus DisablePeers(UvmCall& call) {
  const auto params = Load<rm::UVM_ENABLE_PEER_ACCESS_PARAMS>(call.params);
  return call.model.DisablePeers(*call.space, params.gpuUuidA, params.gpuUuidB);
}

// With the open driver on a kernel that has HMM: a space bound to a process may let the GPUs at
// all of its memory.
bool PageableAccess(const UvmSpace& space) {
  return !space.Sharing() && (space.flags & rm::UVM_INIT_FLAGS_DISABLE_HMM) == 0;
}

NvStatus PageableMemAccess(UvmCall& call) {
  Store(call.params, static_cast<rm::NvU8>(PageableAccess(*call.space) ? 1 : 0));
  return rm::NV_OK;
}

NvStatus PageableMemAccessOnGpu(UvmCall& call) {
  auto params = Load<rm::UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS>(call.params);
  if (call.model.Registered(*call.space, params.gpu_uuid) < 0) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  params.pageableMemAccess = PageableAccess(*call.space) ? 1 : 0;
  Store(call.params, params);
  return rm::NV_OK;
}

NvStatus CreateExternalRange(UvmCall& call) {
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params);
  return UvmModel::CreateExternal(*call.space, range.base, range.length);
}

NvStatus MapExternalAllocation(UvmCall& call) {
  const auto head = Load<rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD>(call.params);
  const auto tail = Load<rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL>(
      call.params.subspan(rm::UvmMapExternalTail(call.branch)));
  // The range is looked at before the number of entries.
  const std::size_t most = rm::kUvmMaxGpus.At(call.branch);
  const std::size_t count = tail.gpuAttributesCount > most ? 0 : tail.gpuAttributesCount;
  std::vector<rm::UvmGpuMappingAttributes> gpus(count);
  for (std::size_t i = 0; i < count; ++i) {
    gpus[i] = Load<rm::UvmGpuMappingAttributes>(
        call.params.subspan(sizeof(head) + i * sizeof(rm::UvmGpuMappingAttributes)));
  }
  const UvmMapRequest request{head.base, head.length, head.offset, tail.hClient, tail.hMemory};
  return call.model.MapExternal(*call.space, call.caller.Tgid(), request, gpus);
}

NvStatus MapExternalSparse(UvmCall& call) {
  const auto params = Load<rm::UVM_UNMAP_EXTERNAL_PARAMS>(call.params);
  return call.model.MapSparse(*call.space, params.base, params.length, params.gpuUuid);
}

NvStatus UnmapExternal(UvmCall& call) {
  const auto params = Load<rm::UVM_UNMAP_EXTERNAL_PARAMS>(call.params);
  return call.model.UnmapExternal(*call.space, params.base, params.length, params.gpuUuid);
}

NvStatus Free(UvmCall& call) {
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params);
  return call.branch >= rm::Branch::k590 ? UvmModel::FreeAt(*call.space, range.base)
                                         : UvmModel::Free(*call.space, range.base, range.length);
}

NvStatus ValidateVaRange(UvmCall& call) {
  const auto range = Load<rm::UVM_RANGE_HEAD>(call.params);
  return UvmModel::Validate(*call.space, range.base, range.length);
}

NvStatus RegisterChannel(UvmCall& call) {
  const auto params = Load<rm::UVM_REGISTER_CHANNEL_PARAMS>(call.params);
  UvmChannelRequest request;
  request.client = params.hClient;
  request.channel = params.hChannel;
  request.base = params.base;
  request.length = params.length;
  return call.model.RegisterChannel(*call.space, params.gpuUuid, call.caller.Tgid(), request);
}

NvStatus UnregisterChannel(UvmCall& call) {
  if (call.branch >= rm::Branch::k590) {
    const auto params = Load<rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590>(call.params);
    return UvmModel::UnregisterChannel(*call.space, params.hClient, params.hChannel);
  }
  const auto params = Load<rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535>(call.params);
  return UvmModel::UnregisterChannel(*call.space, params.hClient, params.hChannel);
}

NvStatus AllocSemaphorePool(UvmCall& call) {
  const auto head = Load<rm::UVM_ALLOC_SEMAPHORE_POOL_HEAD>(call.params);
  const auto tail = Load<rm::UVM_ALLOC_SEMAPHORE_POOL_TAIL>(
      call.params.subspan(rm::UvmSemaphorePoolTail(call.branch)));
  if (tail.gpuAttributesCount > rm::kUvmMaxGpus.At(call.branch)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (std::size_t i = 0; i < tail.gpuAttributesCount; ++i) {
    const auto attributes = Load<rm::UvmGpuMappingAttributes>(
        call.params.subspan(sizeof(head) + i * sizeof(rm::UvmGpuMappingAttributes)));
    if (call.model.Registered(*call.space, attributes.gpuUuid) < 0) {
      return rm::NV_ERR_INVALID_DEVICE;
    }
  }
  return UvmModel::AllocSemaphorePool(*call.space, head.base, head.length);
}

NvStatus MapDynamicParallelism(UvmCall& call) {
  const auto params = Load<rm::UVM_UNMAP_EXTERNAL_PARAMS>(call.params);
  return call.model.MapDynamicParallelism(*call.space, params.base, params.length, params.gpuUuid);
}

NvStatus AllocDeviceP2p(UvmCall& call) {
  const auto params = Load<rm::UVM_ALLOC_DEVICE_P2P_PARAMS>(call.params);
  const UvmMapRequest request{params.base, params.length, params.offset, params.hClient,
                              params.hMemory};
  return call.model.AllocDeviceP2p(*call.space, params.gpuUuid, call.caller.Tgid(), request);
}

NvStatus CleanUpZombies(UvmCall& call) {
  call.model.CleanUpZombies(*call.space);
  return rm::NV_OK;
}

constexpr UvmHandler kUvmCallHandlers[] = {
    {&RegisterChannel, rm::UVM_REGISTER_CHANNEL},
    {&UnregisterChannel, rm::UVM_UNREGISTER_CHANNEL},
    {&AllocSemaphorePool, rm::UVM_ALLOC_SEMAPHORE_POOL},
    {&MapDynamicParallelism, rm::UVM_MAP_DYNAMIC_PARALLELISM_REGION},
    {&AllocDeviceP2p, rm::UVM_ALLOC_DEVICE_P2P},
    {&CleanUpZombies, rm::UVM_CLEAN_UP_ZOMBIE_RESOURCES},
    {&RegisterVaSpace, rm::UVM_REGISTER_GPU_VASPACE},
    {&UnregisterVaSpace, rm::UVM_UNREGISTER_GPU_VASPACE},
    {&EnablePeers, rm::UVM_ENABLE_PEER_ACCESS},
    {&DisablePeers, rm::UVM_DISABLE_PEER_ACCESS},
    {&MapExternalAllocation, rm::UVM_MAP_EXTERNAL_ALLOCATION},
    {&Free, rm::UVM_FREE},
    {&RegisterGpu, rm::UVM_REGISTER_GPU},
    {&UnregisterGpu, rm::UVM_UNREGISTER_GPU},
    {&PageableMemAccess, rm::UVM_PAGEABLE_MEM_ACCESS},
    {&UnmapExternal, rm::UVM_UNMAP_EXTERNAL},
    {&PageableMemAccessOnGpu, rm::UVM_PAGEABLE_MEM_ACCESS_ON_GPU},
    {&ValidateVaRange, rm::UVM_VALIDATE_VA_RANGE},
    {&CreateExternalRange, rm::UVM_CREATE_EXTERNAL_RANGE},
    {&MapExternalSparse, rm::UVM_MAP_EXTERNAL_SPARSE},
    {&MmInitialize, rm::UVM_MM_INITIALIZE, false},
    {&Initialize, rm::UVM_INITIALIZE, false},
};

}  // namespace

const UvmHandler* FindUvmHandler(rm::NvU32 request) {
  for (const std::span<const UvmHandler> table :
       {std::span<const UvmHandler>(kUvmCallHandlers), UvmPolicyHandlers()}) {
    for (const UvmHandler& handler : table) {
      if (handler.request == request) {
        return &handler;
      }
    }
  }
  return nullptr;
}

}  // namespace cgpu::sim
