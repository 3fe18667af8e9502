// The boundary decides what happens to a decoded call, as a pure function of the ledger, the grant
// and the call. It updates the ledger with the outcome, and rewrites the results for the tenant.
//
// One Boundary per container. Thread-compatible: the caller holds one lock around every method, the
// same that guards the ledger. The driver is asked in between, without the lock:
//
//   Decide()  ->  execute, unless the decision is an answer already  ->  Account()
//
// Calls that change state must not run side by side on one client (see Needs), so that the ledger
// sees them in the order that the driver did.
#ifndef CGPU_BOUNDARY_BOUNDARY_H_
#define CGPU_BOUNDARY_BOUNDARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "boundary/call.h"
#include "boundary/dma_book.h"
#include "boundary/managed_book.h"
#include "boundary/policy.h"
#include "boundary/uvm_book.h"
#include "ledger/ledger.h"
#include "rm/abi.h"
#include "rm/nv_structs.h"
#include "rm/nv_uvm.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::boundary {

// Sizes of a GPU, in bytes, as the driver reports them when the GPU is first opened.
struct CardFigures {
  std::uint64_t context_bytes = 0;  // bytes that it takes for a channel group
  std::uint64_t space_bytes = 0;    // bytes that it takes for an address space
  std::uint64_t bar1_bytes = 0;     // size of the window onto its memory
};

// A granted GPU, as the driver numbers it.
struct CardIds {
  std::uint32_t minor = 0;
  std::uint32_t gpu_id = 0;
  std::uint32_t device_instance = 0;
  rm::NvProcessorUuid uuid{};
  std::uint64_t total_bytes = 0;  // of its memory; 0: the whole GPU is granted
  CardFigures figures;
};

// One of several objects that go to a file or come from one.
struct Transfer {
  std::uint32_t place = 0;          // in the file, or in the list of handles
  ledger::Reservation reservation;  // empty: the call empties the place, or it is empty ...
  std::uint32_t empty_handle = 0;   // ... and this is the tenant's handle for it
};

struct Decision {
  enum class Action {
    kExecute,
    kAnswer,    // the call's image holds the answer: copy out, return 0
    kFail,      // nothing is copied out, `error` is the errno
    kContinue,  // the caller executes it: DecidePinnedMemory() alone, see there why that is sound
  };
  Action action = Action::kFail;
  int error = 0;
  // True when memory was refused, on `card`: try again after a look at what has been closed
  // meanwhile.
  bool over_limit = false;
  // The fields below are for Account().
  ledger::Reservation reservation;
  ledger::ClientRef client;
  ledger::ObjectRef object;  // the parent of an allocation or copy; the object to free
  std::uint64_t bytes = 0;   // reserved for it
  bool covered = false;      // all page tables for mappings in it are included
  std::optional<ledger::Card> card;
  std::vector<Transfer> transfers;
  std::uint64_t given_flags = 0;  // the tenant's flags, where the driver is given others
  bool of_processes = false;      // the answer still lacks what AnswerOfProcesses() adds
  bool own_share = false;         // a device's hClientShare was 0, which the driver must not see
  std::set<ledger::Card> uvm_planned;  // tables for `uvm_range` are counted on these
  AddressRange uvm_range;
};

// An object that the driver must free again before the call is answered, because it took more than
// the tenant may have.
struct Undo {
  std::uint32_t client = 0;
  std::uint32_t object = 0;
};

// Stands for every client that the call may create; no client has this handle.
inline constexpr std::uint32_t kAnyClient = 0;

inline constexpr std::uint64_t kAnySpace = 0;

// The clients, UVM space and GPU that a call must have for itself while it is in the driver.
struct Needs {
  std::vector<std::uint32_t> clients;  // the call changes their state
  std::optional<std::uint64_t> space;  // and this UVM space's; kAnySpace: the call may create one
  std::optional<ledger::Card> card;
};

class Boundary {
 public:
  // `cards` in the order of the grant, which is the ledger's; `abi` and `ledger` outlive this.
  Boundary(const rm::Abi& abi, std::vector<CardIds> cards, ledger::Ledger& ledger);

  [[nodiscard]] Needs NeedsOf(const Call& call) const;

  [[nodiscard]] Decision Decide(Call& call);

  // Completes an answer whose decision says `of_processes`. `pids`: the numbers that the
  // container's processes have inside it, by process key.
  void AnswerOfProcesses(Call& call, const Decision& decision,
                         const std::map<ledger::ProcessKey, std::uint32_t>& pids) const;

  // Accounts for an executed call and rewrites the results in `call`. `error` is the ioctl's errno
  // or 0. With a returned Undo, keeps the reservation until Undone().
  [[nodiscard]] std::optional<Undo> Account(Call& call, Decision& decision, int error);
  void Undone(Call& call, Decision& decision);

