// The driver's object model: open files, clients, objects, memory and who may share what. Pure: it
// knows no process, no kernel and no time; what it must know of a caller is passed in. Every answer
// is the status the driver gives, by the sources named in docs/reference/simulated-driver.md.
//
// Thread-compatible: the caller serialises, as the driver's own API lock does.
#ifndef CGPU_SIM_MODEL_DRIVER_MODEL_H_
#define CGPU_SIM_MODEL_DRIVER_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "rm/abi.h"
#include "rm/channel_params.h"
#include "rm/nv_alloc.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "sim/model/encoder_sessions.h"
#include "sim/model/gpu.h"
#include "sim/model/hang_rules.h"
#include "sim/model/memory.h"
#include "sim/model/object.h"

namespace cgpu::sim {

using rm::NvStatus;

// Facts that the driver asks of the executing task while it works.
struct CallerView {
  std::uint32_t tgid = 0;
  bool admin = false;  // CAP_SYS_ADMIN in the initial user namespace
  // Minors of the GPU files open in the caller's own descriptor table (osIsGpuAccessible()).
  std::set<unsigned> open_minors;
};

struct AllocRequest {
  rm::NvHandle client = 0;
  rm::NvHandle parent = 0;
  rm::NvHandle handle = 0;  // in and out; 0 in: the driver picks one
  rm::NvU32 cls = 0;
  // The class's parameters, in and out: as many bytes as its table says, or none.
  std::span<std::byte> params;
};

struct DupRequest {
  rm::NvHandle client = 0;
  rm::NvHandle parent = 0;
  rm::NvHandle handle = 0;  // in and out
  rm::NvHandle client_src = 0;
  rm::NvHandle object_src = 0;
};

struct MapRequest {
  rm::NvHandle client = 0;
  rm::NvHandle device = 0;
  rm::NvHandle memory = 0;
  rm::NvU64 offset = 0;
  rm::NvU64 length = 0;
  rm::NvU32 flags = 0;
  rm::NvU64 linear_address = 0;  // out
  FileId target = 0;             // the file that the mmap will be of; 0: not one of this driver's
};

struct DmaRequest {
  rm::NvHandle client = 0;
  rm::NvHandle device = 0;  // or a subdevice
  rm::NvHandle range = 0;   // where it is mapped to
  rm::NvHandle memory = 0;  // not for UnmapDma()
  rm::NvU64 offset = 0;
  rm::NvU64 length = 0;
  rm::NvU32 flags = 0;
  rm::NvU64 address = 0;  // in and out
};

struct MemoryUse {  // of one process on one GPU, as _gpuCollectMemInfo() sums it
  rm::NvU64 memory_private = 0;
  rm::NvU64 shared_owned = 0;
  rm::NvU64 shared_duped = 0;
};

struct ClientAccounting {
  rm::NvHandle handle = 0;
  std::uint32_t pid = 0;
  std::size_t files = 0;
  std::size_t objects = 0;
  rm::NvU64 bytes = 0;
};
struct ObjectName {
  rm::NvHandle client = 0;
  rm::NvHandle handle = 0;
  rm::NvHandle parent = 0;
  rm::NvU32 cls = 0;
};
struct GroupAccounting {
  GpuKey key = 0;  // 0: the engines never heard of it
  rm::NvHandle client = 0;
  rm::NvHandle handle = 0;
  bool copy = false;  // a duplicate of a group: what it says is the group's
  std::uint32_t pid = 0;
  rm::NvU32 engine_type = 0;
  rm::NvU64 timeslice_us = 0;
  rm::NvU32 interleave = 0;
  rm::NvU64 preemptions = 0;
  rm::NvU32 preemption_mode = 0;  // NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_*
  bool scheduled = false;
};
struct ChannelAccounting {
  GpuKey key = 0;
  rm::NvHandle client = 0;
  rm::NvHandle handle = 0;
  std::uint32_t pid = 0;
  rm::NvU32 runlist = 0;
  rm::NvU32 id = 0;
  bool scheduled = false;
  bool disabled = false;
  bool stopped = false;
  bool hung = false;
};
// Errors of a GPU's memory since the node began, as an operator of the node put them there.
struct EccErrors {
  rm::NvU64 corrected = 0;
  rm::NvU64 uncorrected = 0;
};
struct GpuAccounting {
  rm::NvU64 used_bytes = 0;
  rm::NvU64 page_table_bytes = 0;  // of used_bytes
  rm::NvU64 bar1_bytes = 0;
  rm::NvU64 bar1_used_bytes = 0;
  rm::NvU32 encoder_sessions = 0;  // that are taken
  bool cuda_limit = false;         // somebody limits its clocks
  EccErrors ecc;
  std::vector<GroupAccounting> groups;
  std::vector<ChannelAccounting> channels;
};
// Counts the entries that the driver keeps for clients in the kernel's memory.
struct KernelAccounting {
  std::size_t os_events = 0;          // NV_ESC_ALLOC_OS_EVENT, of the whole node
  std::size_t shared_with = 0;        // entries of clients' lists of what was shared with them
  std::size_t share_policies = 0;     // of all objects
  std::size_t registered_spaces = 0;  // NV503C_CTRL_CMD_REGISTER_VA_SPACE
  rm::NvU64 mapper_places = 0;        // in the queues of NV_MEMORY_MAPPER
};
struct Accounting {
  KernelAccounting kernel;
  rm::NvU32 longest_idle_us = 0;  // that anybody had a GPU locked for by IDLE_CHANNELS
  rm::NvU64 stray_writes = 0;     // to memory that was freed: whatever lies there by then
  rm::NvU64 leaked_mappings = 0;  // CPU mappings that were forgotten, and not undone
  std::vector<GpuAccounting> gpus;
  std::vector<ClientAccounting> clients;
};

// NV_MEMORY_VIRTUAL_SYSMEM_DYNAMIC_HVASPACE in class/cl0070.h: a range that nothing can be mapped
// in.
inline constexpr rm::NvHandle kNoAddressSpace = 0xFFFFFFFF;

class DriverModel {
 public:
  DriverModel(std::vector<Gpu> gpus, const rm::Abi& abi);

