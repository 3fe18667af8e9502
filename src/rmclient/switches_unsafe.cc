#include <atomic>
#include <cstring>
#include <utility>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_events.h"
#include "rm/nv_structs.h"
#include "rmclient/switches.h"

namespace cgpu::rmclient {
namespace {

struct Record {
  rm::NV_EVENT_BUFFER_RECORD_HEADER header;
  rm::NV_EVENT_BUFFER_FECS_RECORD_V2 payload;
};
// A switch is two records. These are 2 s of time slices of 0.2 ms, and 24 s of those of 3 ms.
constexpr rm::NvU32 kRecords = 16'384;
constexpr std::size_t kHeaderBytes = 4096;

template <class T>
T ReadVolatile(const volatile unsigned char* from) {
  T value{};
  auto* const to = reinterpret_cast<unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = from[i];
  }
  return value;
}

// Returns where the driver writes next. What it wrote before is seen by what is read after this.
rm::NvU32 LoadPut(volatile unsigned char* header) {
  auto* const put =
      const_cast<unsigned char*>(header) + offsetof(rm::NV_EVENT_BUFFER_HEADER, recordPut);
  return std::atomic_ref(*reinterpret_cast<rm::NvU32*>(put)).load(std::memory_order_acquire);
}

}  // namespace

Result<SwitchLog> SwitchLog::Make(Client& client, const Gpu& gpu) {
  const std::string what = "asking for the context switches of GPU " + gpu.bdf + ", ";
  rm::NV_EVENT_BUFFER_ALLOC_PARAMETERS params = {};
  params.recordSize = sizeof(Record);
  params.recordCount = kRecords;
  params.hSubDevice = gpu.subdevice;
  CGPU_TRY(Checked(AllocHostToRead(client, gpu, kHeaderBytes, &params.hBufferHeader),
                   what + "memory to read"));
  CGPU_TRY(Checked(AllocHostToRead(client, gpu, kRecords * sizeof(Record), &params.hRecordBuffer),
                   what + "memory to read"));
  CGPU_ASSIGN_OR_RETURN(auto header, Mapping::Make(client, gpu, params.hBufferHeader, kHeaderBytes,
                                                   Mapping::Kind::kHostToRead));
  CGPU_ASSIGN_OR_RETURN(auto records,
                        Mapping::Make(client, gpu, params.hRecordBuffer, kRecords * sizeof(Record),
                                      Mapping::Kind::kHostToRead));
  rm::NvHandle buffer = 0;
  CGPU_TRY(
      Checked(client.Alloc(client.handle(), &buffer, rm::NV_EVENT_BUFFER, &params, sizeof(params)),
              what + "a buffer in it"));
  rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS enable = {};
  enable.enable = 1;
  enable.flags = rm::NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_NEWEST;
  CGPU_TRY(Checked(
      client.Control(buffer, rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS, &enable, sizeof(enable)),
      what + "enabling the buffer"));
  rm::NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS bind = {};
  bind.hEventBuffer = buffer;
  bind.recordSize = sizeof(rm::NV_EVENT_BUFFER_FECS_RECORD_V2);
  bind.levelOfDetail = rm::NV2080_CTRL_GR_FECS_BIND_EVTBUF_LOD_SIMPLE;
  bind.bAllUsers = 1;
  CGPU_TRY(Checked(client.Control(gpu.subdevice, rm::NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID_V2,
                                  &bind, sizeof(bind)),
                   what + "binding them to the buffer"));
  return SwitchLog(std::move(header), std::move(records));
}

SwitchLog::News SwitchLog::Read() {
  News news;
  const auto put = LoadPut(header_.data()) % kRecords;
  for (; next_ != put; next_ = (next_ + 1) % kRecords) {
    const auto record = ReadVolatile<Record>(records_.data() + next_ * sizeof(Record));
    if (record.payload.seqno != sequence_) {
      news = {};
      news.lost = true;
    }
    sequence_ = static_cast<std::uint16_t>(record.payload.seqno + 1);
    const bool begins = record.payload.tag == rm::NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_START;
    if (record.header.type == rm::NV_EVENT_BUFFER_RECORD_TYPE_FECS_CTX_SWITCH_V2 &&
        (begins || record.payload.tag == rm::NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_END)) {
      news.switches.push_back({record.payload.pid, record.payload.timestamp, begins});
    }
  }
  return news;
}

}  // namespace cgpu::rmclient
