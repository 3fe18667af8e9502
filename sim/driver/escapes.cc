#include "sim/driver/escapes.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "rm/class_table.h"
#include "rm/escape_table.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/model/class_rules.h"

namespace cgpu::sim {
namespace {

bool IsRoot(rm::NvU32 cls) {
  return cls == rm::NV01_ROOT || cls == rm::NV01_ROOT_NON_PRIV || cls == rm::NV01_ROOT_CLIENT;
}

// Where the status is in calls that cgpu never lets through.
std::optional<std::size_t> MoreStatusOffset(rm::NvU8 nr, std::size_t size) {
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC_MEMORY:
      return offsetof(rm::NVOS02_PARAMETERS, status);
    case rm::NV_ESC_RM_IDLE_CHANNELS:
      return offsetof(rm::NVOS30_PARAMETERS, status);
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2:
      return offsetof(rm::NVOS39_PARAMETERS, status);
    case rm::NV_ESC_RM_MAP_MEMORY_DMA:
      return size == sizeof(rm::NVOS46_PARAMETERS_V580)
                 ? offsetof(rm::NVOS46_PARAMETERS_V580, status)
                 : offsetof(rm::NVOS46_PARAMETERS_V535, status);
    case rm::NV_ESC_RM_UNMAP_MEMORY_DMA:
      return size == sizeof(rm::NVOS47_PARAMETERS_V550)
                 ? offsetof(rm::NVOS47_PARAMETERS_V550, status)
                 : offsetof(rm::NVOS47_PARAMETERS_V535, status);
    case rm::NV_ESC_RM_BIND_CONTEXT_DMA:
      return offsetof(rm::NVOS49_PARAMETERS, status);
    case rm::NV_ESC_EXPORT_TO_DMABUF_FD:
      return size - sizeof(rm::NvU64);  // the last word, and padding
    default:
      return std::nullopt;
  }
}

}  // namespace

void Escapes::PutStatus(Call& call, NvStatus status) {
  call.status = status;
  auto offset = rm::StatusOffset(call.nr, call.bytes.size());
  if (!offset) {
    offset = MoreStatusOffset(call.nr, call.bytes.size());
  }
  if (offset && *offset < call.bytes.size()) {
    Store(std::span(call.bytes).subspan(*offset), status);
  }
}

bool Escapes::IsOnRightFile(const OpenFile& file, const rm::EscapeRow& row) const {
  const bool on_ctl = file.kind == FileKind::kCtl;
  // On a GPU's file RM_ALLOC takes events alone (escape.c).
  const bool event_on_gpu = call_.nr == rm::NV_ESC_RM_ALLOC &&
                            (call_.cls == rm::NV01_EVENT || call_.cls == rm::NV01_EVENT_OS_EVENT ||
                             call_.cls == rm::NV01_EVENT_KERNEL_CALLBACK ||
                             call_.cls == rm::NV01_EVENT_KERNEL_CALLBACK_EX);
  return (row.files != rm::EscapeFiles::kCtl || on_ctl) &&
         (row.files != rm::EscapeFiles::kGpu || !on_ctl) &&
         (call_.nr != rm::NV_ESC_RM_ALLOC || on_ctl || event_on_gpu);
}

void Escapes::LookAhead(const Call& call, Caller& caller) {
  const bool device = call.cls == rm::NV01_DEVICE_0;
  if (call.nr == rm::NV_ESC_RM_ALLOC && (device || IsRoot(call.cls))) {
    caller.LookAhead(device);
  }
}

