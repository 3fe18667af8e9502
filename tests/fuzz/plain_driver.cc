#include "tests/fuzz/plain_driver.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/vidmem.h"

namespace cgpu::fuzz {
namespace {

constexpr std::uint64_t kGpuBytes = std::uint64_t{1} << 40;

template <class T>
T Load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void Store(std::byte* into, const T& value) {
  std::memcpy(into, &value, sizeof(T));
}

std::byte* Follow(rm::NvP64 pointer) {
  return std::bit_cast<std::byte*>(pointer);
}

// As copy_from_user and copy_to_user of so many bytes: a sanitizer sees it if they are not there.
void Touch(std::byte* bytes, std::size_t size) {
  for (std::size_t i = 0; bytes != nullptr && i < size; ++i) {
    auto* const byte = const_cast<volatile std::byte*>(bytes + i);
    *byte = *byte;
  }
}

bool IsClient(std::uint32_t cls) {
  return cls == rm::NV01_ROOT || cls == rm::NV01_ROOT_NON_PRIV || cls == rm::NV01_ROOT_CLIENT;
}

bool IsGpuMemory(std::uint32_t flags, std::uint32_t attr, std::uint32_t attr2) {
  return (flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) == 0 &&
         rm::NVOS32_ATTR2_USE_EGM.Get(attr2) == 0 &&
         rm::NVOS32_ATTR_LOCATION.Get(attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM;
}

// The tables of an interval of addresses: for small pages one of 4 KiB and one of 256 bytes for
// every 2 MiB, above them one for every 512 MiB, 256 GiB and 128 TiB, and one more of each as it
// may begin in the middle of one.
std::uint64_t TablesOf(std::uint64_t size, std::uint32_t flags, std::uint32_t attr) {
  constexpr std::uint64_t kTable = 4096;
  const auto tables = [](std::uint64_t length) {
    std::uint64_t sum = 0;
    for (const unsigned reach : {21U, 29U, 38U, 47U}) {
      sum += (((length - 1) >> reach) + 2) * (reach == 21 ? kTable + 256 : kTable);
    }
    return sum;
  };
  if ((flags & 0x04000000) != 0) {  // sparse: at both ends
    return 2 * tables(1);
  }
  if ((flags & 0x00400400) != 0) {  // lazy, or managed by others
    return 0;
  }
  return tables(size) + ((attr >> 23 & 3) == 0 ? kTable : 0);  // of pages of all sizes
}

}  // namespace

const PlainDriver::Object* PlainDriver::Find(Handle client, Handle object) const {
  const auto found = objects_.find({client, object});
  return found == objects_.end() ? nullptr : &found->second;
}

PlainDriver::Handle PlainDriver::Choose(Handle client, Handle wanted) {
  while (wanted == 0) {
    const Handle next = next_object_++;
    wanted = Find(client, next) == nullptr ? next : 0;
  }
  return wanted;
}

std::uint64_t PlainDriver::Used(std::size_t gpu) const {
  std::set<std::size_t> live;
  for (const auto& [key, object] : objects_) {
    if (object.block) {
      live.insert(*object.block);
    }
  }
  for (const auto& [file, object] : exports_) {
    if (object.block) {
      live.insert(*object.block);
    }
  }
  std::uint64_t sum = 0;
  for (const std::size_t block : live) {
    sum += blocks_[block].gpu == gpu ? blocks_[block].bytes : 0;
  }
  return sum;
}

std::uint32_t PlainDriver::Take(std::size_t gpu, std::uint64_t bytes, Object& object) {
  if (bytes > kGpuBytes - std::min(kGpuBytes, Used(gpu))) {
    return rm::NV_ERR_NO_MEMORY;
  }
  object.block = blocks_.size();
  blocks_.push_back({gpu, bytes});
  return rm::NV_OK;
}

void PlainDriver::Execute(std::uint32_t nr, std::byte* image, std::size_t size,
                          std::uint64_t file) {
  std::uint32_t status = rm::NV_OK;
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC:
      status = Alloc(image, size);
      break;
    case rm::NV_ESC_RM_CONTROL:
      status = Control(image, file);
      break;
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      status = VidHeap(image);
      break;
    case rm::NV_ESC_RM_DUP_OBJECT:
      status = Dup(image);
      break;
    case rm::NV_ESC_RM_FREE: {
      const auto call = Load<rm::NVOS00_PARAMETERS>(image);
      status = Free(call.hRoot, call.hObjectOld) ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
      break;
    }
    case rm::NV_ESC_CARD_INFO:
      GpuList(image, size);
      return;
    default:
      Touch(image, size);
      break;
  }
  if (const auto at = rm::StatusOffset(static_cast<rm::NvU8>(nr), size)) {
    Store(image + *at, status);
  }
}

// Foreign GPUs among the granted ones, in every second place.
void PlainDriver::GpuList(std::byte* image, std::size_t size) const {
  constexpr std::size_t kEntry = sizeof(rm::nv_ioctl_card_info_t);
  for (std::size_t i = 0; (i + 1) * kEntry <= size; ++i) {
    rm::nv_ioctl_card_info_t gpu{};
    gpu.valid = 1;
    gpu.gpu_id = i % 2 == 0 ? kForeignGpuId : gpus_[i / 2 % gpus_.size()].gpu_id;
    gpu.fb_address = gpu.gpu_id;
    Store(image + i * kEntry, gpu);
  }
}

std::uint32_t PlainDriver::AllocClient(rm::NVOS21_PARAMETERS& call) {
  // The handle asked for stands in hObjectNew, or in hRoot as older callers have it.
  Handle handle = call.hObjectNew != 0 ? call.hObjectNew : call.hRoot;
  while (handle == 0 || (call.hObjectNew == 0 && call.hRoot == 0 && Find(handle, handle))) {
    handle = next_client_++;
  }
  if (Find(handle, handle) != nullptr) {
    return rm::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  objects_[{handle, handle}] = {handle, call.hClass, std::nullopt, std::nullopt, {}};
  call.hObjectNew = handle;
  return rm::NV_OK;
}

std::uint32_t PlainDriver::Alloc(std::byte* image, std::size_t size) {
  auto call = Load<rm::NVOS21_PARAMETERS>(image);
  std::byte* params = Follow(call.pAllocParms);
  // Older branches have some structures shorter; what they lack is zero.
  const std::size_t length = params == nullptr ? 0 : rm::ClassParamSize(abi_, call.hClass);
  std::vector<std::byte> own(std::max<std::size_t>(length, 1024));
  std::copy_n(params, length, own.begin());
  if (size == sizeof(rm::NVOS64_PARAMETERS)) {
    Touch(Follow(Load<rm::NVOS64_PARAMETERS>(image).pRightsRequested), sizeof(rm::RS_ACCESS_MASK));
  }
  std::uint32_t status = rm::NV_OK;
  if (IsClient(call.hClass)) {
    status = AllocClient(call);
  } else {
    const Object* parent = Find(call.hRoot, call.hObjectParent);
    if (parent == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    call.hObjectNew = Choose(call.hRoot, call.hObjectNew);
    status = AllocIn(call, params == nullptr ? nullptr : own.data(),
                     {call.hObjectParent, call.hClass, parent->gpu, std::nullopt, {}});
  }
  std::copy_n(own.begin(), length, params);
  Store(image + offsetof(rm::NVOS21_PARAMETERS, hObjectNew), call.hObjectNew);
  return status;
}

std::uint32_t PlainDriver::AllocIn(const rm::NVOS21_PARAMETERS& call, std::byte* params,
                                   Object object) {
  if (Find(call.hRoot, call.hObjectNew) != nullptr) {
    return rm::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  std::uint32_t status = rm::NV_OK;
  const auto depends_on = [&](Handle on) {
    if (on != 0 && Find(call.hRoot, on) != nullptr) {
      object.depends_on.push_back(on);
    }
  };
  if (call.hClass == rm::NV01_DEVICE_0) {
    const auto device = params != nullptr ? Load<rm::NV0080_ALLOC_PARAMETERS>(params)
                                          : rm::NV0080_ALLOC_PARAMETERS{};
    const auto gpu = std::find_if(gpus_.begin(), gpus_.end(),
                                  [&](const Gpu& one) { return one.instance == device.deviceId; });
    // A GPU that is not granted has accounting that nobody looks at: it must not come to that.
    object.gpu = static_cast<std::size_t>(gpu - gpus_.begin());
  } else if (call.hClass == rm::NV01_MEMORY_LOCAL_USER) {
    auto memory = Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(params);
    if (!object.gpu || memory.size == 0) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    status = Take(
        *object.gpu,
        rm::RoundVidmem({memory.size, memory.attr, memory.attr2, memory.flags, memory.alignment}),
        object);
    memory.size = rm::ReportedVidmemSize(memory.size, memory.attr, memory.attr2);
    Store(params, memory);
  } else if (call.hClass == rm::KEPLER_CHANNEL_GROUP_A || rm::IsChannelClass(call.hClass)) {
    const bool group = call.hClass == rm::KEPLER_CHANNEL_GROUP_A;
    const bool own =
        group || Find(call.hRoot, call.hObjectParent)->cls != rm::KEPLER_CHANNEL_GROUP_A;
    if (!object.gpu) {
      return rm::NV_ERR_INVALID_OBJECT_PARENT;
    }
    if (own) {
      status = Take(*object.gpu, gpus_.at(*object.gpu).context_bytes, object);
    }
    if (params != nullptr && group) {
      depends_on(Load<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(params).hVASpace);
    } else if (params != nullptr) {
      const auto channel = Load<rm::NV_CHANNEL_ALLOC_PARAMS_V535>(params);
      depends_on(channel.hVASpace);
      depends_on(channel.hContextShare);
    }
  } else if (call.hClass == rm::FERMI_VASPACE_A) {
    if (!object.gpu) {
      return rm::NV_ERR_INVALID_OBJECT_PARENT;
    }
    status = Take(*object.gpu, gpus_.at(*object.gpu).space_bytes, object);
  } else if (call.hClass == rm::NV50_MEMORY_VIRTUAL && params != nullptr) {
    const auto memory = Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(params);
    if (!object.gpu || memory.size == 0) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    depends_on(memory.hVASpace);
    status = Take(*object.gpu, TablesOf(memory.size, memory.flags, memory.attr), object);
  } else if (call.hClass == rm::FERMI_CONTEXT_SHARE_A && params != nullptr) {
    depends_on(Load<rm::NV_CTXSHARE_ALLOCATION_PARAMETERS>(params).hVASpace);
  }
  if (status == rm::NV_OK) {
    objects_[{call.hRoot, call.hObjectNew}] = std::move(object);
  }
  return status;
}

std::uint32_t PlainDriver::VidHeap(std::byte* image) {
  auto call = Load<rm::NVOS32_PARAMETERS>(image);
  call.total = kGpuBytes;
  call.free = kGpuBytes;
  std::uint32_t status = rm::NV_OK;
  if (call.function == rm::NVOS32_FUNCTION_FREE) {
    status = Free(call.hRoot, call.data.Free.hMemory) ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
  } else if (call.function == rm::NVOS32_FUNCTION_ALLOC_SIZE) {
    auto& alloc = call.data.AllocSize;
    const Object* parent = Find(call.hRoot, call.hObjectParent);
    if (parent == nullptr || alloc.size == 0) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    alloc.hMemory = Choose(call.hRoot, alloc.hMemory);
    Object object{call.hObjectParent, rm::NV01_MEMORY_SYSTEM, parent->gpu, std::nullopt, {}};
    if (Find(call.hRoot, alloc.hMemory) != nullptr) {
      return rm::NV_ERR_INSERT_DUPLICATE_NAME;
    }
    if (IsGpuMemory(alloc.flags, alloc.attr, alloc.attr2)) {
      if (!object.gpu) {
        return rm::NV_ERR_INVALID_OBJECT_PARENT;
      }
      object.cls = rm::NV01_MEMORY_LOCAL_USER;
      status =
          Take(*object.gpu,
               rm::RoundVidmem({alloc.size, alloc.attr, alloc.attr2, alloc.flags, alloc.alignment}),
               object);
      alloc.size = rm::ReportedVidmemSize(alloc.size, alloc.attr, alloc.attr2);
    } else if ((alloc.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
      if (!object.gpu) {
        return rm::NV_ERR_INVALID_OBJECT_PARENT;
      }
      object.cls = rm::NV50_MEMORY_VIRTUAL;
      if (call.hVASpace != 0 && Find(call.hRoot, call.hVASpace) != nullptr) {
        object.depends_on.push_back(call.hVASpace);
      }
      status = Take(*object.gpu, TablesOf(alloc.size, alloc.flags, alloc.attr), object);
    }
    if (status == rm::NV_OK) {
      objects_[{call.hRoot, alloc.hMemory}] = object;
    }
  }
  Store(image, call);
  return status;
}

std::uint32_t PlainDriver::Copy(Handle client, Handle parent, Handle& handle, Object source) {
  const Object* above = Find(client, parent);
  if (above == nullptr || IsClient(source.cls)) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  handle = Choose(client, handle);
  if (Find(client, handle) != nullptr) {
    return rm::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  source.parent = parent;
  source.gpu = above->gpu ? above->gpu : source.gpu;
  source.depends_on.clear();
  objects_[{client, handle}] = std::move(source);
  return rm::NV_OK;
}

std::uint32_t PlainDriver::Dup(std::byte* image) {
  auto call = Load<rm::NVOS55_PARAMETERS>(image);
  const Object* source = Find(call.hClientSrc, call.hObjectSrc);
  if (source == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const std::uint32_t status = Copy(call.hClient, call.hParent, call.hObject, *source);
  Store(image, call);
  return status;
}

std::uint32_t PlainDriver::Export(const std::byte* params, Handle client, std::uint64_t file) {
  const auto call = Load<rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS>(params);
  const Object* object = Find(client, call.object.data.rmObject.hObject);
  if (object == nullptr || IsClient(object->cls) || file == 0) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  exports_[file] = *object;
  return rm::NV_OK;
}

std::uint32_t PlainDriver::Import(std::byte* params, Handle client, std::uint64_t file) {
  auto call = Load<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>(params);
  const auto found = exports_.find(file);
  if (found == exports_.end()) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  auto& target = call.object.data.rmObject;
  const std::uint32_t status = Copy(client, target.hParent, target.hObject, found->second);
  Store(params, call);
  return status;
}

std::uint32_t PlainDriver::Control(std::byte* image, std::uint64_t file) {
  const auto call = Load<rm::NVOS54_PARAMETERS>(image);
  std::byte* params = Follow(call.params);
  if (Find(call.hClient, call.hObject) == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (!rm::ControlTakes(abi_, call.cmd, call.paramsSize) || params == nullptr) {
    return rm::NV_ERR_INVALID_PARAM_STRUCT;
  }
  Touch(params, call.paramsSize);
  switch (call.cmd) {
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
      return Export(params, call.hClient, file);
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
      return Import(params, call.hClient, file);
    default:
      Answer(call.cmd, params, call.paramsSize);
      return rm::NV_OK;
  }
}

// Answers with what would tell of other GPUs, other containers and the whole of this GPU.
void PlainDriver::Answer(std::uint32_t command, std::byte* params, std::size_t size) {
  const auto fill = [&](std::byte* list, std::size_t count, std::size_t stride, std::uint32_t a,
                        std::uint32_t b) {
    for (std::size_t i = 0; i < count; ++i) {
      Store(list + i * stride, i % 2 == 0 ? a : b);
    }
  };
  switch (command) {
    case rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS:
    case rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS:
      fill(params, size / 4, 4, kForeignGpuId, gpus_[0].gpu_id);
      break;
    case rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS:
      fill(params + 4, (size - 4) / 12, 12, kForeignGpuId, gpus_[0].gpu_id);
      Store(params, static_cast<std::uint32_t>((size - 4) / 12));
      break;
    case rm::NV2080_CTRL_CMD_GPU_GET_PIDS:
      fill(params + 12, (size - 12) / 4, 4, kForeignPid, kForeignPid);
      Store(params + 8, static_cast<std::uint32_t>((size - 12) / 4));
      break;
    case rm::NV2080_CTRL_CMD_FB_GET_INFO: {
      const auto list = Load<rm::NV2080_CTRL_FB_GET_INFO_PARAMS>(params);
      std::byte* entries = Follow(list.fbInfoList);
      Touch(entries, list.fbInfoListSize * sizeof(rm::NV2080_CTRL_FB_INFO));
      if (entries != nullptr) {
        fill(entries + 4, list.fbInfoListSize, 8, kWholeGpuKib, kWholeGpuKib);
      }
      break;
    }
    case rm::NV2080_CTRL_CMD_FB_GET_INFO_V2:
      fill(params + 8, std::min<std::size_t>(Load<std::uint32_t>(params), (size - 4) / 8), 8,
           kWholeGpuKib, kWholeGpuKib);
      break;
    default:
      break;
  }
}

bool PlainDriver::Free(Handle client, Handle handle) {
  if (Find(client, handle) == nullptr) {
    return false;
  }
  std::set<Handle> doomed{handle};
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& [key, object] : objects_) {
      const bool depends = std::any_of(object.depends_on.begin(), object.depends_on.end(),
                                       [&](Handle on) { return doomed.contains(on); });
      if (key.first == client && (doomed.contains(object.parent) || depends)) {
        grown |= doomed.insert(key.second).second;
      }
    }
  }
  std::erase_if(objects_, [&](const auto& entry) {
    return entry.first.first == client && doomed.contains(entry.first.second);
  });
  // A handle that is used again is another object.
  for (auto& [key, object] : objects_) {
    if (key.first == client) {
      std::erase_if(object.depends_on, [&](Handle on) { return doomed.contains(on); });
    }
  }
  return true;
}

}  // namespace cgpu::fuzz
