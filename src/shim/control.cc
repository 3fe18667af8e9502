#include "shim/control.h"

#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace cgpu::shim {

Result<std::size_t> ContainerControl::Find(const std::string& uuid) const {
  for (std::size_t i = 0; i < config_.cards.size(); ++i) {
    if (uuid == config_.cards[i].card.uuid) {
      return i;
    }
  }
  return Error{Code::kNotFound, 0, "the container has no card " + uuid, {}};
}

Result<> ContainerControl::SetLimit(const std::string& uuid, std::uint64_t bytes) {
  std::size_t first = 0;
  std::size_t end = config_.cards.size();
  if (uuid != "*" || end == 0) {
    CGPU_ASSIGN_OR_RETURN(first, Find(uuid));
    end = first + 1;
  }
  const MutexLock lock(accounting_.mutex);
  for (std::size_t i = first; i < end; ++i) {
    CGPU_TRY(accounting_.ledger.SetLimit(static_cast<ledger::Card>(i), bytes));
  }
  accounting_.boundary.SetQuotas();
  return {};
}

Result<> ContainerControl::SetOrder(const std::string& uuid, const governor::Order& order,
                                    UniqueFd helper) {
  CGPU_ASSIGN_OR_RETURN(const std::size_t card, Find(uuid));
  if (helper.valid()) {
    driver_->UseHelper(std::move(helper));
  }
  scheduler_.SetOrder(card, order);
  if (!scheduler_.NeedsLevels()) {
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
  for (std::size_t i = 0; i < config_.cards.size(); ++i) {
    throttled_us.push_back(scheduler_.Throttled(i));
  }
  const MutexLock lock(accounting_.mutex);
  for (unsigned i = 0; i < config_.cards.size(); ++i) {
    CardStatus card;
    card.uuid = config_.cards[i].card.uuid;
    card.index = i;
    card.host_index = config_.cards[i].card.index;
    card.limit_bytes = accounting_.ledger.Limit(i);
    card.used_bytes = accounting_.ledger.Used(i);
    card.peak_bytes = accounting_.ledger.Peak(i);
    card.denied = accounting_.ledger.Denied(i);
    card.throttled_ns = 1'000 * throttled_us[i];
    status.cards.push_back(std::move(card));
  }
  return status;
}

Result<CardMemory> ContainerControl::MemoryOf(const std::string& uuid) {
  // Listed before the ledger is asked: a process that has come since is left out, and its bytes are
  // not attributed to another one.
  const auto processes = callers_.Processes();
  CGPU_ASSIGN_OR_RETURN(const std::size_t place, Find(uuid));
  const auto card = static_cast<ledger::Card>(place);
  CardMemory memory;
  const MutexLock lock(accounting_.mutex);
  memory.limit_bytes = accounting_.ledger.Limit(card);
  memory.used_bytes = accounting_.ledger.Used(card);
  const auto usages = accounting_.ledger.UsageByProcess(card);
  for (const auto& process : processes) {
    const auto usage = usages.find(process->serial);
    if (usage != usages.end() && usage->second.Paid() != 0 && !os::HasExited(*process)) {
      memory.processes.push_back({static_cast<unsigned>(process->tgid), usage->second.Paid()});
    }
  }
  return memory;
}

}  // namespace cgpu::shim
