// The ledger: what one container holds now on the GPUs of its grant.
//
// It is a tree of the container's RM objects per client. Blocks of GPU memory are attached to the
// objects. A block is charged to the container once, from before the driver is asked for it until
// its last holder is gone. A holder is an object in any client, a file that the block was exported
// to, or a call in flight that is about to add a holder.
//
// Every creation takes three steps. Calls may thus run in the driver side by side, and the sum
// still never passes a limit or a quota:
//   1. Reserve...()  before the call: takes the bytes, the handle, the channel id; pins the source
//                    of a copy, so that a free that overtakes the call cannot lose its bytes.
//   2. The driver executes the call.
//   3. Add...() or Export() on success; Cancel() otherwise. If step 3 fails, the reservation still
//                    holds what it held: free the new object in the driver first, then Cancel().
// Take references (ClientRef, ObjectRef) before the call and pass them after it. They carry a
// serial number, so an object that was freed and made again under the same handle meanwhile is left
// alone.
//
// A tenant may change the parameters of a call that it executes itself after they were read. What
// such a call makes is entered as doubtful. Find() notes each doubtful object that it meets: the
// caller takes the notes (TakeDoubts()), asks the driver, tells the answer (Settle()) and begins
// anew. An object that the driver has elsewhere or not at all is forgotten: its handle is unknown
// then. But it counts as a stray until no client is left, because the call may have made an object
// somewhere else. Nothing lies below a doubtful object, and nothing depends on it.
//
// Bytes are what the driver takes; the caller rounds as the driver rounds. GPUs are numbered as in
// the grant. Keys of files and processes are the caller's own and never 0. A failed operation
// changes nothing. Thread-compatible: the caller holds one lock around every call. Destroying a
// Reservation needs no lock. Cost: O(log n), except for the lists and usages, which read every row,
// and for frees, which touch what they free. An object costs about 150 bytes, a block about 80.
#ifndef CGPU_LEDGER_LEDGER_H_
#define CGPU_LEDGER_LEDGER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "ledger/rows.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::ledger {

using Gpu = std::uint32_t;
using Handle = std::uint32_t;
using FileKey = std::uint64_t;
using ProcessKey = std::uint64_t;

// Quotas of a container: most objects of each kind that may exist at once. `handles` counts objects
// (without clients) and exports, which the driver keeps as objects of its own; `mappings` counts
// the processor's views of memory.
struct Quotas {
  std::uint32_t clients = 0;
  std::uint32_t handles = 0;
  std::uint32_t channel_groups = 0;
  std::uint32_t channels = 0;
  std::uint32_t mappings = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t debuggers = std::numeric_limits<std::uint32_t>::max();
};

// Quotas of a container on one GPU, of pools that all users of the GPU share. `bar1_bytes`: of the
// window through which the processor sees the GPU's memory.
struct GpuQuotas {
  std::uint32_t channel_groups = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t channels = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t bar1_bytes = std::numeric_limits<std::uint64_t>::max();
};

enum class Kind : std::uint8_t {
  kOther,         // holds no GPU memory
  kMemory,        // vidmem: reported per process as the driver reports it
  kChannelGroup,  // has a quota; its bytes are the driver's own (context buffers)
  kChannel,       // likewise
  kLoneChannel,   // a channel with a group of its own: counts as one of each
  kDebugger,      // has a quota; holds no GPU memory
};

struct ClientRef {
  Handle handle = 0;
  std::uint64_t serial = 0;
  friend bool operator==(const ClientRef&, const ClientRef&) = default;
};

// A reference to an object. `serial` 0 in an argument means the object that has `handle` now.
struct ObjectRef {
  Handle handle = 0;
  std::uint64_t serial = 0;
  friend bool operator==(const ObjectRef&, const ObjectRef&) = default;
};

