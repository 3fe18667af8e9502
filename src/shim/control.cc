#include "shim/control.h"

#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace cgpu::shim {

Result<std::size_t> ContainerControl::Find(const std::string& uuid) const {
  for (std::size_t i = 0; i < config_.gpus.size(); ++i) {
    if (uuid == config_.gpus[i].gpu.uuid) {
      return i;
    }
  }
  return Error{Code::kNotFound, 0, "the container has no GPU " + uuid, {}};
}

Result<> ContainerControl::SetLimit(const std::string& uuid, std::uint64_t bytes) {
  std::size_t first = 0;
  std::size_t end = config_.gpus.size();
  if (uuid != "*" || end == 0) {
    CGPU_ASSIGN_OR_RETURN(first, Find(uuid));
    end = first + 1;
  }
  const MutexLock lock(accounting_.mutex);
  for (std::size_t i = first; i < end; ++i) {
    CGPU_TRY(accounting_.ledger.SetLimit(static_cast<ledger::Gpu>(i), bytes));
  }
  accounting_.boundary.SetQuotas();
  return {};
}

Result<> ContainerControl::SetOrder(const std::string& uuid, const governor::Order& order,
                                    UniqueFd helper) {
  CGPU_ASSIGN_OR_RETURN(const std::size_t gpu, Find(uuid));
  if (helper.valid()) {
    driver_->UseHelper(std::move(helper));
  }
  scheduler_.SetOrder(gpu, order);
  if (!scheduler_.NeedsHelper()) {
    driver_->UseHelper({});
  }
  return {};
}

ContainerStatus ContainerControl::Status() {
  ContainerStatus status;
  status.id = config_.id;
  status.name = config_.name;
  status.shim = static_cast<unsigned>(getpid());
  status.user = config_.user;
  status.since = config_.since;
  status.counters = accounting_.counters.Read();
  std::vector<std::uint64_t> throttled_us;
  throttled_us.reserve(config_.gpus.size());
  for (std::size_t i = 0; i < config_.gpus.size(); ++i) {
    throttled_us.push_back(scheduler_.Throttled(i));
  }
  const MutexLock lock(accounting_.mutex);
  for (unsigned i = 0; i < config_.gpus.size(); ++i) {
    GpuStatus gpu;
    gpu.uuid = config_.gpus[i].gpu.uuid;
    gpu.index = i;
    gpu.host_index = config_.gpus[i].gpu.index;
    gpu.limit_bytes = accounting_.ledger.Limit(i);
    gpu.used_bytes = accounting_.ledger.Used(i);
    gpu.peak_bytes = accounting_.ledger.Peak(i);
    gpu.denied = accounting_.ledger.Denied(i);
    gpu.throttled_ns = 1'000 * throttled_us[i];
    status.gpus.push_back(std::move(gpu));
  }
  return status;
}

Result<GpuMemory> ContainerControl::MemoryOf(const std::string& uuid) {
  // Listed before the ledger is asked: a process that has come since is left out, and its bytes are
  // not attributed to another one.
  const auto processes = callers_.Processes();
  CGPU_ASSIGN_OR_RETURN(const std::size_t place, Find(uuid));
  const auto gpu = static_cast<ledger::Gpu>(place);
  GpuMemory memory;
  const MutexLock lock(accounting_.mutex);
  memory.limit_bytes = accounting_.ledger.Limit(gpu);
  memory.used_bytes = accounting_.ledger.Used(gpu);
  const auto usages = accounting_.ledger.UsageByProcess(gpu);
  for (const auto& process : processes) {
    const auto usage = usages.find(process->serial);
    if (usage != usages.end() && usage->second.Paid() != 0 && !os::HasExited(*process)) {
      memory.processes.push_back({static_cast<unsigned>(process->tgid), usage->second.Paid()});
    }
  }
  return memory;
}

}  // namespace cgpu::shim
