// Memory that two processes have.
//
// By a descriptor: a control file with the object in its table, and its size beside it. By a handle
// of bytes: the handles of client and object; the object may be duplicated by processes of the same
// user (RS_SHARE_TYPE_OS_SECURITY_TOKEN).
#include <fcntl.h>

#include <cstring>

#include "base/file.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_structs.h"
#include "sim/cuda/memory.h"

namespace cgpu::sim::cuda {
namespace {

constexpr std::uint64_t kMagic = 0x4350495550474343;  // of a handle of bytes

struct Words {
  std::uint64_t magic = kMagic;
  rm::NvHandle client = 0;
  rm::NvHandle memory = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Words) <= sizeof(IpcHandle));

// The size that was put beside the object; 0 for none.
template <class Params>
std::uint64_t SizeIn(rmclient::Client& client, int file) {
  Params params{};
  params.fd = file;
  std::uint64_t bytes = 0;
  if (client
          .Control(client.handle(), rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, &params,
                   sizeof(params))
          .ok()) {
    std::memcpy(&bytes, params.metadata, sizeof(bytes));
  }
  return bytes;
}

}  // namespace

Status Memory::Export(std::uint64_t handle, int* file) {
  const auto object = objects_.find(handle);
  if (object == objects_.end()) {
    return kInvalidValue;
  }
  Result<UniqueFd> opened = OpenFile(client_->paths().ctl, O_RDWR);
  if (!opened.ok()) {
    return StatusOf(opened);
  }
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS params{};
  params.fd = opened->get();
  params.hDevice = gpu_->device;
  params.maxObjects = 1;
  std::memcpy(params.metadata, &object->second.bytes, sizeof(object->second.bytes));
  params.objects[0] = object->second.memory;
  params.numObjects = 1;
  const rmclient::Outcome outcome = client_->Control(
      client_->handle(), rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, &params, sizeof(params));
  if (!outcome.ok()) {
    return StatusOf(rmclient::CallError(outcome, "exporting"));
  }
  *file = opened->release();
  return kSuccess;
}

Status Memory::Import(int file, std::uint64_t* handle) {
  const std::uint64_t bytes =
      client_->abi().branch == rm::Branch::k535
          ? SizeIn<rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535>(*client_, file)
          : SizeIn<rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550>(*client_, file);
  if (bytes == 0) {
    return kInvalidValue;
  }
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS params{};
  params.fd = file;
  params.hParent = gpu_->device;
  params.objects[0] = client_->NewHandle();
  params.numObjects = 1;
  const rmclient::Outcome outcome =
      client_->Control(client_->handle(), rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD,
                       &params, sizeof(params));
  if (!outcome.ok()) {
    return StatusOf(rmclient::CallError(outcome, "importing"));
  }
  *handle = Add(params.objects[0], bytes);
  return kSuccess;
}

Status Memory::Share(std::uint64_t address, IpcHandle* handle) {
  const Range* const range = Find(address, Kind::kAllocated);
  if (range == nullptr) {
    return kInvalidValue;
  }
  const Object& object = objects_.at(range->object);
  rm::RS_SHARE_POLICY policy{};
  policy.type = rm::RS_SHARE_TYPE_OS_SECURITY_TOKEN;
  policy.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
  const rmclient::Outcome outcome = client_->Share(object.memory, policy);
  const Words words{kMagic, client_->handle(), object.memory, object.bytes};
  *handle = IpcHandle{};
  std::memcpy(handle->bytes, &words, sizeof(words));
  return outcome.ok() ? kSuccess : StatusOf(rmclient::CallError(outcome, "sharing"));
}

Status Memory::OpenShared(const IpcHandle& handle, std::uint64_t* address) {
  Words words;
  std::memcpy(&words, handle.bytes, sizeof(words));
  if (words.magic != kMagic || words.client == client_->handle()) {
    return words.magic != kMagic ? kInvalidValue : kInvalidContext;
  }
  rm::NvHandle memory = 0;
  const rmclient::Outcome outcome = client_->Dup(gpu_->device, &memory, words.client, words.memory);
  if (!outcome.ok()) {
    return StatusOf(rmclient::CallError(outcome, "duplicating"));
  }
  return Place(Kind::kShared, Add(memory, words.bytes), address);
}

Status Memory::CloseShared(std::uint64_t address) {
  return Find(address, Kind::kShared) == nullptr ? kInvalidValue : Drop(ranges_.find(address));
}

}  // namespace cgpu::sim::cuda