  [[nodiscard]] const std::vector<Gpu>& Gpus() const { return gpus_; }
  [[nodiscard]] const GpuMemory& Memory(int gpu) const {
    return *memory_[static_cast<std::size_t>(gpu)];
  }
  [[nodiscard]] GpuMemory& Memory(int gpu) { return *memory_[static_cast<std::size_t>(gpu)]; }
  [[nodiscard]] EncoderSessions& Encoders(int gpu) {
    return encoders_[static_cast<std::size_t>(gpu)];
  }
  // Returns the correctable errors of a GPU's link that nobody has reset.
  [[nodiscard]] EccErrors& Ecc(int gpu) { return ecc_[static_cast<std::size_t>(gpu)]; }
  [[nodiscard]] rm::NvU32& BusErrors(int gpu) { return bus_errors_[static_cast<std::size_t>(gpu)]; }
  // Returns the channel that a GPU would be running: the first that is scheduled, of any client.
  [[nodiscard]] std::optional<rm::NvU32> ResidentChannel(int gpu) const;
  [[nodiscard]] const rm::Abi& DriverAbi() const { return abi_; }

  // Open files. Close frees what hung on the file, unless a registered GPU file still holds it.
  // `opener` stands for the process that closes it last, which FUSE does not tell: CPU mappings of
  // clients that are neither this process's nor its user's are not undone. Without an
  // opener, all are.
  FileId Open(FileKind kind, unsigned minor, std::optional<Identity> opener = std::nullopt);
  void Close(FileId file);
  [[nodiscard]] OpenFile* FindFile(FileId file);
  // `ctl` is 0 for a descriptor that is not an open control file.
  [[nodiscard]] NvStatus RegisterFd(FileId file, FileId ctl);
  // Returns the file whose clients a call on `file` may use.
  [[nodiscard]] FileId ClientFile(FileId file) const;

