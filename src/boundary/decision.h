// The boundary's decision on a call, with what the shim does for it.
//
// Plain data, no I/O.
#ifndef CGPU_BOUNDARY_DECISION_H_
#define CGPU_BOUNDARY_DECISION_H_

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "boundary/address_ranges.h"
#include "boundary/dma_tracker.h"
#include "boundary/reasons.h"
#include "ledger/ledger.h"

namespace cgpu::boundary {

// Steps that a call needs of the shim beside its execution, in the order in which the shim takes
// them.
struct Effects {
  bool lists_processes = false;  // the answer still lacks what AnswerOfProcesses() adds
  bool opens_gpu = false;        // needs the sizes of `gpu`: open it first, then SetSizes()
  bool shows_memory = false;     // shows what the container holds: settle managed memory first
  bool changes_ranges = false;   // makes or frees a UVM range: nobody asks about ranges meanwhile
  bool schedules_channels = false;  // lets channels run: give each its time slice first
  bool switches_channels = false;   // names channels to take off `gpu` or to put back
  bool frees_objects = false;       // a channel may be gone: tell the scheduler
  bool makes_client = false;        // makes a client (`client` once accounted): keep its file
  bool makes_space = false;         // makes an address space of a file of nvidia-uvm's: keep it

  friend bool operator==(const Effects&, const Effects&) = default;
};

// One of several objects that go to a file or come from one.
struct Transfer {
  std::uint32_t place = 0;          // export: in the file; import: in the list of handles
  ledger::Reservation reservation;  // empty: an export empties the place; an import finds it empty
  std::uint32_t empty_handle = 0;   // the tenant's handle for a place that an import finds empty
};

struct Decision {
  enum class Action {
    kExecute,
    kAnswer,    // the call's image holds the answer: copy out, return 0
    kFail,      // nothing is copied out, `error` is the errno
    kContinue,  // the caller executes it: calls/legacy.cc alone, which says why that is sound
    kAsk,       // nothing is decided: ask the driver about `doubts`, Settle() each, decide again
  };
  Action action = Action::kFail;
  int error = 0;
  std::vector<ledger::Doubt> doubts;
  std::optional<Reason> refused;  // why it is neither executed nor answered as the tenant wants
  Effects effects;
  // True when memory was refused, on `gpu`: try again after a look at what has been closed
  // meanwhile.
  bool over_limit = false;
  // The fields below are for Account().
  ledger::Reservation reservation;
  ledger::ClientRef client;
  ledger::ObjectRef object;  // the parent of an allocation or copy; the object to free
  std::uint64_t bytes = 0;   // reserved for it
  RangeTables tables = RangeTables::kOfMappings;  // of mappings in the VA range
  std::optional<ledger::Gpu> gpu;
  std::vector<Transfer> transfers;
  std::uint64_t given_flags = 0;  // the tenant's flags, where the driver is given others
  bool own_share = false;         // a device's hClientShare was 0, which the driver must not see
  std::set<ledger::Gpu> uvm_planned;  // tables for `uvm_range` are counted on these
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
  std::optional<ledger::Gpu> gpu;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_DECISION_H_