  // --- UVM's address spaces, by the key of their open file: never given twice, above every
  // client's handle. Before a space is closed, its holder gives back what it has
  // (shim/uvm_spaces.h).
  static constexpr ledger::FileKey kFirstSpace = ledger::FileKey{1} << 40;
  void AddSpace(ledger::FileKey space, ledger::ProcessKey owner);
  [[nodiscard]] const UvmSpace* FindSpace(ledger::FileKey space) const;
  void RemoveSpace(ledger::FileKey space);
  [[nodiscard]] ManagedBook& managed() { return managed_; }
  // Drops what was kept for clients that are no longer in the ledger.
  void DropGoneClients();

  // Sets the sizes that are known once the GPU is first opened. Until then it has no BAR1.
  void SetFigures(ledger::Card card, const CardFigures& figures);
  // Applies the quotas; call it after each change of a limit (quotas.h).
  void SetBounds();
  [[nodiscard]] const std::vector<CardIds>& cards() const { return cards_; }

  // Returns the calls refused since the start, by the vendor's name of the command or its number.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& refused() const { return refused_; }
  // Counts a refusal. Some names hold a number that the tenant chose, so beyond kMaxRefused names
  // the rest is "others".
  void CountRefused(const std::string& what) {
    const bool room = refused_.size() < kMaxRefused || refused_.contains(what);
    ++refused_[room ? what : "others"];
    ++refusals_;
  }
  // Grows with each refusal. Not handed over.
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
  static constexpr std::size_t kMaxRefused = 1024;

  // --- Hand-over (base/state.h).
  //
  // Writes records within the one that is open. No call is between Decide() and Account(). GPUs and
  // limits are not written, only what the driver said of a GPU.
  void Save(StateWriter& writer) const;
  // Reads the open record into a boundary that is new and has as many GPUs, after its ledger was
  // loaded (ledger.h). Sets the ledger's quotas, and the bytes of page tables and managed memory as
  // this version counts them. kInvalid: the bytes, which may be anything, are no state of a
  // boundary; then neither this nor the ledger must be used any more.
  [[nodiscard]] Result<> Load(StateReader& reader);

 private:
  [[nodiscard]] std::optional<ledger::Card> CardOfGpuId(std::uint32_t gpu_id) const;
  [[nodiscard]] std::optional<ledger::Card> CardOfInstance(std::uint32_t instance) const;

  Decision Answer(Call& call, std::uint32_t status, const std::string& what);
  Decision Fail(int error, const std::string& what);
  Decision RefuseEscape(Call& call);
  [[nodiscard]] std::uint32_t FaultOfAlloc(const Call& call) const;
  [[nodiscard]] bool OwnsClientsIn(std::uint32_t cls, const Bytes* params) const;
  Decision RefuseClass(Call& call, std::uint32_t status);
  Decision DecideDevice(Call& call, Decision decision);
  Decision DecideVideoEngine(Call& call, Decision decision);
  Decision DecideAlloc(Call& call, Decision decision);
  Decision DecideClient(Call& call);
  Decision DecideControl(Call& call, Decision decision);
  Decision DecideGpuIdList(Call& call, Decision decision, const ControlRule& rule);
  Decision RefuseControl(Call& call, std::uint32_t status);
  Decision DecideEffect(Call& call, Decision decision, const ControlRule& rule);
  Decision DecideNamed(Call& call, Decision decision, const ControlRule& rule);
  Decision DecideDisableChannels(Call& call, Decision decision);
  static Decision Succeed(Call& call);
  static Decision DecidePreemption(Call& call, Decision decision);
  Decision DecideProcesses(Call& call, Decision decision);
  Decision DecideBusInfo(Call& call, Decision decision);
  Decision DecideSmErrors(Call& call, const Decision& decision, const ControlRule& rule);
  [[nodiscard]] bool IsOwnHostMemory(ledger::ClientRef client, std::uint32_t handle) const;
  Decision DecideReadings(Call& call, Decision decision);
  Decision DecideTakeEncoder(Call& call, Decision decision);
  Decision DecideGiveEncoder(Call& call, Decision decision);
  static void RestoreGiven(Call& call, const Decision& decision);
  void GiveBackEncoder(const Decision& decision);
  void LoadEncoders(StateReader& reader);
  // entries.cc
  Decision DecideAllocOsEvent(Call& call, Decision decision);
  void ForgetOsEvent(const Call& call);
  [[nodiscard]] bool AddEntry(ledger::ClientRef client);
  [[nodiscard]] bool AddShare(ledger::ClientRef owner, const rm::RS_SHARE_POLICY& policy);
  Decision DecideHostMemory(Call& call, Decision decision, const Bytes* params);
  [[nodiscard]] bool Lives(ledger::ClientRef client) const;
  void SaveEntries(StateWriter& writer) const;
  void LoadEntries(StateReader& reader);
  void LoadOsEvent(StateReader& reader);
  // legacy.cc
  Decision DecidePinnedMemory(Call& call, Decision decision);
  Decision DecideAllocMemory(Call& call, Decision decision);
  std::optional<Undo> AccountAllocMemory(Call& call, Decision& decision);
  Decision DecideAllocContextDma(Call& call, Decision decision);
  std::optional<Undo> AccountAllocContextDma(Call& call, Decision& decision);
  Decision DecideIdleChannels(Call& call, Decision decision);