  // Objects. `file` is the one the call came through.
  [[nodiscard]] NvStatus AllocClient(FileId file, const Identity& identity, rm::NvHandle* handle);
  [[nodiscard]] NvStatus Alloc(FileId file, const CallerView& caller, AllocRequest& request);
  [[nodiscard]] NvStatus Free(FileId file, rm::NvHandle client, rm::NvHandle object);
  [[nodiscard]] NvStatus Dup(FileId file, DupRequest& request);
  [[nodiscard]] NvStatus Share(FileId file, rm::NvHandle client, rm::NvHandle object,
                               const rm::RS_SHARE_POLICY& policy, bool by_escape = true);
  // Returns whether `object` of `source` lets `target` duplicate it.
  [[nodiscard]] bool MayDup(const Client& source, const Object& object, const Client& target) const;
  // Finds the client, if it exists and may be used through `file`. `missing` is the call's answer
  // if it does not exist: the driver's entry points differ.
  [[nodiscard]] NvStatus UseClient(FileId file, rm::NvHandle handle, NvStatus missing,
                                   Client** client);
  [[nodiscard]] Client* FindClient(rm::NvHandle handle);
  // Notes that the driver, or the GPU at its word, writes to memory that it keeps a pointer to.
  void NoteUse(const std::weak_ptr<Block>& memory);
  // Notes that a client is to wait so long for its channels, with their GPU locked.
  void NoteIdle(rm::NvU32 timeout_us) { longest_idle_us_ = std::max(longest_idle_us_, timeout_us); }
  [[nodiscard]] static Object* FindObject(Client& client, rm::NvHandle handle);

  // OS events.
  [[nodiscard]] NvStatus AllocOsEvent(FileId file, rm::NvHandle client, rm::NvU32 fd);
  [[nodiscard]] NvStatus FreeOsEvent(rm::NvHandle client, rm::NvU32 fd);
  // Sets what a subdevice does with an event of the GPU.
  [[nodiscard]] NvStatus SetNotification(const Client& client, Object& subdevice, rm::NvU32 index,
                                         rm::NvU32 action) const;
  // Tells all that wait for this event of the GPU. Returns the files on which they are told.
  std::set<FileId> Notify(int gpu, rm::NvU32 index, rm::NvU32 info32);
  // Takes the oldest event off a file. `more`: whether others are left.
  [[nodiscard]] std::optional<rm::NvUnixEvent> TakeEvent(FileId file, bool* more);

  // CPU mappings.
  [[nodiscard]] NvStatus MapMemory(FileId file, const CallerView& caller, MapRequest& request);
  [[nodiscard]] NvStatus UnmapMemory(FileId file, const CallerView& caller, rm::NvHandle client,
                                     rm::NvHandle device, rm::NvHandle memory,
                                     rm::NvU64 linear_address);
  [[nodiscard]] NvStatus UpdateMapping(const CallerView& caller, rm::NvHandle client,
                                       rm::NvHandle memory, rm::NvU64 from, rm::NvU64 to);

  // GPU mappings in page tables of the driver's own.
  [[nodiscard]] NvStatus MapDma(FileId file, DmaRequest& request);
  [[nodiscard]] NvStatus UnmapDma(FileId file, const DmaRequest& request);

  // Export and import by file. `target` is the control file named by the descriptor, or 0.
  [[nodiscard]] NvStatus PrepareExport(Client& client, rm::NvHandle device, FileId target,
                                       unsigned slots, std::span<const rm::NvU8> metadata);
  [[nodiscard]] NvStatus Export(Client& client, FileId target, unsigned index,
                                std::span<const rm::NvHandle> objects);
  [[nodiscard]] NvStatus ExportOne(Client& client, rm::NvHandle device, rm::NvHandle object,
                                   FileId target);
  [[nodiscard]] NvStatus Import(Client& client, rm::NvHandle parent, FileId target, unsigned index,
                                rm::NvHandle* handle, ObjectKind* kind, bool* on_gpu);

  // Exports to a dma-buf that `target` stands for. The client is any that the caller names.
  [[nodiscard]] NvStatus ExportDmaBuf(rm::NvHandle client, int gpu, FileId target, unsigned slots,
                                      unsigned index, std::span<const rm::NvHandle> memory);
  // Returns whether it is a control file on which nothing was done.
  [[nodiscard]] bool IsUnused(FileId file) const;

