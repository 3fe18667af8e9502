// How the boundary treats each escape of RM: one handler per number, in one table (table.cc). A
// family of calls has one file here, which holds all its steps; steps.h declares them.
//
// A step that a handler does not have is null.
#ifndef CGPU_BOUNDARY_CALLS_HANDLER_H_
#define CGPU_BOUNDARY_CALLS_HANDLER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "boundary/call.h"
#include "boundary/container.h"
#include "boundary/decision.h"
#include "rm/abi.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {

// How an executed call ended.
struct Outcome {
  int error = 0;      // the ioctl's errno or 0
  bool done = false;  // no error, and the in-band status says so too
};

// The steps that a handler can have. Handler says what each does.
using AskStep = bool(const Call& call);
using DecodeStep = void(const rm::Abi& abi, TenantMemory& memory, Call& call);
using ClientsStep = std::vector<std::uint32_t>(const Call& call);
using EarlyStep = std::optional<Decision>(Container& container, Call& call);
using DecideStep = Decision(Container& container, Call& call, Decision decision);
using SettleStep = void(Container& container, Call& call, const Decision& decision,
                        const Outcome& outcome);
using AccountStep = std::optional<Undo>(Container& container, Call& call, Decision& decision);

struct Handler {
  std::uint32_t nr = 0;
  CallKind kind = CallKind::kOther;  // kAlloc: kFree where the call only gives back

  // Decode. `accepts`: the driver has the command on this file and in this size; null: the table of
  // escapes says on which (rm/escape_table.h). `decode` reads parameters that the image leads to,
  // and notes what these lead to (CopyInRest()).
  AskStep* accepts = nullptr;
  DecodeStep* decode = nullptr;

  // Needs. See Call::ChangesState() and Call::Releases(); null: never. `clients`: the clients whose
  // state the call changes; null: the client that it acts for.
  AskStep* changes_state = nullptr;
  AskStep* releases = nullptr;
  ClientsStep* clients = nullptr;

  // Decide. `decide_early` may decide before the client is looked up. Then the client that the call
  // acts for must be the container's. `decide` gets it in a decision to execute; null: the call is
  // executed as it is.
  EarlyStep* decide_early = nullptr;
  bool for_client = true;
  std::uint32_t no_such_client = rm::NV_ERR_INVALID_CLIENT;  // see NoSuchClient()
  DecideStep* decide = nullptr;

  // Account. `settle` follows every execution: it restores what `decide` changed in the call, and
  // settles what does not depend on success alone. `account` follows a call that is done.
  SettleStep* settle = nullptr;
  AccountStep* account = nullptr;
};

// Returns null for an escape that is refused (WhyEscape() in policy.h).
[[nodiscard]] const Handler* FindHandler(std::uint32_t nr);

// Returns the driver's answer for a client that does not exist; to a container, no other
// container's client exists (src/nvidia/src/libraries/resserv/src/rs_server.c, and control.c and
// mapping.c in src/nvidia/src/kernel/rmapi).
[[nodiscard]] std::uint32_t NoSuchClient(const Call& call);

// --- For steps of several families.

[[nodiscard]] inline bool Always(const Call& /*call*/) {
  return true;
}

// Notes the pointer at `at` in the image and copies the `size` bytes it leads to: parameters. With
// size 0 the driver gets a null pointer.
void ReadNested(TenantMemory& memory, Call& call, std::size_t size, std::size_t at,
                bool copy_out = true);
// Notes the pointer at `at` in `holder` to a list, for CopyInRest().
void NoteNested(Call& call, std::size_t size, int holder, std::size_t at, bool copy_out,
                bool copy_in);
// Notes the descriptor number at `at` in the image, or in nested[holder].
void TakeFdArgument(Call& call, std::size_t at, int holder = -1);
// Decodes parameters whose first field is the client.
void DecodeClient(const rm::Abi& abi, TenantMemory& memory, Call& call);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CALLS_HANDLER_H_
