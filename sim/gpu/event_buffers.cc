#include "sim/gpu/event_buffers.h"

#include <cstddef>
#include <span>

#include "rm/nv_events.h"

namespace cgpu::sim {
namespace {

constexpr engine::Duration kPeriod = 33'333'333;  // NV_FECS_TRACE_CALLBACK_TIME_NS
constexpr engine::RunlistId kGraphics = 1;        // NV2080_ENGINE_TYPE_GRAPHICS
constexpr std::uint8_t kNoInstance = 0xFF;        // NV_EVENT_BUFFER_INVALID_MIG_*: no MIG

struct Record {
  rm::NV_EVENT_BUFFER_RECORD_HEADER header;
  rm::NV_EVENT_BUFFER_FECS_RECORD_V2 payload;
};
static_assert(sizeof(Record) == 32);

}  // namespace

const engine::Gpu* EventBuffers::GpuOfBuffer(const Buffer& buffer) const {
  return buffer.set.bound == 0 || buffer.set.enabled == 0 ? nullptr : gpu_(buffer.set.gpu);
}

void EventBuffers::Set(const wire::EventBuffer& buffer) {
  const auto [at, added] = buffers_.try_emplace(buffer.key);
  Buffer& kept = at->second;
  const bool before = !added && GpuOfBuffer(kept) != nullptr;
  if (!added && buffer.get != kept.set.get) {
    kept.dropped = 0;
  }
  kept.set = buffer;
  const engine::Gpu* const gpu = GpuOfBuffer(kept);
  if (!before && gpu != nullptr) {  // from now on
    kept.next = gpu->NextResidence();
  }
}

void EventBuffers::Write(engine::Time now) {
  bool any = false;
  for (auto& [key, buffer] : buffers_) {
    const engine::Gpu* const gpu = GpuOfBuffer(buffer);
    any = any || (gpu != nullptr && gpu->NextResidence() > buffer.next);
  }
  if (!any) {
    due_.reset();
    return;
  }
  if (!due_) {
    due_ = now + kPeriod;
  }
  if (now < *due_) {
    return;
  }
  due_.reset();
  for (auto& [key, buffer] : buffers_) {
    const engine::Gpu* const gpu = GpuOfBuffer(buffer);
    if (gpu == nullptr) {
      continue;
    }
    for (const engine::Residence& residence : gpu->Residences(buffer.next)) {
      buffer.sequence =
          static_cast<std::uint16_t>(buffer.sequence + residence.number - buffer.next);
      buffer.next = residence.number + 1;
      if (residence.runlist == kGraphics) {
        Append(buffer, residence);
      }
    }
    const rm::NV_EVENT_BUFFER_HEADER header{buffer.set.get, buffer.put, 0, buffer.dropped, 0};
    (void)memory_.WriteBlock(buffer.set.header, 0, std::as_bytes(std::span(&header, 1)));
  }
}

void EventBuffers::Append(Buffer& buffer, const engine::Residence& residence) {
  const std::optional<Owner> owner = owner_(residence.group);
  if (!owner) {
    return;
  }
  const bool own = owner->user == buffer.set.user;
  if (buffer.set.all_users == 0 && !own) {
    return;
  }
  const bool hidden = buffer.set.admin == 0 && !own;
  Record record{};
  record.header.type = rm::NV_EVENT_BUFFER_RECORD_TYPE_FECS_CTX_SWITCH_V2;
  record.payload.tag = residence.begins ? rm::NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_START
                                        : rm::NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_END;
  record.payload.seqno = buffer.sequence++;
  record.payload.context_id = hidden ? rm::NV_EVENT_BUFFER_HIDDEN_CONTEXT : owner->channel;
  record.payload.pid = hidden ? rm::NV_EVENT_BUFFER_HIDDEN_PID : owner->pid;
  record.payload.migGpuInstanceId = kNoInstance;
  record.payload.migComputeInstanceId = kNoInstance;
  record.payload.timestamp = residence.at;
  const std::uint32_t next = (buffer.put + 1) % buffer.set.record_count;
  if (buffer.set.keep_newest == 0 && next == buffer.set.get) {
    ++buffer.dropped;
    return;
  }
  const std::uint64_t at = std::uint64_t{buffer.put} * buffer.set.record_bytes;
  const auto bytes = std::as_bytes(std::span(&record, 1));
  (void)memory_.WriteBlock(
      buffer.set.records, at,
      bytes.first(std::min<std::size_t>(bytes.size(), buffer.set.record_bytes)));
  buffer.put = next;
}

}  // namespace cgpu::sim