  // Sets the engines. `engines` outlives the model; none: nothing runs.
  void SetEngines(GpuPort* engines) { engines_ = engines; }
  [[nodiscard]] GpuPort* Engines() const { return engines_; }
  void SetHangRules(const HangRules& rules) { hang_rules_ = rules; }
  // Returns the group of a channel or of a group.
  [[nodiscard]] static Group& GroupOf(Client& client, Object& object);
  // Schedules a channel, or all channels of a group, whichever of its duplicates is named, and
  // tells the engines of those that they do not know.
  [[nodiscard]] GpuTicket ScheduleChannel(Client& client, Object& channel, bool on);
  [[nodiscard]] GpuTicket ScheduleGroup(Client& client, Object& group, bool on);
  using Owned = std::pair<Client*, Object*>;
  [[nodiscard]] GpuTicket Disable(std::span<const Owned> channels, bool off, bool only_scheduling);
  [[nodiscard]] GpuTicket Stop(Object& channel);
  // Restarts the runlist of a channel.
  [[nodiscard]] GpuTicket Restart(const Object& channel);
  [[nodiscard]] GpuTicket Preempt(Group& group);
  void SetTimeslice(Group& group, rm::NvU64 us);
  void SetInterleave(Group& group, rm::NvU32 level);
  // An address space by the number that the engines have for it; the second is none for one that
  // the driver keeps itself.
  struct KnownSpace {
    std::weak_ptr<PageTables> tables;
    std::weak_ptr<VaSpace> vaspace;
    int gpu = 0;
    std::uint64_t told = 0;  // the versions of both, added, that the engines were told of
  };
  [[nodiscard]] const KnownSpace* FindSpace(rm::NvU64 number) const;
  // Tells the engines which spaces have changed. Call it after everything that may change one.
  void TellOfSpaces();

  // Takes a GPU off the bus, or puts it back.
  void SetLost(int gpu, bool lost) {
    if (lost) {
      lost_.insert(gpu);
    } else {
      lost_.erase(gpu);
    }
  }
  [[nodiscard]] bool IsLost(int gpu) const { return lost_.count(gpu) != 0; }

  // Queries.
  [[nodiscard]] MemoryUse UseOf(std::uint32_t tgid, int gpu) const;
  // Returns the processes with a client that has a device of `gpu` and, unless 0, an object of
  // `cls`.
  [[nodiscard]] std::vector<std::uint32_t> ProcessesOn(int gpu, rm::NvU32 cls) const;
  [[nodiscard]] Accounting GetAccounting() const;
  // Returns all objects, also clients.
  [[nodiscard]] std::vector<ObjectName> Objects() const;
  [[nodiscard]] rm::NvU64 GroupBytes(int gpu) const;
  [[nodiscard]] const GpuMemory& Bar1(int gpu) const {
    return *bar1_[static_cast<std::size_t>(gpu)];
  }
  // Returns whether the GPU is on an NVLink fabric.
  [[nodiscard]] bool HasFabric(int gpu) const;

 private:
  struct Parent {
    Object* object = nullptr;
    int gpu = -1;
  };

