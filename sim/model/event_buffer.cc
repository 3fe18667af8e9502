// NV_EVENT_BUFFER: event_buffer.c eventbufferConstruct().

#include "rm/nv_events.h"
#include "sim/model/alloc_params.h"

namespace cgpu::sim {

NvStatus DriverModel::ConstructEventBuffer(Client& client, const AllocRequest& request,
                                           Object& object) {
  const auto params = Params<rm::NV_EVENT_BUFFER_ALLOC_PARAMETERS>(request);
  if (params.hBufferHeader == 0) {
    return rm::NV_ERR_NOT_SUPPORTED;  // memory of the driver's own choice is for other systems
  }
  const Object* const header = FindObject(client, params.hBufferHeader);
  const Object* const records = FindObject(client, params.hRecordBuffer);
  const Object* const subdevice = FindObject(client, params.hSubDevice);
  if (params.hRecordBuffer == 0 ||
      (params.vardataBufferSize != 0) != (params.hVardataBuffer != 0)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (header == nullptr || records == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const rm::NvU64 bytes = rm::NvU64{params.recordSize} * params.recordCount;
  if (header->cls != records->cls || params.hSubDevice == 0 || bytes == 0 || bytes >> 32 != 0 ||
      params.recordsFreeThreshold > params.recordCount ||
      params.vardataFreeThreshold > params.vardataBufferSize) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (subdevice == nullptr || subdevice->kind != ObjectKind::kSubdevice) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (header->block == nullptr || records->block == nullptr || !header->block->user_read_only ||
      !records->block->user_read_only ||
      header->block->length < sizeof(rm::NV_EVENT_BUFFER_HEADER) ||
      records->block->length < bytes) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  object.depends_on.insert({params.hBufferHeader, params.hRecordBuffer});
  object.events = std::make_shared<GpuEventBuffer>();
  object.events->key = next_key_++;
  object.events->header = header->block;
  object.events->records = records->block;
  object.events->record_bytes = params.recordSize;
  object.events->record_count = params.recordCount;
  if (engines_ != nullptr) {
    object.on_gpu =
        std::make_shared<OnGpu>(*engines_, OnGpu::Kind::kEventBuffer, object.events->key);
  }
  return rm::NV_OK;
}

}  // namespace cgpu::sim