// The resources that a call in flight holds. Move-only; empty after Add...(), Export() or Cancel().
// One that is destroyed while not empty gives its resources back at the ledger's next Reserve...(),
// whichever thread destroys it, and even after the ledger.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  [[nodiscard]] bool empty() const { return id_ == 0; }

 private:
  friend class Ledger;
  struct Dropped {
    Mutex mutex;
    std::vector<std::uint64_t> ids CGPU_GUARDED_BY(mutex);
  };
  Reservation(std::shared_ptr<Dropped> dropped, std::uint64_t id)
      : dropped_(std::move(dropped)), id_(id) {}

  std::shared_ptr<Dropped> dropped_;
  std::uint64_t id_ = 0;
};

// The thing that a reservation found full.
enum class Full : std::uint8_t {
  kNothing,
  kLimit,  // the GPU's limit; reported alone where a quota is full, too
  // Quotas of the container ...
  kClients,
  kHandles,
  kChannelGroups,
  kChannels,
  kMappings,
  kDebuggers,
  // ... and on the GPU.
  kGpuChannelGroups,
  kGpuChannels,
  kGpuBar1,
};

// A reservation or, as an error, why there is none. `full()` is kNothing for all codes other than
// kExhausted.
class [[nodiscard]] ReserveResult : public Result<Reservation> {
 public:
  // Implicit, as those of Result.
  // NOLINTNEXTLINE(google-explicit-constructor)
  ReserveResult(Reservation reservation) : Result(std::move(reservation)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  ReserveResult(Error error, Full full = Full::kNothing) : Result(std::move(error)), full_(full) {}

  [[nodiscard]] Full full() const { return full_; }

 private:
  Full full_ = Full::kNothing;
};

struct NewObject {
  ObjectRef parent;  // the client itself: its own handle
  Handle handle = 0;
  std::uint32_t cls = 0;
  std::optional<Gpu> gpu;          // set on objects that choose a GPU (devices); others inherit it
  std::uint64_t actual_bytes = 0;  // what the driver says it took
  std::uint64_t page_bytes = 0;    // of GPU memory: the driver maps whole pages of it
  std::uint32_t engine = 0;  // of a channel group: the GPU engine of its channels, as the caller
                             // numbers them; a channel without a group has its own
  bool doubtful = false;     // entered before the tenant executes the call
};

struct ObjectInfo {
  ObjectRef ref;
  Handle parent = 0;  // the client: itself
  std::uint32_t cls = 0;
  Kind kind = Kind::kOther;
  std::optional<Gpu> gpu;
  std::uint64_t bytes = 0;    // of its block, whichever holder pays
  std::uint32_t holders = 0;  // of its block: objects and exports; 0 without a block
  std::uint64_t page_bytes = 0;
  bool doubtful = false;
};

// A doubtful object. If the driver has it, it has it under this handle, below this parent.
struct Doubt {
  ClientRef client;
  ObjectRef object;
  Handle parent = 0;
  std::uint32_t cls = 0;
};

// A channel and its group, by the names that the driver knows them by. The group of a lone channel
// has no names: 0.
struct ChannelInfo {
  std::uint64_t id = 0;  // differs between channels; the same for all duplicates of one
  Handle client = 0;
  Handle channel = 0;
  std::uint64_t group = 0;  // differs between groups; the same for all duplicates of one
  Handle group_client = 0;
  Handle group_handle = 0;
  std::uint32_t engine = 0;
};

struct ClientInfo {
  ClientRef ref;
  FileKey file = 0;
  ProcessKey owner = 0;
};

// GPU memory by payer, after the driver's rule (NVIDIA/open-gpu-kernel-modules 550.163.01
// src/nvidia/src/kernel/gpu/gpu_rmapi.c, _gpuCollectMemInfo). A block with one holder is private.
// Otherwise its owner has it as shared_owned, and every other object has it as shared_duped. When
// the owner is freed, the next holder owns the block (src/nvidia/src/kernel/mem_mgr/mem.c,
// memDestruct). Unlike the driver's rule, an exporting file never owns while an object holds the
// block.
struct Usage {
  std::uint64_t private_bytes = 0;
  std::uint64_t shared_owned_bytes = 0;
  std::uint64_t shared_duped_bytes = 0;  // paid by others
  std::uint64_t context_bytes = 0;       // channel groups and channels paid for
  std::uint64_t extra_bytes = 0;         // SetExtra(); of processes alone
  // Returns the bytes of Used() that this process or client pays for.
  [[nodiscard]] std::uint64_t Paid() const {
    return private_bytes + shared_owned_bytes + context_bytes + extra_bytes;
  }
  friend bool operator==(const Usage&, const Usage&) = default;
};

// Names an untracked charge: GPU memory that belongs to no object, such as managed ranges and page
// tables.
struct ExtraKey {
  ProcessKey owner = 0;
  std::uint64_t what = 0;  // the caller's own
  friend auto operator<=>(const ExtraKey&, const ExtraKey&) = default;
};

struct Counts {
  std::uint32_t clients = 0;
  std::uint32_t handles = 0;
  std::uint32_t channel_groups = 0;
  std::uint32_t channels = 0;
  std::uint32_t mappings = 0;
  std::uint32_t debuggers = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

enum class LimitResult { kSet, kBelowUse };

class Ledger {
 public:
  // `limits`: bytes, one per granted GPU (at most 32767 GPUs).
  Ledger(const std::vector<std::uint64_t>& limits, Quotas quotas);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // --- Before the call. kExhausted: over the GPU's limit or a quota; ReserveResult::full() says
  // which.
  ReserveResult ReserveClient();
  // Reserves a new object. kNotFound: no such GPU.
  ReserveResult Reserve(Kind kind, Gpu gpu = 0, std::uint64_t bytes = 0);
  // Reserves a duplicate of `source`, anywhere in the container. kNotFound: no such object;
  // kInvalid: it is a client.
  ReserveResult ReserveDup(ClientRef client, ObjectRef source);
  // Reserves an import of the object that `file` holds at `index`. kNotFound: the place is empty,
  // or its object is not this container's.
  ReserveResult ReserveImport(FileKey file, std::uint32_t index = 0);
  // Reserves an export of `source`; errors as ReserveDup.
  ReserveResult ReserveExport(ClientRef client, ObjectRef source);
  // Reserves a view of `object`. `bytes` of BAR1; 0 where it is not GPU memory. Errors as
  // ReserveDup.
  ReserveResult ReserveMapping(ClientRef client, ObjectRef object, std::uint64_t bytes);
  void Cancel(Reservation& reservation);

