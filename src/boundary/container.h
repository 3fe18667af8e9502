// The boundary's knowledge of its container: the GPUs of the grant, the ledger and the trackers.
// The steps of the call families (calls/) work on it.
#ifndef CGPU_BOUNDARY_CONTAINER_H_
#define CGPU_BOUNDARY_CONTAINER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "boundary/call.h"
#include "boundary/decision.h"
#include "boundary/dma_tracker.h"
#include "boundary/managed_tracker.h"
#include "boundary/uvm_tracker.h"
#include "ledger/ledger.h"
#include "rm/abi.h"
#include "rm/nv_uvm.h"

namespace cgpu::boundary {

// Sizes of a GPU, in bytes, as the driver reports them when the GPU is first opened.
struct GpuSizes {
  std::uint64_t context_bytes = 0;  // bytes that it takes for a channel group
  std::uint64_t space_bytes = 0;    // bytes that it takes for an address space
  std::uint64_t bar1_bytes = 0;     // size of the window onto its memory
};

// A granted GPU, as the driver numbers it.
struct GpuIds {
  std::uint32_t minor = 0;
  std::uint32_t gpu_id = 0;
  std::uint32_t device_instance = 0;
  rm::NvProcessorUuid uuid{};
  std::uint64_t total_bytes = 0;  // of its memory; 0: the whole GPU is granted
  GpuSizes sizes;
};

// Counts of the calls refused since the start, by the vendor's name of the command or its number.
class Refusals {
 public:
  // Some names hold a number that the tenant chose, so beyond kMost names the rest is "others".
  static constexpr std::size_t kMost = 1024;

  void Count(const std::string& what) {
    const bool room = counts_.size() < kMost || counts_.contains(what);
    ++counts_[room ? what : "others"];
    ++total_;
  }
  // Sets a count that was handed over.
  void Set(const std::string& what, std::uint64_t times) { counts_[what] = times; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const { return counts_; }
  // Grows with each refusal. Not handed over.
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  std::map<std::string, std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

// Encoder sessions that a client has taken on a GPU, including those that calls in the driver are
// taking or giving back.
struct Encoders {
  ledger::ClientRef client;
  ledger::Gpu gpu = 0;
  std::uint32_t taken = 0;
};

// Entries that the driver keeps for a client until the client ends, even when their object is gone.
struct Entries {
  std::uint64_t serial = 0;  // of the client
  std::uint32_t count = 0;
};

struct Container {
  Container(const rm::Abi& driver, std::vector<GpuIds> granted, ledger::Ledger& held);

  const rm::Abi& abi;
  std::vector<GpuIds> gpus;  // in the order of the grant, which is the ledger's
  ledger::Ledger& ledger;
  Refusals refusals;
  std::map<ledger::FileKey, UvmSpace> spaces;
  ManagedTracker managed;
  std::map<std::uint32_t, DmaTracker> dma;  // by client
  // Controls of the GPUs' firmware, with their bytes, that root allows beside the list. Not handed
  // over: the shim's configuration has them.
  std::set<std::pair<std::uint32_t, std::uint32_t>> firmware;
  std::vector<Encoders> encoders;
  std::map<ledger::Handle, Entries> entries;
  // The client's serial number, by client and the number that the tenant chose.
  std::map<std::pair<ledger::Handle, std::uint32_t>, std::uint64_t> os_events;

  // Return a granted GPU; nothing for any other.
  [[nodiscard]] std::optional<ledger::Gpu> GpuWithId(std::uint32_t gpu_id) const;
  [[nodiscard]] std::optional<ledger::Gpu> GpuOfInstance(std::uint32_t instance) const;
  [[nodiscard]] std::optional<ledger::Gpu> GpuOfUuid(const rm::NvProcessorUuid& uuid) const;
  // Returns true while the client is in the ledger.
  [[nodiscard]] bool Lives(ledger::ClientRef client) const;
  // Adds an entry that the driver keeps for the client. Returns false at the quota.
  [[nodiscard]] bool AddEntry(ledger::ClientRef client);

  // Count a refusal under `what`, and answer the call with the driver's status or fail it.
  Decision Answer(Call& call, std::uint32_t status, Reason reason, const std::string& what);
  Decision Fail(int error, Reason reason, const std::string& what);
  // Answers that the GPU has no memory left.
  Decision NoMemory(Call& call, ledger::Gpu gpu);
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_CONTAINER_H_