  Decision DecideVidHeap(Call& call, Decision decision);
  Decision DecideDup(Call& call, Decision decision);
  Decision DecideShare(Call& call, Decision decision);
  Decision CheckSharePolicy(Call& call, Decision decision, const rm::RS_SHARE_POLICY& policy);
  [[nodiscard]] bool OwnPeers(std::uint32_t command, const Bytes& params) const;
  Decision DecideMapMemory(Call& call, Decision decision);  // mappings.cc
  Decision DecideStatusCode(Call& call);
  Decision DecideAttachFd(Call& call);
  Decision DecideRegisterFd(Call& call);
  Decision DecideFree(Call& call, Decision decision, std::uint32_t handle);
  Decision Reserve(Call& call, Decision decision, ledger::Kind kind, std::uint64_t bytes);

  // uvm.cc
  [[nodiscard]] std::optional<ledger::Card> CardOfUuid(const rm::NvProcessorUuid& uuid) const;
  [[nodiscard]] bool GrantedUuid(const Call& call, std::size_t at) const;
  [[nodiscard]] std::optional<std::set<ledger::Card>> CardsOfAttributes(const Call& call,
                                                                        std::size_t at,
                                                                        std::uint64_t count) const;
  [[nodiscard]] bool OwnsNamedClient(const Call& call, Decision& decision) const;
  [[nodiscard]] std::set<ledger::Card> ManagedCards() const;
  [[nodiscard]] std::uint64_t RangeGroups() const;
  Decision AnswerUvm(Call& call, std::uint32_t status);
  Decision NoMemory(Call& call, ledger::Card card);
  Decision DecideUvm(Call& call);
  Decision DecideInSpace(Call& call, Decision decision, UvmSpace& space);
  Decision DecideRegisterChannel(Call& call, Decision decision, UvmSpace& space);
  Decision DecideMapExternal(Call& call, Decision decision, UvmSpace& space);
  Decision DecideSemaphorePool(Call& call, Decision decision, UvmSpace& space);
  Decision ReserveTables(Call& call, Decision decision, UvmSpace& space);
  void DropPlan(const Call& call, const Decision& decision, UvmSpace& space);
  void SettleSpace(ledger::FileKey key, UvmSpace& space);
  void AccountUvm(Call& call, Decision& decision, bool done);
  void AccountInSpace(const Call& call, Decision& decision, std::optional<ledger::Card> card,
                      UvmSpace& space);
  static void AddPieces(const Decision& decision, UvmSpace::Hold hold, UvmSpace& space);
  [[nodiscard]] UvmSpace::Hold ExportHold(const Call& call, Decision& decision, UvmSpace& space);

  // transfer.cc
  Decision DecideTransfer(Call& call, Decision decision, const ControlRule& rule);
  Decision DecideExportMany(Call& call, Decision decision);
  Decision DecideImportMany(Call& call, Decision decision);
  static void RestoreEmptyImports(Call& call, const Decision& decision);
  std::optional<Undo> AccountTransfer(Call& call, Decision& decision, ControlEffect effect);

  // dma.cc
  struct IntervalTables {
    std::uint64_t bytes = 0;
    bool covered = false;  // mappings in it need no further tables
  };
  [[nodiscard]] static IntervalTables TablesOfInterval(std::uint64_t size, std::uint32_t flags,
                                                       std::uint32_t attr);
  Decision ReserveInterval(Call& call, Decision decision, std::uint64_t size, std::uint32_t flags,
                           std::uint32_t attr);
  [[nodiscard]] static std::uint32_t SpaceOfRange(const Call& call);
  [[nodiscard]] DmaBook* FindDmaBook(ledger::ClientRef client);
  void AddRange(ledger::ClientRef client, std::uint32_t handle, std::optional<std::uint32_t> space,
                bool covered);
  Decision DecideMapDma(Call& call, Decision decision);
  void AccountMapDma(const Call& call, const Decision& decision, bool done);
  void AccountUnmapDma(const Call& call, const Decision& decision);
  [[nodiscard]] static ledger::ExtraKey KeyOf(const DmaBook& book);
  void SettleDma(const DmaBook& book);
  void DropDmaBook(std::uint32_t client);
  void FreeObject(ledger::ClientRef client, ledger::ObjectRef object);

