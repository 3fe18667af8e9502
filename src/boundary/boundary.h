// The boundary decides what happens to a decoded call, as a pure function of the ledger, the grant
// and the call. It updates the ledger with the outcome, and rewrites the results for the tenant.
// Each family of calls has its steps in calls/; calls/handler.h lists them.
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
#include <string>
#include <vector>

#include "boundary/call.h"
#include "boundary/container.h"
#include "boundary/decision.h"
#include "ledger/ledger.h"
#include "rm/abi.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::boundary {

class Boundary {
 public:
  // `gpus` in the order of the grant, which is the ledger's; `abi` and `ledger` outlive this.
  Boundary(const rm::Abi& abi, std::vector<GpuIds> gpus, ledger::Ledger& ledger);

  [[nodiscard]] Needs NeedsOf(const Call& call) const;

  // Decides nothing yet where the call uses an object that is doubtful (ledger.h): kAsk.
  [[nodiscard]] Decision Decide(Call& call);
  // Tells the answer about a doubtful object. `there`: the driver has it under its handle, below
  // its parent and of its class.
  void Settle(const ledger::Doubt& doubt, bool there) { container_.ledger.Settle(doubt, there); }

  // Completes an answer whose effects say `lists_processes`. `pids`: the numbers that the
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
  [[nodiscard]] ManagedTracker& managed() { return container_.managed; }
  // Drops what was kept for clients that are no longer in the ledger.
  void DropGoneClients();

  // Lets a control of the GPUs' firmware pass in this size, which the policy does not list, on an
  // object of the class in its number. Those that the policy refuses by name stay refused.
  void AllowFirmware(std::uint32_t command, std::uint32_t bytes) {
    container_.firmware.emplace(command, bytes);
  }

  // Sets the sizes that are known once the GPU is first opened. Until then it has no BAR1.
  void SetSizes(ledger::Gpu gpu, const GpuSizes& sizes);
  // Applies the quotas; call it after each change of a limit (quotas.h).
  void SetQuotas();
  [[nodiscard]] const std::vector<GpuIds>& gpus() const { return container_.gpus; }

  // Returns the calls refused since the start, by the vendor's name of the command or its number.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& refused() const {
    return container_.refusals.counts();
  }
  void CountRefused(const std::string& what) { container_.refusals.Count(what); }
  // Grows with each refusal. Not handed over.
  [[nodiscard]] std::uint64_t refusals() const { return container_.refusals.total(); }

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
  Decision DecideOnce(Call& call);
  void Resume();  // state.cc

  Container container_;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_BOUNDARY_H_
