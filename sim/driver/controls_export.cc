// Export of objects to a control file and import from it. os.c of the driver.
#include <algorithm>

#include "rm/nv_controls.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

constexpr std::size_t kMaxImportObjects = 128;

FileId TargetFile(ControlCall& call, rm::NvS32 fd) {
  return fd < 0 ? 0 : call.caller.ResolveFd(fd);
}

// cliresCtrlCmdOsUnixExportObjectToFd_IMPL().
NvStatus ExportObjectToFd(ControlCall& call) {
  const auto params = call.Get<rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS>();
  if ((params.flags & rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD) != 0 ||
      params.object.type != rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM || params.fd == -1) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  const auto& object = params.object.data.rmObject;
  return call.model.ExportOne(call.client, object.hDevice, object.hObject,
                              TargetFile(call, params.fd));
}

// cliresCtrlCmdOsUnixImportObjectFromFd_IMPL().
NvStatus ImportObjectFromFd(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS>();
  if (params.object.type != rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM || params.fd == -1) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  const FileId target = TargetFile(call, params.fd);
  const OpenFile* file = call.model.FindFile(target);
  if (file == nullptr || !file->exports || file->exports->slots.size() != 1 ||
      !file->exports->slots[0]) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  auto& object = params.object.data.rmObject;
  ObjectKind kind = ObjectKind::kClient;
  bool on_gpu = false;
  const NvStatus status =
      call.model.Import(call.client, object.hParent, target, 0, &object.hObject, &kind, &on_gpu);
  call.Put(params);
  return status;
}

// cliresCtrlCmdOsUnixGetExportObjectInfo_IMPL().
template <class Params>
NvStatus ExportObjectInfo(ControlCall& call) {
  auto params = call.Get<Params>();
  const OpenFile* file = call.model.FindFile(TargetFile(call, params.fd));
  if (file == nullptr || file->kind != FileKind::kCtl || !file->exports) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  const ExportTable& table = *file->exports;
  params.maxObjects = static_cast<rm::NvU16>(table.slots.size());
  params.deviceInstance = table.device_instance;
  if constexpr (requires { params.gpuInstanceId; }) {
    params.gpuInstanceId = 0xFFFFFFFF;
  }
  std::fill(std::begin(params.metadata), std::end(params.metadata), rm::NvU8{0});
  std::copy_n(table.metadata.begin(), std::min(table.metadata.size(), std::size(params.metadata)),
              params.metadata);
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetExportObjectInfo(ControlCall& call) {
  return call.model.DriverAbi().branch == rm::Branch::k535
             ? ExportObjectInfo<rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535>(call)
             : ExportObjectInfo<rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550>(call);
}

// cliresCtrlCmdOsUnixCreateExportObjectFd_IMPL().
NvStatus CreateExportObjectFd(ControlCall& call) {
  const auto params = call.Get<rm::NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS>();
  return params.maxObjects == 0
             ? rm::NV_ERR_INVALID_PARAMETER
             : call.model.PrepareExport(call.client, params.hDevice, TargetFile(call, params.fd),
                                        params.maxObjects, params.metadata);
}

// cliresCtrlCmdOsUnixExportObjectsToFd_IMPL().
NvStatus ExportObjectsToFd(ControlCall& call) {
  const auto params = call.Get<rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS>();
  const FileId target = TargetFile(call, params.fd);
  OpenFile* file = call.model.FindFile(target);
  if (file == nullptr || file->kind != FileKind::kCtl) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  const bool set_up = !file->exports;
  if (set_up) {
    if (params.maxObjects == 0) {
      return rm::NV_ERR_INVALID_PARAMETER;
    }
    const NvStatus status = call.model.PrepareExport(call.client, params.hDevice, target,
                                                     params.maxObjects, params.metadata);
    if (status != rm::NV_OK) {
      return status;
    }
  }
  NvStatus status = rm::NV_ERR_INVALID_PARAMETER;
  if (params.numObjects <= std::size(params.objects)) {
    status = call.model.Export(call.client, target, params.index,
                               std::span(params.objects).first(params.numObjects));
  }
  if (status != rm::NV_OK && set_up) {
    file->exports.reset();
  }
  return status;
}

// cliresCtrlCmdOsUnixImportObjectsFromFd_IMPL(): all or nothing.
NvStatus ImportObjectsFromFd(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS>();
  const FileId target = TargetFile(call, params.fd);
  const OpenFile* file = call.model.FindFile(target);
  if (file == nullptr || !file->exports || params.numObjects > kMaxImportObjects) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  if (std::size_t{params.index} + params.numObjects > file->exports->slots.size()) {
    return rm::NV_ERR_OUT_OF_RANGE;
  }
  for (unsigned i = 0; i < params.numObjects; ++i) {
    ObjectKind kind = ObjectKind::kClient;
    bool on_gpu = false;
    const NvStatus status = call.model.Import(call.client, params.hParent, target, params.index + i,
                                              &params.objects[i], &kind, &on_gpu);
    if (status != rm::NV_OK) {
      while (i-- > 0) {
        if (params.objects[i] != 0) {
          (void)call.model.Free(call.file, call.client.handle, params.objects[i]);
        }
      }
      return status;
    }
    params.objectTypes[i] = rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_NONE;
    if (kind == ObjectKind::kMemory) {
      params.objectTypes[i] = on_gpu ? rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_VIDMEM
                                     : rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_SYSMEM;
    }
  }
  call.Put(params);
  return rm::NV_OK;
}

using enum ObjectKind;
constexpr ControlEntry kExportEntries[] = {
    {rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, kClient, ExportObjectToFd},
    {rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, kClient, ImportObjectFromFd},
    {rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, kClient, GetExportObjectInfo},
    {rm::NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, kClient, CreateExportObjectFd},
    {rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, kClient, ExportObjectsToFd},
    {rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, kClient, ImportObjectsFromFd},
};

}  // namespace

std::span<const ControlEntry> ExportControls() {
  return kExportEntries;
}

}  // namespace cgpu::sim