  // state.cc
  template <class T>
  [[nodiscard]] static T Load(const Bytes& bytes, std::size_t offset = 0) {
    return boundary::Load<T>(bytes, offset);  // call.h's, which the other Load() hides
  }
  void LoadFigures(StateReader& reader, ledger::Card card);
  void LoadSpace(StateReader& reader);
  void LoadDmaBook(StateReader& reader);
  void Resume();

  void AddDependencies(const Call& call, ledger::ClientRef client, std::uint32_t handle);
  std::optional<Undo> AccountNew(Call& call, Decision& decision, std::uint32_t handle,
                                 std::uint32_t cls, std::uint64_t bytes,
                                 std::uint64_t page_bytes = 0);
  std::optional<Undo> AccountAlloc(Call& call, Decision& decision);
  std::optional<Undo> AccountVidHeap(Call& call, Decision& decision);
  std::optional<Undo> AccountCopy(const Decision& decision, ledger::Reservation& reservation,
                                  std::uint32_t handle);
  void AccountMapMemory(const Call& call, Decision& decision);
  void AccountUnmapMemory(const Call& call, const Decision& decision);
  void AccountMovedMapping(const Call& call, const Decision& decision);
  std::optional<Undo> AccountControl(Call& call, Decision& decision);

  // view.cc: rewrites results for this container.
  void RewriteCardInfo(Call& call) const;
  void RewriteControl(Call& call, const Decision& decision);
  static void HideErrors(Call& call);
  void RewriteFbInfo(Bytes& bytes, std::size_t at, std::size_t count, ledger::Card card) const;
  void ListPids(Bytes& bytes, ledger::Card card,
                const std::map<ledger::ProcessKey, std::uint32_t>& pids) const;
  void TellPidInfo(Bytes& bytes, ledger::Card card,
                   const std::map<ledger::ProcessKey, std::uint32_t>& pids) const;
  void FilterGpuIds(Bytes& bytes) const;
  void FilterProbedIds(Bytes& bytes) const;
  void FilterActiveDevices(Bytes& bytes) const;
  void FilterDeviceMask(Bytes& bytes) const;
  void RewriteBars(Bytes& bytes, ledger::Card card) const;
  void RewriteRegions(Bytes& bytes, ledger::Card card) const;
  void HideUuidInfo(Call& call) const;
  // Returns the processes that use the class; NV20_SUBDEVICE_0: those that use the GPU.
  [[nodiscard]] std::vector<std::uint32_t> PidsOnCard(
      ledger::Card card, std::uint32_t cls,
      const std::map<ledger::ProcessKey, std::uint32_t>& pids) const;

  const rm::Abi& abi_;
  std::vector<CardIds> cards_;
  ledger::Ledger& ledger_;
  std::map<std::string, std::uint64_t> refused_;
  std::uint64_t refusals_ = 0;
  std::map<ledger::FileKey, UvmSpace> spaces_;
  std::multiset<ledger::Card> registering_;  // by calls of UVM_REGISTER_GPU in the driver
  ManagedBook managed_;
  std::map<std::uint32_t, DmaBook> dma_;  // by client
  // Encoder sessions that clients have taken, including those that calls in the driver are taking
  // or giving back.
  struct Encoders {
    ledger::ClientRef client;
    ledger::Card card = 0;
    std::uint32_t taken = 0;
  };
  std::vector<Encoders> encoders_;
  // Entries that the driver keeps for a client until the client ends, even when their object is
  // gone.
  struct Entries {
    std::uint64_t serial = 0;  // of the client
    std::uint32_t count = 0;
  };
  std::map<ledger::Handle, Entries> entries_;
  // The client's serial number, by client and the number that the tenant chose.
  std::map<std::pair<ledger::Handle, std::uint32_t>, std::uint64_t> os_events_;

  // Key of a DMA tracker's mappings in the ledger; UVM's spaces and managed memory have smaller
  // numbers.
  static constexpr std::uint64_t kDmaExtra = std::uint64_t{1} << 62;

  // Most UVM ranges of one space: kernel memory that nothing else limits.
  static constexpr std::size_t kMaxRanges = 262144;
};

// Returns the in-band status of a call's image, whatever its escape; nothing for escapes without
// one.
[[nodiscard]] std::optional<std::uint32_t> StatusOf(const Call& call);
void SetStatus(Call& call, std::uint32_t status);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_BOUNDARY_H_
