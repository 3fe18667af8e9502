// The driver's objects: open files, clients, and the tree of objects below each client.
#ifndef CGPU_SIM_MODEL_OBJECT_H_
#define CGPU_SIM_MODEL_OBJECT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "rm/nv_structs.h"
#include "sim/model/channel_ids.h"
#include "sim/model/gpu_port.h"
#include "sim/model/memory.h"
#include "sim/model/page_tables.h"

namespace cgpu::sim {

// Names an open file description (the kernel's struct file); never reused.
using FileId = std::uint64_t;

enum class FileKind : std::uint8_t { kCtl = 1, kUvm = 2, kGpu = 3 };

// The driver's internal classes, as far as they matter here.
enum class ObjectKind {
  kClient,
  kDevice,
  kSubdevice,
  kMemory,         // on the GPU or in system memory
  kVirtualMemory,  // a range of GPU addresses
  kVaSpace,
  kChannelGroup,
  kContextShare,
  kChannel,
  kEngine,  // compute, copy, graphics, video
  kUserMode,
  kEvent,
  kContextDma,
  kDebugger,
  kOther,  // it exists, and nothing is known of it
};

// A CPU mapping that MAP_MEMORY made.
struct Mapping {
  rm::NvU64 linear_address = 0;
  std::uint32_t tgid = 0;
  std::unique_ptr<Charge> bar1;  // what it takes of the GPU's BAR1
};

// A GPU mapping that MAP_MEMORY_DMA made, kept with the range of addresses it lies in.
struct DmaMapping {
  rm::NvHandle device = 0;  // or subdevice, as the caller said
  rm::NvHandle memory = 0;
  rm::NvU64 address = 0;
  rm::NvU64 length = 0;
  rm::NvU64 page = 0;
};

// An address space that an object names without keeping it.
struct SpaceOf {
  std::weak_ptr<PageTables> tables;
  std::weak_ptr<VaSpace> vaspace;
};

// The parameters that a channel was made with, for the engines.
struct ChannelSetup {
  rm::NvU64 gpfifo = 0;
  rm::NvU32 entries = 0;
  std::weak_ptr<Block> userd;
  rm::NvU64 userd_offset = 0;
  std::weak_ptr<Block> errors;
  rm::NvHandle error_handle = 0;  // a group's, for its channels that name none
};

// Aim of an NV01_EVENT_OS_EVENT: what it waits for, and where that is told.
struct OsEventOf {
  rm::NvHandle source_client = 0;
  rm::NvHandle source = 0;
  rm::NvU32 index = 0;  // NV2080_NOTIFIERS_*
  rm::NvU32 fd = 0;     // name of the system's event
};

struct Object {
  rm::NvHandle handle = 0;
  rm::NvHandle parent = 0;
  rm::NvU32 cls = 0;
  ObjectKind kind = ObjectKind::kClient;
  int gpu = -1;  // of the device above it
  std::set<rm::NvHandle> children;
  std::set<rm::NvHandle> dependants;  // freed with it though not below it
  std::set<rm::NvHandle> depends_on;
  std::shared_ptr<Block> block;          // kMemory
  bool original = false;                 // it, or its group, was allocated, not duplicated
  std::shared_ptr<Group> group;          // kChannelGroup; kChannel without a group above it
  std::shared_ptr<PageTables> tables;    // kVaSpace, kVirtualMemory; kDevice: its default space
  std::vector<DmaMapping> dma;           // kVirtualMemory
  std::shared_ptr<PinnedTables> pinned;  // kVirtualMemory: NV50_MEMORY_VIRTUAL
  std::set<rm::NvHandle> mapped_by;      // ranges of addresses that it is mapped in
  std::unique_ptr<ChannelIds::Id> channel_id;  // kChannel
  std::shared_ptr<VaSpace> vaspace;            // kVaSpace
  std::vector<Mapping> mappings;
  // Set by RM_SHARE; while empty, the default holds: the same process may duplicate.
  std::optional<std::vector<rm::RS_SHARE_POLICY>> share;
  SpaceOf space;       // kContextShare, kChannelGroup, kChannel: what it named, if it did
  ChannelSetup setup;  // kChannel
  std::shared_ptr<OnGpu> on_gpu;           // kChannel, once it was scheduled; an event buffer
  std::shared_ptr<GpuEventBuffer> events;  // NV_EVENT_BUFFER
  std::set<rm::NvHandle> registered;       // NV50_THIRD_PARTY_P2P: address spaces, or any number
  rm::NvU32 queue = 0;                     // NV_MEMORY_MAPPER: places in it
  std::optional<OsEventOf> os_event;       // kEvent
  std::map<rm::NvU32, rm::NvU32> notify;   // kSubdevice: actions by NV2080_NOTIFIERS_*
  bool scheduled = false;                  // kChannel
  bool disabled = false;                   // kChannel: by FIFO_DISABLE_CHANNELS
  bool stopped = false;                    // kChannel: by STOP_CHANNEL
  bool hung = false;                       // kChannel: by one of HangRules
  bool cuda_limit = false;                 // kDevice: it limits the GPU's clocks
  bool exclusive = false;                  // kEngine, of video: nobody else may have one
};

// The process that made a client, as recorded then.
struct Identity {
  std::uint32_t tgid = 0;  // in the node's pid namespace
  std::uint32_t euid = 0;
};

struct Client {
  rm::NvHandle handle = 0;
  FileId file = 0;
  Identity identity;
  std::uint32_t next_generated = 0;
  std::map<rm::NvHandle, Object> objects;  // the client itself among them
  // rs_client.h, accessBackRefList: what was shared with it, by client and object.
  std::vector<std::pair<rm::NvHandle, rm::NvHandle>> shared_with;
};

// The memory behind the pages of an mmap of a file. It does not keep the memory: a mapping of freed
// memory leads nowhere.
struct MapContext {
  std::weak_ptr<Block> block;
  rm::NvU64 offset = 0;
  rm::NvU64 length = 0;
  bool writable = true;
};

struct Exported {
  std::shared_ptr<Block> block;
  std::shared_ptr<Group> group;
  std::shared_ptr<PageTables> tables;
  std::shared_ptr<PinnedTables> pinned;
  std::shared_ptr<VaSpace> vaspace;
  rm::NvU32 cls = 0;
  ObjectKind kind = ObjectKind::kMemory;
  int gpu = -1;
};

// The table that OS_UNIX_EXPORT_OBJECT(S)_TO_FD makes in a control file.
struct ExportTable {
  rm::NvU32 device_instance = 0;
  std::vector<std::optional<Exported>> slots;
  std::vector<rm::NvU8> metadata;
  bool dma_buf = false;  // the file stands for a dma-buf: nothing is imported from it
};

struct OpenFile {
  FileKind kind = FileKind::kCtl;
  unsigned minor = 0;
  std::optional<Identity> opener;
  FileId ctl = 0;               // REGISTER_FD
  std::set<FileId> registered;  // GPU files that name this one
  bool closed = false;          // kept because a registered file holds it
  std::set<rm::NvHandle> clients;
  std::vector<rm::NvU32> attached_gpus;
  std::optional<MapContext> map;
  std::optional<ExportTable> exports;
  std::deque<rm::NvUnixEvent> events;  // that nobody has read yet
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_OBJECT_H_
