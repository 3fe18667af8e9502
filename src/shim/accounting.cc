#include "shim/accounting.h"

#include <sys/eventfd.h>

#include <utility>

#include "boundary/quotas.h"
#include "shim/records.h"

namespace cgpu::shim {
namespace {

std::vector<std::uint64_t> LimitsOf(const ShimConfig& config) {
  std::vector<std::uint64_t> limits;
  limits.reserve(config.gpus.size());
  for (const GpuGrant& granted : config.gpus) {
    limits.push_back(granted.limit_bytes);
  }
  return limits;
}

}  // namespace

Accounting::Accounting(const ShimConfig& config, const rm::Abi& abi,
                       std::vector<boundary::GpuIds> gpus)
    : ledger(LimitsOf(config), boundary::kContainerQuotas),
      boundary(abi, std::move(gpus), ledger),
      refusals_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const FirmwareControl& control : config.firmware) {
    boundary.AllowFirmware(control.command, control.bytes);
  }
}

std::optional<Scheduler::Channels> Accounting::ChannelsOf(std::size_t gpu, std::uint64_t seen) {
  const MutexLock lock(mutex);
  if (ledger.ChannelChanges() == seen) {
    return std::nullopt;
  }
  return Scheduler::Channels{ledger.Channels(static_cast<ledger::Gpu>(gpu)),
                             ledger.ChannelChanges()};
}

ledger::Counts Accounting::Counts() {
  const MutexLock lock(mutex);
  return ledger.Count();
}

void Accounting::CountRefused(boundary::Reason reason, const std::string& what) {
  counters.CountRefused(reason);
  const MutexLock lock(mutex);
  boundary.CountRefused(what);
  NoteRefusals();
}

void Accounting::CountDenial(ledger::Gpu gpu) {
  ledger.CountDenial(gpu);
  (void)eventfd_write(refusals_.get(), 1);
}

void Accounting::NoteRefusals() {
  if (noted_ != boundary.refusals()) {
    noted_ = boundary.refusals();
    (void)eventfd_write(refusals_.get(), 1);
  }
}

std::map<std::string, std::uint64_t> Accounting::Refused() {
  const MutexLock lock(mutex);
  return boundary.refused();
}

void Accounting::ResetRefusals() const {
  eventfd_t count = 0;
  (void)eventfd_read(refusals_.get(), &count);
}

void Accounting::Save(ServerState& state) {
  const MutexLock lock(mutex);
  for (std::size_t i = 0; i < state.driver.gpus.size(); ++i) {
    state.driver.gpus[i].device_instance = boundary.gpus()[i].device_instance;
  }
  state.counters = counters.Read();
  state.ledger = RecordsOf(ledger);
  state.boundary = RecordsOf(boundary);
}

Result<> Accounting::Load(const ServerState& state, const ShimConfig& config) {
  counters.Resume(state.counters);
  const MutexLock lock(mutex);
  CGPU_TRY(LoadRecords(state.ledger, ledger));
  for (std::size_t i = 0; i < config.gpus.size(); ++i) {
    if (ledger.Limit(static_cast<ledger::Gpu>(i)) > config.gpus[i].gpu.memory_bytes) {
      return Error{Code::kInvalid, 0, "its state allows more of a GPU than the GPU has", {}};
    }
  }
  return LoadRecords(state.boundary, boundary);
}

}  // namespace cgpu::shim