  [[nodiscard]] NvStatus AssignHandle(Client& client, rm::NvHandle* handle);
  [[nodiscard]] NvStatus Construct(Client& client, const CallerView& caller, AllocRequest& request,
                                   Object& object);
  [[nodiscard]] NvStatus ConstructDevice(const CallerView& caller, AllocRequest& request,
                                         Object& object);
  [[nodiscard]] NvStatus ConstructMemory(Client& client, AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructVidmem(AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructSystemMemory(AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructOsDescriptor(AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructPhysical(AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructList(AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructSpace(Client& client, rm::NvHandle parent, rm::NvU32 index,
                                        Object& object);
  [[nodiscard]] NvStatus ConstructAddresses(Client& client, rm::NvHandle parent, rm::NvHandle space,
                                            Object& object);
  [[nodiscard]] NvStatus ConstructInterval(Client& client, AllocRequest& request, Object& object);
  [[nodiscard]] NvStatus ConstructContextDma(Client& client, const AllocRequest& request,
                                             Object& object);
  [[nodiscard]] NvStatus ConstructContextShare(Client& client, AllocRequest& request,
                                               Object& object);
  [[nodiscard]] NvStatus ConstructDebugger(Client& client, const AllocRequest& request);
  [[nodiscard]] NvStatus ConstructGroup(Client& client, const AllocRequest& request,
                                        Object& object);
  [[nodiscard]] NvStatus ConstructChannel(Client& client, const AllocRequest& request,
                                          Object& object);
  [[nodiscard]] NvStatus ConstructVideoEngine(const AllocRequest& request, Object& object) const;
  [[nodiscard]] NvStatus ConstructEventBuffer(Client& client, const AllocRequest& request,
                                              Object& object);
  [[nodiscard]] NvStatus ConstructEvent(Client& client, const AllocRequest& request,
                                        Object& object);
  [[nodiscard]] static SpaceOf SpaceNamed(Client& client, rm::NvHandle handle);
  // Return the status for handles that an object is to be made with; 0 names nothing.
  [[nodiscard]] static NvStatus CheckSpace(Client& client, rm::NvHandle handle);
  [[nodiscard]] static NvStatus CheckNamed(Client& client, const rm::ChannelParams& params,
                                           const Object& parent);
  static void SetUpChannel(Client& client, const rm::ChannelParams& params, const Object& parent,
                           Object& object);
  void PutOnGpu(Client& client, Object& channel);
  void SetScheduled(Client& client, Object& channel, bool on);
  void Hang(Object& channel);
  void HangRescheduled(std::span<Object* const> channels);
  void HangListed(std::span<const Owned> channels, bool off);
  [[nodiscard]] rm::NvU64 NumberOf(const SpaceOf& space, int gpu);
  [[nodiscard]] NvStatus MakeGroup(int gpu, rm::NvU32 engine_type, std::shared_ptr<Group>* group);
  // Returns the pool that the numbers of a runlist's channels come from.
  [[nodiscard]] rm::NvU32 PoolOf(int gpu, rm::NvU32 runlist) const;
  void Link(Client& client, Object object);
  void DropDma(Client& client, Object& object);
  void FreeTree(Client& client, rm::NvHandle handle);
  void FreeClient(rm::NvHandle handle);
  void LeakMappings(Client& client, const std::optional<Identity>& closer);
  void RevokeSharesWith(const Client& client);
  [[nodiscard]] KernelAccounting InKernel() const;
  void DropFile(FileId file);
  [[nodiscard]] static bool PolicyMatches(const rm::RS_SHARE_POLICY& policy, const Client& source,
                                          const Client& target);
  [[nodiscard]] NvStatus AttachCopy(Client& client, rm::NvHandle parent, Object copy,
                                    rm::NvHandle* handle);
  [[nodiscard]] NvStatus CheckMapContext(Client& client, rm::NvHandle device,
                                         const Object& memory) const;
  [[nodiscard]] NvStatus AddMapContext(const MapRequest& request, const Object& memory);
  // Returns nullptr if BAR1 has no room for the mapping.
  [[nodiscard]] std::unique_ptr<Charge> TakeBar1(const MapRequest& request, const Block& block);
  [[nodiscard]] NvStatus MakeExported(Client& client, rm::NvHandle object, Exported* exported);

  const std::vector<Gpu> gpus_;
  const rm::Abi& abi_;
  // Declared before everything that holds a charge. Per GPU:
  std::vector<std::unique_ptr<GpuMemory>> memory_;
  // kern_gmmu.c: each GPU has an address space for all clients that name no other.
  std::vector<std::shared_ptr<PageTables>> global_tables_;
  std::vector<std::unique_ptr<GpuMemory>> bar1_;
  std::vector<std::unique_ptr<ChannelIds>> channel_ids_;
  std::vector<std::unique_ptr<ChannelIds>> group_ids_;
  std::vector<std::shared_ptr<Block>> shared_data_;  // RM_USER_SHARED_DATA
  std::vector<EncoderSessions> encoders_;
  std::vector<rm::NvU32> bus_errors_;
  std::vector<EccErrors> ecc_;
  std::set<int> lost_;  // GPUs that have fallen off the bus
  GpuPort* engines_ = nullptr;
  HangRules hang_rules_;
  GpuKey next_key_ = 1;
  rm::NvU64 next_space_ = 1;
  std::map<rm::NvU64, KnownSpace> spaces_;
  std::map<FileId, OpenFile> files_;
  std::map<rm::NvHandle, Client> clients_;
  rm::NvU32 longest_idle_us_ = 0;
  rm::NvU64 stray_writes_ = 0;
  std::vector<std::unique_ptr<Charge>> leaked_;  // of BAR1, by mappings that were not undone
  std::map<std::pair<rm::NvHandle, rm::NvU32>, FileId> os_events_;  // client, fd number
  FileId next_file_ = 1;
  std::uint32_t next_client_ = 0;
  rm::NvU64 next_block_ = 1;
  rm::NvU64 next_linear_address_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_DRIVER_MODEL_H_
