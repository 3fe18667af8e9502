#include "boundary/container.h"

#include <algorithm>
#include <numeric>

#include "boundary/quotas.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

// Returns the GPU that `is_it` holds for.
template <class Test>
std::optional<ledger::Gpu> FindGpu(const std::vector<GpuIds>& gpus, const Test& is_it) {
  const auto found = std::ranges::find_if(gpus, is_it);
  return found == gpus.end() ? std::nullopt
                             : std::optional(static_cast<ledger::Gpu>(found - gpus.begin()));
}

}  // namespace

Container::Container(const rm::Abi& driver, std::vector<GpuIds> granted, ledger::Ledger& held)
    : abi(driver), gpus(std::move(granted)), ledger(held), managed(held, gpus.size()) {}

std::optional<ledger::Gpu> Container::GpuWithId(std::uint32_t gpu_id) const {
  return FindGpu(gpus, [&](const GpuIds& gpu) { return gpu.gpu_id == gpu_id; });
}

std::optional<ledger::Gpu> Container::GpuOfInstance(std::uint32_t instance) const {
  return FindGpu(gpus, [&](const GpuIds& gpu) { return gpu.device_instance == instance; });
}

std::optional<ledger::Gpu> Container::GpuOfUuid(const rm::NvProcessorUuid& uuid) const {
  return FindGpu(gpus, [&](const GpuIds& gpu) { return gpu.uuid == uuid; });
}

bool Container::Lives(ledger::ClientRef client) const {
  const auto found = ledger.FindClient(client.handle);
  return found && found->ref == client;
}

// Adds an entry before the driver is asked: it makes the entry before it checks the rest. Returns
// false at the quota. Entries of clients that are gone are gone with them.
bool Container::AddEntry(ledger::ClientRef client) {
  const auto sum = [this] {
    return std::accumulate(
        entries.begin(), entries.end(), std::uint64_t{0},
        [](std::uint64_t all, const auto& one) { return all + one.second.count; });
  };
  if (sum() >= kMaxEntries) {
    std::erase_if(entries,
                  [this](const auto& one) { return !Lives({one.first, one.second.serial}); });
    if (sum() >= kMaxEntries) {
      return false;
    }
  }
  Entries& mine = entries[client.handle];
  if (mine.serial != client.serial) {
    mine = {client.serial, 0};
  }
  ++mine.count;
  return true;
}

Decision Container::Answer(Call& call, std::uint32_t status, Reason reason,
                           const std::string& what) {
  refusals.Count(what);
  SetStatus(call, status);
  Decision decision;
  decision.refused = reason;
  decision.action = Decision::Action::kAnswer;
  return decision;
}

Decision Container::Fail(int error, Reason reason, const std::string& what) {
  refusals.Count(what);
  Decision decision;
  decision.refused = reason;
  decision.error = error;
  return decision;
}

Decision Container::NoMemory(Call& call, ledger::Gpu gpu) {
  Decision refusal =
      Answer(call, rm::NV_ERR_NO_MEMORY, Reason::kMemoryLimit, "memory over the limit");
  refusal.over_limit = true;
  refusal.gpu = gpu;
  return refusal;
}

}  // namespace cgpu::boundary
