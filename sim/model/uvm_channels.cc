// Channels, and the ranges that are neither external nor managed: uvm_user_channel.c,
// uvm_va_range.c, uvm_va_range_device_p2p.c.
#include <algorithm>

#include "rm/vidmem.h"
#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 Up(rm::NvU64 value) {
  return (value + rm::kPageBig - 1) / rm::kPageBig * rm::kPageBig;
}

bool InvalidPages(rm::NvU64 base, rm::NvU64 length) {
  return base % rm::kPage4K != 0 || length % rm::kPage4K != 0 || base == 0 || length == 0 ||
         base + length < base;
}

}  // namespace

// uvm_user_channel.c uvm_register_channel(). The descriptor is not looked at.
NvStatus UvmModel::RegisterChannel(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                   std::uint32_t tgid, const UvmChannelRequest& request) {
  const int gpu = Registered(space, uuid);
  UvmGpuVaSpace* vaspace = gpu < 0 ? nullptr : VaSpaceOf(space, gpu);
  if (vaspace == nullptr) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  Client* source = driver_.FindClient(request.client);
  if (source == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  const Object* object = DriverModel::FindObject(*source, request.channel);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (object->kind != ObjectKind::kChannel || object->gpu != gpu) {
    return rm::NV_ERR_INVALID_CHANNEL;
  }
  if (!MayDuplicate(*source, *object, tgid)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  for (const UvmChannel& known : vaspace->channels) {
    if (known.client == request.client && known.channel == request.channel) {
      return rm::NV_ERR_INVALID_CHANNEL;
    }
  }
  UvmChannel channel;
  channel.client = request.client;
  channel.channel = request.channel;
  channel.group =
      object->group != nullptr ? object->group : source->objects.at(object->parent).group;
  if (channel.group != nullptr && channel.group->charge.Bytes() != 0) {
    const NvStatus status = AddChannelRange(space, gpu, request, *channel.group, &channel);
    if (status != rm::NV_OK) {
      return status;
    }
  }
  vaspace->channels.push_back(std::move(channel));
  return rm::NV_OK;
}

// create_va_ranges(): channels of one group share the ranges of their context buffers, which are
// taken here for one buffer of 64 KiB pages.
NvStatus UvmModel::AddChannelRange(UvmSpace& space, int gpu, const UvmChannelRequest& request,
                                   const Group& group, UvmChannel* channel) {
  if (InvalidPages(request.base, request.length)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  UvmGpuVaSpace& vaspace = *VaSpaceOf(space, gpu);
  for (const UvmChannel& known : vaspace.channels) {
    if (known.group.get() == &group) {
      channel->ranges = known.ranges;
      for (const rm::NvU64 base : channel->ranges) {
        ++space.ranges.at(base).users;
      }
      return rm::NV_OK;
    }
  }
  const rm::NvU64 base = Up(request.base);
  const rm::NvU64 length = Up(group.charge.Bytes());
  if (base + length > request.base + request.length ||
      CheckFree(space, base, length) != rm::NV_OK) {
    return rm::NV_ERR_UVM_ADDRESS_IN_USE;
  }
  UvmRange& range = space.ranges[base];
  range.kind = UvmRangeKind::kChannel;
  range.length = length;
  range.gpu = gpu;
  range.users = 1;
  vaspace.tree.Add(base, length, rm::kPageBig);
  channel->ranges.push_back(base);
  return rm::NV_OK;
}

void UvmModel::DropChannel(UvmSpace& space, UvmGpuVaSpace& vaspace, const UvmChannel& channel) {
  for (const rm::NvU64 base : channel.ranges) {
    const auto range = space.ranges.find(base);
    if (--range->second.users == 0) {
      vaspace.tree.Remove(base, range->second.length, rm::kPageBig);
      space.ranges.erase(range);
    }
  }
}

NvStatus UvmModel::UnregisterChannel(UvmSpace& space, rm::NvHandle client, rm::NvHandle handle) {
  for (auto& [gpu, registered] : space.gpus) {
    if (registered.vaspace == nullptr) {
      continue;
    }
    std::vector<UvmChannel>& channels = registered.vaspace->channels;
    const auto found = std::find_if(channels.begin(), channels.end(), [&](const UvmChannel& c) {
      return c.client == client && c.channel == handle;
    });
    if (found != channels.end()) {
      DropChannel(space, *registered.vaspace, *found);
      channels.erase(found);
      return rm::NV_OK;
    }
  }
  return rm::NV_ERR_INVALID_CHANNEL;
}

// uvm_api_alloc_semaphore_pool(): system memory, mapped by every registered GPU VA space.
NvStatus UvmModel::AllocSemaphorePool(UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  if (InvalidPages(base, length)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const NvStatus status = CheckFree(space, base, length);
  if (status != rm::NV_OK) {
    return status;
  }
  UvmRange& range = space.ranges[base];
  range.kind = UvmRangeKind::kSemaphorePool;
  range.length = length;
  for (auto& [gpu, registered] : space.gpus) {
    if (registered.vaspace != nullptr) {
      registered.vaspace->tree.Add(base, length, rm::kPage4K);
    }
  }
  return rm::NV_OK;
}

// uvm_map_sked_reflected_range(): exactly one page of the GPU.
NvStatus UvmModel::MapDynamicParallelism(UvmSpace& space, rm::NvU64 base, rm::NvU64 length,
                                         const rm::NvProcessorUuid& uuid) {
  if (InvalidPages(base, length)) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const int gpu = Registered(space, uuid);
  UvmGpuVaSpace* vaspace = gpu < 0 ? nullptr : VaSpaceOf(space, gpu);
  if (vaspace == nullptr) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  const Chip* chip = driver_.Gpus()[static_cast<std::size_t>(gpu)].model->chip;
  const bool page = length == rm::kPage4K || length == rm::kPageBig || length == rm::kPageHuge ||
                    (length == rm::kPage512M && chip->architecture >= kAmpere);
  if (!page || base % length != 0) {
    return rm::NV_ERR_INVALID_ADDRESS;
  }
  const NvStatus status = CheckFree(space, base, length);
  if (status != rm::NV_OK) {
    return status;
  }
  UvmRange& range = space.ranges[base];
  range.kind = UvmRangeKind::kDynamicParallelism;
  range.length = length;
  range.gpu = gpu;
  vaspace->tree.Add(base, length, length);
  return rm::NV_OK;
}

// uvm_api_alloc_device_p2p(): memory of the GPU for the processor and other devices.
NvStatus UvmModel::AllocDeviceP2p(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                  std::uint32_t tgid, const UvmMapRequest& request) {
  if (InvalidPages(request.base + request.offset, request.length)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const int gpu = Registered(space, uuid);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  std::shared_ptr<Block> block;
  NvStatus status = Duplicate(space, gpu, tgid, request, &block);
  if (status != rm::NV_OK) {
    return status;
  }
  if (block->gpu != gpu || request.offset + request.length > block->length) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  status = CheckFree(space, request.base, request.length);
  if (status != rm::NV_OK) {
    return status;
  }
  UvmRange& range = space.ranges[request.base];
  range.kind = UvmRangeKind::kDeviceP2p;
  range.length = request.length;
  range.gpu = gpu;
  range.block = std::move(block);
  return rm::NV_OK;
}

}  // namespace cgpu::sim