void Escapes::Run() {
  struct Row {
    rm::NvU8 nr;
    int (Escapes::*handler)();
  };
  static constexpr Row kRows[] = {
      {rm::NV_ESC_RM_FREE, &Escapes::Free},
      {rm::NV_ESC_RM_CONTROL, &Escapes::Control},
      {rm::NV_ESC_RM_ALLOC, &Escapes::Alloc},
      {rm::NV_ESC_RM_DUP_OBJECT, &Escapes::Dup},
      {rm::NV_ESC_RM_SHARE, &Escapes::Share},
      {rm::NV_ESC_RM_VID_HEAP_CONTROL, &Escapes::VidHeapControl},
      {rm::NV_ESC_RM_MAP_MEMORY, &Escapes::MapMemory},
      {rm::NV_ESC_RM_UNMAP_MEMORY, &Escapes::UnmapMemory},
      {rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, &Escapes::UpdateMapping},
      {rm::NV_ESC_RM_ALLOC_MEMORY, &Escapes::AllocMemory},
      {rm::NV_ESC_RM_IDLE_CHANNELS, &Escapes::IdleChannels},
      {rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2, &Escapes::AllocContextDma},
      {rm::NV_ESC_RM_MAP_MEMORY_DMA, &Escapes::MapDma},
      {rm::NV_ESC_RM_UNMAP_MEMORY_DMA, &Escapes::UnmapDma},
      {rm::NV_ESC_RM_BIND_CONTEXT_DMA, &Escapes::BindContextDma},
      {rm::NV_ESC_EXPORT_TO_DMABUF_FD, &Escapes::ExportDmaBuf},
      {rm::NV_ESC_CARD_INFO, &Escapes::CardInfo},
      {rm::NV_ESC_REGISTER_FD, &Escapes::RegisterFd},
      {rm::NV_ESC_ALLOC_OS_EVENT, &Escapes::OsEvent},
      {rm::NV_ESC_FREE_OS_EVENT, &Escapes::OsEvent},
      {rm::NV_ESC_RM_GET_EVENT_DATA, &Escapes::EventData},
      {rm::NV_ESC_STATUS_CODE, &Escapes::StatusCode},
      {rm::NV_ESC_CHECK_VERSION_STR, &Escapes::CheckVersion},
      {rm::NV_ESC_ATTACH_GPUS_TO_FD, &Escapes::AttachGpus},
      {rm::NV_ESC_SYS_PARAMS, &Escapes::SysParams},
      {rm::NV_ESC_NUMA_INFO, &Escapes::NumaInfo},
      {rm::NV_ESC_WAIT_OPEN_COMPLETE, &Escapes::WaitOpenComplete},
  };
  const OpenFile* file = model_.FindFile(call_.file);
  const rm::EscapeRow* row = rm::FindEscape(call_.nr);
  call_.error = EINVAL;
  if (file == nullptr || row == nullptr || file->kind == FileKind::kUvm) {
    return;
  }
  if (!IsOnRightFile(*file, *row)) {
    return;
  }
  for (const Row& candidate : kRows) {
    if (candidate.nr == call_.nr) {
      call_.error = (this->*candidate.handler)();
      return;
    }
  }
}

CallerView Escapes::ViewForAlloc(rm::NvU32 cls) {
  CallerView view;
  const ClassRule* rule = FindClassRule(cls);
  if (rule != nullptr && rule->access == ClassAccess::kAdmin) {
    view.admin = caller_.IsAdmin();
  }
  if (cls == rm::NV01_DEVICE_0) {
    view.open_minors = caller_.OpenMinors();
  }
  return view;
}

CallerView Escapes::ViewForMapping() {
  CallerView view;
  view.tgid = caller_.Tgid();
  return view;
}

NvStatus Escapes::AllocRoot(rm::NvHandle* handle, rm::NvHandle wanted) {
  Identity identity;
  identity.tgid = caller_.Tgid();
  identity.euid = caller_.Euid();
  *handle = wanted;
  const NvStatus status = model_.AllocClient(call_.file, identity, handle);
  if (status == rm::NV_OK && !call_.params.bytes.empty()) {
    Store(std::span(call_.params.bytes), *handle);
    call_.params.write_back = true;
  }
  return status;
}