  // --- After the call. kInternal: the reservation is empty or of another kind.
  //
  // Adds the client. A client that already has this handle is gone in the driver, and is freed
  // first.
  [[nodiscard]] Result<ClientRef> AddClient(Reservation& reservation, Handle handle, FileKey file,
                                            ProcessKey owner);
  // Adds the object. kNotFound: client or parent is gone, and with it the object in the driver.
  // kConflict: the handle is taken; as the driver has just accepted it, the ledger's object is
  // stale: Free() it and repeat. A doubtful object of this handle becomes a stray. kExhausted: the
  // driver took more than was reserved, and that passes the limit. kInternal: bytes were reserved
  // on a GPU that the object does not lie on.
  [[nodiscard]] Result<ObjectRef> AddObject(Reservation& reservation, ClientRef client,
                                            const NewObject& object);
  // Adds a stray in place of the object that was reserved: where the call made it, if anywhere, is
  // unknown.
  void AddStray(Reservation& reservation);
  // Adds the duplicate or import that was reserved; errors as AddObject. Its GPU is its parent's if
  // that has one, else its source's; its bytes stay where they are.
  [[nodiscard]] Result<ObjectRef> AddCopy(Reservation& reservation, ClientRef client,
                                          ObjectRef parent, Handle handle);
  // Adds the export that was reserved. It lives until `file` closes or the place is used again.
  [[nodiscard]] Result<> Export(Reservation& reservation, FileKey file, std::uint32_t index = 0);
  void Unexport(FileKey file, std::uint32_t index);
  // Adds the view that was reserved. It lives until it is removed or the object is freed.
  // kNotFound: the object is gone, and with it the view.
  [[nodiscard]] Result<> AddMapping(Reservation& reservation, ClientRef client, ObjectRef object,
                                    std::uint64_t address);
  // Remove or move a view. If the object has several views under one address, it is unknown which
  // one the driver means: from then on each of them counts as the largest.
  void RemoveMapping(ClientRef client, ObjectRef object, std::uint64_t address);
  void MoveMapping(ClientRef client, ObjectRef object, std::uint64_t from, std::uint64_t to);

