#include "flip_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/uvm_table.h"
#include "rm/vidmem.h"

namespace cgpu::adversary {
namespace {

constexpr std::uint64_t kSize = kWorldSize;
constexpr std::uint64_t kHuge = 2048 * kMiB;
constexpr std::uint64_t kFarBase = std::uint64_t{1} << 44;
constexpr unsigned kFarShift = 39;  // places that have no table but the root in common
constexpr std::uint32_t kPinFlags = 1U << 30U | 1U << 12U;  // NVOS02_FLAGS: no map, cached

template <class T>
Ready Escape(int file, std::uint8_t nr, const T& image,
             std::optional<std::size_t> made = std::nullopt) {
  Ready ready;
  ready.file = file;
  ready.nr = nr;
  ready.request = rm::EscapeRequest(nr, sizeof(image));
  ready.blocks.push_back({BytesOf(image)});
  ready.made = made;
  ready.status = rm::StatusOffset(nr, sizeof(image));
  return ready;
}

void Nest(Ready& ready, ByteString bytes, int holder, std::size_t at) {
  if (!bytes.empty()) {
    ready.blocks.push_back({std::move(bytes), holder, at});
  }
}

// In the short form or in the long one.
Ready Alloc(World& world, Draws& draws, std::uint32_t cls, std::uint32_t parent, ByteString params,
            std::uint32_t handle) {
  Ready ready;
  const std::uint32_t root = world.client().root;
  const auto size = static_cast<std::uint32_t>(params.size());
  if (Draw(draws, 2) == 0) {
    const rm::NVOS21_PARAMETERS image{root, parent, handle, cls, 0, size, 0};
    ready = Escape(world.client().ctl, rm::NV_ESC_RM_ALLOC, image,
                   offsetof(decltype(image), hObjectNew));
    Nest(ready, std::move(params), 0, offsetof(decltype(image), pAllocParms));
  } else {
    const rm::NVOS64_PARAMETERS image{root, parent, handle, cls, 0, 0, size, 0, 0};
    ready = Escape(world.client().ctl, rm::NV_ESC_RM_ALLOC, image,
                   offsetof(decltype(image), hObjectNew));
    Nest(ready, std::move(params), 0, offsetof(decltype(image), pAllocParms));
    if (Draw(draws, 2) == 0) {
      Nest(ready, BytesOf(rm::RS_ACCESS_MASK{}), 0, offsetof(decltype(image), pRightsRequested));
    }
  }
  return ready;
}

Ready Control(World& world, std::uint32_t object, std::uint32_t command, ByteString params) {
  const rm::NVOS54_PARAMETERS image{
      world.client().root, object, command, 0, 0, static_cast<std::uint32_t>(params.size()), 0};
  Ready ready = Escape(world.client().ctl, rm::NV_ESC_RM_CONTROL, image);
  Nest(ready, std::move(params), 0, offsetof(decltype(image), params));
  return ready;
}

// --- Objects

Ready Pin(World& world, Draws& draws) {
  rm::nv_ioctl_nvos02_parameters_with_fd image{};
  image.params.hRoot = world.client().root;
  image.params.hObjectParent = Draw(draws, 4) != 0 ? world.decoy : Client::kDevice;
  image.params.hObjectNew = world.Fresh();
  image.params.hClass = rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
  image.params.flags = kPinFlags;
  image.params.pMemory = std::bit_cast<std::uint64_t>(world.lent);
  image.params.limit = rm::kPage4K - 1;
  image.fd = -1;
  return Escape(world.client().gpu, rm::NV_ESC_RM_ALLOC_MEMORY, image,
                offsetof(rm::NVOS02_PARAMETERS, hObjectNew));
}

Ready LegacyMemory(World& world, Draws& draws) {
  Ready ready = Pin(world, draws);
  const std::uint32_t cls =
      Draw(draws, 2) == 0 ? rm::NV01_MEMORY_SYSTEM : rm::NV01_MEMORY_LOCAL_USER;
  std::memcpy(ready.blocks[0].bytes.data() + offsetof(rm::NVOS02_PARAMETERS, hClass), &cls, 4);
  return ready;
}

Ready AllocMemory(World& world, Draws& draws) {
  const bool of_host = Draw(draws, 4) == 0;
  auto params = MemoryParams(kSize);
  if (of_host) {
    params.attr = rm::NVOS32_ATTR_LOCATION.Set(params.attr, rm::NVOS32_ATTR_LOCATION_PCI);
  }
  Ready ready =
      Alloc(world, draws, of_host ? rm::NV01_MEMORY_SYSTEM : rm::NV01_MEMORY_LOCAL_USER,
            Draw(draws, 2) == 0 ? world.decoy : Client::kDevice, BytesOf(params), world.Fresh());
  ready.other = BytesOf(MemoryParams(kHuge));
  return ready;
}

Ready AllocRange(World& world, Draws& draws) {
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  params.limit = (std::uint64_t{1} << 47U) - 1;
  params.hVASpace = Draw(draws, 2) == 0 ? 0 : world.space;
  return Alloc(world, draws, rm::NV01_MEMORY_VIRTUAL, Client::kDevice, BytesOf(params),
               world.Fresh());
}

Ready AllocGroup(World& world, Draws& draws) {
  rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS params{};
  params.hVASpace = world.space;
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  return Alloc(world, draws, rm::KEPLER_CHANNEL_GROUP_A, Client::kDevice, BytesOf(params),
               world.Fresh());
}

Ready AllocChannel(World& world, Draws& draws) {
  rm::NV_CHANNEL_ALLOC_PARAMS_V535 params{};
  const bool lone = Draw(draws, 2) == 0;
  params.hObjectError = world.Memory();
  params.hVASpace = lone ? world.space : 0;
  params.gpFifoEntries = 16;
  params.engineType = rm::NV2080_ENGINE_TYPE_GRAPHICS;
  return Alloc(world, draws, rm::VOLTA_CHANNEL_GPFIFO_A, lone ? Client::kDevice : world.group,
               BytesOf(params), world.Fresh());
}

Ready AllocDevice(World& world, Draws& draws) {
  return Alloc(world, draws, rm::NV01_DEVICE_0, world.client().root,
               BytesOf(rm::NV0080_ALLOC_PARAMETERS{}), world.Fresh());
}

Ready AllocClient(World& world, Draws& draws) {
  Ready ready = Alloc(world, draws, rm::NV01_ROOT_CLIENT, 0, {}, 0);
  std::memset(ready.blocks[0].bytes.data(), 0, sizeof(rm::NvHandle));
  return ready;
}

// Any class that there is, with zeros.
Ready AllocClass(World& world, Draws& draws) {
  const auto rows = rm::ClassRows();
  const rm::ClassRow* row = nullptr;
  do {
    row = &rows[Draw(draws, rows.size())];
  } while (!row->Known(kBranch));
  const std::array parents{Client::kDevice, Client::kSubdevice, world.group, world.channel,
                           world.client().root};
  return Alloc(world, draws, row->number, parents[Draw(draws, parents.size())],
               ByteString(row->Size(kBranch)), world.Fresh());
}

Ready Free(World& world, Draws& /*draws*/) {
  return Escape(world.client().ctl, rm::NV_ESC_RM_FREE,
                rm::NVOS00_PARAMETERS{world.client().root, world.client().root, world.Memory(), 0});
}

Ready Dup(World& world, Draws& draws) {
  const bool to_twin = Draw(draws, 2) == 0;
  const std::uint32_t source = Draw(draws, 4) == 0 ? world.space : world.Memory();
  const rm::NVOS55_PARAMETERS image{to_twin ? world.twin.root : world.client().root,
                                    Draw(draws, 2) == 0 ? world.decoy : Client::kDevice,
                                    world.Fresh(),
                                    world.client().root,
                                    source,
                                    0,
                                    0};
  return Escape(world.client().ctl, rm::NV_ESC_RM_DUP_OBJECT, image,
                offsetof(rm::NVOS55_PARAMETERS, hObject));
}

Ready ShareOne(World& world, Draws& draws) {
  rm::NVOS57_PARAMETERS image{};
  image.hClient = world.client().root;
  image.hObject = world.Memory();
  image.sharePolicy.type = Draw(draws, 2) == 0 ? rm::RS_SHARE_TYPE_ALL : rm::RS_SHARE_TYPE_CLIENT;
  image.sharePolicy.target = world.twin.root;
  image.sharePolicy.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  return Escape(world.client().ctl, rm::NV_ESC_RM_SHARE, image);
}

Ready HeapAlloc(World& world, Draws& draws) {
  rm::NVOS32_PARAMETERS image{};
  image.hRoot = world.client().root;
  image.hObjectParent = Draw(draws, 2) == 0 ? world.decoy : Client::kDevice;
  image.function = rm::NVOS32_FUNCTION_ALLOC_SIZE;
  image.data.AllocSize.owner = world.client().root;
  image.data.AllocSize.hMemory = world.Fresh();
  image.data.AllocSize.flags = rm::NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED;
  image.data.AllocSize.size = kSize;
  return Escape(world.client().ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, image,
                offsetof(rm::NVOS32_PARAMETERS, data) + offsetof(rm::NVOS32_ALLOC_SIZE, hMemory));
}

Ready HeapFree(World& world, Draws& /*draws*/) {
  rm::NVOS32_PARAMETERS image{};
  image.hRoot = world.client().root;
  image.hObjectParent = Client::kDevice;
  image.function = rm::NVOS32_FUNCTION_FREE;
  image.data.Free.owner = world.client().root;
  image.data.Free.hMemory = world.Memory();
  image.data.Free.flags = 1;  // NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED
  return Escape(world.client().ctl, rm::NV_ESC_RM_VID_HEAP_CONTROL, image);
}

Ready ContextDma(World& world, Draws& /*draws*/) {
  rm::NVOS39_PARAMETERS image{};
  image.hObjectParent = world.client().root;
  image.hSubDevice = Client::kSubdevice;
  image.hObjectNew = world.Fresh();
  image.hClass = rm::NV01_CONTEXT_DMA;
  image.hMemory = world.Memory();
  image.limit = rm::kPage4K - 1;
  return Escape(world.client().ctl, rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2, image,
                offsetof(rm::NVOS39_PARAMETERS, hObjectNew));
}

// --- Mappings

Ready MapView(World& world, Draws& /*draws*/) {
  rm::nv_ioctl_nvos33_parameters_with_fd image{};
  image.params.hClient = world.client().root;
  image.params.hDevice = Client::kDevice;
  image.params.hMemory = world.Memory();
  image.params.length = rm::kPage4K;
  image.fd = world.spare_gpu;
  return Escape(world.client().ctl, rm::NV_ESC_RM_MAP_MEMORY, image);
}

Ready UnmapView(World& world, Draws& /*draws*/) {
  rm::NVOS34_PARAMETERS image{};
  image.hClient = world.client().root;
  image.hDevice = Client::kDevice;
  image.hMemory = world.Memory();
  (void)world.client().Map(image.hMemory, rm::kPage4K, &image.pLinearAddress);
  return Escape(world.client().ctl, rm::NV_ESC_RM_UNMAP_MEMORY, image);
}

rm::NVOS46_PARAMETERS_V535 DmaOf(World& world) {
  rm::NVOS46_PARAMETERS_V535 image{};
  image.hClient = world.client().root;
  image.hDevice = Client::kDevice;
  image.hDma = world.range;
  image.hMemory = world.Memory();
  image.length = 2 * rm::kPage4K;
  image.flags = rm::NVOS46_FLAGS_PAGE_SIZE_4KB << 8U | 1U << 15U;  // at a fixed address
  image.dmaOffset = kFarBase + (++world.placed << kFarShift) - rm::kPage4K;
  return image;
}

Ready MapDma(World& world, Draws& /*draws*/) {
  return Escape(world.client().ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, DmaOf(world));
}

Ready UnmapDma(World& world, Draws& /*draws*/) {
  auto map = DmaOf(world);
  (void)Plainly(world.client().ctl, rm::NV_ESC_RM_MAP_MEMORY_DMA, &map, sizeof(map));
  rm::NVOS47_PARAMETERS_V550 image{};
  image.hClient = map.hClient;
  image.hDevice = map.hDevice;
  image.hDma = map.hDma;
  image.hMemory = map.hMemory;
  image.dmaOffset = map.dmaOffset;
  return Escape(world.client().ctl, rm::NV_ESC_RM_UNMAP_MEMORY_DMA, image);
}

Ready MoveView(World& world, Draws& draws) {
  const Ready unmap = UnmapView(world, draws);
  rm::NVOS34_PARAMETERS view{};
  std::memcpy(&view, unmap.blocks[0].bytes.data(), sizeof(view));
  return Escape(world.client().ctl, rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO,
                rm::NVOS56_PARAMETERS{view.hClient, view.hDevice, view.hMemory, view.pLinearAddress,
                                      std::uint64_t{1} << 41U, 0});
}

// --- Events, channels, files

Ready OsEvent(World& world, Draws& /*draws*/) {
  return Escape(world.client().ctl, rm::NV_ESC_ALLOC_OS_EVENT,
                rm::nv_ioctl_alloc_os_event_t{world.client().root, Client::kDevice,
                                              static_cast<std::uint32_t>(world.null), 0});
}

Ready FreeOsEvent(World& world, Draws& draws) {
  Ready made = OsEvent(world, draws);
  (void)RawIoctl(made.file, made.request, made.blocks[0].bytes.data());
  made.nr = rm::NV_ESC_FREE_OS_EVENT;
  made.request = rm::EscapeRequest(rm::NV_ESC_FREE_OS_EVENT, sizeof(rm::nv_ioctl_free_os_event_t));
  return made;
}

Ready Idle(World& world, Draws& /*draws*/) {
  rm::NVOS30_PARAMETERS image{};
  image.hClient = world.client().root;
  image.hDevice = Client::kDevice;
  image.hChannel = world.channel;
  image.numChannels = 1;
  Ready ready = Escape(world.client().ctl, rm::NV_ESC_RM_IDLE_CHANNELS, image);
  Nest(ready, BytesOf(world.client().root), 0, offsetof(rm::NVOS30_PARAMETERS, phClients));
  Nest(ready, BytesOf(Client::kDevice), 0, offsetof(rm::NVOS30_PARAMETERS, phDevices));
  Nest(ready, BytesOf(world.channel), 0, offsetof(rm::NVOS30_PARAMETERS, phChannels));
  return ready;
}

Ready Register(World& world, Draws& /*draws*/) {
  Ready ready =
      Escape(OpenGpu(), rm::NV_ESC_REGISTER_FD, rm::nv_ioctl_register_fd_t{world.client().ctl});
  ready.closes = true;
  return ready;
}

Ready Export(World& world, Draws& /*draws*/) {
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params{};
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject = {Client::kDevice, Client::kDevice, world.Memory()};
  params.fd = world.empty;
  return Control(world, world.client().root, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD,
                 BytesOf(params));
}

Ready Import(World& world, Draws& /*draws*/) {
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS params{};
  params.fd = world.exported;
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject = {Client::kDevice, Client::kDevice, world.Fresh()};
  Ready ready = Control(world, world.client().root,
                        rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, BytesOf(params));
  ready.made_inside = sizeof(params) - sizeof(rm::NvHandle);
  return ready;
}

Ready ExportMany(World& world, Draws& /*draws*/) {
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS params{};
  params.fd = world.many;
  params.hDevice = Client::kDevice;
  params.maxObjects = 4;
  params.objects[0] = world.Memory();
  params.objects[1] = world.Memory();
  params.numObjects = 2;
  return Control(world, world.client().root, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD,
                 BytesOf(params));
}

Ready ImportMany(World& world, Draws& draws) {
  Ready made = ExportMany(world, draws);
  Stage::Point(made.blocks);
  rm::NVOS54_PARAMETERS control{};
  std::memcpy(&control, made.blocks[0].bytes.data(), sizeof(control));
  (void)world.client().Control(control.hObject, control.cmd, made.blocks[1].bytes.data(),
                               control.paramsSize);
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS params{};
  params.fd = world.many;
  params.hParent = Client::kDevice;
  params.objects[0] = world.Fresh();
  params.objects[1] = world.Fresh();
  params.numObjects = 2;
  Ready ready = Control(world, world.client().root,
                        rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, BytesOf(params));
  ready.made_inside = offsetof(decltype(params), objects);
  return ready;
}

Ready Schedule(World& world, Draws& /*draws*/) {
  return Control(world, world.group, rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
                 BytesOf(rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535{1, 0}));
}

Ready DisableChannels(World& world, Draws& /*draws*/) {
  rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS params{};
  params.bDisable = 1;
  params.numChannels = 1;
  params.hClientList[0] = world.client().root;
  params.hChannelList[0] = world.channel;
  return Control(world, Client::kSubdevice, rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
                 BytesOf(params));
}

// Any control that there is, on an object of its kind, with lists where it has some.
Ready AnyControl(World& world, Draws& draws) {
  constexpr std::uint32_t kCount = 4;
  const auto rows = rm::ControlRows();
  const rm::ControlRow* row = nullptr;
  do {
    row = &rows[Draw(draws, rows.size())];
  } while (!row->Known(kBranch) || row->Size(kBranch) > Stage::kMostBytes);
  const std::uint32_t cls = row->cmd >> 16U;
  const std::uint32_t object = cls == 0                            ? world.client().root
                               : cls == rm::NV01_DEVICE_0          ? Client::kDevice
                               : cls == rm::KEPLER_CHANNEL_GROUP_A ? world.group
                               : cls == rm::FERMI_VASPACE_A        ? world.space
                               : cls == rm::VOLTA_CHANNEL_GPFIFO_A ? world.channel
                                                                   : Client::kSubdevice;
  Ready ready = Control(world, object, row->cmd, ByteString(row->Size(kBranch)));
  for (const rm::EmbeddedPointer& pointer : rm::EmbeddedPointers(row->cmd)) {
    const auto bytes = pointer.Bytes(kCount);
    if (pointer.since <= kBranch && ready.blocks.size() > 1 &&
        ready.blocks.size() < Stage::kMostBlocks && bytes && *bytes <= Stage::kMostBytes) {
      std::memcpy(ready.blocks[1].bytes.data() + pointer.count_offset, &kCount, sizeof(kCount));
      Nest(ready, ByteString(*bytes), 1, pointer.pointer_offset);
    }
  }
  return ready;
}

// --- nvidia-uvm

Ready Request(World& world, std::uint32_t request, ByteString params) {
  Ready ready;
  ready.file = world.uvm.uvm;
  ready.request = request;
  ready.status = rm::FindUvm(request)->status.At(kBranch);
  ready.blocks.push_back({std::move(params)});
  return ready;
}

std::uint64_t RangeAt(World& world) {
  world.address += 2 * kSize;
  (void)world.uvm.CreateRange(world.address, kSize);
  return world.address;
}

Ready MapExternal(World& world, Draws& /*draws*/) {
  ByteString params(rm::UvmParamSize(kBranch, rm::UVM_MAP_EXTERNAL_ALLOCATION));
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_HEAD head{RangeAt(world), kSize, 0};
  rm::UvmGpuMappingAttributes attributes{};
  attributes.gpuUuid = world.uvm.uuid;
  const rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL tail{1, world.client().ctl, world.client().root,
                                                  world.Memory(), 0};
  std::memcpy(params.data(), &head, sizeof(head));
  std::memcpy(params.data() + sizeof(head), &attributes, sizeof(attributes));
  std::memcpy(params.data() + rm::UvmMapExternalTail(kBranch), &tail, sizeof(tail));
  return Request(world, rm::UVM_MAP_EXTERNAL_ALLOCATION, std::move(params));
}

Ready RegisterChannel(World& world, Draws& /*draws*/) {
  rm::UVM_REGISTER_CHANNEL_PARAMS params{};
  params.gpuUuid = world.uvm.uuid;
  params.rmCtrlFd = world.client().ctl;
  params.hClient = world.client().root;
  params.hChannel = world.channel;
  world.address += 2 * kSize;
  params.base = world.address;
  params.length = kSize;
  return Request(world, rm::UVM_REGISTER_CHANNEL, BytesOf(params));
}

Ready RegisterSpace(World& world, Draws& /*draws*/) {
  rm::UVM_UNREGISTER_GPU_VASPACE_PARAMS last{world.uvm.uuid, 0};
  (void)world.uvm.Ask(rm::UVM_UNREGISTER_GPU_VASPACE, &last);
  return Request(
      world, rm::UVM_REGISTER_GPU_VASPACE,
      BytesOf(rm::UVM_REGISTER_GPU_VASPACE_PARAMS{world.uvm.uuid, world.client().ctl,
                                                  world.client().root, UvmClient::kVaSpace, 0}));
}

Ready CreateRange(World& world, Draws& /*draws*/) {
  world.address += 2 * kSize;
  ByteString params(rm::UvmParamSize(kBranch, rm::UVM_CREATE_EXTERNAL_RANGE));
  const rm::UVM_RANGE_HEAD head{world.address, kSize};
  std::memcpy(params.data(), &head, sizeof(head));
  return Request(world, rm::UVM_CREATE_EXTERNAL_RANGE, std::move(params));
}

Ready MapSparse(World& world, Draws& /*draws*/) {
  return Request(
      world, rm::UVM_MAP_EXTERNAL_SPARSE,
      BytesOf(rm::UVM_UNMAP_EXTERNAL_PARAMS{RangeAt(world), kSize, world.uvm.uuid, 0, 0}));
}

Ready Initialise(World& world, Draws& /*draws*/) {
  Ready ready = Request(
      world, rm::UVM_INITIALIZE,
      BytesOf(rm::UVM_INITIALIZE_PARAMS{rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE, 0, 0}));
  ready.file = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  ready.closes = true;
  return ready;
}

// Any request that there is, on a range with something mapped.
Ready AnyRequest(World& world, Draws& draws) {
  const auto rows = rm::UvmRows();
  const rm::UvmRow* row = nullptr;
  do {
    row = &rows[Draw(draws, rows.size())];
  } while (row->size.At(kBranch) == 0 || row->size.At(kBranch) > Stage::kMostBytes);
  ByteString params(row->size.At(kBranch));
  const std::uint64_t base = RangeAt(world);
  (void)world.uvm.Map(base, kSize, world.Memory());
  const rm::UVM_UNMAP_EXTERNAL_PARAMS usual{base, kSize, world.uvm.uuid, 0, 0};
  std::memcpy(params.data(), &usual,
              std::min(params.size(), offsetof(rm::UVM_UNMAP_EXTERNAL_PARAMS, rmStatus)));
  if (Draw(draws, 2) == 0 && params.size() >= sizeof(world.uvm.uuid)) {
    std::memcpy(params.data(), &world.uvm.uuid, sizeof(world.uvm.uuid));
  }
  return Request(world, row->request, std::move(params));
}

constexpr Maker kMakers[] = {
    {"pin", Pin, true},
    {"alloc-memory", AllocMemory, true},
    {"alloc-range", AllocRange, true},
    {"alloc-group", AllocGroup, true},
    {"alloc-channel", AllocChannel, true},
    {"pin", Pin, true},
    {"alloc-device", AllocDevice, true},
    {"alloc-client", AllocClient, true},
    {"alloc-class", AllocClass, false},
    {"free", Free, true},
    {"dup", Dup, true},
    {"pin", Pin, true},
    {"share", ShareOne, true},
    {"heap-alloc", HeapAlloc, true},
    {"heap-free", HeapFree, true},
    {"context-dma", ContextDma, true},
    {"map", MapView, true},
    {"unmap", UnmapView, true},
    {"map-dma", MapDma, true},
    {"unmap-dma", UnmapDma, true},
    {"move", MoveView, true},
    {"os-event", OsEvent, true},
    {"free-os-event", FreeOsEvent, true},
    {"legacy-memory", LegacyMemory, true},
    {"idle", Idle, true},
    {"register", Register, true},
    {"export", Export, true},
    {"import", Import, true},
    {"export-many", ExportMany, true},
    {"import-many", ImportMany, true},
    {"schedule", Schedule, true},
    {"disable-channels", DisableChannels, true},
    {"control", AnyControl, false},
    {"map-external", MapExternal, true},
    {"register-channel", RegisterChannel, false},
    {"register-space", RegisterSpace, true},
    {"create-range", CreateRange, true},
    {"map-sparse", MapSparse, true},
    {"initialise", Initialise, true},
    {"request", AnyRequest, false},
};

}  // namespace

std::span<const Maker> FlipMakers() {
  return kMakers;
}

void Wrap(Ready& ready) {
  rm::nv_ioctl_xfer_t xfer{};
  xfer.cmd = ready.nr;
  xfer.size = static_cast<std::uint32_t>(ready.blocks[0].bytes.size());
  for (Block& block : ready.blocks) {
    ++block.holder;
  }
  ready.blocks[0].at = offsetof(rm::nv_ioctl_xfer_t, ptr);
  ready.blocks.insert(ready.blocks.begin(), {BytesOf(xfer)});
  ready.request = rm::EscapeRequest(rm::NV_ESC_IOCTL_XFER_CMD, sizeof(xfer));
}

}  // namespace cgpu::adversary