int Escapes::Alloc() {
  auto api = Load<rm::NVOS21_PARAMETERS>(call_.bytes);
  NvStatus status = call_.copy_in;
  const bool root = IsRoot(api.hClass);
  if (call_.null_params) {
    status = rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (status == rm::NV_OK && root) {
    api.hClass = rm::NV01_ROOT_CLIENT;  // escape.c: whichever of the three was asked for
    status = AllocRoot(&api.hObjectNew, api.hRoot);
  } else if (status == rm::NV_OK) {
    AllocRequest request;
    request.client = api.hRoot;
    request.parent = api.hObjectParent;
    request.handle = api.hObjectNew;
    request.cls = api.hClass;
    request.params = call_.params.bytes;
    status = model_.Alloc(call_.file, ViewForAlloc(api.hClass), request);
    api.hObjectNew = request.handle;
    call_.params.write_back = status == rm::NV_OK;
  }
  // The short and the long form begin alike; what follows hClass is the caller's own.
  std::memcpy(call_.bytes.data(), &api, offsetof(rm::NVOS21_PARAMETERS, pAllocParms));
  PutStatus(call_, status);
  return 0;
}

int Escapes::Free() {
  const auto api = Load<rm::NVOS00_PARAMETERS>(call_.bytes);
  PutStatus(call_, model_.Free(call_.file, api.hRoot, api.hObjectOld));
  return 0;
}

int Escapes::Dup() {
  auto api = Load<rm::NVOS55_PARAMETERS>(call_.bytes);
  DupRequest request;
  request.client = api.hClient;
  request.parent = api.hParent;
  request.handle = api.hObject;
  request.client_src = api.hClientSrc;
  request.object_src = api.hObjectSrc;
  const NvStatus status = model_.Dup(call_.file, request);
  api.hObject = request.handle;
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

int Escapes::Share() {
  const auto api = Load<rm::NVOS57_PARAMETERS>(call_.bytes);
  PutStatus(call_, model_.Share(call_.file, api.hClient, api.hObject, api.sharePolicy));
  return 0;
}

int Escapes::MapMemory() {
  auto api = Load<rm::nv_ioctl_nvos33_parameters_with_fd>(call_.bytes);
  api.params.flags = rm::NVOS33_FLAGS_CACHING_TYPE.Set(api.params.flags, 0);
  MapRequest request;
  request.client = api.params.hClient;
  request.device = api.params.hDevice;
  request.memory = api.params.hMemory;
  request.offset = api.params.offset;
  request.length = api.params.length;
  request.flags = api.params.flags;
  request.target = caller_.ResolveFd(api.fd);
  const NvStatus status = model_.MapMemory(call_.file, ViewForMapping(), request);
  if (status == rm::NV_OK) {
    api.params.pLinearAddress = request.linear_address;
    call_.mapped_file = request.target;
    call_.mapped_fd = api.fd;
  }
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

int Escapes::UnmapMemory() {
  const auto api = Load<rm::NVOS34_PARAMETERS>(call_.bytes);
  PutStatus(call_, model_.UnmapMemory(call_.file, ViewForMapping(), api.hClient, api.hDevice,
                                      api.hMemory, api.pLinearAddress));
  return 0;
}

int Escapes::UpdateMapping() {
  const auto api = Load<rm::NVOS56_PARAMETERS>(call_.bytes);
  PutStatus(call_, model_.UpdateMapping(ViewForMapping(), api.hClient, api.hMemory,
                                        api.pOldCpuAddress, api.pNewCpuAddress));
  return 0;
}

int Escapes::RegisterFd() {
  const auto api = Load<rm::nv_ioctl_register_fd_t>(call_.bytes);
  const FileId ctl = caller_.ResolveFd(api.ctl_fd);
  return model_.RegisterFd(call_.file, ctl) == rm::NV_OK ? 0 : EINVAL;
}

int Escapes::OsEvent() {
  const auto api = Load<rm::nv_ioctl_alloc_os_event_t>(call_.bytes);
  PutStatus(call_, call_.nr == rm::NV_ESC_ALLOC_OS_EVENT
                       ? model_.AllocOsEvent(call_.file, api.hClient, api.fd)
                       : model_.FreeOsEvent(api.hClient, api.fd));
  return 0;
}

// osapi.c get_os_event_data().
int Escapes::EventData() {
  auto api = Load<rm::NVOS41_PARAMETERS>(call_.bytes);
  bool more = false;
  const auto event = model_.TakeEvent(call_.file, &more);
  api.MoreEvents = more ? 1 : 0;
  Store(call_.bytes, api);
  if (event) {
    call_.params.address = api.pEvent;
    call_.params.bytes.resize(sizeof(*event));
    Store(call_.params.bytes, *event);
    // No byte of the server's own memory goes out.
    constexpr std::size_t kEnd = offsetof(rm::NvUnixEvent, info16) + sizeof(event->info16);
    std::fill(call_.params.bytes.begin() + kEnd, call_.params.bytes.end(), std::byte{0});
    call_.params.write_back = true;
  }
  PutStatus(call_, event ? rm::NV_OK : rm::NV_ERR_OPERATING_SYSTEM);
  return 0;
}

}  // namespace cgpu::sim