  // Makes Free() of `on` free `dependant` too (a channel with its group's context share, and so
  // on).
  [[nodiscard]] Result<> AddDependency(ClientRef client, Handle dependant, Handle on);
  // Notes that `keeper` goes on using what lies under `kept`, now or later, although the driver
  // frees that without asking: see IsKept(). A channel group uses it as long as it has a channel.
  // kNotFound: the keeper is gone.
  [[nodiscard]] Result<> AddKeeper(ClientRef client, Handle keeper, Handle kept);

  // Frees the object, everything below it and their dependants. The client's own handle frees the
  // client. kNotFound: it is gone already, or the serial differs. Doubtful objects that go with it
  // become strays.
  [[nodiscard]] Result<> Free(ClientRef client, ObjectRef object);
  // --- Doubts.
  //
  // Makes an object doubtful.
  void MakeDoubtful(ClientRef client, ObjectRef object);
  [[nodiscard]] bool HasDoubts() const { return doubts_ != 0; }
  // Returns the doubtful objects that Find() and IsKept() have met since the last call, each once.
  std::vector<Doubt> TakeDoubts();
  // Returns true if there are any to take.
  [[nodiscard]] bool Doubted() const { return HasDoubts() && !met_.empty(); }
  // Ends a doubt, if it still exists. `there`: the driver has the object as it says.
  void Settle(const Doubt& doubt, bool there);
  // Returns true if the ledger was handed over by a version that knew no doubts.
  [[nodiscard]] bool CameWithoutDoubts() const { return came_without_doubts_; }

  // Frees the client. False: it is gone already.
  bool RemoveClient(ClientRef client);
  // Ends the clients and exports of `file`, after its last close.
  void CloseFile(FileKey file);

  // Counts that a tenant was refused memory on the GPU. Not every kExhausted is such a refusal: the
  // caller may look at what has been closed meanwhile, and ask again.
  void CountDenial(Gpu gpu);

