#include "shim/reconciler.h"

#include <vector>

#include "ledger/ledger.h"

namespace cgpu::shim {

bool Reconciler::Reconcile() {
  const MutexLock lock(mutex_);
  return ReconcileAll(true);
}

void Reconciler::ReconcileForCall() {
  const std::uint64_t seen = begun_.load();
  const MutexLock lock(mutex_);
  const auto at = may_begin_;
  bool in_time = true;
  while (begun_.load() <= seen && !hurry_.on() && in_time) {
    in_time = hurried_.WaitUntil(mutex_, at);
  }
  if (begun_.load() <= seen && !hurry_.on()) {
    (void)ReconcileAll(false);
  }
}

void Reconciler::SetHurry(bool hurry) {
  hurry_.Set(hurry);
  hurried_.NotifyAll();
}

bool Reconciler::ReconcileAll(bool at_leisure) {
  const auto began = std::chrono::steady_clock::now();
  ++begun_;
  (void)client_files_.Reconcile(at_leisure);
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
    client_files_.Forget(client.ref);
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
  CloseGpus();
  const auto now = std::chrono::steady_clock::now();
  may_begin_ = now + (now - began) / 4;
  hurried_.NotifyAll();
  return changed;
}

// Closes the GPUs' files if there are no clients. A client that comes meanwhile has them opened
// again: its device is made after that, and a device that is being made has its client here.
void Reconciler::CloseGpus() {
  const std::uint64_t opens = driver_->opens();
  {
    const MutexLock lock(accounting_.mutex);
    if (accounting_.ledger.Count().clients != 0) {
      return;
    }
  }
  driver_->TakeGpuFiles(opens).clear();
}

bool Reconciler::Holding() {
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

}  // namespace cgpu::shim
