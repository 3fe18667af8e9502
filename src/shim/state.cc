// The part of the server that housekeeping calls.
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "shim/server.h"

namespace cgpu::shim {

void Server::DropDead() {
  for (const std::uint64_t process : callers_->DropDead()) {
    const MutexLock lock(replay_mutex_);
    replay_.DropProcess(process);
  }
  // Parked calls hold their files open; nothing may be held for a caller that is gone.
  (void)admission_.Purge([](const Pending& pending) {
    return !pending.source->listener.Valid(pending.notification.id);
  });
}

bool Server::Reconcile() {
  const MutexLock lock(reconcile_mutex_);
  return ReconcileAll(true);
}

// Reconciles for a call that finds no room, unless a reconciliation begins after this call of it.
// All such reconciliations together take at most four fifths of the time. The result does not
// matter: another thread's may just have found something.
void Server::ReconcileForCall() {
  const std::uint64_t seen = begun_.load();
  const MutexLock lock(reconcile_mutex_);
  const auto at = may_begin_;
  bool in_time = true;
  while (begun_.load() <= seen && !hurry_.on() && in_time) {
    in_time = hurried_.WaitUntil(reconcile_mutex_, at);
  }
  if (begun_.load() <= seen && !hurry_.on()) {
    (void)ReconcileAll(false);
  }
}

void Server::SetHurry(bool hurry) {
  hurry_.Set(hurry);
  hurried_.NotifyAll();
}

bool Server::ReconcileAll(bool at_leisure) {
  const auto began = std::chrono::steady_clock::now();
  ++begun_;
  std::vector<ledger::ClientInfo> clients;
  {
    const MutexLock lock(accounting_.mutex);
    clients = accounting_.ledger.Clients();
  }
  bool changed = false;
  for (const ledger::ClientInfo& client : clients) {
    if (hurry_.CutsShort(at_leisure) || driver_->ClientExists(client.ref.handle)) {
      continue;
    }
    const MutexLock lock(accounting_.mutex);
    changed = accounting_.ledger.RemoveClient(client.ref) || changed;
  }
  if (changed) {
    {
      const MutexLock lock(accounting_.mutex);
      accounting_.boundary.DropGoneClients();
    }
    scheduler_.AfterFree();
  }
  changed = export_tags_.Reconcile(at_leisure) || changed;
  changed = managed_.Settle(at_leisure) || changed;
  changed = spaces_.Reconcile(at_leisure) || changed;
  CloseCards();
  const auto now = std::chrono::steady_clock::now();
  may_begin_ = now + (now - began) / 4;
  hurried_.NotifyAll();
  return changed;
}

// Closes the GPUs' files if there are no clients. A client that comes meanwhile has them opened
// again: its device is made after that, and a device that is being made has its client here.
void Server::CloseCards() {
  const std::uint64_t opens = driver_->opens();
  {
    const MutexLock lock(accounting_.mutex);
    if (accounting_.ledger.Count().clients != 0) {
      return;
    }
  }
  driver_->TakeCardFiles(opens).clear();
}

bool Server::Holding() {
  if (spaces_.files().size() != 0) {
    return true;
  }
  {
    const MutexLock lock(accounting_.mutex);
    if (accounting_.ledger.Count().clients > 0 || !accounting_.boundary.managed().Empty()) {
      return true;
    }
  }
  return !export_tags_.Empty();  // after the clients: only those make exports
}

ledger::Counts Server::WhatIsHeld() {
  const MutexLock lock(accounting_.mutex);
  return accounting_.ledger.Count();
}

Result<> Server::SetLimit(const std::string& uuid, std::uint64_t bytes) {
  const MutexLock lock(accounting_.mutex);
  bool found = false;
  for (std::size_t i = 0; i < config_.cards.size(); ++i) {
    if (uuid == "*" || uuid == config_.cards[i].card.uuid) {
      found = true;
      if (const auto set = accounting_.ledger.SetLimit(static_cast<ledger::Card>(i), bytes);
          !set.ok()) {
        return set.error();
      }
    }
  }
  accounting_.boundary.SetBounds();
  if (!found) {
    return Error{Code::kNotFound, 0, "the container has no card " + uuid, {}};
  }
  return {};
}

Result<> Server::SetOrder(const std::string& uuid, const governor::Order& order, UniqueFd helper) {
  for (std::size_t i = 0; i < config_.cards.size(); ++i) {
    if (uuid == config_.cards[i].card.uuid) {
      if (helper.valid()) {
        driver_->UseHelper(std::move(helper));
      }
      scheduler_.SetOrder(i, order);
      if (!scheduler_.NeedsLevels()) {
        driver_->UseHelper({});
      }
      return {};
    }
  }
  return Error{Code::kNotFound, 0, "the container has no card " + uuid, {}};
}

ContainerStatus Server::Status() {
  ContainerStatus status;
  status.id = config_.id;
  status.name = config_.name;
  status.shim = static_cast<unsigned>(getpid());
  status.user = config_.user;
  status.since = config_.since;
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
    status.cards.push_back(std::move(card));
  }
  return status;
}

Result<CardMemory> Server::MemoryOf(const std::string& uuid) {
  // Listed before the ledger is asked: a process that has come since is left out, and its bytes are
  // not attributed to another one.
  const auto processes = callers_->Processes();
  CardMemory memory;
  const MutexLock lock(accounting_.mutex);
  ledger::Card card = 0;
  while (card < config_.cards.size() && config_.cards[card].card.uuid != uuid) {
    ++card;
  }
  if (card == config_.cards.size()) {
    return Error{Code::kNotFound, 0, "the container has no card " + uuid, {}};
  }
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