  // Sets the untracked charge of `key` on the GPU, in place of the one before; 0: nothing.
  // kExhausted: the charge would grow and that passes the limit. kNotFound: no such GPU.
  [[nodiscard]] Result<> SetExtra(ExtraKey key, Gpu gpu, std::uint64_t bytes);
  // Sets the charge for memory that the driver has given already: passes the limit if it must.
  // Saturates.
  void ForceExtra(ExtraKey key, Gpu gpu, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t Extra(ExtraKey key, Gpu gpu) const;

  // Sets the limit at once. Below use, everything stays and growth stops.
  [[nodiscard]] Result<LimitResult> SetLimit(Gpu gpu, std::uint64_t bytes);
  // Sets the GPU's quotas at once, as SetLimit(). Until the first call only the container's apply.
  void SetGpuQuotas(Gpu gpu, const GpuQuotas& quotas);

  // --- Questions.
  [[nodiscard]] std::optional<ClientInfo> FindClient(Handle handle) const;
  [[nodiscard]] bool Owns(Handle client) const { return clients_.contains(client); }
  [[nodiscard]] std::vector<ClientInfo> Clients() const;
  // Finds an object in order to use it: a doubtful one is noted.
  [[nodiscard]] std::optional<ObjectInfo> Find(ClientRef client, Handle object) const;
  // Finds an object without using it.
  [[nodiscard]] std::optional<ObjectInfo> Look(ClientRef client, Handle object) const;
  [[nodiscard]] std::optional<Gpu> GpuOf(ClientRef client, Handle object) const;
  // Returns what ChannelInfo names the channel or channel group by.
  [[nodiscard]] std::optional<std::uint64_t> ChannelOrGroup(ClientRef client, Handle object) const;
  // Returns true if other objects would be freed with it.
  [[nodiscard]] bool FreesOthers(ClientRef client, Handle object) const;
  // Returns true if an object that stays uses something that would be freed with it, or that had
  // this handle. A doubtful object that is used is noted.
  [[nodiscard]] bool IsKept(ClientRef client, Handle object) const;
  // Returns the handles of what `keeper` keeps.
  [[nodiscard]] std::vector<Handle> KeptBy(ClientRef client, Handle keeper) const;
  // Returns all objects of a client and the client itself, by handle.
  [[nodiscard]] std::vector<ObjectInfo> Objects(ClientRef client) const;

  // Returns the channels on a GPU; those of a group are adjacent.
  [[nodiscard]] std::vector<ChannelInfo> Channels(Gpu gpu) const;
  // Returns a number that changes whenever the answer of Channels() changes for some GPU.
  [[nodiscard]] std::uint64_t ChannelChanges() const { return channel_changes_; }

  // For a GPU that does not exist all figures are 0.
  [[nodiscard]] std::uint64_t Used(Gpu gpu) const { return At(gpu).used; }
  [[nodiscard]] std::uint64_t Reserved(Gpu gpu) const { return At(gpu).reserved; }
  [[nodiscard]] std::uint64_t Peak(Gpu gpu) const { return At(gpu).peak; }
  [[nodiscard]] std::uint64_t Limit(Gpu gpu) const { return At(gpu).limit; }
  [[nodiscard]] std::uint64_t Denied(Gpu gpu) const { return At(gpu).denied; }
  [[nodiscard]] std::uint64_t Bar1Used(Gpu gpu) const { return At(gpu).bar1; }
  [[nodiscard]] std::uint64_t Bar1Quota(Gpu gpu) const { return At(gpu).quotas.bar1_bytes; }
  [[nodiscard]] Gpu Gpus() const { return static_cast<Gpu>(gpus_.size()); }
  // Returns the counts of what exists, without reservations. Strays are among the handles.
  [[nodiscard]] Counts Count() const { return counts_; }
  // Returns the number of objects of the vendor's class.
  [[nodiscard]] std::uint32_t CountOf(std::uint32_t cls) const {
    const auto found = of_class_.find(cls);
    return found == of_class_.end() ? 0 : found->second;
  }
  // Returns usage by process. Used(gpu) is the sum of Paid() over all processes, plus the bytes
  // that only exports hold or calls pin.
  [[nodiscard]] std::map<ProcessKey, Usage> UsageByProcess(Gpu gpu) const;
  [[nodiscard]] Usage UsageOfClient(ClientRef client, Gpu gpu) const;

  // --- Hand-over (base/state.h).
  //
  // Writes records within the one that is open. No call is in flight and every reservation is
  // empty: what a reservation holds would not be written. Quotas are not written either.
  void Save(StateWriter& writer) const;
  // Reads the open record into a ledger that is new and has as many GPUs. Every answer is then as
  // it was, also references and which holder pays next. kInvalid: the bytes, which may be anything,
  // are no state of a ledger; then this one must not be used any more.
  [[nodiscard]] Result<> Load(StateReader& reader);

 private:
  using Block = internal::Block;
  using Object = internal::Object;
  using Client = internal::Client;
  using Pending = internal::Pending;
  using Shared = internal::Shared;
  using Exports = std::map<std::pair<FileKey, std::uint32_t>, Shared>;
  class Loader;  // state.cc
  struct GpuState {
    std::uint64_t limit = 0;
    std::uint64_t used = 0;
    std::uint64_t reserved = 0;
    std::uint64_t peak = 0;
    std::uint64_t denied = 0;
    GpuQuotas quotas;
    // The following include reservations.
    Counts counts;  // of channel groups and channels alone
    std::uint64_t bar1 = 0;
  };

  [[nodiscard]] const GpuState& At(Gpu gpu) const;
  [[nodiscard]] const Client* Get(ClientRef ref) const;
  [[nodiscard]] Client* Get(ClientRef ref);
  static const Object* Get(const Client& client, ObjectRef ref);
  static Object* Get(Client& client, ObjectRef ref);
  static ObjectInfo Describe(const Object& object);
  static Object& RootOf(Object& object);
  static void Detach(Client& client, Object& root, Object& object);
  void Forget(Client& client, Object& object);
  void CountStrays(std::uint32_t strays);
  static bool GoesWith(const Client& client, const Object& object, const Object& root);
  static bool Uses(const Object& keeper);
  static void AddUsage(const Object& object, Gpu gpu, Usage& usage);

  [[nodiscard]] const Pending* Get(const Reservation& reservation, Pending::What what) const;
  // Returns nothing if no quota is full.
  std::optional<ReserveResult> CheckQuotas(Kind kind, const GpuState* gpu) const;
  Result<> CheckRoom(Gpu gpu, std::uint64_t bytes);
  ReserveResult ReserveShared(Pending::What what, const Shared& source);
  [[nodiscard]] Result<Shared> SourceOf(ClientRef client, ObjectRef source) const;
  Reservation Hold(const Pending& pending);
  void Release(std::uint64_t id);
  void CountPending(const Pending& pending, bool add);
  using Mappings = std::multimap<Handle, internal::Mapping>;
  Mappings::iterator FindMapping(Client& client, Handle object, std::uint64_t address);
  Mappings::iterator DropMapping(Client& client, Mappings::iterator mapping);
  void CollectDropped();

  // The place of a new object, checked before anything changes.
  struct Place {
    Client* client = nullptr;
    Object* parent = nullptr;
    std::int16_t gpu = -1;
  };
  Client& NewClient(Handle handle, FileKey file, ProcessKey owner);
  Result<Place> FindPlace(ClientRef client, ObjectRef parent, Handle handle);
  Object& Insert(const Place& place, Handle handle, std::uint32_t cls, std::uint8_t kind);
  Block& NewBlock(Kind kind, Gpu gpu, std::uint64_t bytes);
  void JoinBlock(Object& object, Block& block);
  void LeaveBlock(Object& object);
  void LeaveClass(const Object& object);
  void DropIfUnheld(Block& block);
  Exports::iterator DropExport(Exports::iterator entry);
  static void UnlinkFromParent(Object& object);
  void Erase(Client& client, Object& object);
  void FreeTree(Client& client, Object& object);
  void FreeClient(std::map<Handle, Client>::iterator client);
  void SaveObjects(StateWriter& writer) const;
  void NoteChannels(const Block& block);

  std::vector<GpuState> gpus_;
  Quotas quotas_;
  Counts counts_;
  std::map<std::uint32_t, std::uint32_t> of_class_;  // objects, by class
  Counts pending_counts_;
  std::uint32_t doubts_ = 0;  // doubtful objects
  std::uint32_t strays_ = 0;  // counted as handles
  // Doubtful objects that questions have met, by client and handle.
  mutable std::set<std::pair<Handle, Handle>> met_;
  bool came_without_doubts_ = false;
  std::uint64_t next_serial_ = 1;
  std::uint64_t channel_changes_ = 0;
  std::map<Handle, Client> clients_;
  std::set<std::pair<FileKey, Handle>> clients_by_file_;
  std::map<std::uint64_t, Block> blocks_;
  Exports exports_;
  std::map<std::uint64_t, Pending> pending_;
  std::map<std::pair<Gpu, ExtraKey>, std::uint64_t> extras_;
  std::shared_ptr<Reservation::Dropped> dropped_;
};

}  // namespace cgpu::ledger

#endif  // CGPU_LEDGER_LEDGER_H_
